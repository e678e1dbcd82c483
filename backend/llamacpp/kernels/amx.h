// Products of many columns with tiles (AMX). They are for the set of kernels of that name.
#ifndef RUNNER_KERNELS_AMX_H
#define RUNNER_KERNELS_AMX_H

#include "kernels.h"

// The instructions of AVX-512 VNNI, which all sets for AVX-512 use.
#define AVX512_TARGET "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,f16c,fma"

namespace kernels {

namespace tiles {

// supported reports whether the processor has tiles of bytes and bfloat16 and the system lets this process use them.
bool supported();

// The others are what struct set says of bundles.
int64_t worth(enum rows::format format, int64_t n);
size_t  size(enum rows::format format, int64_t n);
void    bundle(const block * const * columns, int64_t count, int64_t n, enum rows::format format, char * out);
void    multiply(const rows & w, int64_t first, int64_t last, const char * bundles, const block * const * columns,
    float * const * out, int64_t count);

// pair is the two blocks in which the set quantizes 32 activations for MXFP4: nine bits each, in two parts.
//
// An activation is 2 * pair[0].x + pair[1].x, times the scale of pair[0], a power of two.
using pair = block[2];

// The exponent of the smallest scale. No activation is smaller, so tiles, which take subnormal numbers for zero, see
// none.
constexpr int smallest_power = -126;

} // namespace tiles

} // namespace kernels

#endif
