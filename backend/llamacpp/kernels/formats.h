// The memory layout of the quantized weight formats, and what else the files of instruction sets share.
#ifndef RUNNER_KERNELS_FORMATS_H
#define RUNNER_KERNELS_FORMATS_H

#include <cstddef>
#include <cstdint>

// A loop of constant length is fully unrolled, so that its arrays become registers at every optimization level.
#ifdef RUNNER_KERNELS_CALLED
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

namespace kernels {

// An MXFP4 block is an exponent and 32 four-bit values; the first half is in the low bits. A Q4_0 or IQ4_NL block is a
// half float and such values. A Q8_0 block is a half float and 32 signed bytes.
constexpr size_t mxfp4_block = 17, q4_block = 18, q8_0_block = 34;

// The other formats have 256 weights in a block of eight parts of 32.
//
// Q4_K: half floats for the scales and minimums, 6 bits for each part's scale and minimum (12 bytes), and then for
// every two parts 32 bytes, the first part in the low bits. A weight is scale * value - minimum. Q5_K has the fifth
// bits of all parts in front of these, a bit of each of 32 bytes for a part.
//
// Q6_K: for every two parts 32 bytes with four of the bits, 32 bytes with the upper two bits of every four parts, a
// signed scale for every 16 weights, and a half float. The values have 32 added.
//
// IQ4_XS: a half float, the upper two bits of the parts' scales, the lower four bits, and the parts as in IQ4_NL. The
// scales have 32 added.
constexpr size_t q4_k_block = 144, q5_k_block = 176, q6_k_block = 210, iq4_xs_block = 136;

// The values of IQ4_NL and IQ4_XS.
constexpr int8_t iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The values of a 4-bit float (OCP Microscaling Formats 1.0, E2M1), doubled, plus 12 so that none is negative.
constexpr uint8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// The scale of a block with exponent e is two to the power of e-128, half of the usual because the values are doubled.
// As the bits of a float that is e-1 in the place of the exponent. Exponents 0 and 1 give numbers below the normal
// ones: these bits, shifted left by e.
constexpr int32_t smallest_scale = 0x200000;

} // namespace kernels

#endif
