// The kernels for arm64: NEON with 8-bit dot products (FEAT_DotProd), and for many columns with products of 8-bit
// matrices (FEAT_I8MM). A vector is two of the processor's, and sums have the order of avx2.cpp, so results are the
// same as there, to the bit.
//
// They are for Linux. On a Mac the engine gives large products to Apple's BLAS, which adds in another order for one
// token than for many.

#include "kernels.h"

#if defined(__aarch64__) && defined(__linux__)

#include <arm_neon.h>
#include <sys/auxv.h>

#include <cmath>
#include <cstring>

// An architecture in an attribute would be a step back from a newer one that the compiler was told of.
#if !defined(__ARM_FEATURE_DOTPROD)
#define KERNEL_TARGET "arch=armv8.2-a+dotprod"
#endif
#include "target.h"

// KERNEL_I8MM is KERNEL with products of 8-bit matrices.
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define KERNEL_I8MM
#elif defined(__ARM_FEATURE_DOTPROD)
#define KERNEL_I8MM __attribute__((target("+i8mm")))
#else
#define KERNEL_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))
#endif

#include "reading.h"

namespace kernels {

namespace {

constexpr int lanes = 8;
constexpr int few_queries = 2;
using floats = floats8;
using ints = ints8;

struct doubles {
    float64x2_t lo, hi;
    INLINE double operator[](int i) const { return (i < 2 ? lo : hi)[i % 2]; }
};

INLINE doubles operator+(doubles a, doubles b) { return {vaddq_f64(a.lo, b.lo), vaddq_f64(a.hi, b.hi)}; }
INLINE doubles operator-(doubles a, doubles b) { return {vsubq_f64(a.lo, b.lo), vsubq_f64(a.hi, b.hi)}; }
INLINE doubles operator*(doubles a, doubles b) { return {vmulq_f64(a.lo, b.lo), vmulq_f64(a.hi, b.hi)}; }

INLINE floats  load(const float * p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
INLINE doubles load(const double * p) { return {vld1q_f64(p), vld1q_f64(p + 2)}; }
INLINE void    store(float * p, floats v) {
    vst1q_f32(p, v.lo);
    vst1q_f32(p + 4, v.hi);
}
INLINE void store(double * p, doubles v) {
    vst1q_f64(p, v.lo);
    vst1q_f64(p + 2, v.hi);
}
INLINE floats  all(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
INLINE doubles all(double x) { return {vdupq_n_f64(x), vdupq_n_f64(x)}; }
INLINE float32x4_t added_bits(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
}
INLINE float32x4_t subtracted_bits(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_s32(vsubq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
}
INLINE floats  added_bits(floats a, floats b) { return {added_bits(a.lo, b.lo), added_bits(a.hi, b.hi)}; }
INLINE floats  subtracted_bits(floats a, floats b) {
    return {subtracted_bits(a.lo, b.lo), subtracted_bits(a.hi, b.hi)};
}
INLINE floats  to_floats(ints v) { return converted(v); }
INLINE floats  halves(const char * p) { return widened(vreinterpretq_u16_s32(load_row(p))); }
INLINE floats  upper_halves(const char * p) {
    const uint16x8_t v = vreinterpretq_u16_s32(load_row(p));
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(v), 16)),
        vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(v), 16))};
}
INLINE doubles widened(float32x4_t v) { return {vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v)}; }
INLINE doubles lower(floats v) { return widened(v.lo); }
INLINE doubles upper(floats v) { return widened(v.hi); }
INLINE doubles wide(const float * p) { return widened(vld1q_f32(p)); }
INLINE doubles wide_halves(const char * p) {
    float16x4_t v;
    std::memcpy(&v, p, sizeof v);
    return widened(vcvt_f32_f16(v));
}
INLINE void    narrow(float * p, doubles v) { vst1q_f32(p, vcvt_high_f32_f64(vcvt_f32_f64(v.lo), v.hi)); }
INLINE floats  fused(floats a, floats b, floats c) {
    return {vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}
INLINE doubles fused(doubles a, doubles b, doubles c) {
    return {vfmaq_f64(c.lo, a.lo, b.lo), vfmaq_f64(c.hi, a.hi, b.hi)};
}
INLINE float32x4_t lesser(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
INLINE float32x4_t greater(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
INLINE floats      lesser(floats a, floats b) { return {lesser(a.lo, b.lo), lesser(a.hi, b.hi)}; }
INLINE floats      greater(floats a, floats b) { return {greater(a.lo, b.lo), greater(a.hi, b.hi)}; }
INLINE floats      magnitude(floats v) { return {vabsq_f32(v.lo), vabsq_f32(v.hi)}; }
INLINE floats      rounded(floats v) { return {vrndnq_f32(v.lo), vrndnq_f32(v.hi)}; }
INLINE float32x4_t opened(float32x4_t t, float32x4_t w) {
    const uint32x4_t closed = vceqq_f32(t, vdupq_n_f32(-INFINITY));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(w), closed));
}
INLINE floats opened(floats t, floats w) { return {opened(t.lo, w.lo), opened(t.hi, w.hi)}; }

INLINE float largest(floats v) {
    float32x4_t m = greater(v.lo, v.hi);
    m = greater(m, vextq_f32(m, m, 2));
    return vgetq_lane_f32(greater(m, vdupq_laneq_f32(m, 1)), 0);
}

// The bits of the exponent form the power. The bits for -127 are those of zero.
INLINE float32x4_t times_power(float32x4_t x, float32x4_t n) {
    const int32x4_t exponent = vcvtnq_s32_f32(greater(n, vdupq_n_f32(-127.0f)));
    return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(exponent, vdupq_n_s32(127)), 23)));
}
INLINE floats times_power(floats x, floats n) { return {times_power(x.lo, n.lo), times_power(x.hi, n.hi)}; }

INLINE void round_bytes(int8_t * p, floats v) {
    const int16x8_t words = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(v.lo)), vqmovn_s32(vcvtnq_s32_f32(v.hi)));
    vst1_s8(p, vqmovn_s16(words));
}

// sums4 is the sum of each of four vectors' halves.
INLINE float32x4_t sums4(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) {
    const float32x4_t ab = vaddq_f32(vzip1q_f32(a, b), vzip2q_f32(a, b));
    const float32x4_t cd = vaddq_f32(vzip1q_f32(c, d), vzip2q_f32(c, d));
    const float64x2_t ab2 = vreinterpretq_f64_f32(ab), cd2 = vreinterpretq_f64_f32(cd);
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(ab2, cd2)), vreinterpretq_f32_f64(vzip2q_f64(ab2, cd2)));
}

INLINE floats fours(const floats * v) {
    return {sums4(v[0].lo, v[1].lo, v[2].lo, v[3].lo), sums4(v[0].hi, v[1].hi, v[2].hi, v[3].hi)};
}

INLINE floats joined(const floats * v) { return {vaddq_f32(v[0].lo, v[0].hi), vaddq_f32(v[1].lo, v[1].hi)}; }

INLINE bool all_closed(const char * mask) {
    const uint16_t * cells = (const uint16_t *) mask;
    const uint16x8_t none = vdupq_n_u16(closed);
    return vminvq_u16(vandq_u16(vceqq_u16(vld1q_u16(cells), none), vceqq_u16(vld1q_u16(cells + 8), none))) != 0;
}

INLINE unsigned open_cells(const char * mask, int64_t left, floats & bias) {
    char some[16] = {};
    if (left < lanes) {
        std::memcpy(some, mask, left * 2);
        mask = some;
    }
    bias = halves(mask);
    const unsigned there = left < lanes ? (1u << left) - 1 : 0xff;
    const uint16_t bits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const float32x4_t least = vdupq_n_f32(-INFINITY);
    const uint16x8_t closed = vcombine_u16(vmovn_u32(vceqq_f32(bias.lo, least)), vmovn_u32(vceqq_f32(bias.hi, least)));
    return vaddvq_u16(vbicq_u16(vld1q_u16(bits), closed)) & there;
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

INLINE void transpose(const char * const * cells, float * out) {
    for (int q = 0; q < 4; q++, out += 8 * lanes) {
        uint16x8_t words[lanes];
        uint32x4_t pairs[lanes];
        for (int i = 0; i < lanes; i++) {
            words[i] = vreinterpretq_u16_s32(load_row(cells[i] + q * 16));
        }
        for (int i = 0; i < lanes; i += 2) {
            pairs[i] = vreinterpretq_u32_u16(vzip1q_u16(words[i], words[i + 1]));
            pairs[i + 1] = vreinterpretq_u32_u16(vzip2q_u16(words[i], words[i + 1]));
        }
        uint64x2_t fours[lanes];
        for (int i = 0; i < lanes; i += 4) {
            fours[i] = vreinterpretq_u64_u32(vzip1q_u32(pairs[i], pairs[i + 2]));
            fours[i + 1] = vreinterpretq_u64_u32(vzip2q_u32(pairs[i], pairs[i + 2]));
            fours[i + 2] = vreinterpretq_u64_u32(vzip1q_u32(pairs[i + 1], pairs[i + 3]));
            fours[i + 3] = vreinterpretq_u64_u32(vzip2q_u32(pairs[i + 1], pairs[i + 3]));
        }
        for (int i = 0; i < 4; i++) {
            store(out + 2 * i * lanes, widened(vreinterpretq_u16_u64(vzip1q_u64(fours[i], fours[i + 4]))));
            store(out + (2 * i + 1) * lanes, widened(vreinterpretq_u16_u64(vzip2q_u64(fours[i], fours[i + 4]))));
        }
    }
}

INLINE floats largest_halves(const char * const * cells, int64_t n) {
    uint16x8_t a[lanes];
    for (int i = 0; i < lanes; i++) {
        a[i] = vdupq_n_u16(0);
        for (int64_t at = 0; at < n; at += 8) {
            const uint16x8_t v = vreinterpretq_u16_s32(load_row(cells[i] + at * 2));
            a[i] = vmaxq_u16(a[i], vandq_u16(v, vdupq_n_u16(0x7fff)));
        }
    }
    for (int left = lanes / 2; left > 0; left /= 2) {
        for (int i = 0; i < left; i++) {
            a[i] = vpmaxq_u16(a[2 * i], a[2 * i + 1]);
        }
    }
    return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(a[0]))), vcvtq_f32_u32(vmovl_high_u16(a[0]))};
}

INLINE int32_t sum_bytes(const int8_t * p) { return vaddlvq_s8(vld1q_s8(p)); }

template <typename F> INLINE F every(float x) { return all(x); }

constexpr int width = 4;

// dot adds the products of four weights of each row with four of 16 activations.
#define DOT(sum, w, x, four)                                         \
    do {                                                             \
        (sum).lo = vdotq_laneq_s32((sum).lo, bytes((w).lo), x, four); \
        (sum).hi = vdotq_laneq_s32((sum).hi, bytes((w).hi), x, four); \
    } while (0)

// products_of multiplies weights to which an offset was added, so that they need no operation to become signed. The
// offset of the activations' block corrects for it.
template <int offset_, int sums_ = 1, bool minimum_ = false> struct products_of {
    static constexpr int32_t offset = offset_;
    static constexpr int     sums = sums_;
    static constexpr bool    minimum = minimum_;
    static constexpr int     blocks = 1;

    template <int C>
    static INLINE void add(const ints (&w)[block_vectors], const block * const (&x)[C], int64_t b,
        ints (&sum)[C][sums]) {
        UNROLL for (int c = 0; c < C; c++) {
            UNROLL for (int i = 0; i < sums; i++) {
                const int32x4_t v = vdupq_n_s32(offset != 0 ? x[c][b].offset[i] : 0);
                sum[c][i] = {v, v};
            }
        }
        UNROLL for (int h = 0; h < 2; h++) {
            UNROLL for (int c = 0; c < C; c++) {
                const int8x16_t some = vld1q_s8(x[c][b].x + 16 * h);
                ints & to = sum[c][h * (sums - 1)];
                DOT(to, w[4 * h], some, 0);
                DOT(to, w[4 * h + 1], some, 1);
                DOT(to, w[4 * h + 2], some, 2);
                DOT(to, w[4 * h + 3], some, 3);
            }
        }
    }
};

#undef DOT

struct mxfp4_weights : mxfp4_blocks, products_of<12> {};
struct q4_0_weights : q4_0_blocks, products_of<8> {};
struct q4_k_weights : q4_k_blocks, products_of<0, 1, true> {};
struct q5_k_weights : q5_k_blocks, products_of<0, 1, true> {};
struct q6_k_weights : q6_k_blocks, products_of<32, 2> {};
struct q8_0_weights : q8_0_blocks, products_of<0> {};
struct iq4_nl_weights : iq4_nl_blocks<0>, products_of<0> {};
struct iq4_xs_weights : iq4_xs_blocks<0>, products_of<0> {};

} // namespace

} // namespace kernels

#include "simd.h"

namespace kernels {

namespace {

// Products of matrices: an instruction multiplies eight weights of two rows with eight activations of two columns. The
// four sums of a vector are those of the first row with both columns, then those of the second.

// pair_block is a block of eight rows, taken apart once for many columns: w has eight weights of two rows in a vector.
template <typename W> struct alignas(64) pair_block {
    int8x16_t   w[4][4]; // for each two rows, their weights by eights
    float32x4_t factor[W::factors][4]; // for each two rows, each row's twice
};

// fill_pairs takes eight rows apart.
template <typename W> KERNEL void fill_pairs(const weight_reader<W> & reader, int64_t blocks, pair_block<W> * panel) {
    reader.each(blocks, [&](int64_t, const ints8 (&w)[block_vectors], const floats8 * factor) INLINED {
        UNROLL for (int k = 0; k < 4; k++) {
            const ints8 a = w[2 * k], b = w[2 * k + 1];
            panel->w[0][k] = bytes(vzip1q_s32(a.lo, b.lo));
            panel->w[1][k] = bytes(vzip2q_s32(a.lo, b.lo));
            panel->w[2][k] = bytes(vzip1q_s32(a.hi, b.hi));
            panel->w[3][k] = bytes(vzip2q_s32(a.hi, b.hi));
        }
        UNROLL for (int i = 0; i < W::factors; i++) {
            const floats8 f = factor[i];
            panel->factor[i][0] = vzip1q_f32(f.lo, f.lo);
            panel->factor[i][1] = vzip2q_f32(f.lo, f.lo);
            panel->factor[i][2] = vzip1q_f32(f.hi, f.hi);
            panel->factor[i][3] = vzip2q_f32(f.hi, f.hi);
        }
        panel++;
    });
}

// both is a value of each of two columns, for two rows.
INLINE float32x4_t both(float a, float b) {
    const float32x2_t v = vset_lane_f32(b, vdup_n_f32(a), 1);
    return vcombine_f32(v, v);
}
INLINE int32x4_t both(int32_t a, int32_t b) {
    const int32x2_t v = vset_lane_s32(b, vdup_n_s32(a), 1);
    return vcombine_s32(v, v);
}

// put_pair writes the results of two rows, and of the second column only if there is one.
INLINE void put_pair(float32x4_t v, int64_t row, int64_t rows, float * first, float * second) {
    float each[4];
    vst1q_f32(each, v);
    for (int64_t r = 0; r < std::min<int64_t>(rows, 2); r++) {
        first[row + r] = each[2 * r];
        if (second) {
            second[row + r] = each[2 * r + 1];
        }
    }
}

// paired_tile multiplies a panel with P pairs of columns, of which the last may lack its second.
template <typename W, int P>
KERNEL_I8MM void paired_tile(const pair_block<W> * panel, int64_t blocks, group rows, const block * const * columns,
    float * const * out, int64_t count) {
    constexpr int eights = 4 / W::sums; // of a sum
    const block * x[P][2];
    float32x4_t acc[4][P];
    UNROLL for (int p = 0; p < P; p++) {
        x[p][0] = columns[2 * p];
        x[p][1] = 2 * p + 1 < count ? columns[2 * p + 1] : x[p][0];
        UNROLL for (int r = 0; r < 4; r++) {
            acc[r][p] = vdupq_n_f32(0.0f);
        }
    }
    for (int64_t i = 0; i < blocks; i++) {
        const pair_block<W> & w = panel[i];
        const int64_t b = part_of<W>(i);
        int64x2_t   y[P][4];
        float32x4_t scale[P];
        UNROLL for (int p = 0; p < P; p++) {
            const block & a = x[p][0][b], & c = x[p][1][b];
            UNROLL for (int h = 0; h < 2; h++) {
                const int64x2_t first = vreinterpretq_s64_s8(vld1q_s8(a.x + 16 * h));
                const int64x2_t second = vreinterpretq_s64_s8(vld1q_s8(c.x + 16 * h));
                y[p][2 * h] = vzip1q_s64(first, second);
                y[p][2 * h + 1] = vzip2q_s64(first, second);
            }
            scale[p] = both(a.scale, c.scale);
        }
        UNROLL for (int r = 0; r < 4; r++) {
            UNROLL for (int p = 0; p < P; p++) {
                const block & a = x[p][0][b], & c = x[p][1][b];
                UNROLL for (int s = 0; s < W::sums; s++) {
                    int32x4_t sum = W::offset != 0 ? both(a.offset[s], c.offset[s]) : vdupq_n_s32(0);
                    UNROLL for (int k = s * eights; k < (s + 1) * eights; k++) {
                        sum = vmmlaq_s32(sum, w.w[r][k], vreinterpretq_s8_s64(y[p][k]));
                    }
                    acc[r][p] = vfmaq_f32(acc[r][p], vcvtq_f32_s32(sum), vmulq_f32(w.factor[s][r], scale[p]));
                }
                if constexpr (W::minimum) {
                    acc[r][p] = vfmaq_f32(acc[r][p], w.factor[1][r], both(a.sum, c.sum));
                }
            }
        }
    }
    for (int p = 0; p < P; p++) {
        float * second = 2 * p + 1 < count ? out[2 * p + 1] : nullptr;
        for (int r = 0; r < 4; r++) {
            put_pair(acc[r][p], rows.first + 2 * r, rows.count - 2 * r, out[2 * p], second);
        }
    }
}

template <typename W>
KERNEL_I8MM void paired_products(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    static thread_local std::vector<pair_block<W>> panel;
    const int64_t blocks = w.n / 32;
    if ((int64_t) panel.size() < blocks) {
        panel.resize(blocks);
    }
    row_source<W> source(w, last);
    for (; first < last; first += 8) {
        fill_pairs(source.at(first), blocks, panel.data());
        const group rows{first, last - first};
        int64_t c = 0;
        for (; c + 2 < count; c += 4) {
            paired_tile<W, 2>(panel.data(), blocks, rows, columns + c, out + c, count - c);
        }
        if (c < count) {
            paired_tile<W, 1>(panel.data(), blocks, rows, columns + c, out + c, count - c);
        }
    }
}

void multiply_pairs(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count) {
    with_weights(w.format, [&](auto weights) {
        if (count <= width) { // each weight is used once
            quantized_products<decltype(weights)>(w, first, last, columns, out, count);
        } else {
            paired_products<decltype(weights)>(w, first, last, columns, out, count);
        }
    });
}

// Linux's bits for the instructions, as in <asm/hwcap.h>. Older headers lack some.
constexpr unsigned long dotprod_bit = 1ul << 20, i8mm_bit = 1ul << 13;

bool has_dotprod() { return getauxval(AT_HWCAP) & dotprod_bit; }
bool has_i8mm() { return has_dotprod() && (getauxval(AT_HWCAP2) & i8mm_bit); }

} // namespace

} // namespace kernels

const kernels::set kernels::neon = {"NEON DotProd", has_dotprod, blocks, quantize, multiply_floats, multiply_quantized,
    nullptr, nullptr, nullptr, nullptr, add, scale, gate, swiglu, softmax, normalize, rotate, attend};

const kernels::set kernels::neon_i8mm = {"NEON I8MM", has_i8mm, blocks, quantize, multiply_floats, multiply_pairs,
    nullptr, nullptr, nullptr, nullptr, add, scale, gate, swiglu, softmax, normalize, rotate, attend};

#endif
