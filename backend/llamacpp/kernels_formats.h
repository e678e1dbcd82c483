// The memory layout of the quantized weight formats, and what else the files of instruction sets share.
#ifndef RUNNER_KERNELS_FORMATS_H
#define RUNNER_KERNELS_FORMATS_H

#include <cstddef>
#include <cstdint>

// A loop of constant length is fully unrolled, so that its arrays become registers at every optimization level.
#define UNROLL _Pragma("GCC unroll 16")

namespace kernels {

// An MXFP4 block is an exponent and 32 four-bit values; the first half is in the low bits. A Q8_0 block is a half
// float and 32 signed bytes.
constexpr size_t mxfp4_block = 17, q8_0_block = 34;

// The values of a 4-bit float (OCP Microscaling Formats 1.0, E2M1), doubled, plus 12 so that none is negative.
constexpr uint8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// The scale of a block with exponent e is two to the power of e-128, half of the usual because the values are doubled.
// As the bits of a float that is e-1 in the place of the exponent. Exponents 0 and 1 give numbers below the normal
// ones: these bits, shifted left by e.
constexpr int32_t smallest_scale = 0x200000;

} // namespace kernels

#endif
