// Compares all kernels that the processor can run with sums in double precision. It also checks that a token's
// result does not depend on the other tokens. Prints the instructions of the kernels that passed and digests of their
// results. The first argument can name the instructions that are checked, or be "team" to check only the team of
// threads, or "names" to print instructions without a check.

#include "kernels.h"
#include "team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <thread>
#include <vector>

using namespace kernels;

namespace {

const set * own; // the kernels that are checked

std::mt19937 source(1);

// The digests of the results so far, by FNV-1a: of products with quantized weights, and of all others.
uint64_t quantized_bits, other_bits;

void digest(uint64_t & bits, const float * x, size_t n) {
    for (size_t i = 0; i < n * sizeof *x; i++) {
        bits = (bits ^ ((const uint8_t *) x)[i]) * 0x100000001b3;
    }
}

float normal() { return std::normal_distribution<float>()(source); }
int   below(int n) { return (int) (source() % n); }

__attribute__((format(printf, 1, 2))) void fail(const char * format, ...) {
    std::fprintf(stderr, "%s: ", own ? own->instructions : "team");
    va_list a;
    va_start(a, format);
    std::vfprintf(stderr, format, a);
    va_end(a);
    std::fprintf(stderr, "\n");
    std::exit(1);
}

void same(const char * what, const std::vector<float> & a, const std::vector<float> & b) {
    for (size_t i = 0; i < a.size(); i++) {
        if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) {
            fail("%s: value %zu of %zu is %.9g and %.9g", what, i, a.size(), a[i], b[i]);
        }
    }
}

void close_to(const char * what, double got, double want, double within) {
    if (!(std::fabs(got - want) <= within)) {
        fail("%s: %.9g instead of %.9g, further than %.3g", what, got, want, within);
    }
}

// Half floats by the definition (IEEE 754 binary16), rounded to nearest.
uint16_t to_half(float f) {
    uint32_t b;
    std::memcpy(&b, &f, sizeof b);
    const uint16_t sign = b >> 16 & 0x8000;
    if (std::isinf(f)) {
        return sign | 0x7c00;
    }
    const float a = std::fabs(f);
    if (a < 6.103515625e-5f) {
        return sign | (uint16_t) std::lrint(a * 16777216.0f);
    }
    int e;
    const long m = std::lrint(std::frexp(a, &e) * 2048.0f); // 1024 to 2048
    return sign | (uint16_t) (((e + 14) << 10) + (m - 1024));
}

double from_half(uint16_t h) {
    const double sign = h & 0x8000 ? -1 : 1;
    const int e = h >> 10 & 31, m = h & 1023;
    return sign * (e == 0 ? std::ldexp(m, -24) : e == 31 ? INFINITY : std::ldexp(1024 + m, e - 25));
}

// The quantized formats, by the bytes and the weights of a block.
struct layout {
    enum rows::format format;
    int64_t           bytes, weights;
};
const layout layouts[] = {{rows::mxfp4, 17, 32}, {rows::q8_0, 34, 32}, {rows::q4_0, 18, 32}, {rows::iq4_nl, 18, 32},
    {rows::q4_k, 144, 256}, {rows::q5_k, 176, 256}, {rows::q6_k, 210, 256}, {rows::iq4_xs, 136, 256}};

// layout_of returns null for floats.
const layout * layout_of(enum rows::format format) {
    for (const layout & l : layouts) {
        if (l.format == format) {
            return &l;
        }
    }
    return nullptr;
}

// part is 32 weights: the scale of its half times w, less a minimum.
struct part {
    int   w[32];
    float scale[2], minimum = 0;
};

float half_at(const uint8_t * p) {
    uint16_t h;
    std::memcpy(&h, p, 2);
    return from_half(h);
}

// part_of takes a block apart, by the definitions of the formats.
part part_of(enum rows::format format, const uint8_t * p, int number) {
    static const int doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    static const int nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    part t;
    const auto scales = [&](float first, float second) { t.scale[0] = first, t.scale[1] = second; };
    const auto nibble = [&](const uint8_t * q, int i) { return q[i % 16] >> i / 16 * 4 & 15; };
    const int low = number % 2 * 4; // where the bits of a part are that shares its bytes with another
    for (int i = 0; i < 32; i++) {
        int & w = t.w[i];
        switch (format) {
        case rows::mxfp4: w = doubled[nibble(p + 1, i)]; break;
        case rows::q8_0: w = (int8_t) p[2 + i]; break;
        case rows::q4_0: w = nibble(p + 2, i) - 8; break;
        case rows::iq4_nl: w = nonlinear[nibble(p + 2, i)]; break;
        case rows::q4_k: w = p[16 + number / 2 * 32 + i] >> low & 15; break;
        case rows::q5_k: w = (p[48 + number / 2 * 32 + i] >> low & 15) | (p[16 + i] >> number & 1) << 4; break;
        case rows::q6_k:
            w = (p[number / 4 * 64 + number % 2 * 32 + i] >> number % 4 / 2 * 4 & 15) |
                (p[128 + number / 4 * 32 + i] >> number % 4 * 2 & 3) << 4;
            w -= 32;
            break;
        case rows::iq4_xs: w = nonlinear[nibble(p + 8 + number * 16, i)]; break;
        default: fail("no such format");
        }
    }
    switch (format) {
    case rows::mxfp4: scales(std::ldexp(1.0f, p[0] - 128), std::ldexp(1.0f, p[0] - 128)); break;
    case rows::q4_k:
    case rows::q5_k: {
        const uint8_t * q = p + 4;
        const int n = number;
        const int scale = n < 4 ? q[n] & 63 : (q[n + 4] & 15) | q[n - 4] >> 6 << 4;
        const int minimum = n < 4 ? q[n + 4] & 63 : q[n + 4] >> 4 | q[n] >> 6 << 4;
        scales(half_at(p) * scale, half_at(p) * scale);
        t.minimum = half_at(p + 2) * minimum;
        break;
    }
    case rows::q6_k:
        scales(half_at(p + 208) * (int8_t) p[192 + 2 * number], half_at(p + 208) * (int8_t) p[193 + 2 * number]);
        break;
    case rows::iq4_xs: {
        const int upper = (p[2] | p[3] << 8) >> 2 * number & 3, lower = p[4 + number / 2] >> low & 15;
        scales(half_at(p) * (lower + 16 * upper - 32), half_at(p) * (lower + 16 * upper - 32));
        break;
    }
    default: scales(half_at(p), half_at(p));
    }
    return t;
}

// A matrix in one of the formats, its values, and how large each is at most while it is computed.
struct matrix {
    rows                r;
    int64_t             height;
    std::vector<char>   bytes;
    std::vector<double> values, sizes;

    part part_at(int64_t row, int64_t b) const {
        const layout & l = *layout_of(r.format);
        const int64_t parts = l.weights / 32;
        const char * p = bytes.data() + row * r.stride + b / parts * l.bytes;
        return part_of(r.format, (const uint8_t *) p, (int) (b % parts));
    }
};

// odd says whether matrices of MXFP4 have exponents far from the others, with which tiles could not be exact.
bool odd = true;

// draw fills a quantized block. An extreme one has only the largest and smallest values.
void draw(const layout & l, uint8_t * p, bool extreme, int64_t row) {
    const bool high = below(8) > row % 9 - 1;
    for (int64_t i = 0; i < l.bytes; i++) {
        p[i] = (uint8_t) (!extreme ? below(256) : high ? 0xff : 0);
        if (extreme && l.format == rows::q8_0) {
            p[i] = below(8) > row % 9 - 1 ? 0x80 : 0x7f;
        } else if (extreme && l.format == rows::mxfp4) {
            p[i] = below(8) > row % 9 - 1 ? 0x77 : 0xff;
        }
    }
    const auto put = [&](int64_t at) {
        const uint16_t h = to_half(normal() / 64);
        std::memcpy(p + at, &h, 2);
    };
    switch (l.format) {
    case rows::mxfp4: p[0] = (uint8_t) (odd && below(20) == 0 ? below(180) : 117 + below(20)); break;
    case rows::q6_k: put(208); break;
    case rows::q4_k:
    case rows::q5_k: put(2); [[fallthrough]];
    default: put(0);
    }
}

matrix make(enum rows::format format, int64_t height, int64_t n, bool extreme) {
    matrix m;
    m.r.format = format;
    m.r.n = n;
    m.height = height;
    const layout * l = layout_of(format);
    const size_t row = l ? n / l->weights * l->bytes : format == rows::f32 ? n * 4 : n * 2;
    m.r.stride = row + below(3) * 4; // rows need not be adjacent
    m.bytes.resize(m.r.stride * (height - 1) + row); // not a byte more, so that the sanitizer finds overruns
    m.r.data = m.bytes.data();
    for (int64_t r = 0; r < height; r++) {
        char * p = m.bytes.data() + r * m.r.stride;
        if (l) {
            for (int64_t b = 0; b < n / l->weights; b++) {
                draw(*l, (uint8_t *) p + b * l->bytes, extreme, r);
            }
            for (int64_t b = 0; b < n / 32; b++) {
                const part t = m.part_at(r, b);
                for (int i = 0; i < 32; i++) {
                    const double scaled = (double) t.scale[i / 16] * t.w[i];
                    m.values.push_back(scaled - t.minimum);
                    m.sizes.push_back(std::fabs(scaled) + std::fabs(t.minimum));
                }
            }
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            const float v = normal();
            uint16_t h = to_half(v);
            double stored = format == rows::f32 ? v : from_half(h);
            if (format == rows::bf16) {
                uint32_t bits;
                std::memcpy(&bits, &v, sizeof bits);
                h = bits >> 16;
                bits &= 0xffff0000;
                float upper;
                std::memcpy(&upper, &bits, sizeof upper);
                stored = upper;
            }
            if (format == rows::f32) {
                std::memcpy(p + i * 4, &v, 4);
            } else {
                std::memcpy(p + i * 2, &h, 2);
            }
            m.values.push_back(stored);
            m.sizes.push_back(std::fabs(stored));
        }
    }
    return m;
}

// number_of is an activation as quantize rounded it, without its scale: block b's j-th. Where a set makes two blocks,
// the first has the upper bits.
int number_of(enum rows::format format, const block * x, int64_t b, int j) {
    return own->blocks(format) == 1 ? x[b].x[j] : 2 * x[2 * b].x[j] + x[2 * b + 1].x[j];
}

float scale_of(enum rows::format format, const block * x, int64_t b) { return x[b * own->blocks(format)].scale; }

// bundles holds columns in bundles.
struct bundles {
    struct alignas(64) line {
        char bytes[64];
    };
    std::vector<line> lines;

    bundles(const std::vector<const block *> & columns, int64_t n, enum rows::format format) {
        const size_t size = own->bundle_size(format, n) / sizeof(line), count = columns.size();
        lines.resize((count + bundle_width - 1) / bundle_width * size);
        for (size_t c = 0; c < count; c += bundle_width) {
            const size_t some = std::min<size_t>(bundle_width, count - c);
            own->bundle(columns.data() + c, some, n, format, lines[c / bundle_width * size].bytes);
        }
    }
    const char * data() const { return lines.data()->bytes; }
};

// in_order computes a product as the kernels must, to the bit: the sum of a block of 32, or of each half of it, is
// exact, and sums are added one after another with one fused operation each, then the minimum. Q6_K adds its blocks in
// the order 0, 2, 1, 3.
float in_order(const matrix & m, int64_t row, const block * x) {
    float sum = 0;
    for (int64_t i = 0; i < m.r.n / 32; i++) {
        const bool q6 = m.r.format == rows::q6_k;
        const int64_t b = q6 ? i / 4 * 4 + (const int[]){0, 2, 1, 3}[i % 4] : i;
        const part t = m.part_at(row, b);
        int32_t half[2] = {0, 0}, all = 0;
        for (int j = 0; j < 32; j++) {
            const int number = number_of(m.r.format, x, b, j);
            half[j / 16] += t.w[j] * number;
            all += number;
        }
        const float by = scale_of(m.r.format, x, b);
        if (q6) {
            sum = std::fma((float) half[0], t.scale[0] * by, sum);
            sum = std::fma((float) half[1], t.scale[1] * by, sum);
        } else {
            sum = std::fma((float) (half[0] + half[1]), t.scale[0] * by, sum);
        }
        if (m.r.format == rows::q4_k || m.r.format == rows::q5_k) {
            sum = std::fma(t.minimum, (float) -all * by, sum);
        }
    }
    return sum;
}

void check_products(enum rows::format format, int64_t height, int64_t n, int64_t count, bool extreme = false) {
    const bool rounded = layout_of(format) != nullptr;
    const matrix m = make(format, height, n, extreme);
    std::vector<std::vector<float>> x(count), out(count, std::vector<float>(height + 1, NAN));
    std::vector<std::vector<block>> blocks(count);
    std::vector<const float *> columns;
    std::vector<const block *> quantized;
    std::vector<float *> results;
    for (int64_t c = 0; c < count; c++) {
        const float size = std::exp(normal());
        for (int64_t i = 0; i < n; i++) {
            x[c].push_back(extreme ? (below(8) > c % 9 - 1 ? -size : size) : normal() * size);
        }
        if (c == 1 && !extreme) {
            std::fill(x[c].begin(), x[c].begin() + std::min<int64_t>(n, 32), 0.0f); // a block of zeros
        }
        if (rounded) {
            blocks[c].resize(n / 32 * own->blocks(format));
            own->quantize(x[c].data(), n, format, blocks[c].data());
        }
        columns.push_back(x[c].data());
        quantized.push_back(blocks[c].data());
        results.push_back(out[c].data());
    }
    const auto multiply = [&](int64_t first, int64_t last, int64_t c, int64_t some, float * const * to) {
        if (rounded) {
            own->multiply_quantized(m.r, first, last, quantized.data() + c, to, some);
        } else {
            own->multiply_floats(m.r, first, last, columns.data() + c, to, some);
        }
    };
    multiply(0, height, 0, count, results.data());
    for (int64_t c = 0; c < count; c++) {
        std::vector<double> taken;
        for (int64_t i = 0; i < n; i++) {
            taken.push_back(x[c][i]);
            if (rounded) {
                const float scale = scale_of(format, quantized[c], i / 32);
                taken[i] = (double) number_of(format, quantized[c], i / 32, i % 32) * scale;
                if (std::fabs(taken[i] - x[c][i]) > scale * 0.5001) {
                    fail("activation %.9g rounded to %.9g", x[c][i], taken[i]);
                }
            }
        }
        for (int64_t r = 0; r < height; r++) {
            double want = 0, size = 0;
            for (int64_t i = 0; i < n; i++) {
                want += m.values[r * n + i] * taken[i];
                size += std::fabs(m.sizes[r * n + i] * taken[i]);
            }
            close_to("product", out[c][r], want, size * 3e-6 + 1e-37);
            if (rounded) {
                close_to("product in order", out[c][r], in_order(m, r, quantized[c]), 0);
            }
        }
        if (!std::isnan(out[c][height])) {
            fail("a value was written behind the %d rows", (int) height);
        }
        out[c].pop_back();
        digest(rounded ? quantized_bits : other_bits, out[c].data(), out[c].size());
        // Alone, and in two pieces.
        std::vector<float> alone(height);
        float * to = alone.data();
        const int64_t cut = below((int) height + 1);
        multiply(0, cut, c, 1, &to);
        multiply(cut, height, c, 1, &to);
        same("product alone", alone, out[c]);
    }
    if (!rounded || !own->worth) {
        return;
    }
    // From bundles, in two pieces.
    const bundles all(quantized, n, format);
    std::vector<std::vector<float>> again(count, std::vector<float>(height + 1, NAN));
    std::vector<float *>            to;
    for (auto & column : again) {
        to.push_back(column.data());
    }
    const int64_t cut = below((int) height + 1);
    own->multiply_bundles(m.r, 0, cut, all.data(), quantized.data(), to.data(), count);
    own->multiply_bundles(m.r, cut, height, all.data(), quantized.data(), to.data(), count);
    for (int64_t c = 0; c < count; c++) {
        if (!std::isnan(again[c][height])) {
            fail("a value was written behind the %d rows of a bundle", (int) height);
        }
        again[c].pop_back();
        same("product of a bundle", again[c], out[c]);
    }
}

// Every scale is taken as it is, also below the normal numbers: the products are powers of two, and exact.
void check_scales() {
    block b[16]; // a column with one value
    const auto fill = [&](const matrix & m, int power) {
        float x[256];
        std::fill(x, x + 256, std::ldexp(127.0f, power));
        own->quantize(x, m.r.n, m.r.format, b);
    };
    const auto product = [&](matrix & m, int power, double want, int most, bool in_bundles) {
        std::vector<const block *> columns(40);
        float out[40], * to[40];
        for (int c = 0; c < 40; c++) {
            columns[c] = b;
            to[c] = &out[c];
        }
        for (const int count : {1, most}) {
            own->multiply_quantized(m.r, 0, 1, columns.data(), to, count);
            for (int c = 0; c < count; c++) {
                close_to("product with a scale", out[c], want * std::ldexp(127.0, power), 0);
            }
        }
        if (own->worth && in_bundles) {
            const bundles all(columns, m.r.n, m.r.format);
            std::fill(out, out + 40, NAN);
            own->multiply_bundles(m.r, 0, 1, all.data(), columns.data(), to, 40);
            for (int c = 0; c < 40; c++) {
                close_to("product of a bundle with a scale", out[c], want * std::ldexp(127.0, power), 0);
            }
        }
    };
    matrix m = make(rows::mxfp4, 1, 32, false);
    for (int e = 0; e < 256; e++) {
        char * p = m.bytes.data();
        p[0] = (char) e;
        std::fill(p + 1, p + 17, 0x22); // ones
        const int power = e < 128 ? 60 : -90;
        fill(m, power);
        product(m, power, std::ldexp(32.0, e - 127), 40, true);
    }
    // Blocks of ones, whose parts have the scale 1 and the minimum 0.
    const auto ones = [](enum rows::format format, char * p) {
        const int64_t bytes = layout_of(format)->bytes;
        std::memset(p, 0, bytes);
        switch (format) {
        case rows::q8_0: std::memset(p + 2, 1, bytes - 2); break;
        case rows::q4_0: std::memset(p + 2, 0x99, bytes - 2); break;
        case rows::q4_k: std::memset(p + 4, 1, 4), std::memset(p + 12, 1, 4), std::memset(p + 16, 0x11, 128); break;
        case rows::q5_k: std::memset(p + 4, 1, 4), std::memset(p + 12, 1, 4), std::memset(p + 48, 0x11, 128); break;
        case rows::q6_k: std::memset(p, 0x11, 128), std::memset(p + 128, 0xaa, 64), std::memset(p + 192, 1, 16); break;
        case rows::iq4_xs: std::memset(p + 2, 0xaa, 2), std::memset(p + 4, 0x11, 4), std::memset(p + 8, 0x88, 128); break;
        default: std::memset(p + 2, 0x88, bytes - 2);
        }
    };
    for (const layout & l : layouts) {
        if (l.format == rows::mxfp4) {
            continue;
        }
        m = make(l.format, 1, l.weights, false);
        ones(l.format, m.bytes.data());
        fill(m, -10);
        // All half floats for two formats; every fifth for the others, which read them the same way.
        for (int h = 0; h < 0x10000; h += l.format == rows::q8_0 || l.format == rows::q4_k ? 1 : 5) {
            if ((h & 0x7c00) != 0x7c00) {
                const uint16_t scale = (uint16_t) h;
                std::memcpy(m.bytes.data() + (l.format == rows::q6_k ? 208 : 0), &scale, 2);
                // Emulated tiles take long.
                product(m, -10, l.weights * from_half(scale), h % 9 == 0 ? 40 : 1, h % 97 == 0);
            }
        }
    }
}

// Activations become bytes from -127 to 127, even those so small that dividing 127 by them gives infinity.
void check_smallest() {
    for (float size = 1e-30f; size > 0; size /= 2) {
        float x[32];
        for (int i = 0; i < 32; i++) {
            x[i] = i % 2 ? size : -size;
        }
        for (const layout & l : layouts) {
            block b[2];
            own->quantize(x, 32, l.format, b);
            const int most = own->blocks(l.format) == 1 ? 127 : 255;
            for (int i = 0; i < 32; i++) {
                const int number = number_of(l.format, b, 0, i);
                if (std::abs(number) > most || (i % 2 ? number < 0 : number > 0)) {
                    fail("activation %.9g became %d", x[i], number);
                }
            }
        }
    }
}

// A cache whose tokens each see some of its cells.
struct scene {
    attention             a = {};
    std::vector<float>    q, sinks, out;
    std::vector<uint16_t> k, v, mask;
    void bind() {
        a.q = (const char *) q.data(), a.k = (const char *) k.data(), a.v = (const char *) v.data(),
            a.mask = (const char *) mask.data();
        a.sinks = sinks.empty() ? nullptr : sinks.data();
        out.assign(a.tokens * a.heads * a.size, NAN);
        a.out = out.data();
    }
    void run() {
        static uint64_t ids = 0;
        bind();
        a.id = ++ids % 4 ? ids : 0;
        for (int64_t t = 0; t < a.tokens; t++) {
            for (int64_t s = 0; s < a.shared; s++) {
                own->attend(a, t, s);
            }
        }
    }
};

void check_attention(int64_t size, int64_t group, int64_t shared, int64_t cells, bool sinks) {
    scene s;
    attention & a = s.a;
    a.tokens = 3, a.cells = cells, a.size = size, a.heads = group * shared, a.shared = shared,
        a.scale = 1 / std::sqrt((float) size);
    a.q_head = size * 4, a.q_token = a.q_head * a.heads;
    a.k_head = a.v_head = size * 2, a.k_cell = a.v_cell = a.k_head * shared, a.mask_token = cells * 2;
    for (int64_t i = 0; i < a.tokens * a.heads * size; i++) {
        s.q.push_back(normal() * 2);
    }
    for (int64_t i = 0; i < cells * shared * size; i++) {
        s.k.push_back(to_half(normal() * 2));
        s.v.push_back(to_half(normal()));
    }
    for (int64_t i = 0; i < a.tokens * cells; i++) {
        const bool last = i / cells == a.tokens - 1; // it sees nothing
        s.mask.push_back(last || below(3) == 0 ? 0xfc00 : below(8) == 0 ? to_half(-normal() * normal()) : 0);
    }
    for (int64_t h = 0; sinks && h < a.heads; h++) {
        s.sinks.push_back(normal() * 3);
    }
    s.run();
    digest(other_bits, s.out.data(), s.out.size());
    for (int64_t t = 0; t < a.tokens; t++) {
        for (int64_t h = 0; h < a.heads; h++) {
            std::vector<double> score(cells, -INFINITY), want(size);
            double most = sinks ? (double) s.sinks[h] : -INFINITY, total = 0;
            for (int64_t c = 0; c < cells; c++) {
                if (s.mask[t * cells + c] != 0xfc00) {
                    double dot = 0;
                    for (int64_t i = 0; i < size; i++) {
                        dot += s.q[(t * a.heads + h) * size + i] * from_half(s.k[(c * shared + h / group) * size + i]);
                    }
                    score[c] = dot * a.scale + from_half(s.mask[t * cells + c]);
                    most = std::max(most, score[c]);
                }
            }
            for (int64_t c = 0; c < cells; c++) {
                const double p = most == -INFINITY ? 0 : std::exp(score[c] - most);
                total += p;
                for (int64_t i = 0; i < size; i++) {
                    want[i] += p * from_half(s.v[(c * shared + h / group) * size + i]);
                }
            }
            total += sinks ? std::exp(s.sinks[h] - most) : 0;
            for (int64_t i = 0; i < size; i++) {
                close_to("attention", s.out[(t * a.heads + h) * size + i], total > 0 ? want[i] / total : 0, 2e-5);
            }
        }
    }
    // The same cells, spread over a larger cache with other cells in between.
    scene wide = s;
    wide.a.cells = 0;
    wide.k.clear(), wide.v.clear(), wide.mask.clear();
    std::vector<int64_t> from;
    for (int64_t c = 0; c < cells; c++) {
        for (int i = below(4) == 0 ? below(40) : 0; i > 0; i--) {
            from.push_back(-1);
        }
        from.push_back(c);
    }
    wide.a.cells = from.size(), wide.a.mask_token = from.size() * 2;
    for (const int64_t c : from) {
        for (int64_t i = 0; i < shared * size; i++) {
            wide.k.push_back(c < 0 ? to_half(normal() * 100) : s.k[c * shared * size + i]);
            wide.v.push_back(c < 0 ? 0x7c00 : s.v[c * shared * size + i]);
        }
    }
    for (int64_t t = 0; t < a.tokens; t++) {
        for (const int64_t c : from) {
            wide.mask.push_back(c < 0 ? 0xfc00 : s.mask[t * cells + c]);
        }
    }
    wide.run();
    same("attention in another cache", wide.out, s.out);
}

void check_elementwise() {
    const float alpha = 1.702f, limit = 7;
    for (const float size : {0.1f, 1.0f, 10.0f, 1000.0f}) {
        float x[32], y[32], out[32];
        for (int i = 0; i < 32; i++) {
            x[i] = normal() * size, y[i] = normal() * size;
        }
        own->gate(x, y, alpha, limit, 32, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 32; i++) {
            const double g = std::min(x[i], limit), u = std::clamp(y[i], -limit, limit);
            const double want = g / (1 + std::exp(-(double) alpha * g)) * (u + 1);
            close_to("gate", out[i], want, std::fabs(want) * 1e-5 + 1e-30);
        }
        own->swiglu(x, y, 32, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 32; i++) {
            const double want = x[i] / (1 + std::exp(-(double) x[i])) * y[i];
            // The power of e is limited to e to the 80th.
            close_to("swiglu", out[i], want, std::fabs(want) * 1e-5 + 1e-33 * std::fabs((double) x[i] * y[i]) + 1e-30);
        }
        own->softmax(x, 32, alpha, out);
        digest(other_bits, out, 32);
        double shares = 0, highest = -INFINITY;
        for (int i = 0; i < 32; i++) {
            highest = std::max(highest, (double) x[i] * alpha);
        }
        for (int i = 0; i < 32; i++) {
            shares += std::exp(x[i] * (double) alpha - highest);
        }
        for (int i = 0; i < 32; i++) {
            const double want = std::exp(x[i] * (double) alpha - highest) / shares;
            close_to("softmax", out[i], want, want * (1e-5 + std::fabs(highest) * 1e-6) + 1e-30);
        }
        own->normalize(x, 32, 1e-5f, out);
        digest(other_bits, out, 32);
        double squares = 0;
        for (int i = 0; i < 32; i++) {
            squares += (double) x[i] * x[i];
        }
        for (int i = 0; i < 32; i++) {
            const double want = x[i] / std::sqrt(squares / 32 + 1e-5);
            close_to("normalize", out[i], want, std::fabs(want) * 1e-6);
        }
        float turns[32];
        for (int i = 0; i < 16; i++) {
            const float angle = normal() * 100;
            turns[i] = std::cos(angle), turns[16 + i] = std::sin(angle);
        }
        own->rotate(x, turns, 16, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 16; i++) {
            close_to("rotate, first", out[i], (double) x[i] * turns[i] - (double) x[16 + i] * turns[16 + i],
                size * 1e-6);
            close_to("rotate, second", out[16 + i], (double) x[i] * turns[16 + i] + (double) x[16 + i] * turns[i],
                size * 1e-6);
        }
        own->add(x, y, 32, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 32; i++) {
            close_to("add", out[i], x[i] + y[i], 0);
        }
        own->scale(x, 0.75f, 32, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 32; i++) {
            close_to("scale", out[i], x[i] * 0.75f, 0);
        }
    }
}

constexpr int64_t a_lot = 1 << 30; // of work, worth waking helpers for

// Several threads use the team at once. Every piece must run once, before run returns.
void check_team() {
    team::grow(3);
    std::vector<std::thread> callers;
    for (int t = 0; t < 3; t++) {
        callers.emplace_back([] {
            for (int n = 0; n < 3000; n++) {
                struct job {
                    std::vector<int> done;
                } j = {std::vector<int>(n % 50)};
                team::run(n % 50, n % 3 != 0 ? a_lot : 0, [](void * data, int64_t i) { ((job *) data)->done[i]++; },
                    &j);
                for (const int d : j.done) {
                    if (d != 1) {
                        fail("a piece was done %d times", d);
                    }
                }
                if (n % 1000 == 999) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(5)); // long enough for the helpers to sleep
                }
            }
        });
    }
    for (auto & c : callers) {
        c.join();
    }
}

// Helpers take part, and a call in which a piece throws ends like any other.
void check_help() {
    const std::thread::id   caller = std::this_thread::get_id();
    static std::atomic<int> helped{0};
    const auto              end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int n = 0; helped.load() < 10; n++) {
        if (std::chrono::steady_clock::now() > end) {
            fail("helpers took part in %d pieces of %d calls", helped.load(), n);
        }
        const bool thrown = n % 3 == 0;
        struct job {
            std::thread::id caller;
            bool            thrown;
        } j = {caller, thrown};
        bool caught = false;
        try {
            team::run(64, a_lot, [](void * data, int64_t) {
                const job & own = *(const job *) data;
                if (std::this_thread::get_id() != own.caller) {
                    helped.fetch_add(1);
                } else if (own.thrown) {
                    throw 1;
                }
                std::this_thread::sleep_for(std::chrono::microseconds(10));
            }, &j);
        } catch (int) {
            caught = true;
        }
        if (caught && !thrown) {
            fail("a call threw that should not have");
        }
    }
}

// outcome counts a call's pieces that helpers ran.
struct outcome {
    const std::thread::id            caller = std::this_thread::get_id();
    const std::chrono::microseconds  own, helpers; // how long a piece takes on the caller and on helpers
    std::atomic<int>                 helped{0};

    outcome(int own, int helpers) : own(own), helpers(helpers) {}
    void run(int64_t pieces) {
        team::run(pieces, a_lot, [](void * data, int64_t) {
            outcome & o = *(outcome *) data;
            const bool help = std::this_thread::get_id() != o.caller;
            o.helped += help;
            std::this_thread::sleep_for(help ? o.helpers : o.own);
        }, this);
    }
};

// A wait of a few large pieces does not count as a helper's loss of its processor, so the next call is helped too. A
// wait of many small pieces does: the caller is then alone for ten times as long.
void check_patience() {
    constexpr int calls = 20, pieces = 16;
    int most = 0;
    for (int i = 0; i < 20 && most * 5 < calls * pieces * 2; i++) { // beside other work some runs are disturbed
        outcome large(1000, 3000);
        for (int n = 0; n < calls; n++) {
            large.run(pieces);
        }
        most = std::max(most, large.helped.load());
    }
    if (most * 5 < calls * pieces * 2) {
        fail("helpers took %d of %d large pieces", most, calls * pieces);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
        outcome slow(10, 50000);
        slow.run(pieces);
        if (slow.helped == 0) {
            if (std::chrono::steady_clock::now() > end) {
                fail("helpers took no piece");
            }
            continue;
        }
        outcome next(10, 10);
        next.run(pieces);
        if (next.helped != 0) {
            fail("helpers took %d pieces of the call after a long wait", next.helped.load());
        }
        return;
    }
}

// Small calls keep no helper awake: during them one processor is busy.
void check_sleep() {
    using clock = std::chrono::steady_clock;
    const auto call = [](int64_t work) { team::run(4, work, [](void *, int64_t) {}, nullptr); };
    const auto calls = [&](int milliseconds) {
        for (const auto end = clock::now() + std::chrono::milliseconds(milliseconds); clock::now() < end;) {
            call(1);
        }
    };
    for (int i = 0; i < 5; i++) {
        call(a_lot);
        calls(50);
        const auto began = clock::now();
        const std::clock_t used = std::clock();
        calls(50);
        const double wall = std::chrono::duration<double>(clock::now() - began).count(),
            cpu = (double) (std::clock() - used) / CLOCKS_PER_SEC;
        if (cpu > 1.5 * wall) {
            fail("%.3f s of processors in %.3f s of small calls", cpu, wall);
        }
    }
}

void check() {
    source.seed(1);
    odd = false;
    quantized_bits = other_bits = 0xcbf29ce484222325;
    for (const int64_t n : {32, 96, 160, 416, 1056}) {
        for (const int64_t count : {1, 3, 6, 8, 15, 21, 37}) {
            for (const int64_t height : {1, 13, 34}) {
                check_products(rows::f32, height, n, count);
                check_products(rows::f16, height, n + 16, count);
                check_products(rows::bf16, height, n + 16, count);
                for (const layout & l : layouts) {
                    const int64_t whole = (n + l.weights - 1) / l.weights * l.weights;
                    check_products(l.format, height, whole, count);
                    check_products(l.format, height, whole, count, true);
                }
                odd = !odd;
            }
        }
    }
    for (const int64_t size : {32, 96, 256}) {
        for (const int64_t group : {1, 2, 7, 8, 16}) {
            for (const int64_t cells : {1, 16, 17, 65, 170}) {
                const int shared = 1 + below(2); // compilers evaluate arguments in any order
                check_attention(size, group, shared, cells, below(2) == 0);
            }
        }
    }
    check_elementwise();
    check_smallest();
    check_scales();
}

} // namespace

int main(int, char ** argv) {
    const auto asked = [&](const char * what) { return argv[1] && std::strcmp(argv[1], what) == 0; };
    if (!argv[1] || asked("team")) {
        check_team();
        check_help();
        check_patience();
        check_sleep();
    }
    if (asked("team")) {
        return 0;
    }
    for (const set * const * s = sets; *s; s++) {
        if (!(*s)->supported()) {
            continue;
        }
        own = *s;
        if (asked("names")) {
            std::puts(own->instructions);
        } else if (!argv[1] || asked(own->instructions)) {
            check();
            std::printf("%s: %016" PRIx64 " %016" PRIx64 "\n", own->instructions, quantized_bits, other_bits);
        }
    }
}
