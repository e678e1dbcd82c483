// Reading of quantized weights on x86: a block of each of eight rows, with AVX2's instructions. The files of instruction
// sets include it after they define KERNEL and INLINE; see kernels_simd.h.
//
// Eight rows, because a processor that splits vectors of 64 bytes puts these together in half the time.
#ifndef RUNNER_KERNELS_READING_H
#define RUNNER_KERNELS_READING_H

#include "kernels_formats.h"

#include <immintrin.h>

#include <cstring>

namespace kernels {

namespace {

using ints8 = __m256i;
using floats8 = __m256;

// A block has 32 weights: eight vectors with four of each of eight rows.
constexpr int block_vectors = 8;

// distances says how far rows are from the first. It keeps only the odd multiples of the distance of two rows, in
// registers. An address can have twice, four and eight times as much as a register.
struct distances {
    size_t odd[4];
    explicit INLINE distances(size_t stride) : odd{stride, 3 * stride, 5 * stride, 7 * stride} {}
    INLINE size_t of(int row) const { return row == 0 ? 0 : odd[(row >> __builtin_ctz(row)) / 2] << __builtin_ctz(row); }
};

// rows_2 loads 16 bytes of rows r and r+4.
INLINE ints8 rows_2(const char * p, const distances & rows, int r) {
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) (p + rows.of(r)))),
        _mm_loadu_si128((const __m128i *) (p + rows.of(r + 4))), 1);
}

// load_rows loads 16 bytes of each of 8 rows; v[i] has bytes 4i to 4i+3 of every row.
INLINE void load_rows(const char * p, const distances & rows, ints8 * v) {
    const ints8 a = rows_2(p, rows, 0), b = rows_2(p, rows, 1), c = rows_2(p, rows, 2), d = rows_2(p, rows, 3);
    const ints8 ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    const ints8 ab2 = _mm256_unpackhi_epi32(a, b), cd2 = _mm256_unpackhi_epi32(c, d);
    v[0] = _mm256_unpacklo_epi64(ab, cd);
    v[1] = _mm256_unpackhi_epi64(ab, cd);
    v[2] = _mm256_unpacklo_epi64(ab2, cd2);
    v[3] = _mm256_unpackhi_epi64(ab2, cd2);
}

INLINE ints8 bytes_of(int x) { return _mm256_set1_epi8((char) x); }

// load_nibbles loads a part with four bits for each weight.
INLINE void load_nibbles(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
    load_rows(p, rows, w);
    UNROLL for (int i = 0; i < 4; i++) {
        w[4 + i] = _mm256_and_si256(_mm256_srli_epi16(w[i], 4), bytes_of(15));
        w[i] = _mm256_and_si256(w[i], bytes_of(15));
    }
}

// look_up replaces numbers of four bits by a table's bytes.
INLINE void look_up(ints8 table, ints8 (&w)[block_vectors]) {
    UNROLL for (int i = 0; i < block_vectors; i++) {
        w[i] = _mm256_shuffle_epi8(table, w[i]);
    }
}

INLINE ints8 table_of(const void * bytes) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) bytes));
}

INLINE short half(const char * p) {
    short v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

// half_floats loads a half float of each row.
INLINE floats8 half_floats(const char * p, const distances & rows) {
    __m128i halves = _mm_setzero_si128();
    halves = _mm_insert_epi16(halves, half(p + rows.of(0)), 0);
    halves = _mm_insert_epi16(halves, half(p + rows.of(1)), 1);
    halves = _mm_insert_epi16(halves, half(p + rows.of(2)), 2);
    halves = _mm_insert_epi16(halves, half(p + rows.of(3)), 3);
    halves = _mm_insert_epi16(halves, half(p + rows.of(4)), 4);
    halves = _mm_insert_epi16(halves, half(p + rows.of(5)), 5);
    halves = _mm_insert_epi16(halves, half(p + rows.of(6)), 6);
    halves = _mm_insert_epi16(halves, half(p + rows.of(7)), 7);
    return _mm256_cvtph_ps(halves);
}

// lower_halves are the half floats in the lower bits of each number.
INLINE floats8 lower_halves(ints8 v) {
    v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    v = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 8);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(v));
}

INLINE floats8 upper_halves(ints8 v) { return lower_halves(_mm256_srli_epi32(v, 16)); }

INLINE ints8 shifted_right(ints8 v, int bits) { return _mm256_srl_epi16(v, _mm_cvtsi32_si128(bits)); }
INLINE ints8 shifted_left(ints8 v, int bits) { return _mm256_sll_epi16(v, _mm_cvtsi32_si128(bits)); }

// Formats with blocks of 32.

struct mxfp4_blocks {
    static constexpr size_t bytes = mxfp4_block;
    static constexpr int    factors = 1;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        load_nibbles(p + 1, rows, w);
        look_up(table_of(e2m1), w);
    }

    static INLINE __m128i exponents(const char * p, const distances & rows) {
        __m128i bytes = _mm_setzero_si128();
        bytes = _mm_insert_epi8(bytes, p[rows.of(0)], 0);
        bytes = _mm_insert_epi8(bytes, p[rows.of(1)], 1);
        bytes = _mm_insert_epi8(bytes, p[rows.of(2)], 2);
        bytes = _mm_insert_epi8(bytes, p[rows.of(3)], 3);
        bytes = _mm_insert_epi8(bytes, p[rows.of(4)], 4);
        bytes = _mm_insert_epi8(bytes, p[rows.of(5)], 5);
        bytes = _mm_insert_epi8(bytes, p[rows.of(6)], 6);
        bytes = _mm_insert_epi8(bytes, p[rows.of(7)], 7);
        return bytes;
    }

    static INLINE floats8 scale(const char * p, const distances & rows) {
        const ints8 e = _mm256_cvtepu8_epi32(exponents(p, rows)), one = _mm256_set1_epi32(1);
        const ints8 normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
        const ints8 small = _mm256_sllv_epi32(_mm256_set1_epi32(smallest_scale), e);
        return _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, one)));
    }
};

// q4_0_blocks has values of which each is 8 too large.
struct q4_0_blocks {
    static constexpr size_t bytes = q4_block;
    static constexpr int    factors = 1;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        load_nibbles(p + 2, rows, w);
    }
    static INLINE floats8 scale(const char * p, const distances & rows) { return half_floats(p, rows); }
};

// flip is added to each weight: 0, or 128.
template <int flip> struct iq4_nl_blocks {
    static constexpr size_t bytes = q4_block;
    static constexpr int    factors = 1;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        load_nibbles(p + 2, rows, w);
        look_up(_mm256_xor_si256(table_of(iq4), bytes_of(flip)), w);
    }
    static INLINE floats8 scale(const char * p, const distances & rows) { return half_floats(p, rows); }
};

struct q8_0_blocks {
    static constexpr size_t bytes = q8_0_block;
    static constexpr int    factors = 1;

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
    const ints8 six = bytes_of(63), four = bytes_of(15), two = bytes_of(48);
    const ints8 scale[2] = {_mm256_and_si256(v[1], six),
        _mm256_or_si256(_mm256_and_si256(v[3], four), _mm256_and_si256(_mm256_srli_epi32(v[1], 2), two))};
    const ints8 minimum[2] = {_mm256_and_si256(v[2], six),
        _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(v[3], 4), four),
            _mm256_and_si256(_mm256_srli_epi32(v[2], 2), two))};
    const floats8 by[2] = {lower_halves(v[0]), upper_halves(v[0])};
    const ints8 byte = _mm256_set1_epi32(255);
    UNROLL for (int i = 0; i < 8; i++) {
        const ints8 s = _mm256_and_si256(_mm256_srli_epi32(scale[i / 4], i % 4 * 8), byte);
        const ints8 m = _mm256_and_si256(_mm256_srli_epi32(minimum[i / 4], i % 4 * 8), byte);
        factor[i][0] = _mm256_cvtepi32_ps(s) * by[0];
        factor[i][1] = _mm256_cvtepi32_ps(m) * by[1];
    }
}

struct q4_k_blocks {
    static constexpr size_t bytes = q4_k_block;
    static constexpr int    factors = 2;

    static INLINE int64_t part(int64_t i) { return i; }
    static INLINE void read_factors(const char * p, const distances & rows, floats8 (&factor)[8][factors]) {
        read_scales_and_minimums(p, rows, factor);
    }
    static INLINE void load_two(const char * p, const distances & rows, int j, ints8 (&a)[block_vectors],
        ints8 (&b)[block_vectors]) {
        load_rows(p + 16 + 32 * j, rows, a);
        load_rows(p + 32 + 32 * j, rows, a + 4);
        UNROLL for (int i = 0; i < block_vectors; i++) {
            b[i] = _mm256_and_si256(_mm256_srli_epi16(a[i], 4), bytes_of(15));
            a[i] = _mm256_and_si256(a[i], bytes_of(15));
        }
    }
};

struct q5_k_blocks {
    static constexpr size_t bytes = q5_k_block;
    static constexpr int    factors = 2;

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
            const ints8 first = _mm256_and_si256(_mm256_slli_epi16(bits, 4), bytes_of(16));
            const ints8 second = _mm256_and_si256(_mm256_slli_epi16(bits, 3), bytes_of(16));
            b[i] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(a[i], 4), bytes_of(15)), second);
            a[i] = _mm256_or_si256(_mm256_and_si256(a[i], bytes_of(15)), first);
        }
    }
};

// q6_k_blocks reads together the two parts that share bytes: 0 and 2, 1 and 3, and so on.
struct q6_k_blocks {
    static constexpr size_t bytes = q6_k_block;
    static constexpr int    factors = 2;

    static INLINE int64_t part(int64_t i) { return (i & ~3) | (i & 1) << 1 | (i >> 1 & 1); }
    static INLINE void read_factors(const char * p, const distances & rows, floats8 (&factor)[8][factors]) {
        ints8 v[4];
        load_rows(p + 192, rows, v);
        const floats8 by = half_floats(p + 208, rows);
        UNROLL for (int i = 0; i < 8; i++) {
            UNROLL for (int k = 0; k < 2; k++) {
                const int at = 2 * (int) part(i) + k;
                const ints8 scale = _mm256_srai_epi32(_mm256_slli_epi32(v[at / 4], 24 - at % 4 * 8), 24);
                factor[i][k] = _mm256_cvtepi32_ps(scale) * by;
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
            const ints8 first = _mm256_and_si256(shifted_left(upper[i], 4 - j % 2 * 2), bytes_of(48));
            const ints8 second = _mm256_and_si256(shifted_right(upper[i], j % 2 * 2), bytes_of(48));
            b[i] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(a[i], 4), bytes_of(15)), second);
            a[i] = _mm256_or_si256(_mm256_and_si256(a[i], bytes_of(15)), first);
        }
    }
};

// flip is added to each weight: 0, or 128.
template <int flip> struct iq4_xs_blocks {
    static constexpr size_t bytes = iq4_xs_block;
    static constexpr int    factors = 1;

    static INLINE int64_t part(int64_t i) { return i; }
    static INLINE void read_factors(const char * p, const distances & rows, floats8 (&factor)[8][factors]) {
        ints8 v[4];
        load_rows(p, rows, v);
        const floats8 by = lower_halves(v[0]);
        UNROLL for (int i = 0; i < 8; i++) {
            const ints8 four = _mm256_and_si256(_mm256_srli_epi32(v[1], 4 * i), _mm256_set1_epi32(15));
            const ints8 two = _mm256_and_si256(_mm256_srli_epi32(v[0], 16 + 2 * i), _mm256_set1_epi32(3));
            const ints8 scale = _mm256_or_si256(four, _mm256_slli_epi32(two, 4));
            factor[i][0] = _mm256_cvtepi32_ps(_mm256_sub_epi32(scale, _mm256_set1_epi32(32))) * by;
        }
    }
    static INLINE void load_two(const char * p, const distances & rows, int j, ints8 (&a)[block_vectors],
        ints8 (&b)[block_vectors]) {
        const ints8 table = _mm256_xor_si256(table_of(iq4), bytes_of(flip));
        load_nibbles(p + 8 + 32 * j, rows, a);
        load_nibbles(p + 24 + 32 * j, rows, b);
        look_up(table, a);
        look_up(table, b);
    }
};

} // namespace

} // namespace kernels

#endif
