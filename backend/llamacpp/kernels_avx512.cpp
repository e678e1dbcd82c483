// The kernels for AVX-512 and its 8-bit dot products (VNNI). A vector is a pair of blocks.

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
INLINE ints    load(const int8_t * p) { return _mm512_loadu_si512(p); }
INLINE ints    load(const int32_t * p) { return _mm512_loadu_si512(p); }
INLINE void    store(float * p, floats v) { _mm512_storeu_ps(p, v); }
INLINE void    store(double * p, doubles v) { _mm512_storeu_pd(p, v); }
INLINE floats  all(float x) { return _mm512_set1_ps(x); }
INLINE doubles all(double x) { return _mm512_set1_pd(x); }
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

// A dot product multiplies unsigned weights by signed activations, so weights have an offset added. The pair's
// offset corrects for it.
INLINE floats offset_dot(ints w, ints x, ints offset) { return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(offset, w, x)); }

INLINE void offset_pair(pair & p, int32_t offset) {
    const ints fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), load(p.x));
    _mm512_storeu_si512(p.offset, _mm512_mullo_epi32(fours, _mm512_set1_epi32(-offset)));
}

// both is a for the first 32 activations of a pair and b for the others.
INLINE floats both(const float & a, const float & b) {
    return _mm512_mask_broadcastss_ps(all(a), 0xff00, _mm_load_ss(&b));
}

INLINE float half(const char * p) {
    uint16_t h;
    std::memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

// A last single block is read twice; the second half of the activations is zero.

struct mxfp4_weights {
    static constexpr size_t bytes = mxfp4_block;
    static constexpr int32_t offset = 12;
    static INLINE void load(const char * row, int64_t i, int64_t n, ints & w, floats & scale) {
        const char * a = row + i / 32 * bytes;
        const char * b = i + 32 < n ? a + bytes : a;
        const __m256i bits = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) (a + 1))),
                                                     _mm_loadu_si128((const __m128i *) (b + 1)), 1);
        const __m256i low = _mm256_set1_epi8(15);
        const ints index = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_and_si256(bits, low)),
                                              _mm256_and_si256(_mm256_srli_epi16(bits, 4), low), 1);
        const ints table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) e2m1));
        w = _mm512_shuffle_epi8(table, _mm512_shuffle_i64x2(index, index, 0xd8));
        scale = both(scales.of[(uint8_t) a[0]], scales.of[(uint8_t) b[0]]);
    }
    static INLINE floats dot(ints w, ints x, ints offset) { return offset_dot(w, x, offset); }
};

struct q8_0_weights {
    static constexpr size_t bytes = q8_0_block;
    static constexpr int32_t offset = 128;
    static INLINE void load(const char * row, int64_t i, int64_t n, ints & w, floats & scale) {
        const char * a = row + i / 32 * bytes;
        const char * b = i + 32 < n ? a + bytes : a;
        const ints x = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *) (a + 2))),
                                          _mm256_loadu_si256((const __m256i *) (b + 2)), 1);
        w = _mm512_xor_si512(x, _mm512_set1_epi8((char) 0x80));
        scale = both(half(a), half(b));
    }
    static INLINE floats dot(ints w, ints x, ints offset) { return offset_dot(w, x, offset); }
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
    scale, gate, normalize, rotate, attend};

#endif
