// Products of few columns with MXFP4, for processors that permute bytes (AVX-512 VBMI). The set of kernels for AVX-512
// VBMI uses them.
#ifndef RUNNER_KERNELS_VBMI_H
#define RUNNER_KERNELS_VBMI_H

#include "kernels.h"

namespace kernels {

namespace vbmi {

// supported reports whether the processor has AVX-512 VBMI. It says nothing of AVX-512 VNNI, which is needed too.
bool supported();

// few is how many columns are multiplied faster than with AVX-512 VNNI.
constexpr int64_t few = 3;

// multiply does what multiply_quantized of struct set says, for MXFP4 and up to few columns. It leaves out the last
// rows if their number is no multiple of 16, and returns the first of these.
int64_t multiply(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count);

} // namespace vbmi

} // namespace kernels

#endif
