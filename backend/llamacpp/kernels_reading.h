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

struct mxfp4_blocks {
    static constexpr size_t bytes = mxfp4_block;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        const ints8 table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) e2m1)),
            low = _mm256_set1_epi8(15);
        load_rows(p + 1, rows, w);
        UNROLL for (int i = 0; i < 4; i++) {
            w[4 + i] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(w[i], 4), low));
            w[i] = _mm256_shuffle_epi8(table, _mm256_and_si256(w[i], low));
        }
    }

    static INLINE floats8 scale(const char * p, const distances & rows) {
        __m128i bytes = _mm_setzero_si128();
        bytes = _mm_insert_epi8(bytes, p[rows.of(0)], 0);
        bytes = _mm_insert_epi8(bytes, p[rows.of(1)], 1);
        bytes = _mm_insert_epi8(bytes, p[rows.of(2)], 2);
        bytes = _mm_insert_epi8(bytes, p[rows.of(3)], 3);
        bytes = _mm_insert_epi8(bytes, p[rows.of(4)], 4);
        bytes = _mm_insert_epi8(bytes, p[rows.of(5)], 5);
        bytes = _mm_insert_epi8(bytes, p[rows.of(6)], 6);
        bytes = _mm_insert_epi8(bytes, p[rows.of(7)], 7);
        const ints8 e = _mm256_cvtepu8_epi32(bytes), one = _mm256_set1_epi32(1);
        const ints8 normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
        const ints8 small = _mm256_sllv_epi32(_mm256_set1_epi32(smallest_scale), e);
        return _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, one)));
    }
};

struct q8_0_blocks {
    static constexpr size_t bytes = q8_0_block;

    static INLINE void load(const char * p, const distances & rows, ints8 (&w)[block_vectors]) {
        load_rows(p + 2, rows, w);
        load_rows(p + 18, rows, w + 4);
    }

    static INLINE short half(const char * p) {
        short v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }

    static INLINE floats8 scale(const char * p, const distances & rows) {
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
};

} // namespace

} // namespace kernels

#endif
