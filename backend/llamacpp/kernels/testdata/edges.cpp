// Checks the kernels at their edges: products of any number of columns with matrices of every height, and numbers of
// every size, from the smallest to infinity. Prints the instructions of the kernels that passed and two digests of
// their results: of products with quantized weights, and of all others.
//
// Arguments: a seed for what is drawn; "all" to check all cases instead of a sample; the instructions to check; after a
// minus features that the processor is said to lack, such as -avx512vbmi. "names" prints instructions without a check.

#include "edges.h"
#include "elementwise.h"

#include <cinttypes>
#include <numeric>

namespace {

const enum rows::format formats[] = {rows::f32, rows::f16, rows::bf16, rows::mxfp4, rows::q8_0, rows::q4_0,
    rows::iq4_nl, rows::q4_k, rows::q5_k, rows::q6_k, rows::iq4_xs};

// tall_enough are the heights of matrices: all that a vector or a tile might leave a rest of.
std::vector<int64_t> tall_enough() {
    std::vector<int64_t> heights(40);
    std::iota(heights.begin(), heights.end(), 1);
    for (const int64_t h : {63, 64, 65, 66, 79, 95, 97, 127, 128, 129, 143}) {
        heights.push_back(h);
    }
    return heights;
}

// Matrices of every height, with some columns and with some of the rows.
void check_heights(enum rows::format format) {
    const int64_t most = all_cases ? 35 : 19; // columns
    for (const int64_t height : tall_enough()) {
        const layout * l = layout_of(format);
        const int64_t n = !l ? 16 * (1 + height % 5) : l->weights == 32 ? 32 * (1 + height % 3) : 256;
        operands o(make(format, height, n, false), most);
        for (int64_t c = 0; c < most; c++) {
            o.set_column(c, normals(n));
        }
        o.compute();
        if (!l) {
            o.check_in_double();
        }
        for (int64_t some = 1; some <= most; some++) {
            if (all_cases || below((int) most) < 2) {
                o.check(0, height, below((int) (most - some + 1)), some);
            }
        }
        const int64_t ranges = !all_cases ? 3 : height == 40 ? height * height : 40;
        for (int64_t i = 0; i < ranges; i++) {
            const int64_t first = height == 40 && all_cases ? i / height : below((int) height);
            const int64_t last = height == 40 && all_cases ? i % height + 1 : first + 1 + below((int) (height - first));
            if (first < last) {
                const int64_t some = 1 + below((int) most);
                o.check(first, last, below((int) (most - some + 1)), some);
            }
        }
    }
}

// Every weight of 16 bits is what its bits say.
void check_all_halves(enum rows::format format) {
    matrix m = make(format, 4096, 16, false);
    m.r.stride = 32;
    m.bytes.resize(4096 * 32);
    std::vector<float> want(65536);
    for (int i = 0; i < 65536; i++) {
        const uint16_t stored = (uint16_t) i;
        const uint32_t bits = (uint32_t) i << 16;
        if (format == rows::bf16) {
            std::memcpy(&want[i], &bits, 4);
        } else {
            want[i] = (float) from_half(stored);
        }
        const bool finite = std::isfinite(want[i]) && (format == rows::bf16 || (i & 0x7c00) != 0x7c00);
        const uint16_t bytes = finite ? stored : 0; // another times 0 is not a number, and spoils its row
        want[i] = finite ? want[i] : 0;
        std::memcpy(m.bytes.data() + 2 * i, &bytes, 2);
        m.values[i] = m.sizes[i] = want[i];
    }
    operands o(std::move(m), 16);
    for (int64_t c = 0; c < 16; c++) {
        std::vector<float> x(16);
        x[c] = 1;
        o.set_column(c, x);
    }
    o.compute();
    for (int i = 0; i < 65536; i++) {
        expect("a weight of 16 bits", o.want_at(i / 16, i % 16), want[i] + 0.0f, i / 16, i % 16);
    }
    o.check(0, 4096, 0, 16);
}

// extreme_float is a number that rarely occurs: by kind one of the smallest, an ordinary one, one of the largest, or
// any.
float extreme_float(int kind, float largest, bool infinite) {
    const float small[] = {0, FLT_TRUE_MIN, 5 * FLT_TRUE_MIN, 0x1.fffffcp-127f, FLT_MIN, 1.5f * FLT_MIN},
        large[] = {largest, largest / 2, largest / 7, largest / 1000, 1, 0};
    if (kind == 3) {
        if (infinite && below(40) == 0) {
            return below(2) ? INFINITY : -INFINITY;
        }
        kind = below(3);
    }
    const float x = kind == 0 ? small[below(6)] : kind == 1 ? std::fabs(normal()) : large[below(6)];
    return below(2) ? x : -x;
}

// Products of floats of any size with weights of any size.
void check_extreme_floats(enum rows::format format) {
    const int64_t n = 48, height = 40, columns = 19;
    int64_t compared = 0;
    for (int round = 0; round < (all_cases ? 40 : 4); round++) {
        matrix m = make(format, height, n, false);
        for (int64_t r = 0; r < height; r++) {
            for (int64_t i = 0; i < n; i++) {
                float v = extreme_float((int) (r % 4), format == rows::f16 ? 65504 : FLT_MAX, true);
                char * p = m.bytes.data() + r * m.r.stride + i * (format == rows::f32 ? 4 : 2);
                uint32_t bits;
                std::memcpy(&bits, &v, 4);
                uint16_t half = format == rows::f16 ? to_half(v) : (uint16_t) (bits >> 16);
                if (format == rows::f16 && below(4) == 0 && r % 4 == 0) {
                    half = (uint16_t) below(0x400); // below the normal numbers
                }
                if (format == rows::f32) {
                    std::memcpy(p, &v, 4);
                } else {
                    std::memcpy(p, &half, 2);
                }
                bits = (uint32_t) half << 16;
                float upper;
                std::memcpy(&upper, &bits, 4);
                m.values[r * n + i] = format == rows::f32 ? v : format == rows::bf16 ? upper : from_half(half);
                m.sizes[r * n + i] = std::fabs(m.values[r * n + i]);
            }
        }
        operands o(std::move(m), columns);
        for (int64_t c = 0; c < columns; c++) {
            std::vector<float> x(n);
            for (float & v : x) {
                v = extreme_float((int) (c % 4), FLT_MAX, true);
            }
            o.set_column(c, x);
        }
        o.compute();
        compared += o.check_in_double();
        for (int64_t some = 1; some <= columns; some++) {
            o.check(0, height, below((int) (columns - some + 1)), some);
        }
    }
    if (compared < 300) {
        fail("only %d products of extreme floats have a defined value", (int) compared);
    }
}

// magnitudes are columns of every power of two, denormal numbers included, one of zeros and one of all kinds.
std::vector<std::vector<float>> magnitudes(int64_t n, int step) {
    std::vector<std::vector<float>> columns;
    for (int power = -149; power <= 127; power += power + step > 127 && power < 127 ? 127 - power : step) {
        std::vector<float> x(n);
        for (float & v : x) {
            v = (float) std::ldexp((below(2) ? 1 : -1) * (1 + below(1 << 23) / (double) (1 << 23)), power - below(6));
        }
        x[below((int) n)] = power == 127 ? FLT_MAX : (float) std::ldexp(1.75, power);
        columns.push_back(x);
    }
    columns.emplace_back(n);
    std::vector<float> x(n);
    for (float & v : x) {
        v = (float) std::ldexp(normal(), below(240) - 140);
    }
    columns.push_back(x);
    return columns;
}

// in_pieces checks all columns together, and then in turns of one to eight.
void in_pieces(operands & o, bool together) {
    if (together) {
        o.check(0, o.m.height, 0, o.count);
    }
    for (int64_t c = 0, some = 1; c < o.count; c += some, some = some % 8 + 1) {
        o.check(0, o.m.height, c, std::min(some, o.count - c));
    }
}

// Every exponent of MXFP4 with activations of every size. Rows of neighbouring exponents come together, and rows of
// any.
void check_exponents() {
    for (const bool sorted : {true, false}) {
        std::vector<int> exponents(259);
        std::iota(exponents.begin(), exponents.end(), 0);
        if (!sorted) {
            std::shuffle(exponents.begin(), exponents.end(), source);
        }
        matrix m = make(rows::mxfp4, 259, 64, false);
        for (int64_t r = 0; r < m.height; r++) {
            m.bytes[r * m.r.stride] = (char) exponents[r];
            m.bytes[r * m.r.stride + 17] = (char) (sorted ? exponents[r] : 7 * exponents[r] + 13);
        }
        const auto columns = magnitudes(64, all_cases ? 1 : 5);
        operands o(std::move(m), (int64_t) columns.size());
        for (int64_t c = 0; c < o.count; c++) {
            o.set_column(c, columns[c]);
        }
        o.compute();
        in_pieces(o, true);
    }
}

// All exponents are near each other, and so are the sizes of all activations: at the ends of what tiles can take.
void check_near_exponents() {
    matrix m = make(rows::mxfp4, 35, 64, false);
    const int64_t columns = 9;
    operands o(std::move(m), columns);
    for (int exponent = 0; exponent < 256; exponent++) {
        const int first = all_cases ? 0 : below(70), step = all_cases ? 3 : 70;
        for (int power = first - 149; power < 128; power += step) {
            for (int64_t r = 0; r < o.m.height; r++) {
                for (const int64_t at : {r * (int64_t) o.m.r.stride, r * (int64_t) o.m.r.stride + 17}) {
                    o.set_byte(at, (char) std::clamp(exponent + below(3) - 1, 0, 255));
                }
            }
            for (int64_t c = 0; c < columns; c++) {
                std::vector<float> x(64);
                for (float & v : x) {
                    v = (float) std::ldexp(normal(), power);
                    v = std::isinf(v) ? FLT_MAX : v;
                }
                o.set_column(c, x);
            }
            o.compute();
            o.check(0, o.m.height, 0, columns, true);
            const int64_t some = 1 + below(8);
            o.check(0, o.m.height, below((int) (columns - some + 1)), some);
        }
    }
}

// Exponents that are rare in models, and at the ends of what fast ways of computing can take.
const int rare[] = {0, 1, 2, 3, 4, 7, 8, 60, 90, 100, 140, 180, 220, 246, 247, 248, 250, 251, 252, 253, 254, 255};

// One block of an ordinary matrix has a rare exponent, at every place; then some blocks have.
void check_rare_exponents(int64_t blocks, int64_t height) {
    const int64_t columns = 17;
    matrix m = make(rows::mxfp4, height, blocks * 32, false);
    const std::vector<char> ordinary = m.bytes;
    operands o(std::move(m), columns);
    for (int64_t c = 0; c < columns; c++) {
        o.set_column(c, normals(blocks * 32));
    }
    o.compute();
    int turn = 0;
    const auto check = [&] {
        const int64_t some = 1 + turn++ % 8; // where they lie, and from a panel
        o.check(0, height, below((int) (columns - some + 1)), some);
        o.check(0, height, 0, 9 + below(9));
    };
    for (int64_t r = 0; r < height; r++) {
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t at = r * o.m.r.stride + b * 17;
            const auto with = [&](int exponent) {
                o.set_byte(at, (char) exponent);
                o.compute_row(r);
                check();
            };
            for (const int exponent : rare) {
                if (all_cases || !slow_tiles || !own->worth || below(12) == 0) {
                    with(exponent);
                }
            }
            o.set_byte(at, ordinary[at]);
            o.compute_row(r);
        }
    }
    for (int round = 0; round < (all_cases ? 300 : 20); round++) {
        std::vector<int64_t> touched;
        for (int i = 2 + below(40); i > 0; i--) {
            const int64_t r = below((int) height);
            o.set_byte(r * o.m.r.stride + below((int) blocks) * 17, (char) rare[below((int) std::size(rare))]);
            o.compute_row(r);
            touched.push_back(r);
        }
        check();
        for (const int64_t r : touched) {
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t at = r * o.m.r.stride + b * 17;
                o.set_byte(at, ordinary[at]);
            }
            o.compute_row(r);
        }
    }
}

// One block of one column is extreme, at every place. It changes no other column.
void check_rare_columns(enum rows::format format) {
    const int64_t columns = 17, height = 35, n = layout_of(format)->weights == 32 ? 32 * 7 : 256;
    operands o(make(format, height, n, false), columns);
    std::vector<std::vector<float>> x;
    for (int64_t c = 0; c < columns; c++) {
        x.push_back(normals(n));
        o.set_column(c, x[c]);
    }
    o.compute();
    const float sizes[] = {0, FLT_TRUE_MIN, 1e-42f, FLT_MIN, 1e-37f, 1e-30f, 1e-20f, 1e20f, 1e30f, FLT_MAX};
    for (int64_t c = 0; c < columns; c++) {
        for (int64_t b = 0; b < n / 32; b++) {
            const auto with = [&](float size) {
                std::vector<float> other = x[c];
                for (int64_t i = 32 * b; i < 32 * b + 32; i++) {
                    other[i] = below(3) ? (below(2) ? size : -size) : 0;
                }
                other[32 * b + below(32)] = size;
                o.set_column(c, other);
                if (std::isfinite(size)) {
                    o.compute_column(c);
                } else {
                    o.ignore_column(c); // what it gives is not defined
                }
                o.check(0, height, 0, columns);
                o.check(0, height, std::max<int64_t>(c - below(4), 0), std::min<int64_t>(5, columns - c));
            };
            if (all_cases) {
                for (const float size : sizes) {
                    with(size);
                }
                with(INFINITY);
            } else if (format == rows::mxfp4 || below(8) == 0) {
                const int i = below((int) std::size(sizes) + 1);
                with(i < (int) std::size(sizes) ? sizes[i] : INFINITY);
            }
        }
        o.set_column(c, x[c]);
        o.compute_column(c);
    }
}

// Blocks of the other formats with scales of every kind, and activations of every size.
void check_scales(enum rows::format format) {
    const layout & l = *layout_of(format);
    const uint16_t scales[] = {0, 0x8000, 1, 0x8001, 0x3ff, 0x83ff, 0x400, 0x3c00, 0x7bff, 0xfbff, 0x7c00, 0xfc00};
    matrix m = make(format, 35, l.weights, below(2) == 0);
    for (int64_t r = 0; r < m.height; r++) {
        char * p = m.bytes.data() + r * m.r.stride;
        std::memcpy(p + (format == rows::q6_k ? 208 : 0), &scales[r % 12], 2);
        if (format == rows::q4_k || format == rows::q5_k) {
            std::memcpy(p + 2, &scales[(r + r / 12 * 5 + 7) % 12], 2);
        }
    }
    const auto columns = magnitudes(l.weights, all_cases ? 1 : 13);
    operands o(std::move(m), (int64_t) columns.size());
    for (int64_t c = 0; c < o.count; c++) {
        o.set_column(c, columns[c]);
    }
    o.compute();
    in_pieces(o, true);
}

// Activations are rounded as a plain program rounds them.
void check_rounding(enum rows::format format) {
    fence room;
    for (const auto & x : magnitudes(32, 1)) {
        const int parts = own->blocks(format);
        block * b = (block *) room.place(parts * sizeof *b);
        own->quantize(x.data(), 32, format, b);
        float most = 0;
        for (const float v : x) {
            most = std::max(most, std::fabs(v));
        }
        const float scale = scale_of(format, b, 0), by = most > 0 ? std::min(127 / most, FLT_MAX) : 0;
        int largest = 0;
        for (int i = 0; i < 32; i++) {
            const int number = number_of(format, b, 0, i);
            largest = std::max(largest, std::abs(number));
            if (parts == 1 && (number != (int) std::lrint(x[i] * by) || (most > 0 && scale != most / 127))) {
                fail("the activation %.9g became %d times %.9g; the largest is %.9g", x[i], number, scale, most);
            }
            if (parts == 2 && !(std::fabs((double) number * scale - x[i]) <= 0.5 * scale)) {
                fail("the activation %.9g became %d times %.9g", x[i], number, scale);
            }
        }
        const bool usual = scale >= kernels::smallest_usual && scale <= kernels::largest_usual;
        if (parts == 1 && format == rows::mxfp4 && b->offset[1] != usual) {
            fail("activations of up to %.9g with scale %.9g are marked with %d", most, scale, b->offset[1]);
        }
        if (parts == 2 && (std::log2(scale) != std::rint(std::log2(scale)) || largest > 255 ||
                              (largest < 128 && scale != 0x1p-126f))) {
            fail("activations of up to %.9g became numbers of up to %d times %.9g", most, largest, scale);
        }
    }
}

void check(unsigned seed) {
    source.seed(seed);
    odd = false;
    quantized_bits = other_bits = 0xcbf29ce484222325;
    for (const auto format : formats) {
        check_heights(format);
        if (!layout_of(format)) {
            check_extreme_floats(format);
            continue;
        }
        check_rounding(format);
        check_rare_columns(format);
        if (format != rows::mxfp4) {
            check_scales(format);
        }
    }
    check_all_halves(rows::f16);
    check_all_halves(rows::bf16);
    check_exponents();
    check_near_exponents();
    check_rare_exponents(9, 37);
    check_rare_exponents(1, 33);
    if (all_cases) {
        check_rare_exponents(4, 16);
        check_rare_exponents(8, 40);
    }
    check_elementwise();
}

} // namespace

int main(int argc, char ** argv) {
    explain_signals();
    const unsigned seed = argc > 1 ? (unsigned) std::strtoul(argv[1], nullptr, 10) : 1;
    const char * only = nullptr;
    bool names = false;
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] == '-') {
            lacking.push_back(argv[i] + 1);
        } else if (std::strcmp(argv[i], "all") == 0) {
            all_cases = true;
        } else if (std::strcmp(argv[i], "names") == 0) {
            names = true;
        } else {
            only = argv[i];
        }
    }
    for (const set * const * s = sets; *s; s++) {
        if (!(*s)->supported() || (only && std::strcmp(only, (*s)->instructions) != 0)) {
            continue;
        }
        own = *s;
        if (names) {
            std::puts(own->instructions);
        } else {
            check(seed);
            std::printf("%s: %016" PRIx64 " %016" PRIx64 "\n", own->instructions, quantized_bits, other_bits);
        }
    }
}
