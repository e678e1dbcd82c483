// The arithmetic of kernels.h with AVX-512 and its 8-bit dot products (VNNI).

#include "kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

// The binary runs everywhere; only what stands in this file may use these instructions, after supported() said so.
#define KERNEL __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,f16c,fma")))
#define INLINE KERNEL inline __attribute__((always_inline))

namespace kernels {

namespace {

// The values of a 4-bit float (OCP Microscaling Formats 1.0, E2M1) twice as large, plus 12, so that none is negative.
const uint8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// An MXFP4 block is an exponent and 32 values of four bits, the first half in the low ones; a Q8_0 block a half float and 32
// signed bytes.
constexpr size_t mxfp4_block = 17, q8_0_block = 34;

// offset_of is what the unsigned form of a format's weights adds to each.
constexpr int32_t offset_of(enum rows::format f) { return f == rows::mxfp4 ? 12 : 128; }

// scales is what an exponent e of a block stands for, halved because its values are twice as large: two to the power of e-128.
struct scale_table {
    float of[256];
    scale_table() {
        for (int e = 0; e < 256; e++) {
            of[e] = std::ldexp(1.0f, e - 128);
        }
    }
};
const scale_table scales;

INLINE float half(const char * p) {
    uint16_t h;
    std::memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

INLINE __m512 halves(const char * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }

// sums returns the sum of the lanes of each of 16 vectors, added in the same order for each. What is known to be zero costs nothing.
INLINE __m512 sums(const __m512 * v) {
    __m512 quads[4];
    for (int i = 0; i < 4; i++, v += 4) {
        const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
        const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
        const __m512d lo = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
        const __m512d hi = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
        quads[i] = _mm512_add_ps(_mm512_castpd_ps(lo), _mm512_castpd_ps(hi));
    }
    const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(quads[0], quads[1], 0x88), _mm512_shuffle_f32x4(quads[0], quads[1], 0xdd));
    const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(quads[2], quads[3], 0x88), _mm512_shuffle_f32x4(quads[2], quads[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

// put writes the products of R rows with C columns, from their accumulators, column by column.
template <int R, int C> INLINE void put(const __m512 (&acc)[C][R], int64_t row, float * const * out) {
    __m512 v[16];
    for (int i = 0; i < 16; i++) {
        v[i] = i < R * C ? acc[i / R % C][i % R] : _mm512_setzero_ps();
    }
    alignas(64) float all[16];
    _mm512_store_ps(all, sums(v));
    for (int c = 0; c < C; c++) {
        std::memcpy(out[c] + row, all + c * R, R * sizeof(float));
    }
}

// fraction is two to the power of r for r from -1/2 to 1/2, within 2 units in the last place: Taylor's polynomial.
INLINE __m512 fraction(__m512 r) {
    __m512 p = _mm512_set1_ps(1.54035304e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.33335581e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.61812911e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.55041087e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.40226507e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.93147181e-1f));
    return _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
}

INLINE __m512 rounded(__m512 x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

constexpr float log2_e = 1.44269504f;

// exponential is e to the power of x, for x from -80 to 80 and at those for what lies beyond.
INLINE __m512 exponential(__m512 x) {
    x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-80)), _mm512_set1_ps(80));
    const __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(log2_e)), n = rounded(t);
    return _mm512_scalef_ps(fraction(_mm512_sub_ps(t, n)), n);
}

// The formats of weights: what is read of a row at once.

struct f32_weights {
    static INLINE __m512 load(const char * row, int64_t i) { return _mm512_loadu_ps(row + i * 4); }
};

struct f16_weights {
    static INLINE __m512 load(const char * row, int64_t i) { return halves(row + i * 2); }
};

// both is a for the first 32 activations of a pair and b for the others.
INLINE __m512 both(const float & a, const float & b) { return _mm512_mask_broadcastss_ps(_mm512_set1_ps(a), 0xff00, _mm_load_ss(&b)); }

struct mxfp4_weights {
    static constexpr size_t bytes = 2 * mxfp4_block; // of a pair
    // load reads pair i; only its first block when one is all that is left.
    static INLINE void load(const char * row, int64_t i, bool two, __m512i & w, __m512 & scale) {
        const char * a = row + i * bytes;
        const char * b = two ? a + mxfp4_block : a;
        const __m256i bits = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) (a + 1))),
                                                     _mm_loadu_si128((const __m128i *) (b + 1)), 1);
        const __m256i low = _mm256_set1_epi8(15);
        const __m512i index = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_and_si256(bits, low)),
                                                 _mm256_and_si256(_mm256_srli_epi16(bits, 4), low), 1);
        const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) e2m1));
        w = _mm512_shuffle_epi8(table, _mm512_shuffle_i64x2(index, index, 0xd8));
        scale = both(scales.of[(uint8_t) a[0]], scales.of[(uint8_t) b[0]]);
    }
};

struct q8_0_weights {
    static constexpr size_t bytes = 2 * q8_0_block;
    static INLINE void load(const char * row, int64_t i, bool two, __m512i & w, __m512 & scale) {
        const char * a = row + i * bytes;
        const char * b = two ? a + q8_0_block : a;
        const __m512i x = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *) (a + 2))),
                                             _mm256_loadu_si256((const __m256i *) (b + 2)), 1);
        w = _mm512_xor_si512(x, _mm512_set1_epi8((char) 0x80));
        scale = both(half(a), half(b));
    }
};

// in_register keeps the compiler from reading a value from memory again for every use: that is what limits a tile.
template <typename T> INLINE void in_register(T & v) { __asm__("" : "+v"(v)); }

// A tile is R rows by C columns, kept in registers. Each product has an accumulator of its own, so its value does not depend on
// the tile that it falls into.

template <typename W, int R, int C>
INLINE void float_tile(const rows & w, int64_t row, const float * const * columns, float * const * out) {
    __m512 acc[C][R];
    for (int c = 0; c < C; c++) {
        for (int r = 0; r < R; r++) {
            acc[c][r] = _mm512_setzero_ps();
        }
    }
    const char * base = w.data + row * w.stride;
    for (int64_t i = 0; i < w.n; i += 16) {
        __m512 x[C];
        for (int c = 0; c < C; c++) {
            x[c] = _mm512_loadu_ps(columns[c] + i);
            in_register(x[c]);
        }
        for (int r = 0; r < R; r++) {
            const __m512 v = W::load(base + r * w.stride, i);
            for (int c = 0; c < C; c++) {
                acc[c][r] = _mm512_fmadd_ps(v, x[c], acc[c][r]);
            }
        }
    }
    put<R, C>(acc, row, out);
}

template <typename W, int R, int C>
INLINE void quantized_tile(const rows & w, int64_t row, const pair * const * columns, float * const * out) {
    __m512 acc[C][R];
    for (int c = 0; c < C; c++) {
        for (int r = 0; r < R; r++) {
            acc[c][r] = _mm512_setzero_ps();
        }
    }
    const char * base = w.data + row * w.stride;
    for (int64_t i = 0; i < pairs_of(w.n); i++) {
        const bool two = i * 64 + 32 < w.n;
        __m512i v[R];
        __m512 by[R];
        for (int r = 0; r < R; r++) {
            W::load(base + r * w.stride, i, two, v[r], by[r]);
            if (C <= 2) { // few columns: weights come from memory as fast as they are used
                _mm_prefetch(base + (R + r) * w.stride + i * W::bytes, _MM_HINT_T0);
            }
        }
        for (int c = 0; c < C; c++) {
            __m512i x = _mm512_load_si512(columns[c][i].x), offset = _mm512_load_si512(columns[c][i].offset);
            __m512 scale = _mm512_load_ps(columns[c][i].scale);
            in_register(x);
            in_register(offset);
            in_register(scale);
            for (int r = 0; r < R; r++) {
                const __m512i dot = _mm512_dpbusd_epi32(offset, v[r], x);
                acc[c][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(by[r], scale), acc[c][r]);
            }
        }
    }
    put<R, C>(acc, row, out);
}

// strip does all rows for C columns, R rows at a time.
template <typename W, int R, int C>
KERNEL void float_strip(const rows & w, int64_t first, int64_t last, const float * const * columns, float * const * out) {
    for (; first + R <= last; first += R) {
        float_tile<W, R, C>(w, first, columns, out);
    }
    for (; first < last; first++) {
        float_tile<W, 1, C>(w, first, columns, out);
    }
}

template <typename W, int R, int C>
KERNEL void quantized_strip(const rows & w, int64_t first, int64_t last, const pair * const * columns, float * const * out) {
    for (; first + R <= last; first += R) {
        quantized_tile<W, R, C>(w, first, columns, out);
    }
    for (; first < last; first++) {
        quantized_tile<W, 1, C>(w, first, columns, out);
    }
}

// A block of rows that stays in the cache while all columns pass over it.
constexpr int64_t row_block = 32;

template <typename W>
KERNEL void floats(const rows & w, int64_t first, int64_t last, const float * const * columns, float * const * out, int64_t count) {
    for (int64_t r = first; r < last; r += row_block) {
        const int64_t end = std::min(r + row_block, last);
        int64_t c = 0;
        for (; c + 4 <= count; c += 4) {
            float_strip<W, 4, 4>(w, r, end, columns + c, out + c);
        }
        for (; c + 2 <= count; c += 2) {
            float_strip<W, 8, 2>(w, r, end, columns + c, out + c);
        }
        for (; c < count; c++) {
            float_strip<W, 8, 1>(w, r, end, columns + c, out + c);
        }
    }
}

template <typename W>
KERNEL void quantized(const rows & w, int64_t first, int64_t last, const pair * const * columns, float * const * out, int64_t count) {
    for (int64_t r = first; r < last; r += row_block) {
        const int64_t end = std::min(r + row_block, last);
        int64_t c = 0;
        for (; c + 8 <= count; c += 8) {
            quantized_strip<W, 2, 8>(w, r, end, columns + c, out + c);
        }
        for (; c + 4 <= count; c += 4) {
            quantized_strip<W, 4, 4>(w, r, end, columns + c, out + c);
        }
        for (; c + 2 <= count; c += 2) {
            quantized_strip<W, 8, 2>(w, r, end, columns + c, out + c);
        }
        for (; c < count; c++) {
            quantized_strip<W, 8, 1>(w, r, end, columns + c, out + c);
        }
    }
}

// Attention goes over the open cells in blocks with a running maximum and sum (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018). How the cache is laid out does not show in the result: closed cells are left out before
// anything else is done, and the order of the others does not matter, because a cell's weight is a fraction of its score alone times
// a power of two, the maximum is one too, so that rescaling is exact, and sums have the precision of doubles.

constexpr int block = 64;

struct head_state {
    alignas(64) double out[max_group][max_size];
    alignas(64) double weights[max_group][block];
    alignas(64) float scores[max_group][block];
    __m512  products[max_group][16]; // of 16 cells
    __m512d total[max_group];
    float   most[max_group]; // the exponent of the largest weight
    int32_t cell[block + 16]; // the gathering writes whole vectors
    float   bias[block + 16];
};

INLINE __m512d lower(__m512 v) { return _mm512_cvtps_pd(_mm512_castps512_ps256(v)); }
INLINE __m512d upper(__m512 v) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)); }

// products multiplies the queries of G heads, from h on, with 16 keys.
template <int G> INLINE void products(const attention & a, const char * q, const char * k, head_state & st, int h, const int32_t * cell) {
    for (int j = 0; j < 16; j++) {
        const char * key = k + cell[j] * a.k_cell;
        __m512 acc[G];
        for (int g = 0; g < G; g++) {
            acc[g] = _mm512_setzero_ps();
        }
        for (int64_t i = 0; i < a.size; i += 16) {
            const __m512 x = halves(key + i * 2);
            for (int g = 0; g < G; g++) {
                acc[g] = _mm512_fmadd_ps(x, _mm512_loadu_ps(q + g * a.q_head + i * 4), acc[g]);
            }
        }
        for (int g = 0; g < G; g++) {
            st.products[h + g][j] = acc[g];
        }
    }
}

// blend adds n values, each times its weight, to the results of G heads from h on.
template <int G> INLINE void blend(const attention & a, const char * v, head_state & st, int h, int n) {
    for (int64_t i = 0; i < a.size; i += 16) {
        __m512d lo[G], hi[G];
        for (int g = 0; g < G; g++) {
            lo[g] = _mm512_load_pd(st.out[h + g] + i);
            hi[g] = _mm512_load_pd(st.out[h + g] + i + 8);
        }
        for (int j = 0; j < n; j++) {
            const __m512 value = halves(v + st.cell[j] * a.v_cell + i * 2);
            const __m512d x = lower(value), y = upper(value);
            for (int g = 0; g < G; g++) {
                const __m512d w = _mm512_set1_pd(st.weights[h + g][j]);
                lo[g] = _mm512_fmadd_pd(w, x, lo[g]);
                hi[g] = _mm512_fmadd_pd(w, y, hi[g]);
            }
        }
        for (int g = 0; g < G; g++) {
            _mm512_store_pd(st.out[h + g] + i, lo[g]);
            _mm512_store_pd(st.out[h + g] + i + 8, hi[g]);
        }
    }
}

// weigh turns the scores of one head into weights and rescales what there is when the largest grew.
INLINE void weigh(const attention & a, head_state & st, int h, int n) {
    const __m512 rate = _mm512_set1_ps(a.scale * log2_e), none = _mm512_set1_ps(-INFINITY);
    __m512 most = none;
    for (int j = 0; j < n; j += 16) {
        const __m512 bias = _mm512_mul_ps(_mm512_loadu_ps(st.bias + j), _mm512_set1_ps(log2_e));
        const __m512 t = _mm512_fmadd_ps(_mm512_load_ps(st.scores[h] + j), rate, bias);
        _mm512_store_ps(st.scores[h] + j, t);
        most = _mm512_max_ps(most, rounded(t));
    }
    const float m = std::max(st.most[h], _mm512_reduce_max_ps(most));
    if (m > st.most[h]) {
        const __m512d down = _mm512_set1_pd(st.most[h] - m);
        st.total[h] = _mm512_scalef_pd(st.total[h], down);
        for (int64_t i = 0; i < a.size; i += 8) {
            _mm512_store_pd(st.out[h] + i, _mm512_scalef_pd(_mm512_load_pd(st.out[h] + i), down));
        }
        st.most[h] = m;
    }
    for (int j = 0; j < n; j += 16) {
        const __m512 t = _mm512_load_ps(st.scores[h] + j), exponent = rounded(t);
        const __mmask16 open = _mm512_cmp_ps_mask(t, none, _CMP_NEQ_UQ);
        const __m512 w = _mm512_maskz_scalef_ps(open, fraction(_mm512_sub_ps(t, exponent)), _mm512_sub_ps(exponent, _mm512_set1_ps(m)));
        _mm512_store_pd(st.weights[h] + j, lower(w));
        _mm512_store_pd(st.weights[h] + j + 8, upper(w));
        st.total[h] = _mm512_add_pd(st.total[h], _mm512_add_pd(lower(w), upper(w)));
    }
}

// take adds the n cells that were gathered.
KERNEL void take(const attention & a, const char * q, const char * k, const char * v, head_state & st, int group, int n) {
    const int padded = (n + 15) / 16 * 16;
    for (int j = n; j < padded; j++) {
        st.cell[j] = st.cell[0];
        st.bias[j] = -INFINITY;
    }
    for (int j = 0; j < padded; j += 16) {
        int h = 0;
        for (; h + 8 <= group; h += 8) {
            products<8>(a, q + h * a.q_head, k, st, h, st.cell + j);
        }
        for (; h + 2 <= group; h += 2) {
            products<2>(a, q + h * a.q_head, k, st, h, st.cell + j);
        }
        for (; h < group; h++) {
            products<1>(a, q + h * a.q_head, k, st, h, st.cell + j);
        }
        for (h = 0; h < group; h++) {
            _mm512_store_ps(st.scores[h] + j, sums(st.products[h]));
        }
    }
    for (int h = 0; h < group; h++) {
        weigh(a, st, h, padded);
    }
    int h = 0;
    for (; h + 4 <= group; h += 4) {
        blend<4>(a, v, st, h, n);
    }
    for (; h + 2 <= group; h += 2) {
        blend<2>(a, v, st, h, n);
    }
    for (; h < group; h++) {
        blend<1>(a, v, st, h, n);
    }
}

} // namespace

bool supported() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
}

KERNEL void quantize(const float * x, int64_t n, enum rows::format format, pair * out) {
    const __m512i ones = _mm512_set1_epi8(1);
    const __m512i offset = _mm512_set1_epi32(-offset_of(format));
    for (int64_t i = 0; i < n; i += 64, out++) {
        float scale[2] = {0, 0};
        std::memset(out->x, 0, sizeof out->x);
        for (int b = 0; b < 2 && i + b * 32 < n; b++) {
            const __m512 lo = _mm512_loadu_ps(x + i + b * 32), hi = _mm512_loadu_ps(x + i + b * 32 + 16);
            const float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(lo), _mm512_abs_ps(hi)));
            scale[b] = most / 127;
            const __m512 by = _mm512_set1_ps(most > 0 ? 127 / most : 0);
            _mm_storeu_si128((__m128i *) (out->x + b * 32), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(lo, by))));
            _mm_storeu_si128((__m128i *) (out->x + b * 32 + 16), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(hi, by))));
        }
        const __m512i fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_load_si512(out->x));
        _mm512_store_si512(out->offset, _mm512_mullo_epi32(fours, offset));
        _mm512_store_ps(out->scale, both(scale[0], scale[1]));
    }
}

void multiply_floats(const rows & w, int64_t first, int64_t last, const float * const * columns, float * const * out, int64_t count) {
    (w.format == rows::f32 ? floats<f32_weights> : floats<f16_weights>)(w, first, last, columns, out, count);
}

void multiply_quantized(const rows & w, int64_t first, int64_t last, const pair * const * columns, float * const * out, int64_t count) {
    (w.format == rows::mxfp4 ? quantized<mxfp4_weights> : quantized<q8_0_weights>)(w, first, last, columns, out, count);
}

KERNEL void scale(const float * x, float factor, int64_t n, float * out) {
    const __m512 f = _mm512_set1_ps(factor);
    for (int64_t i = 0; i < n; i += 16) {
        _mm512_storeu_ps(out + i, _mm512_mul_ps(_mm512_loadu_ps(x + i), f));
    }
}

KERNEL void gate(const float * x, const float * y, float alpha, float limit, int64_t n, float * out) {
    const __m512 one = _mm512_set1_ps(1), most = _mm512_set1_ps(limit), least = _mm512_set1_ps(-limit), rate = _mm512_set1_ps(-alpha);
    for (int64_t i = 0; i < n; i += 16) {
        const __m512 a = _mm512_min_ps(_mm512_loadu_ps(x + i), most);
        const __m512 b = _mm512_max_ps(_mm512_min_ps(_mm512_loadu_ps(y + i), most), least);
        const __m512 open = _mm512_div_ps(a, _mm512_add_ps(one, exponential(_mm512_mul_ps(a, rate))));
        _mm512_storeu_ps(out + i, _mm512_mul_ps(open, _mm512_add_ps(b, one)));
    }
}

KERNEL void attend(const attention & a, int64_t token, int64_t s) {
    const int group = (int) (a.heads / a.shared);
    const char * q = a.q + token * a.q_token + s * group * a.q_head;
    const char * k = a.k + s * a.k_head;
    const char * v = a.v + s * a.v_head;
    const char * mask = a.mask + token * a.mask_token;
    head_state st;
    for (int h = 0; h < group; h++) {
        std::memset(st.out[h], 0, a.size * sizeof(double));
        st.total[h] = _mm512_setzero_pd();
        st.most[h] = -INFINITY;
    }
    int n = 0;
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (int64_t c = 0; c < a.cells; c += 16) {
        const __mmask16 there = a.cells - c < 16 ? (__mmask16) ((1u << (a.cells - c)) - 1) : (__mmask16) 0xffff;
        const __m512 bias = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, mask + c * 2));
        __mmask16 open = _mm512_mask_cmp_ps_mask(there, bias, _mm512_set1_ps(-INFINITY), _CMP_NEQ_UQ);
        const int more = __builtin_popcount(open);
        if (more == 0) {
            continue;
        }
        if (n + more > block) {
            take(a, q, k, v, st, group, n);
            n = 0;
        }
        _mm512_storeu_si512(st.cell + n, _mm512_maskz_compress_epi32(open, _mm512_add_epi32(lanes, _mm512_set1_epi32((int32_t) c))));
        _mm512_storeu_ps(st.bias + n, _mm512_maskz_compress_ps(open, bias));
        n += more;
    }
    if (n > 0) {
        take(a, q, k, v, st, group, n);
    }
    for (int h = 0; h < group; h++) {
        double total = 0;
        for (int i = 0; i < 8; i++) {
            total += st.total[h][i];
        }
        if (a.sinks) {
            total += st.most[h] == -INFINITY ? 1 : std::exp2((double) a.sinks[s * group + h] * log2_e - st.most[h]);
        }
        const __m512d by = _mm512_set1_pd(total > 0 ? 1 / total : 0);
        float * out = a.out + (token * a.heads + s * group + h) * a.size;
        for (int64_t i = 0; i < a.size; i += 8) {
            _mm256_storeu_ps(out + i, _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_load_pd(st.out[h] + i), by)));
        }
    }
}

} // namespace kernels

#else

namespace kernels {
bool supported() { return false; }
void quantize(const float *, int64_t, enum rows::format, pair *) {}
void multiply_floats(const rows &, int64_t, int64_t, const float * const *, float * const *, int64_t) {}
void multiply_quantized(const rows &, int64_t, int64_t, const pair * const *, float * const *, int64_t) {}
void scale(const float *, float, int64_t, float *) {}
void gate(const float *, const float *, float, float, int64_t, float *) {}
void attend(const attention &, int64_t, int64_t) {}
} // namespace kernels

#endif
