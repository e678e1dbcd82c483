// How x86 reads quantized weights, with AVX2's instructions; see reading.h.
#ifndef RUNNER_KERNELS_READING_X86_H
#define RUNNER_KERNELS_READING_X86_H

#include "formats.h"

#include <immintrin.h>

#include <cstring>

namespace kernels {

namespace {

using ints8 = __m256i;
using floats8 = __m256;

// in_register keeps the compiler from reading a value from memory again for every use, which would limit the speed
// of a tile.
template <typename T> INLINE void in_register(T & v) { __asm__("" : "+v"(v)); }

// rows_2 loads 16 bytes of rows r and r+4.
INLINE ints8 rows_2(const char * p, const distances & rows, int r) {
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) (p + rows.of(r)))),
        _mm_loadu_si128((const __m128i *) (p + rows.of(r + 4))), 1);
}

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

INLINE ints8 lower_nibbles(ints8 v) { return _mm256_and_si256(v, bytes_of(15)); }
INLINE ints8 upper_nibbles(ints8 v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), bytes_of(15)); }

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

INLINE floats8 lower_halves(ints8 v) {
    v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    v = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 8);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(v));
}

INLINE floats8 upper_halves(ints8 v) { return lower_halves(_mm256_srli_epi32(v, 16)); }

INLINE ints8 shifted_right(ints8 v, int bits) { return _mm256_srl_epi16(v, _mm_cvtsi32_si128(bits)); }
INLINE ints8 shifted_left(ints8 v, int bits) { return _mm256_sll_epi16(v, _mm_cvtsi32_si128(bits)); }

INLINE ints8 field(ints8 v, int at, int mask) {
    return _mm256_and_si256(_mm256_srli_epi32(v, at), _mm256_set1_epi32(mask));
}
INLINE ints8 signed_byte(ints8 v, int i) { return _mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * i), 24); }
INLINE floats8 converted(ints8 v) { return _mm256_cvtepi32_ps(v); }

// exponents takes a byte of each of eight rows.
INLINE __m128i exponents(const char * p, const distances & rows) {
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

INLINE floats8 powers(const char * p, const distances & rows) {
    const ints8 e = _mm256_cvtepu8_epi32(exponents(p, rows)), one = _mm256_set1_epi32(1);
    const ints8 normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const ints8 small = _mm256_sllv_epi32(_mm256_set1_epi32(smallest_scale), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, one)));
}

} // namespace

} // namespace kernels

#endif
