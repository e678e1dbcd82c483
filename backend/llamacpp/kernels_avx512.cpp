// The kernels for AVX-512 and its 8-bit dot products (VNNI).

#include "kernels.h"

#if defined(__x86_64__)

#include "kernels_formats.h"

#include <immintrin.h>

#include <cmath>
#include <cstring>

// The binary runs everywhere. Only this file may use these instructions, and only after supported() returned true.
#define KERNEL __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,f16c,fma")))
#define INLINE KERNEL inline __attribute__((always_inline))

namespace kernels {

namespace {

constexpr int lanes = 16;
using floats = __m512;
using doubles = __m512d;
using ints = __m512i;

INLINE floats  load(const float * p) { return _mm512_loadu_ps(p); }
INLINE doubles load(const double * p) { return _mm512_loadu_pd(p); }
INLINE void    store(float * p, floats v) { _mm512_storeu_ps(p, v); }
INLINE void    store(double * p, doubles v) { _mm512_storeu_pd(p, v); }
INLINE floats  all(float x) { return _mm512_set1_ps(x); }
INLINE doubles all(double x) { return _mm512_set1_pd(x); }
INLINE floats  to_floats(ints v) { return _mm512_cvtepi32_ps(v); }
INLINE floats  halves(const char * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }
INLINE doubles wide(const char * p) { return _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p))); }
INLINE floats  fused(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
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
INLINE void    narrow(float * p, doubles v) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(v)); }
INLINE void    round_bytes(int8_t * p, floats v) {
    _mm_storeu_si128((__m128i *) p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}

// Operations on values known to be zero cost nothing.
INLINE floats sums(const floats * v) {
    floats quads[4];
    for (int i = 0; i < 4; i++, v += 4) {
        const floats ab = _mm512_unpacklo_ps(v[0], v[1]) + _mm512_unpackhi_ps(v[0], v[1]);
        const floats cd = _mm512_unpacklo_ps(v[2], v[3]) + _mm512_unpackhi_ps(v[2], v[3]);
        const doubles lo = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
        const doubles hi = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
        quads[i] = _mm512_castpd_ps(lo) + _mm512_castpd_ps(hi);
    }
    const floats ab = _mm512_shuffle_f32x4(quads[0], quads[1], 0x88) + _mm512_shuffle_f32x4(quads[0], quads[1], 0xdd);
    const floats cd = _mm512_shuffle_f32x4(quads[2], quads[3], 0x88) + _mm512_shuffle_f32x4(quads[2], quads[3], 0xdd);
    return _mm512_shuffle_f32x4(ab, cd, 0x88) + _mm512_shuffle_f32x4(ab, cd, 0xdd);
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

INLINE int32_t sum_bytes(const int8_t * p) {
    const __m256i x = _mm256_loadu_si256((const __m256i *) p);
    return _mm512_reduce_add_epi32(_mm512_zextsi256_si512(
        _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), x)));
}

constexpr int block_vectors = 8, width = 8;

// rows_4 loads 16 bytes of rows 0, 4, 8 and 12. A masked load is cheaper than inserting a part.
INLINE ints rows_4(const char * p, size_t stride) {
    ints v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *) p));
    v = _mm512_mask_broadcast_i32x4(v, 0x00f0, _mm_loadu_si128((const __m128i *) (p + 4 * stride)));
    v = _mm512_mask_broadcast_i32x4(v, 0x0f00, _mm_loadu_si128((const __m128i *) (p + 8 * stride)));
    return _mm512_mask_broadcast_i32x4(v, 0xf000, _mm_loadu_si128((const __m128i *) (p + 12 * stride)));
}

// load_rows loads 16 bytes of each of 16 rows; v[i] has bytes 4i to 4i+3 of every row.
INLINE void load_rows(const char * p, size_t stride, ints * v) {
    const ints a = rows_4(p, stride), b = rows_4(p + stride, stride), c = rows_4(p + 2 * stride, stride),
        d = rows_4(p + 3 * stride, stride);
    const ints ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    const ints ab2 = _mm512_unpackhi_epi32(a, b), cd2 = _mm512_unpackhi_epi32(c, d);
    v[0] = _mm512_unpacklo_epi64(ab, cd);
    v[1] = _mm512_unpackhi_epi64(ab, cd);
    v[2] = _mm512_unpacklo_epi64(ab2, cd2);
    v[3] = _mm512_unpackhi_epi64(ab2, cd2);
}

// first_4 is the first four bytes of each of four rows.
INLINE __m128i first_4(const char * p, size_t stride) {
    int32_t v[4];
    UNROLL for (int i = 0; i < 4; i++) {
        std::memcpy(&v[i], p + i * stride, sizeof v[i]);
    }
    return _mm_set_epi32(v[3], v[2], v[1], v[0]);
}

// first_bytes is the first four bytes of each of 16 rows.
INLINE ints first_bytes(const char * p, size_t stride) {
    ints v = _mm512_castsi128_si512(first_4(p, stride));
    v = _mm512_inserti32x4(v, first_4(p + 4 * stride, stride), 1);
    v = _mm512_inserti32x4(v, first_4(p + 8 * stride, stride), 2);
    return _mm512_inserti32x4(v, first_4(p + 12 * stride, stride), 3);
}

// A dot product multiplies unsigned weights by signed activations, so weights have an offset added. The offset of the
// activations' block corrects for it.
template <int C>
INLINE void add_block(const ints (&w)[block_vectors], const block * const (&x)[C], int64_t b, ints (&sum)[C]) {
    UNROLL for (int c = 0; c < C; c++) {
        sum[c] = _mm512_set1_epi32(x[c][b].offset);
    }
    UNROLL for (int i = 0; i < block_vectors; i++) {
        UNROLL for (int c = 0; c < C; c++) {
            int32_t four;
            std::memcpy(&four, x[c][b].x + 4 * i, sizeof four);
            sum[c] = _mm512_dpbusd_epi32(sum[c], w[i], _mm512_set1_epi32(four));
        }
    }
}

struct mxfp4_weights {
    static constexpr size_t bytes = mxfp4_block;
    static constexpr int32_t offset = 12;
    static INLINE void load(const char * p, size_t stride, ints (&w)[block_vectors]) {
        const ints table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) e2m1)), low = _mm512_set1_epi8(15);
        load_rows(p + 1, stride, w);
        UNROLL for (int i = 0; i < 4; i++) {
            w[4 + i] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(w[i], 4), low));
            w[i] = _mm512_shuffle_epi8(table, _mm512_and_si512(w[i], low));
        }
    }
    static INLINE floats scales(const char * p, size_t stride) {
        const ints e = _mm512_and_si512(first_bytes(p, stride), _mm512_set1_epi32(255));
        const ints normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
        const __mmask16 small = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
        return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(smallest_scale), e));
    }
    template <int C>
    static INLINE void add(const ints (&w)[block_vectors], const block * const (&x)[C], int64_t b, ints (&sum)[C]) {
        add_block(w, x, b, sum);
    }
};

struct q8_0_weights {
    static constexpr size_t bytes = q8_0_block;
    static constexpr int32_t offset = 128;
    static INLINE void load(const char * p, size_t stride, ints (&w)[block_vectors]) {
        load_rows(p + 2, stride, w);
        load_rows(p + 18, stride, w + 4);
        UNROLL for (int i = 0; i < block_vectors; i++) {
            w[i] = _mm512_xor_si512(w[i], _mm512_set1_epi8((char) 0x80));
        }
    }
    static INLINE floats scales(const char * p, size_t stride) {
        return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(first_bytes(p, stride)));
    }
    template <int C>
    static INLINE void add(const ints (&w)[block_vectors], const block * const (&x)[C], int64_t b, ints (&sum)[C]) {
        add_block(w, x, b, sum);
    }
};

bool supported() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
}

} // namespace

} // namespace kernels

#include "kernels_simd.h"

const kernels::set kernels::avx512 = {"AVX-512 VNNI", supported, quantize, multiply_floats, multiply_quantized,
    add, scale, gate, swiglu, softmax, normalize, rotate, attend};

#endif
