// The kernels for AVX-512 and its 8-bit dot products (VNNI). The set for VBMI uses them for all but few columns of
// MXFP4. The set for AMX uses them for all but products of many columns and of few with MXFP4 and Q8_0; for MXFP4 it
// has activations of nine bits.

#include "amx.h"
#include "streamed.h"
#include "vbmi.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cmath>
#include <cstring>

#define KERNEL_TARGET AVX512_TARGET
#include "target.h"

#include "reading.h"

namespace kernels {

namespace {

constexpr int lanes = 16;
constexpr int few_queries = 4;
using floats = __m512;
using doubles = __m512d;
using ints = __m512i;

INLINE floats  load(const float * p) { return _mm512_loadu_ps(p); }
INLINE doubles load(const double * p) { return _mm512_loadu_pd(p); }
INLINE void    store(float * p, floats v) { _mm512_storeu_ps(p, v); }
INLINE void    store(double * p, doubles v) { _mm512_storeu_pd(p, v); }
INLINE floats  all(float x) { return _mm512_set1_ps(x); }
INLINE doubles all(double x) { return _mm512_set1_pd(x); }
INLINE void    store(float * p, floats8 v) { _mm256_storeu_ps(p, v); }
INLINE floats  added_bits(floats a, floats b) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
INLINE floats  subtracted_bits(floats a, floats b) {
    return _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
INLINE floats  to_floats(ints v) { return _mm512_cvtepi32_ps(v); }
INLINE floats8 to_floats(ints8 v) { return _mm256_cvtepi32_ps(v); }
INLINE floats  halves(const char * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }
INLINE floats  upper_halves(const char * p) {
    const ints words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
INLINE floats  fused(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
INLINE floats8 fused(floats8 a, floats8 b, floats8 c) { return _mm256_fmadd_ps(a, b, c); }
INLINE doubles fused(doubles a, doubles b, doubles c) { return _mm512_fmadd_pd(a, b, c); }
INLINE floats  lesser(floats a, floats b) { return _mm512_min_ps(a, b); }
INLINE floats  greater(floats a, floats b) { return _mm512_max_ps(a, b); }
INLINE floats  magnitude(floats v) { return _mm512_abs_ps(v); }
INLINE float   largest(floats v) { return _mm512_reduce_max_ps(v); }
INLINE floats  rounded(floats v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE floats  times_power(floats x, floats n) { return _mm512_scalef_ps(x, n); }
INLINE floats  opened(floats t, floats w) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(t, all(-INFINITY), _CMP_NEQ_UQ), w);
}
INLINE doubles lower(floats v) { return _mm512_cvtps_pd(_mm512_castps512_ps256(v)); }
INLINE doubles upper(floats v) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)); }
INLINE doubles wide(const float * p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
INLINE doubles wide_halves(const char * p) {
    return _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)));
}
INLINE void    narrow(float * p, doubles v) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(v)); }
INLINE void    round_bytes(int8_t * p, floats v) {
    _mm_storeu_si128((__m128i *) p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}

INLINE floats fours(const floats * v) {
    const floats ab = _mm512_unpacklo_ps(v[0], v[1]) + _mm512_unpackhi_ps(v[0], v[1]);
    const floats cd = _mm512_unpacklo_ps(v[2], v[3]) + _mm512_unpackhi_ps(v[2], v[3]);
    const doubles lo = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const doubles hi = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    return _mm512_castpd_ps(lo) + _mm512_castpd_ps(hi);
}

INLINE floats joined(const floats * v) {
    const floats ab = _mm512_shuffle_f32x4(v[0], v[1], 0x88) + _mm512_shuffle_f32x4(v[0], v[1], 0xdd);
    const floats cd = _mm512_shuffle_f32x4(v[2], v[3], 0x88) + _mm512_shuffle_f32x4(v[2], v[3], 0xdd);
    return _mm512_shuffle_f32x4(ab, cd, 0x88) + _mm512_shuffle_f32x4(ab, cd, 0xdd);
}

INLINE bool all_closed(const char * mask) {
    return _mm512_cmpneq_epi16_mask(_mm512_loadu_si512(mask), _mm512_set1_epi16((short) closed)) == 0;
}

INLINE unsigned open_cells(const char * mask, int64_t left, floats & bias) {
    const __mmask16 there = left < lanes ? (__mmask16) ((1u << left) - 1) : (__mmask16) 0xffff;
    bias = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, mask));
    return _mm512_mask_cmp_ps_mask(there, bias, all(-INFINITY), _CMP_NEQ_UQ);
}

INLINE void pack(unsigned open, floats bias, int32_t first, int32_t * cells, float * biases) {
    const ints each = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i numbers = _mm512_add_epi32(each, _mm512_set1_epi32(first));
    _mm512_storeu_si512(cells, _mm512_maskz_compress_epi32((__mmask16) open, numbers));
    store(biases, _mm512_maskz_compress_ps((__mmask16) open, bias));
}

// Three steps transpose squares of eight by eight within the quarters of the vectors. The fourth joins eight cells with
// the other eight.
INLINE void transpose(const char * const * cells, float * out) {
    constexpr int square = 8;
    __m512i a[lanes], b[lanes];
    UNROLL for (int i = 0; i < lanes; i++) {
        a[i] = _mm512_loadu_si512(cells[i]);
    }
    UNROLL for (int s = 0; s < lanes; s += square) {
        UNROLL for (int i = s; i < s + 8; i += 2) {
            b[i] = _mm512_unpacklo_epi16(a[i], a[i + 1]);
            b[i + 1] = _mm512_unpackhi_epi16(a[i], a[i + 1]);
        }
        UNROLL for (int i = s; i < s + 8; i += 4) {
            a[i] = _mm512_unpacklo_epi32(b[i], b[i + 2]);
            a[i + 1] = _mm512_unpackhi_epi32(b[i], b[i + 2]);
            a[i + 2] = _mm512_unpacklo_epi32(b[i + 1], b[i + 3]);
            a[i + 3] = _mm512_unpackhi_epi32(b[i + 1], b[i + 3]);
        }
        UNROLL for (int i = 0; i < 4; i++) {
            b[s + 2 * i] = _mm512_unpacklo_epi64(a[s + i], a[s + i + 4]);
            b[s + 2 * i + 1] = _mm512_unpackhi_epi64(a[s + i], a[s + i + 4]);
        }
    }
    const __m512i left = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i right = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    UNROLL for (int i = 0; i < square; i++) {
        const __m512i first = _mm512_permutex2var_epi64(b[i], left, b[i + square]);
        const __m512i last = _mm512_permutex2var_epi64(b[i], right, b[i + square]);
        store(out + i * lanes, _mm512_cvtph_ps(_mm512_castsi512_si256(first)));
        store(out + (i + 8) * lanes, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(first, 1)));
        store(out + (i + 16) * lanes, _mm512_cvtph_ps(_mm512_castsi512_si256(last)));
        store(out + (i + 24) * lanes, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(last, 1)));
    }
}

INLINE floats largest_halves(const char * const * cells, int64_t n) {
    __m512i a[lanes];
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    UNROLL for (int i = 0; i < lanes; i++) {
        a[i] = _mm512_and_si512(_mm512_loadu_si512(cells[i]), magnitude);
    }
    for (int64_t at = 32; at < n; at += 32) {
        UNROLL for (int i = 0; i < lanes; i++) {
            const __m512i v = _mm512_loadu_si512(cells[i] + at * 2);
            a[i] = _mm512_max_epu16(a[i], _mm512_and_si512(v, magnitude));
        }
    }
    // Each step joins two vectors, until every quarter of two vectors has one number of each of eight cells.
    UNROLL for (int i = 0; i < 8; i++) {
        a[i] = _mm512_max_epu16(_mm512_unpacklo_epi16(a[2 * i], a[2 * i + 1]),
            _mm512_unpackhi_epi16(a[2 * i], a[2 * i + 1]));
    }
    UNROLL for (int i = 0; i < 4; i++) {
        a[i] = _mm512_max_epu16(_mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]),
            _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]));
    }
    UNROLL for (int i = 0; i < 2; i++) {
        a[i] = _mm512_max_epu16(_mm512_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
            _mm512_unpackhi_epi64(a[2 * i], a[2 * i + 1]));
    }
    __m512i most = _mm512_max_epu16(_mm512_shuffle_i32x4(a[0], a[1], 0x88), _mm512_shuffle_i32x4(a[0], a[1], 0xdd));
    most = _mm512_max_epu16(_mm512_shuffle_i32x4(most, most, 0x08), _mm512_shuffle_i32x4(most, most, 0x0d));
    return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(most)));
}

INLINE int32_t sum_bytes(const int8_t * p) {
    const __m128i x = _mm_loadu_si128((const __m128i *) p);
    __m128i v = _mm_dpbusd_epi32(_mm_setzero_si128(), _mm_set1_epi8(1), x);
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
}

constexpr int width = 8;

// dot adds the products of four weights of each row with the same four activations. Compilers would load these with an
// instruction of their own.
INLINE void dot(ints & sum, ints w, const int8_t * x) {
    int32_t four;
    std::memcpy(&four, x, sizeof four);
    sum = _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
}
INLINE void dot(ints8 & sum, ints8 w, const int8_t * x) {
    __asm__("vpdpbusd %2%{1to8%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const int8_t (*)[4]) x));
}
// dot_once is dot for activations that are used for one vector of weights only: loading takes no instruction.
INLINE void dot_once(ints & sum, ints w, const int8_t * x) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const int8_t (*)[4]) x));
}
INLINE void dot_once(ints8 & sum, ints8 w, const int8_t * x) { dot(sum, w, x); }
INLINE ints  plus(ints a, ints b) { return _mm512_add_epi32(a, b); }
INLINE ints8 plus(ints8 a, ints8 b) { return _mm256_add_epi32(a, b); }

// whole is a vector of one number.
template <typename I> INLINE I whole(int32_t x) {
    if constexpr (sizeof(I) == sizeof(ints)) {
        return _mm512_set1_epi32(x);
    } else {
        return _mm256_set1_epi32(x);
    }
}

// every is the same for floats.
template <typename F> INLINE F every(float x) {
    if constexpr (sizeof(F) == sizeof(floats)) {
        return _mm512_set1_ps(x);
    } else {
        return _mm256_set1_ps(x);
    }
}

// products_of multiplies weights to which an offset was added, because a dot product multiplies unsigned weights by
// signed activations. The offset of the activations' block corrects for it.
template <int offset_, int sums_ = 1, bool minimum_ = false> struct products_of {
    static constexpr int32_t offset = offset_;
    static constexpr int     sums = sums_;
    static constexpr bool    minimum = minimum_;
    static constexpr int     blocks = 1;

    template <typename I, int C>
    static INLINE void add(const I (&w)[block_vectors], const block * const (&x)[C], int64_t b, I (&sum)[C][sums]) {
        constexpr int parts = sums == 2 || C <= 4 ? 2 : 1; // each product waits for the one before in its sum
        I part[C][parts];
        UNROLL for (int c = 0; c < C; c++) {
            UNROLL for (int i = 0; i < parts; i++) {
                part[c][i] = whole<I>(offset != 0 && i < sums ? x[c][b].offset[i] : 0);
            }
        }
        UNROLL for (int i = 0; i < block_vectors; i++) {
            UNROLL for (int c = 0; c < C; c++) {
                dot(part[c][sums == 2 ? i / 4 : i % parts], w[i], x[c][b].x + 4 * i);
            }
        }
        UNROLL for (int c = 0; c < C; c++) {
            if constexpr (sums == 2) {
                sum[c][0] = part[c][0], sum[c][1] = part[c][1];
            } else {
                sum[c][0] = parts == 1 ? part[c][0] : plus(part[c][0], part[c][parts - 1]);
            }
        }
    }
};

struct mxfp4_weights : mxfp4_blocks, products_of<12> {};
struct q4_0_weights : q4_0_blocks, products_of<8> {};
struct iq4_nl_weights : iq4_nl_blocks<128>, products_of<128> {};
struct q4_k_weights : q4_k_blocks, products_of<0, 1, true> {};
struct q5_k_weights : q5_k_blocks, products_of<0, 1, true> {};
struct q6_k_weights : q6_k_blocks, products_of<32, 2> {};
struct iq4_xs_weights : iq4_xs_blocks<128>, products_of<128> {};

struct q8_0_weights : q8_0_blocks, products_of<128> {
    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        q8_0_blocks::load(p, rows, w);
        UNROLL for (int i = 0; i < block_vectors; i++) {
            w[i] = _mm256_xor_si256(w[i], bytes_of(128));
        }
    }
};

// fine_mxfp4_weights are multiplied by activations of nine bits; see tiles::pair.
struct fine_mxfp4_weights : mxfp4_blocks {
    static constexpr int32_t offset = 12;
    static constexpr int     sums = 1, blocks = 2;
    static constexpr bool    minimum = false, power_scales = false;

    template <typename I, int C>
    static INLINE void add(const I (&w)[block_vectors], const block * const (&x)[C], int64_t b, I (&sum)[C][sums]) {
        I high[C], low[C];
        UNROLL for (int c = 0; c < C; c++) {
            high[c] = whole<I>(0), low[c] = whole<I>(x[c][2 * b].offset[0]);
        }
        UNROLL for (int i = 0; i < block_vectors; i++) {
            UNROLL for (int c = 0; c < C; c++) {
                dot_once(high[c], w[i], x[c][2 * b].x + 4 * i);
                dot_once(low[c], w[i], x[c][2 * b + 1].x + 4 * i);
            }
        }
        UNROLL for (int c = 0; c < C; c++) {
            sum[c][0] = plus(plus(high[c], high[c]), low[c]);
        }
    }
};

// fine_reader reads 16 rows of MXFP4 where they lie, as weight_reader does eight. Processors with AMX have units of 64
// bytes, so each instruction does the work of two.
struct fine_reader {
    const char * data;
    distances    rows;

    using ints = kernels::ints;
    using floats = kernels::floats;

    static INLINE floats scaled(floats factor, float scale) { return factor * scale; }

    // rows_4 loads 16 bytes of each fourth row, from the r-th on. q is eight rows further than p.
    INLINE ints rows_4(const char * p, const char * q, int r) const {
        const ints lower = _mm512_castsi256_si512(rows_2(p, rows, r));
        return _mm512_inserti64x4(lower, rows_2(q, rows, r), 1);
    }

    INLINE void load(const char * p, const char * q, ints (&w)[block_vectors]) const {
        const ints a = rows_4(p, q, 0), b = rows_4(p, q, 1), c = rows_4(p, q, 2), d = rows_4(p, q, 3);
        const ints ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
        const ints ab2 = _mm512_unpackhi_epi32(a, b), cd2 = _mm512_unpackhi_epi32(c, d);
        const ints bytes[4] = {_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd),
            _mm512_unpacklo_epi64(ab2, cd2), _mm512_unpackhi_epi64(ab2, cd2)};
        const ints low = _mm512_set1_epi8(15);
        const ints table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) e2m1));
        UNROLL for (int i = 0; i < 4; i++) {
            w[i] = _mm512_shuffle_epi8(table, _mm512_and_si512(bytes[i], low));
            w[4 + i] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bytes[i], 4), low));
        }
    }

    // scales are two to the power of 128 less than the exponents.
    INLINE floats scales(const char * p, const char * q) const {
        const __m128i bytes = _mm_unpacklo_epi64(exponents(p, rows), exponents(q, rows));
        return _mm512_scalef_ps(all(1.0f), to_floats(_mm512_cvtepu8_epi32(bytes)) - all(128.0f));
    }

    template <typename F> INLINE void each(int64_t blocks, F f) const {
        const char * p = data, * q = data + rows.of(8);
        for (int64_t b = 0; b < blocks; b++, p += mxfp4_block, q += mxfp4_block) {
            // With each block, four rows are asked for that follow soon, and some of the rows that follow later.
            const char * next = (b % 4 / 2 == 0 ? p : q) + b % 2 * 4 * rows.of(1) + 6 * mxfp4_block;
            UNROLL for (int r = 0; r < 4; r++) {
                __builtin_prefetch(next + rows.of(r), 0, 3);
            }
            const char * later = data + 16 * rows.of(1) + b * mxfp4_block * 16;
            UNROLL for (size_t line = 0; line < mxfp4_block * 16; line += 64) {
                __builtin_prefetch(later + line, 0, 2);
            }
            ints w[block_vectors];
            load(p + 1, q + 1, w);
            const floats factor[1] = {scales(p, q)};
            f(b, w, factor);
        }
    }
};

[[gnu::cold]] bool supported() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
}

} // namespace

} // namespace kernels

#include "simd.h"

namespace kernels {

namespace {

// quantize_fine rounds activations to nine bits, with powers of two as scales, of which tiles add up products exactly.
KERNEL void quantize_fine(const float * x, int64_t n, block * out) {
    const ints most = _mm512_set1_epi32(255), least = _mm512_set1_epi32(-255), one = _mm512_set1_epi32(1);
    const auto two_to = [](int power) {
        const int32_t bits = (power + 127) << 23;
        float f;
        std::memcpy(&f, &bits, sizeof f);
        return f;
    };
    for (int64_t i = 0; i < n; i += 32, out += 2) {
        const float size = largest(greater(magnitude(load(x + i)), magnitude(load(x + i + lanes))));
        int32_t bits;
        std::memcpy(&bits, &size, sizeof bits);
        // The largest is rounded to 128 to 255 scales: a mantissa from 255.5 on counts for the next power.
        const int power = std::max(((bits + 0x8000) >> 23) - 134, tiles::smallest_power);
        const floats by = all(two_to(-power));
        UNROLL for (int j = 0; j < 32; j += lanes) {
            const ints v = _mm512_cvtps_epi32(load(x + i + j) * by);
            const ints number = _mm512_max_epi32(_mm512_min_epi32(v, most), least);
            _mm_storeu_si128((__m128i *) (out[0].x + j), _mm512_cvtepi32_epi8(_mm512_srai_epi32(number, 1)));
            _mm_storeu_si128((__m128i *) (out[1].x + j), _mm512_cvtepi32_epi8(_mm512_and_si512(number, one)));
        }
        out[0].scale = out[1].scale = two_to(power);
        const int32_t high = sum_bytes(out[0].x) + sum_bytes(out[0].x + 16);
        const int32_t low = sum_bytes(out[1].x) + sum_bytes(out[1].x + 16);
        out[0].offset[0] = -fine_mxfp4_weights::offset * (2 * high + low);
        out[0].offset[1] = out[1].offset[0] = out[1].offset[1] = 0;
    }
}

int amx_blocks(enum rows::format format) { return format == rows::mxfp4 ? fine_mxfp4_weights::blocks : 1; }

void amx_quantize(const float * x, int64_t n, enum rows::format format, block * out) {
    if (format == rows::mxfp4) {
        quantize_fine(x, n, out);
    } else {
        quantize(x, n, format, out);
    }
}

// fine_products multiplies few columns.
KERNEL void fine_products(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    const int64_t blocks = w.n / 32;
    for (; last - first >= lanes; first += lanes) {
        const fine_reader reader{w.data + first * w.stride, distances(w.stride)};
        quantized_tiles<fine_mxfp4_weights, width>(reader, blocks, group{first, lanes}, columns, out, count);
    }
    if (first < last) {
        quantized_products<fine_mxfp4_weights>(w, first, last, columns, out, count);
    }
}

void amx_multiply_quantized(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    if (streamed::suits(w, count) && streamed::supported()) {
        first = streamed::multiply(w, first, last, columns, out, count);
    }
    if (w.format != rows::mxfp4) {
        multiply_quantized(w, first, last, columns, out, count);
    } else if (count <= width) {
        fine_products(w, first, last, columns, out, count);
    } else {
        quantized_products<fine_mxfp4_weights>(w, first, last, columns, out, count);
    }
}

bool vbmi_supported() { return supported() && vbmi::supported(); }

void vbmi_multiply_quantized(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    if (w.format == rows::mxfp4 && count <= vbmi::few) {
        first = vbmi::multiply(w, first, last, columns, out, count);
    }
    multiply_quantized(w, first, last, columns, out, count);
}

} // namespace

} // namespace kernels

const kernels::set kernels::avx512_vbmi = {"AVX-512 VBMI", vbmi_supported, blocks, quantize, multiply_floats,
    vbmi_multiply_quantized, nullptr, nullptr, nullptr, nullptr, add, scale, gate, swiglu, softmax, normalize, rotate,
    attend};

const kernels::set kernels::avx512 = {"AVX-512 VNNI", supported, blocks, quantize, multiply_floats, multiply_quantized,
    nullptr, nullptr, nullptr, nullptr, add, scale, gate, swiglu, softmax, normalize, rotate, attend};

const kernels::set kernels::amx = {"AMX", tiles::supported, amx_blocks, amx_quantize, multiply_floats,
    amx_multiply_quantized, tiles::worth, tiles::size, tiles::bundle, tiles::multiply, add, scale, gate, swiglu,
    softmax, normalize, rotate, attend};

#endif
