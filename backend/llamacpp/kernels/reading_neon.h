// How arm64 reads quantized weights, with NEON; see reading.h. A vector is two of the processor's.
#ifndef RUNNER_KERNELS_READING_NEON_H
#define RUNNER_KERNELS_READING_NEON_H

#include "formats.h"

#include <arm_neon.h>

#include <cstring>

namespace kernels {

namespace {

struct ints8 {
    int32x4_t lo, hi;
};

struct floats8 {
    float32x4_t lo, hi;
};

INLINE ints8 operator&(ints8 a, ints8 b) { return {vandq_s32(a.lo, b.lo), vandq_s32(a.hi, b.hi)}; }
INLINE ints8 operator|(ints8 a, ints8 b) { return {vorrq_s32(a.lo, b.lo), vorrq_s32(a.hi, b.hi)}; }
INLINE ints8 operator^(ints8 a, ints8 b) { return {veorq_s32(a.lo, b.lo), veorq_s32(a.hi, b.hi)}; }

INLINE floats8 operator+(floats8 a, floats8 b) { return {vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)}; }
INLINE floats8 operator-(floats8 a, floats8 b) { return {vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)}; }
INLINE floats8 operator*(floats8 a, floats8 b) { return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)}; }
INLINE floats8 operator/(floats8 a, floats8 b) { return {vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)}; }
INLINE floats8 operator-(floats8 v) { return {vnegq_f32(v.lo), vnegq_f32(v.hi)}; }
INLINE floats8 operator*(floats8 a, float b) { return {vmulq_n_f32(a.lo, b), vmulq_n_f32(a.hi, b)}; }
INLINE floats8 operator-(floats8 a, float b) { return a - floats8{vdupq_n_f32(b), vdupq_n_f32(b)}; }

// The arithmetic of arm64 reads registers alone.
template <typename T> INLINE void in_register(T &) {}

INLINE int8x16_t  bytes(int32x4_t v) { return vreinterpretq_s8_s32(v); }
INLINE uint8x16_t unsigned_bytes(int32x4_t v) { return vreinterpretq_u8_s32(v); }
INLINE int32x4_t  numbers(int8x16_t v) { return vreinterpretq_s32_s8(v); }
INLINE int32x4_t  numbers(uint8x16_t v) { return vreinterpretq_s32_u8(v); }

// exchange exchanges rows and columns of four times four numbers.
INLINE void exchange(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d, int32x4_t (&v)[4]) {
    const int64x2_t ab = vreinterpretq_s64_s32(vzip1q_s32(a, b)), cd = vreinterpretq_s64_s32(vzip1q_s32(c, d));
    const int64x2_t ab2 = vreinterpretq_s64_s32(vzip2q_s32(a, b)), cd2 = vreinterpretq_s64_s32(vzip2q_s32(c, d));
    v[0] = vreinterpretq_s32_s64(vzip1q_s64(ab, cd));
    v[1] = vreinterpretq_s32_s64(vzip2q_s64(ab, cd));
    v[2] = vreinterpretq_s32_s64(vzip1q_s64(ab2, cd2));
    v[3] = vreinterpretq_s32_s64(vzip2q_s64(ab2, cd2));
}

INLINE int32x4_t load_row(const char * p) { return vreinterpretq_s32_u8(vld1q_u8((const uint8_t *) p)); }

INLINE void load_rows(const char * p, const distances & rows, ints8 * v) {
    int32x4_t lo[4], hi[4];
    exchange(load_row(p + rows.of(0)), load_row(p + rows.of(1)), load_row(p + rows.of(2)), load_row(p + rows.of(3)),
        lo);
    exchange(load_row(p + rows.of(4)), load_row(p + rows.of(5)), load_row(p + rows.of(6)), load_row(p + rows.of(7)),
        hi);
    UNROLL for (int i = 0; i < 4; i++) {
        v[i] = {lo[i], hi[i]};
    }
}

INLINE ints8 bytes_of(int x) {
    const int32x4_t v = numbers(vdupq_n_s8((int8_t) x));
    return {v, v};
}

INLINE ints8 lower_nibbles(ints8 v) { return v & bytes_of(15); }
INLINE ints8 upper_nibbles(ints8 v) {
    return {numbers(vshrq_n_u8(unsigned_bytes(v.lo), 4)), numbers(vshrq_n_u8(unsigned_bytes(v.hi), 4))};
}

INLINE ints8 shifted_left(ints8 v, int bits) {
    const int8x16_t by = vdupq_n_s8((int8_t) bits);
    return {numbers(vshlq_u8(unsigned_bytes(v.lo), by)), numbers(vshlq_u8(unsigned_bytes(v.hi), by))};
}
INLINE ints8 shifted_right(ints8 v, int bits) { return shifted_left(v, -bits); }

INLINE ints8 table_of(const void * p) {
    const int32x4_t v = load_row((const char *) p);
    return {v, v};
}

INLINE void look_up(ints8 table, ints8 (&w)[block_vectors]) {
    UNROLL for (int i = 0; i < block_vectors; i++) {
        w[i].lo = numbers(vqtbl1q_s8(bytes(table.lo), unsigned_bytes(w[i].lo)));
        w[i].hi = numbers(vqtbl1q_s8(bytes(table.hi), unsigned_bytes(w[i].hi)));
    }
}

// widened converts eight half floats.
INLINE floats8 widened(uint16x8_t v) {
    const float16x8_t halves = vreinterpretq_f16_u16(v);
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_f32_f16(vget_high_f16(halves))};
}

INLINE uint16_t half(const char * p) {
    uint16_t v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

INLINE floats8 half_floats(const char * p, const distances & rows) {
    uint16x8_t v = vdupq_n_u16(half(p));
    v = vsetq_lane_u16(half(p + rows.of(1)), v, 1);
    v = vsetq_lane_u16(half(p + rows.of(2)), v, 2);
    v = vsetq_lane_u16(half(p + rows.of(3)), v, 3);
    v = vsetq_lane_u16(half(p + rows.of(4)), v, 4);
    v = vsetq_lane_u16(half(p + rows.of(5)), v, 5);
    v = vsetq_lane_u16(half(p + rows.of(6)), v, 6);
    v = vsetq_lane_u16(half(p + rows.of(7)), v, 7);
    return widened(v);
}

INLINE floats8 lower_halves(ints8 v) {
    return widened(vuzp1q_u16(vreinterpretq_u16_s32(v.lo), vreinterpretq_u16_s32(v.hi)));
}
INLINE floats8 upper_halves(ints8 v) {
    return widened(vuzp2q_u16(vreinterpretq_u16_s32(v.lo), vreinterpretq_u16_s32(v.hi)));
}

// shifted_numbers shifts to the left, or to the right for a negative number of bits.
INLINE uint32x4_t shifted_numbers(int32x4_t v, int bits) {
    return vshlq_u32(vreinterpretq_u32_s32(v), vdupq_n_s32(bits));
}

INLINE ints8 field(ints8 v, int at, int mask) {
    const int32x4_t m = vdupq_n_s32(mask);
    return ints8{vreinterpretq_s32_u32(shifted_numbers(v.lo, -at)), vreinterpretq_s32_u32(shifted_numbers(v.hi, -at))} &
           ints8{m, m};
}

INLINE ints8 signed_byte(ints8 v, int i) {
    return {vshrq_n_s32(vreinterpretq_s32_u32(shifted_numbers(v.lo, 24 - 8 * i)), 24),
        vshrq_n_s32(vreinterpretq_s32_u32(shifted_numbers(v.hi, 24 - 8 * i)), 24)};
}

INLINE floats8 converted(ints8 v) { return {vcvtq_f32_s32(v.lo), vcvtq_f32_s32(v.hi)}; }

// power_of is one of powers' halves.
INLINE float32x4_t power_of(uint16x4_t exponents) {
    const uint32x4_t e = vmovl_u16(exponents), one = vdupq_n_u32(1);
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, one), 23);
    const uint32x4_t small = vshlq_u32(vdupq_n_u32(smallest_scale), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(e, one), normal, small));
}

INLINE floats8 powers(const char * p, const distances & rows) {
    uint8x8_t e = vdup_n_u8((uint8_t) p[0]);
    e = vset_lane_u8((uint8_t) p[rows.of(1)], e, 1);
    e = vset_lane_u8((uint8_t) p[rows.of(2)], e, 2);
    e = vset_lane_u8((uint8_t) p[rows.of(3)], e, 3);
    e = vset_lane_u8((uint8_t) p[rows.of(4)], e, 4);
    e = vset_lane_u8((uint8_t) p[rows.of(5)], e, 5);
    e = vset_lane_u8((uint8_t) p[rows.of(6)], e, 6);
    e = vset_lane_u8((uint8_t) p[rows.of(7)], e, 7);
    const uint16x8_t all = vmovl_u8(e);
    return {power_of(vget_low_u16(all)), power_of(vget_high_u16(all))};
}

} // namespace

} // namespace kernels

#endif
