// The kernels for AVX2 with fused products (FMA) and half floats (F16C). A vector is one block.

#include "kernels.h"

#if defined(__x86_64__)

#include "kernels_formats.h"

#include <cpuid.h>
#include <immintrin.h>

#include <cmath>
#include <cstring>

// The binary runs everywhere. Only this file may use these instructions, and only after supported() returned true.
#define KERNEL __attribute__((target("avx2,f16c,fma")))
#define INLINE KERNEL inline __attribute__((always_inline))

namespace kernels {

namespace {

constexpr int lanes = 8;
using floats = __m256;
using doubles = __m256d;
using ints = __m256i;

INLINE floats  load(const float * p) { return _mm256_loadu_ps(p); }
INLINE doubles load(const double * p) { return _mm256_loadu_pd(p); }
INLINE ints    load(const int8_t * p) { return _mm256_loadu_si256((const __m256i *) p); }
INLINE ints    load(const int32_t * p) { return _mm256_loadu_si256((const __m256i *) p); }
INLINE void    store(float * p, floats v) { _mm256_storeu_ps(p, v); }
INLINE void    store(double * p, doubles v) { _mm256_storeu_pd(p, v); }
INLINE floats  all(float x) { return _mm256_set1_ps(x); }
INLINE doubles all(double x) { return _mm256_set1_pd(x); }
INLINE floats  halves(const char * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
INLINE doubles wide(const char * p) { return _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *) p))); }
INLINE floats  fused(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
INLINE doubles fused(doubles a, doubles b, doubles c) { return _mm256_fmadd_pd(a, b, c); }
INLINE floats  lesser(floats a, floats b) { return _mm256_min_ps(a, b); }
INLINE floats  greater(floats a, floats b) { return _mm256_max_ps(a, b); }
INLINE floats  magnitude(floats v) { return _mm256_andnot_ps(all(-0.0f), v); }
INLINE floats  rounded(floats v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE floats  opened(floats t, floats w) { return _mm256_and_ps(_mm256_cmp_ps(t, all(-INFINITY), _CMP_NEQ_UQ), w); }
INLINE doubles lower(floats v) { return _mm256_cvtps_pd(_mm256_castps256_ps128(v)); }
INLINE doubles upper(floats v) { return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)); }
INLINE void    narrow(float * p, doubles v) { _mm_storeu_ps(p, _mm256_cvtpd_ps(v)); }

INLINE float largest(floats v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

// The bits of the exponent form the power. The bits for -127 are those of zero.
INLINE floats times_power(floats x, floats n) {
    const ints exponent = _mm256_cvtps_epi32(greater(n, all(-127.0f)));
    return x * _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
}

INLINE void round_bytes(int8_t * p, floats v) {
    const ints whole = _mm256_cvtps_epi32(v);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *) p, _mm_packs_epi16(words, words));
}

// Operations on values known to be zero cost nothing.
INLINE floats sums(const floats * v) {
    floats quads[2];
    for (int i = 0; i < 2; i++, v += 4) {
        const floats ab = _mm256_unpacklo_ps(v[0], v[1]) + _mm256_unpackhi_ps(v[0], v[1]);
        const floats cd = _mm256_unpacklo_ps(v[2], v[3]) + _mm256_unpackhi_ps(v[2], v[3]);
        const doubles lo = _mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
        const doubles hi = _mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
        quads[i] = _mm256_castpd_ps(lo) + _mm256_castpd_ps(hi);
    }
    return _mm256_permute2f128_ps(quads[0], quads[1], 0x20) + _mm256_permute2f128_ps(quads[0], quads[1], 0x31);
}

INLINE unsigned open_cells(const char * mask, int64_t left, floats & bias) {
    char some[16] = {};
    if (left < lanes) {
        std::memcpy(some, mask, left * 2);
        mask = some;
    }
    bias = halves(mask);
    const unsigned there = left < lanes ? (1u << left) - 1 : 0xff;
    return _mm256_movemask_ps(_mm256_cmp_ps(bias, all(-INFINITY), _CMP_NEQ_UQ)) & there;
}

INLINE void pack(unsigned open, floats bias, int32_t first, int32_t * cells, float * biases) {
    float each[lanes];
    store(each, bias);
    for (; open != 0; open &= open - 1) {
        const int i = __builtin_ctz(open);
        *cells++ = first + i;
        *biases++ = each[i];
    }
}

// Bytes are multiplied, unsigned by signed, and added in pairs to 16 bits. 2*255*127 would be too large.
INLINE ints fours(ints w, ints x) { return _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)); }

INLINE void offset_pair(pair & p, int32_t offset) {
    for (int i = 0; i < 64; i += 4 * lanes) {
        const ints some = fours(_mm256_set1_epi8(1), load(p.x + i));
        _mm256_storeu_si256((__m256i *) (p.offset + i / 4), _mm256_mullo_epi32(some, _mm256_set1_epi32(-offset)));
    }
}

// 12 is added to the weights, so they are at most 24, and 2*24*127 fits. The pair's offset corrects for it.
struct mxfp4_weights {
    static constexpr size_t bytes = mxfp4_block;
    static constexpr int32_t offset = 12;
    static INLINE void load(const char * row, int64_t i, int64_t, ints & w, floats & scale) {
        const char * a = row + i / 32 * bytes;
        const __m128i bits = _mm_loadu_si128((const __m128i *) (a + 1)), low = _mm_set1_epi8(15);
        const ints index = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_and_si128(bits, low)),
                                                   _mm_and_si128(_mm_srli_epi16(bits, 4), low), 1);
        w = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) e2m1)), index);
        scale = all(scales.of[(uint8_t) a[0]]);
    }
    static INLINE floats dot(ints w, ints x, ints offset) {
        return _mm256_cvtepi32_ps(_mm256_add_epi32(fours(w, x), offset));
    }
};

// The weights stay signed. Their magnitudes, at most 128, are multiplied by activations that take over their signs;
// 2*128*127 fits. This is why no activation is -128, whose sign cannot be changed.
struct q8_0_weights {
    static constexpr size_t bytes = q8_0_block;
    static constexpr int32_t offset = 0;
    static INLINE void load(const char * row, int64_t i, int64_t, ints & w, floats & scale) {
        const char * a = row + i / 32 * bytes;
        uint16_t by;
        std::memcpy(&by, a, sizeof by);
        w = _mm256_loadu_si256((const __m256i *) (a + 2));
        scale = all(_cvtsh_ss(by));
    }
    static INLINE floats dot(ints w, ints x, ints) {
        return _mm256_cvtepi32_ps(fours(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)));
    }
};

bool supported() {
    __builtin_cpu_init();
    unsigned a, b, c = 0, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           (c & bit_F16C);
}

} // namespace

} // namespace kernels

#include "kernels_simd.h"

const kernels::set kernels::avx2 = {"AVX2", supported, quantize, multiply_floats, multiply_quantized, scale, gate,
    normalize, rotate, attend};

#endif
