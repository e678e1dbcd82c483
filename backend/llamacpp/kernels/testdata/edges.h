// Products whose results are known to the bit, in memory that ends at fences.
#ifndef RUNNER_TESTDATA_EDGES_H
#define RUNNER_TESTDATA_EDGES_H

#include "fence.h"
#include "matrices.h"

#include <cfloat>

namespace {

bool all_cases;

// Emulated tiles are slow.
#ifdef RUNNER_TILES_EMULATED
constexpr bool slow_tiles = true;
#else
constexpr bool slow_tiles = false;
#endif

// The digests of the results so far, by FNV-1a: of products with quantized weights, and of all others.
uint64_t quantized_bits, other_bits;

// bits_of counts all that is not a number as the same.
inline uint32_t bits_of(float f) {
    uint32_t bits = 0x7fc00000;
    if (!std::isnan(f)) {
        std::memcpy(&bits, &f, sizeof bits);
    }
    return bits;
}

inline void digest(uint64_t & to, float f) {
    for (uint32_t bits = bits_of(f), i = 0; i < 4; i++, bits >>= 8) {
        to = (to ^ (bits & 255)) * 0x100000001b3;
    }
}

inline void expect(const char * what, float got, float want, int64_t row, int64_t column) {
    if (bits_of(got) != bits_of(want)) {
        fail("%s: %.9g instead of %.9g, row %d, column %d (%s)", what, got, want, (int) row, (int) column, now);
    }
}

// near checks a result of floats. within is how far it may be off; where floats end, it may be infinite.
inline void near(const char * what, double got, double want, double within) {
    constexpr double end = FLT_MAX;
    bool right = std::fabs(got - want) <= within;
    if (std::isnan(want)) {
        right = std::isnan(got);
    } else if (std::fabs(want) > end * 1.00001) {
        right = std::isinf(got) && (got > 0) == (want > 0);
    } else if (std::isinf(got)) {
        right = got > 0 ? want + within > end : want - within < -end;
    }
    if (!right) {
        fail("%s: %.9g instead of %.9g, further than %.3g (%s)", what, got, want, within, now);
    }
}

inline std::vector<float> normals(int64_t n) {
    std::vector<float> x(n);
    const float size = std::exp(normal());
    for (float & v : x) {
        v = normal() * size;
    }
    return x;
}

// operands are a matrix and columns, and what their products must be.
class operands {
    fence                          weights, blocks, floats, results;
    int64_t                        column;  // the blocks of a column
    std::vector<float>             want;    // column by column
    std::vector<bool>              ignored; // columns
    std::vector<std::vector<part>> parts;   // of the rows
    std::vector<const float *>     x;
    std::vector<const block *>     rounded;
    std::vector<float *>           to;
    int                            checks = 0;

  public:
    matrix        m;
    const int64_t count;

    operands(matrix made, int64_t columns) : ignored(columns), m(std::move(made)), count(columns) {
        const bool quantized = layout_of(m.r.format) != nullptr;
        column = quantized ? m.r.n / 32 * own->blocks(m.r.format) : 0;
        m.r.data = (char *) std::memcpy(weights.place(m.bytes.size()), m.bytes.data(), m.bytes.size());
        block * b = (block *) blocks.place(column * count * sizeof *b);
        float * f = (float *) floats.place(m.r.n * count * sizeof *f), * out = (float *) results.place(room());
        // The first column ends at the fence.
        for (int64_t c = count; c-- > 0; b += column, f += m.r.n, out += m.height) {
            x.insert(x.begin(), f);
            rounded.insert(rounded.begin(), b);
            to.insert(to.begin(), out);
        }
        want.resize(m.height * count);
        parts.resize(m.height);
    }

    void set_column(int64_t c, const std::vector<float> & values) {
        std::copy(values.begin(), values.end(), (float *) x[c]);
        if (column > 0) {
            own->quantize(x[c], m.r.n, m.r.format, (block *) rounded[c]);
        }
    }

    void set_byte(int64_t at, char byte) { m.bytes[at] = ((char *) m.r.data)[at] = byte; }

    // compute computes what the products must be: those of floats one by one with the kernels, the others in plain C++.
    void compute() {
        std::snprintf(now, sizeof now, "format %d, %d rows, one by one", (int) m.r.format, (int) m.height);
        for (int64_t r = 0; r < m.height; r++) {
            compute_row(r);
        }
    }

    void compute_row(int64_t r) {
        if (column > 0) {
            parts[r] = m.parts_of(r);
        }
        for (int64_t c = 0; c < count; c++) {
            compute_one(r, c);
        }
    }

    void compute_column(int64_t c) {
        ignored[c] = false;
        for (int64_t r = 0; r < m.height; r++) {
            compute_one(r, c);
        }
    }

    void ignore_column(int64_t c) { ignored[c] = true; }

    float want_at(int64_t r, int64_t c) const { return want[c * m.height + r]; }

    // check_in_double compares products of floats with sums in double precision. It returns how many have a defined
    // value: sums that overflow on the way have none.
    int64_t check_in_double() const {
        int64_t compared = 0;
        for (int64_t c = 0; c < count; c++) {
            for (int64_t r = 0; r < m.height; r++) {
                double sum = 0, size = 0;
                for (int64_t i = 0; i < m.r.n; i++) {
                    const double term = m.values[r * m.r.n + i] * x[c][i];
                    sum += term;
                    size += std::isfinite(term) ? std::fabs(term) : 0;
                }
                if (size < FLT_MAX * 0.999) {
                    near("product", want_at(r, c), sum, size * 3e-6 + (double) m.r.n * FLT_TRUE_MIN);
                    compared++;
                }
            }
        }
        return compared;
    }

    // check multiplies rows from first to before last with some columns from c on, and with bundles of them where there
    // are any. If these are slow, only now and then, unless they are wanted.
    void check(int64_t first, int64_t last, int64_t c, int64_t some, bool wanted = false) {
        std::snprintf(now, sizeof now, "format %d, %d rows of %d weights: rows %d to %d, columns %d to %d",
            (int) m.r.format, (int) m.height, (int) m.r.n, (int) first, (int) last - 1, (int) c, (int) (c + some - 1));
        clear();
        if (column > 0) {
            own->multiply_quantized(m.r, first, last, rounded.data() + c, to.data() + c, some);
        } else {
            own->multiply_floats(m.r, first, last, x.data() + c, to.data() + c, some);
        }
        compare("product", first, last, c, some);
        if (column == 0 || !own->worth || (slow_tiles && !all_cases && !wanted && checks++ % 8 != 0)) {
            return;
        }
        const std::vector<const block *> columns(rounded.begin() + c, rounded.begin() + c + some);
        const bundles all(columns, m.r.n, m.r.format);
        clear();
        own->multiply_bundles(m.r, first, last, all.data(), columns.data(), to.data() + c, some);
        compare("product of a bundle", first, last, c, some);
    }

  private:
    static constexpr uint32_t untouched = 0x7fc12345; // not a number

    size_t room() const { return m.height * count * sizeof(float); }

    void clear() {
        uint32_t * p = (uint32_t *) results.place(room());
        std::fill(p, p + m.height * count, untouched);
    }

    void compute_one(int64_t r, int64_t c) {
        float & one = want[c * m.height + r];
        if (column > 0) {
            one = in_order(m.r.format, parts[r], rounded[c]);
            return;
        }
        to[c][r] = NAN;
        own->multiply_floats(m.r, r, r + 1, x.data() + c, to.data() + c, 1);
        one = to[c][r];
    }

    void compare(const char * what, int64_t first, int64_t last, int64_t c, int64_t some) const {
        for (int64_t i = 0; i < count; i++) {
            for (int64_t r = 0; r < m.height; r++) {
                if (r < first || r >= last || i < c || i >= c + some) {
                    uint32_t bits;
                    std::memcpy(&bits, &to[i][r], sizeof bits);
                    if (bits != untouched) {
                        fail("%s: wrote row %d of column %d (%s)", what, (int) r, (int) i, now);
                    }
                } else if (!ignored[i]) {
                    expect(what, to[i][r], want_at(r, i), r, i);
                    digest(column > 0 ? quantized_bits : other_bits, to[i][r]);
                }
            }
        }
    }
};

} // namespace

#endif
