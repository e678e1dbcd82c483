// The memory layout of the quantized weight formats.
#ifndef RUNNER_KERNELS_FORMATS_H
#define RUNNER_KERNELS_FORMATS_H

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace kernels {

// An MXFP4 block is an exponent and 32 four-bit values; the first half is in the low bits. A Q8_0 block is a half
// float and 32 signed bytes.
constexpr size_t mxfp4_block = 17, q8_0_block = 34;

// The values of a 4-bit float (OCP Microscaling Formats 1.0, E2M1), doubled, plus 12 so that none is negative.
constexpr uint8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// scales maps an exponent e of a block to its scale: two to the power of e-128, half of the usual because the
// values are doubled.
struct scale_table {
    float of[256];
    scale_table() {
        for (int e = 0; e < 256; e++) {
            of[e] = std::ldexp(1.0f, e - 128);
        }
    }
};
inline const scale_table scales;

} // namespace kernels

#endif
