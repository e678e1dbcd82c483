// The kernels for AVX2 with fused products (FMA) and half floats (F16C).

#include "kernels.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include <cmath>
#include <cstring>

#define KERNEL_TARGET "avx2,f16c,fma"
#include "target.h"

#include "reading.h"

namespace kernels {

namespace {

constexpr int lanes = 8;
constexpr int few_queries = 4;
using floats = __m256;
using doubles = __m256d;
using ints = __m256i;

INLINE floats  load(const float * p) { return _mm256_loadu_ps(p); }
INLINE doubles load(const double * p) { return _mm256_loadu_pd(p); }
INLINE void    store(float * p, floats v) { _mm256_storeu_ps(p, v); }
INLINE void    store(double * p, doubles v) { _mm256_storeu_pd(p, v); }
INLINE floats  all(float x) { return _mm256_set1_ps(x); }
INLINE doubles all(double x) { return _mm256_set1_pd(x); }
INLINE floats  added_bits(floats a, floats b) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}
INLINE floats  subtracted_bits(floats a, floats b) {
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}
INLINE floats  to_floats(ints v) { return _mm256_cvtepi32_ps(v); }
INLINE floats  halves(const char * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
INLINE floats  upper_halves(const char * p) {
    const ints words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
INLINE floats  fused(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
INLINE doubles fused(doubles a, doubles b, doubles c) { return _mm256_fmadd_pd(a, b, c); }
INLINE floats  lesser(floats a, floats b) { return _mm256_min_ps(a, b); }
INLINE floats  greater(floats a, floats b) { return _mm256_max_ps(a, b); }
INLINE floats  magnitude(floats v) { return _mm256_andnot_ps(all(-0.0f), v); }
INLINE floats  rounded(floats v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE floats  opened(floats t, floats w) { return _mm256_and_ps(_mm256_cmp_ps(t, all(-INFINITY), _CMP_NEQ_UQ), w); }
INLINE doubles lower(floats v) { return _mm256_cvtps_pd(_mm256_castps256_ps128(v)); }
INLINE doubles upper(floats v) { return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)); }
INLINE doubles wide(const float * p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
INLINE doubles wide_halves(const char * p) {
    return _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *) p)));
}
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

INLINE floats fours(const floats * v) {
    const floats ab = _mm256_unpacklo_ps(v[0], v[1]) + _mm256_unpackhi_ps(v[0], v[1]);
    const floats cd = _mm256_unpacklo_ps(v[2], v[3]) + _mm256_unpackhi_ps(v[2], v[3]);
    const doubles lo = _mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
    const doubles hi = _mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
    return _mm256_castpd_ps(lo) + _mm256_castpd_ps(hi);
}

INLINE floats joined(const floats * v) {
    return _mm256_permute2f128_ps(v[0], v[1], 0x20) + _mm256_permute2f128_ps(v[0], v[1], 0x31);
}

INLINE bool all_closed(const char * mask) {
    const __m256i cells = _mm256_loadu_si256((const __m256i *) mask);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(cells, _mm256_set1_epi16((short) closed))) == -1;
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

// Squares of eight by eight are transposed within the halves of the vectors.
INLINE void transpose(const char * const * cells, float * out) {
    for (int h = 0; h < 2; h++, out += 16 * lanes) {
        ints a[lanes], b[lanes];
        UNROLL for (int i = 0; i < lanes; i++) {
            a[i] = _mm256_loadu_si256((const __m256i *) cells[i] + h);
        }
        UNROLL for (int i = 0; i < lanes; i += 2) {
            b[i] = _mm256_unpacklo_epi16(a[i], a[i + 1]);
            b[i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 1]);
        }
        UNROLL for (int i = 0; i < lanes; i += 4) {
            a[i] = _mm256_unpacklo_epi32(b[i], b[i + 2]);
            a[i + 1] = _mm256_unpackhi_epi32(b[i], b[i + 2]);
            a[i + 2] = _mm256_unpacklo_epi32(b[i + 1], b[i + 3]);
            a[i + 3] = _mm256_unpackhi_epi32(b[i + 1], b[i + 3]);
        }
        UNROLL for (int i = 0; i < 4; i++) {
            b[2 * i] = _mm256_unpacklo_epi64(a[i], a[i + 4]);
            b[2 * i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 4]);
        }
        UNROLL for (int i = 0; i < lanes; i++) {
            store(out + i * lanes, _mm256_cvtph_ps(_mm256_castsi256_si128(b[i])));
            store(out + (i + 8) * lanes, _mm256_cvtph_ps(_mm256_extracti128_si256(b[i], 1)));
        }
    }
}

INLINE floats largest_halves(const char * const * cells, int64_t n) {
    ints a[lanes];
    const ints magnitude = _mm256_set1_epi16(0x7fff);
    UNROLL for (int i = 0; i < lanes; i++) {
        a[i] = _mm256_and_si256(_mm256_loadu_si256((const __m256i *) cells[i]), magnitude);
    }
    for (int64_t at = 16; at < n; at += 16) {
        UNROLL for (int i = 0; i < lanes; i++) {
            const ints v = _mm256_loadu_si256((const __m256i *) (cells[i] + at * 2));
            a[i] = _mm256_max_epu16(a[i], _mm256_and_si256(v, magnitude));
        }
    }
    // Each step joins two vectors, until both halves of one vector have a number of every cell.
    UNROLL for (int i = 0; i < 4; i++) {
        a[i] = _mm256_max_epu16(_mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]),
            _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]));
    }
    UNROLL for (int i = 0; i < 2; i++) {
        a[i] = _mm256_max_epu16(_mm256_unpacklo_epi32(a[2 * i], a[2 * i + 1]),
            _mm256_unpackhi_epi32(a[2 * i], a[2 * i + 1]));
    }
    const ints both = _mm256_max_epu16(_mm256_unpacklo_epi64(a[0], a[1]), _mm256_unpackhi_epi64(a[0], a[1]));
    const __m128i most = _mm_max_epu16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(most));
}

// added adds 16-bit numbers in pairs.
INLINE ints added(ints v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }

INLINE int32_t sum_bytes(const int8_t * p) {
    const __m128i x = _mm_loadu_si128((const __m128i *) p);
    __m128i v = _mm_madd_epi16(_mm_maddubs_epi16(_mm_set1_epi8(1), x), _mm_set1_epi16(1));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
}

template <typename F> INLINE F every(float x) { return _mm256_set1_ps(x); }

constexpr int width = 4;

// four is four activations, for all rows.
INLINE ints four(const int8_t * p) {
    int32_t v;
    std::memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

// Bytes are multiplied, unsigned by signed, and added in pairs to 16 bits, which two products of any bytes would not
// fit.

// small_products multiplies weights of at most most, all positive because an offset was added. The offset of the
// activations' block corrects for it. As many products are added in 16 bits as fit.
template <int most, int offset_, int sums_ = 1, bool minimum_ = false> struct small_products {
    static constexpr int32_t offset = offset_;
    static constexpr int     sums = sums_;
    static constexpr bool    minimum = minimum_;
    static constexpr int     blocks = 1;

    template <int C>
    static INLINE void add(const ints (&w)[block_vectors], const block * const (&x)[C], int64_t b,
        ints (&sum)[C][sums]) {
        constexpr int together = 8 * most * 127 <= INT16_MAX ? 4 : 2;
        static_assert(together * 2 * most * 127 <= INT16_MAX);
        UNROLL for (int c = 0; c < C; c++) {
            UNROLL for (int i = 0; i < sums; i++) {
                sum[c][i] = _mm256_set1_epi32(offset != 0 ? x[c][b].offset[i] : 0);
            }
        }
        UNROLL for (int some = 0; some < block_vectors; some += together) {
            ints words[C];
            UNROLL for (int i = some; i < some + together; i++) {
                UNROLL for (int c = 0; c < C; c++) {
                    const ints two = _mm256_maddubs_epi16(w[i], four(x[c][b].x + 4 * i));
                    words[c] = i == some ? two : _mm256_add_epi16(words[c], two);
                }
            }
            UNROLL for (int c = 0; c < C; c++) {
                ints & to = sum[c][some * sums / block_vectors];
                to = _mm256_add_epi32(to, added(words[c]));
            }
        }
    }
};

// signed_products multiplies weights that stay signed. Their magnitudes, at most 128, are multiplied by activations
// that take over their signs; 2*128*127 fits. This is why no activation is -128, whose sign cannot be changed.
struct signed_products {
    static constexpr int32_t offset = 0;
    static constexpr int     sums = 1;
    static constexpr bool    minimum = false;
    static constexpr int     blocks = 1;

    template <int C>
    static INLINE void add(const ints (&w)[block_vectors], const block * const (&x)[C], int64_t b,
        ints (&sum)[C][sums]) {
        UNROLL for (int i = 0; i < block_vectors; i++) {
            const ints size = _mm256_abs_epi8(w[i]);
            UNROLL for (int c = 0; c < C; c++) {
                const ints some =
                    added(_mm256_maddubs_epi16(size, _mm256_sign_epi8(four(x[c][b].x + 4 * i), w[i])));
                sum[c][0] = i == 0 ? some : _mm256_add_epi32(sum[c][0], some);
            }
        }
    }
};

struct mxfp4_weights : mxfp4_blocks, small_products<24, 12> {};
struct q4_0_weights : q4_0_blocks, small_products<15, 8> {};
struct q4_k_weights : q4_k_blocks, small_products<15, 0, 1, true> {};
struct q5_k_weights : q5_k_blocks, small_products<31, 0, 1, true> {};
struct q6_k_weights : q6_k_blocks, small_products<63, 32, 2> {};
struct q8_0_weights : q8_0_blocks, signed_products {};
struct iq4_nl_weights : iq4_nl_blocks<0>, signed_products {};
struct iq4_xs_weights : iq4_xs_blocks<0>, signed_products {};

[[gnu::cold]] bool supported() {
    __builtin_cpu_init();
    unsigned a, b, c = 0, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           (c & bit_F16C);
}

} // namespace

} // namespace kernels

#include "simd.h"

const kernels::set kernels::avx2 = {"AVX2", supported, blocks, quantize, multiply_floats, multiply_quantized,
    nullptr, nullptr, nullptr, nullptr, add, scale, gate, swiglu, softmax, normalize, rotate, attend};

#endif
