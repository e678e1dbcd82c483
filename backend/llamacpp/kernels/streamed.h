// Products of few columns whose weights are read in the order in which they lie in memory. The set of kernels for AMX
// uses them. All processors with AMX permute bytes (AVX-512 VBMI), too, and are Intel's, which read memory about a
// fifth faster in this order than several rows at a time.
#ifndef RUNNER_KERNELS_STREAMED_H
#define RUNNER_KERNELS_STREAMED_H

#include "kernels.h"

namespace kernels {

namespace streamed {

// supported reports whether the processor has AVX-512 VBMI. It says nothing of AVX-512 VNNI, which is needed too.
bool supported();

// suits reports whether so many columns of these weights are multiplied faster here than in other ways. That depends
// on the format and on the length of a row.
bool suits(const rows & w, int64_t count);

// multiply does what multiply_quantized of struct set says, for what suits. It takes activations of nine bits for
// MXFP4; see tiles::pair. It leaves out the last rows if their number is no multiple of 16, and returns the first of
// these.
int64_t multiply(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count);

} // namespace streamed

} // namespace kernels

#endif
