// Weight matrices of every format with their values, and products in plain C++, for programs that check the kernels.
#ifndef RUNNER_TESTDATA_MATRICES_H
#define RUNNER_TESTDATA_MATRICES_H

#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

using namespace kernels;

namespace {

const set * own; // the kernels that are checked

std::mt19937 source(1);

inline float normal() { return std::normal_distribution<float>()(source); }
inline int   below(int n) { return (int) (source() % n); }

__attribute__((format(printf, 1, 2))) inline void fail(const char * format, ...) {
    std::fprintf(stderr, "%s: ", own ? own->instructions : "team");
    va_list a;
    va_start(a, format);
    std::vfprintf(stderr, format, a);
    va_end(a);
    std::fprintf(stderr, "\n");
    std::exit(1);
}

inline void same(const char * what, const std::vector<float> & a, const std::vector<float> & b) {
    for (size_t i = 0; i < a.size(); i++) {
        if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) {
            fail("%s: value %zu of %zu is %.9g and %.9g", what, i, a.size(), a[i], b[i]);
        }
    }
}

inline void close_to(const char * what, double got, double want, double within) {
    if (!(std::fabs(got - want) <= within)) {
        fail("%s: %.9g instead of %.9g, further than %.3g", what, got, want, within);
    }
}

// Half floats by the definition (IEEE 754 binary16), rounded to nearest.
inline uint16_t to_half(float f) {
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

inline double from_half(uint16_t h) {
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
inline const layout * layout_of(enum rows::format format) {
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

inline float half_at(const uint8_t * p) {
    uint16_t h;
    std::memcpy(&h, p, 2);
    return from_half(h);
}

// part_of takes a block apart, by the definitions of the formats.
inline part part_of(enum rows::format format, const uint8_t * p, int number) {
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

    // parts_of takes a row apart.
    std::vector<part> parts_of(int64_t row) const {
        std::vector<part> parts;
        for (int64_t b = 0; b < r.n / 32; b++) {
            parts.push_back(part_at(row, b));
        }
        return parts;
    }
};

// odd says whether matrices of MXFP4 have exponents far from the others, with which tiles could not be exact.
bool odd = true;

// draw fills a quantized block. An extreme one has only the largest and smallest values.
inline void draw(const layout & l, uint8_t * p, bool extreme, int64_t row) {
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

inline matrix make(enum rows::format format, int64_t height, int64_t n, bool extreme) {
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
inline int number_of(enum rows::format format, const block * x, int64_t b, int j) {
    return own->blocks(format) == 1 ? x[b].x[j] : 2 * x[2 * b].x[j] + x[2 * b + 1].x[j];
}

inline float scale_of(enum rows::format format, const block * x, int64_t b) { return x[b * own->blocks(format)].scale; }

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
inline float in_order(enum rows::format format, const std::vector<part> & parts, const block * x) {
    float sum = 0;
    for (int64_t i = 0; i < (int64_t) parts.size(); i++) {
        const bool q6 = format == rows::q6_k;
        const int64_t b = q6 ? i / 4 * 4 + (const int[]){0, 2, 1, 3}[i % 4] : i;
        const part & t = parts[b];
        int32_t half[2] = {0, 0}, all = 0;
        for (int j = 0; j < 32; j++) {
            const int number = number_of(format, x, b, j);
            half[j / 16] += t.w[j] * number;
            all += number;
        }
        const float by = scale_of(format, x, b);
        if (q6) {
            sum = std::fma((float) half[0], t.scale[0] * by, sum);
            sum = std::fma((float) half[1], t.scale[1] * by, sum);
        } else {
            sum = std::fma((float) (half[0] + half[1]), t.scale[0] * by, sum);
        }
        if (format == rows::q4_k || format == rows::q5_k) {
            sum = std::fma(t.minimum, (float) -all * by, sum);
        }
    }
    return sum;
}

// lacking are features that the processor is said to lack; see features.h.
std::vector<const char *> lacking;

} // namespace

extern "C" bool runner_test_lacks(const char * feature);

bool runner_test_lacks(const char * feature) {
    return std::any_of(lacking.begin(), lacking.end(), [&](const char * l) { return std::strcmp(l, feature) == 0; });
}

#endif
