// Reading of quantized weights: a block of each of eight rows. The files of instruction sets include it after
// target.h.
//
// Eight rows, because an x86 processor that splits vectors of 64 bytes puts these together in half the time.
//
// reading_x86.h and reading_neon.h have what differs between processors:
//
//   ints8, floats8     vectors with a number for each of eight rows; ints8 has the operators & | ^
//   load_rows          loads 16 bytes of each row; v[i] has bytes 4i to 4i+3 of every row
//   bytes_of           vectors of one byte
//   lower_nibbles, upper_nibbles  four bits of each byte
//   shifted_left, shifted_right   bytes, by less than eight bits; bits of a neighbour may come in
//   table_of, look_up  replace numbers of four bits by a table's bytes
//   half_floats        loads a half float of each row
//   lower_halves, upper_halves  the half floats in the lower and upper bits of each number
//   field              some bits of each number, as many as the mask has
//   signed_byte        the i-th byte of each number
//   converted          whole numbers as floats
//   powers             loads the exponent of an MXFP4 block of each row, as its scale
//   in_register        keeps a value in a register
#ifndef RUNNER_KERNELS_READING_H
#define RUNNER_KERNELS_READING_H

#include "formats.h"

namespace kernels {

namespace {

// A block has 32 weights: eight vectors with four of each of eight rows.
constexpr int block_vectors = 8;

// distances says how far rows are from the first. It keeps only the odd multiples of the distance of two rows, in
// registers. An address can have twice, four and eight times as much as a register.
struct distances {
    size_t odd[4];
    explicit INLINE distances(size_t stride) : odd{stride, 3 * stride, 5 * stride, 7 * stride} {}
    INLINE size_t of(int row) const {
        return row == 0 ? 0 : odd[(row >> __builtin_ctz(row)) / 2] << __builtin_ctz(row);
    }
};

} // namespace

} // namespace kernels

#if defined(__x86_64__)
#include "reading_x86.h"
#else
#include "reading_neon.h"
#endif

namespace kernels {

namespace {

// load_nibbles loads a part with four bits for each weight.
INLINE void load_nibbles(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
    load_rows(p, rows, w);
    UNROLL for (int i = 0; i < 4; i++) {
        w[4 + i] = upper_nibbles(w[i]);
        w[i] = lower_nibbles(w[i]);
    }
}

// Formats with blocks of 32.

// mxfp4_blocks has scales that are powers of two.
struct mxfp4_blocks {
    static constexpr size_t bytes = mxfp4_block;
    static constexpr int    factors = 1;
    static constexpr bool   power_scales = true;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        load_nibbles(p + 1, rows, w);
        look_up(table_of(e2m1), w);
    }

    static INLINE floats8 scale(const char * p, const distances & rows) { return powers(p, rows); }
};

// q4_0_blocks has values of which each is 8 too large.
struct q4_0_blocks {
    static constexpr size_t bytes = q4_block;
    static constexpr int    factors = 1;
    static constexpr bool   power_scales = false;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        load_nibbles(p + 2, rows, w);
    }
    static INLINE floats8 scale(const char * p, const distances & rows) { return half_floats(p, rows); }
};

// flip is added to each weight: 0, or 128.
template <int flip> struct iq4_nl_blocks {
    static constexpr size_t bytes = q4_block;
    static constexpr int    factors = 1;
    static constexpr bool   power_scales = false;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        load_nibbles(p + 2, rows, w);
        look_up(table_of(iq4) ^ bytes_of(flip), w);
    }
    static INLINE floats8 scale(const char * p, const distances & rows) { return half_floats(p, rows); }
};

struct q8_0_blocks {
    static constexpr size_t bytes = q8_0_block;
    static constexpr int    factors = 1;
    static constexpr bool   power_scales = false;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        load_rows(p + 2, rows, w);
        load_rows(p + 18, rows, w + 4);
    }
    static INLINE floats8 scale(const char * p, const distances & rows) { return half_floats(p, rows); }
};

// Formats with blocks of 256.

// read_scales_and_minimums decodes the first 16 bytes of a Q4_K or Q5_K block. Byte i of each number in scale and
// minimum belongs to part i, and then to part 4+i.
INLINE void read_scales_and_minimums(const char * p, const distances & rows, floats8 (&factor)[8][2]) {
    ints8 v[4];
    load_rows(p, rows, v);
    const ints8 six = bytes_of(63), two = bytes_of(48);
    const ints8 scale[2] = {v[1] & six, lower_nibbles(v[3]) | (shifted_right(v[1], 2) & two)};
    const ints8 minimum[2] = {v[2] & six, upper_nibbles(v[3]) | (shifted_right(v[2], 2) & two)};
    const floats8 by[2] = {lower_halves(v[0]), upper_halves(v[0])};
    UNROLL for (int i = 0; i < 8; i++) {
        factor[i][0] = converted(field(scale[i / 4], i % 4 * 8, 255)) * by[0];
        factor[i][1] = converted(field(minimum[i / 4], i % 4 * 8, 255)) * by[1];
    }
}

struct q4_k_blocks {
    static constexpr size_t bytes = q4_k_block;
    static constexpr int    factors = 2;
    static constexpr bool   power_scales = false;

    static INLINE int64_t part(int64_t i) { return i; }
    static INLINE void read_factors(const char * p, const distances & rows, floats8 (&factor)[8][factors]) {
        read_scales_and_minimums(p, rows, factor);
    }
    static INLINE void load_two(const char * p, const distances & rows, int j, ints8 (&a)[block_vectors],
        ints8 (&b)[block_vectors]) {
        load_rows(p + 16 + 32 * j, rows, a);
        load_rows(p + 32 + 32 * j, rows, a + 4);
        UNROLL for (int i = 0; i < block_vectors; i++) {
            b[i] = upper_nibbles(a[i]);
            a[i] = lower_nibbles(a[i]);
        }
    }
};

struct q5_k_blocks {
    static constexpr size_t bytes = q5_k_block;
    static constexpr int    factors = 2;
    static constexpr bool   power_scales = false;

    static INLINE int64_t part(int64_t i) { return i; }
    static INLINE void read_factors(const char * p, const distances & rows, floats8 (&factor)[8][factors]) {
        read_scales_and_minimums(p, rows, factor);
    }
    static INLINE void load_two(const char * p, const distances & rows, int j, ints8 (&a)[block_vectors],
        ints8 (&b)[block_vectors]) {
        ints8 fifth[block_vectors];
        load_rows(p + 16, rows, fifth);
        load_rows(p + 32, rows, fifth + 4);
        load_rows(p + 48 + 32 * j, rows, a);
        load_rows(p + 64 + 32 * j, rows, a + 4);
        UNROLL for (int i = 0; i < block_vectors; i++) {
            const ints8 bits = shifted_right(fifth[i], 2 * j);
            const ints8 first = shifted_left(bits, 4) & bytes_of(16);
            const ints8 second = shifted_left(bits, 3) & bytes_of(16);
            b[i] = upper_nibbles(a[i]) | second;
            a[i] = lower_nibbles(a[i]) | first;
        }
    }
};

// q6_k_blocks reads together the two parts that share bytes: 0 and 2, 1 and 3, and so on.
struct q6_k_blocks {
    static constexpr size_t bytes = q6_k_block;
    static constexpr int    factors = 2;
    static constexpr bool   power_scales = false;

    static INLINE int64_t part(int64_t i) { return (i & ~3) | (i & 1) << 1 | (i >> 1 & 1); }
    static INLINE void read_factors(const char * p, const distances & rows, floats8 (&factor)[8][factors]) {
        ints8 v[4];
        load_rows(p + 192, rows, v);
        const floats8 by = half_floats(p + 208, rows);
        UNROLL for (int i = 0; i < 8; i++) {
            UNROLL for (int k = 0; k < 2; k++) {
                const int at = 2 * (int) part(i) + k;
                factor[i][k] = converted(signed_byte(v[at / 4], at % 4)) * by;
            }
        }
    }
    static INLINE void load_two(const char * p, const distances & rows, int j, ints8 (&a)[block_vectors],
        ints8 (&b)[block_vectors]) {
        ints8 upper[block_vectors];
        load_rows(p + 128 + j / 2 * 32, rows, upper);
        load_rows(p + 144 + j / 2 * 32, rows, upper + 4);
        load_rows(p + 32 * j, rows, a);
        load_rows(p + 32 * j + 16, rows, a + 4);
        UNROLL for (int i = 0; i < block_vectors; i++) {
            const ints8 first = shifted_left(upper[i], 4 - j % 2 * 2) & bytes_of(48);
            const ints8 second = shifted_right(upper[i], j % 2 * 2) & bytes_of(48);
            b[i] = upper_nibbles(a[i]) | second;
            a[i] = lower_nibbles(a[i]) | first;
        }
    }
};

// flip is added to each weight: 0, or 128.
template <int flip> struct iq4_xs_blocks {
    static constexpr size_t bytes = iq4_xs_block;
    static constexpr int    factors = 1;
    static constexpr bool   power_scales = false;

    static INLINE int64_t part(int64_t i) { return i; }
    static INLINE void read_factors(const char * p, const distances & rows, floats8 (&factor)[8][factors]) {
        ints8 v[4];
        load_rows(p, rows, v);
        const floats8 by = lower_halves(v[0]);
        UNROLL for (int i = 0; i < 8; i++) {
            const floats8 lower = converted(field(v[1], 4 * i, 15)), upper = converted(field(v[0], 16 + 2 * i, 3));
            factor[i][0] = (lower + upper * 16.0f - 32.0f) * by;
        }
    }
    static INLINE void load_two(const char * p, const distances & rows, int j, ints8 (&a)[block_vectors],
        ints8 (&b)[block_vectors]) {
        const ints8 table = table_of(iq4) ^ bytes_of(flip);
        load_nibbles(p + 8 + 32 * j, rows, a);
        load_nibbles(p + 24 + 32 * j, rows, b);
        look_up(table, a);
        look_up(table, b);
    }
};

} // namespace

} // namespace kernels

#endif
