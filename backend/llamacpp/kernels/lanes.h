// Rearrangements of numbers in vectors of AVX-512, and tables for them, which several files of kernels need. They
// include it after target.h.
#ifndef RUNNER_KERNELS_LANES_H
#define RUNNER_KERNELS_LANES_H

#include "formats.h"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace kernels {

namespace {

// keep_order keeps compilers from moving what computes these vectors behind what uses the next ones.
INLINE void keep_order(__m512i (&v)[4]) { __asm__("" : "+v"(v[0]), "+v"(v[1]), "+v"(v[2]), "+v"(v[3])); }

// added adds the four numbers in each lane of four vectors. Lane i of the result has the sums of lane i of each.
INLINE __m512i added(const __m512i (&v)[4]) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

// transpose turns 16 rows of 16 numbers.
INLINE void transpose(__m512i (&v)[16]) {
    __m512i t[16];
    UNROLL for (int i = 0; i < 16; i += 4) {
        const __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]), b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
        const __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c), t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d), t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    UNROLL for (int j = 0; j < 4; j++) { // lane l of t[j] and of those four further is row 4l+j
        const __m512i a = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88), b = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xdd);
        v[j] = _mm512_shuffle_i32x4(a, c, 0x88), v[8 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
        v[4 + j] = _mm512_shuffle_i32x4(b, d, 0x88), v[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

// weights_at says where the weights of blocks are that follow one another, for a permutation of two vectors: the 64
// bytes from the first on and the 64 bytes from the fifth on. Each block has its scale in front of the weights.
template <size_t bytes, size_t scale> struct alignas(64) weights_at {
    uint8_t byte[64];
    constexpr weights_at() : byte() {
        for (size_t i = 0; i < 64; i++) {
            const size_t weights = bytes - scale, at = i / weights * bytes + scale + i % weights;
            byte[i] = (uint8_t) (at < 64 ? at : at - 4 + 64);
        }
    }
};

// e2m1_of_bytes has the weights of a byte's lower four bits, whatever the upper ones are.
struct alignas(64) e2m1_of_bytes {
    uint8_t weight[64];
    constexpr e2m1_of_bytes() : weight() {
        for (int i = 0; i < 64; i++) {
            weight[i] = e2m1[i % 16];
        }
    }
};

} // namespace

} // namespace kernels

#endif
