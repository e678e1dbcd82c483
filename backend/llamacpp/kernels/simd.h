// The arithmetic of kernels.h, written once for vectors of any width. The file of an instruction set (avx512.cpp,
// avx2.cpp, neon.cpp) defines the vectors and how to read a block of weights, then includes this file. Together they
// define one set of kernels.
//
// Before the include it defines, in the same unnamed namespace:
//
//   KERNEL, INLINE       mark functions that use the instructions; see target.h
//   lanes                how many floats a vector has; doubles have half as many
//   few_queries          4 or 2: the sums of so many queries and four keys fit into registers
//   floats, doubles, ints  vectors with operators, and [] for doubles; ints holds a whole number for each float
//   load, store, all     whole vectors from and to memory (any alignment), and of one number
//   halves               lanes half floats from memory
//   upper_halves         lanes floats of which memory has the upper halves (bfloat16)
//   fused                a*b + c, rounded once
//   lesser, greater      the second where one is not a number
//   magnitude, rounded   of each lane; rounded to the nearest whole number
//   times_power          x times two to the power of whole numbers up to 127; below the normal numbers 0 is allowed
//   opened               w, but 0 where t is minus infinity
//   largest              of all lanes
//   fours                of four vectors: four sums, of each vector's lanes 0 to 3, then as many of lanes 4 to 7, ...
//   joined               of lanes/4 such vectors: the sums of those for each of lanes vectors
//   lower, upper         the halves of a vector of floats, as doubles
//   wide, wide_halves    lanes/2 floats, or half floats, from memory, as doubles
//   narrow               stores doubles as floats
//   to_floats            whole numbers as floats
//   round_bytes          stores numbers from -127 to 127 as bytes, to the nearest
//   sum_bytes            the sum of 16 bytes
//   open_cells, pack     which of the next cells a mask leaves open and how it biases them; and those alone, packed
//   all_closed           whether a mask closes all of the next 2*lanes cells
//   transpose            32 half floats of each of lanes cells, as 32 vectors with one number of each cell
//   largest_halves       of n half floats of each of lanes cells, the largest magnitude: its 16 bits, read as a whole
//                        number, as a float; n is a multiple of 32
//
// and what quantized.h lists.
#ifndef RUNNER_KERNELS_SIMD_H
#define RUNNER_KERNELS_SIMD_H

#include "kernels.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "quantized.h"

namespace kernels {

namespace {

// sums returns the sum of each of lanes vectors, all added in the same order. Operations on values known to be zero
// cost nothing.
INLINE floats sums(const floats * v) {
    floats four[lanes / 4];
    UNROLL for (int i = 0; i < lanes / 4; i++) {
        four[i] = fours(v + 4 * i);
    }
    return joined(four);
}

// put writes the products of R rows and C columns from their accumulators, column by column.
template <int R, int C> INLINE void put(const floats (&acc)[C][R], int64_t row, float * const * out) {
    static_assert(R * C <= lanes);
    floats v[lanes];
    for (int i = 0; i < lanes; i++) {
        v[i] = i < R * C ? acc[i / R % C][i % R] : all(0.0f);
    }
    float each[lanes];
    store(each, sums(v));
    for (int c = 0; c < C; c++) {
        std::memcpy(out[c] + row, each + c * R, R * sizeof(float));
    }
}

// fraction returns two to the power of r for r from -1/2 to 1/2, to 3 units in the last place: Taylor's polynomial.
INLINE floats fraction(floats r) {
    floats p = all(1.54035304e-4f);
    p = fused(p, r, all(1.33335581e-3f));
    p = fused(p, r, all(9.61812911e-3f));
    p = fused(p, r, all(5.55041087e-2f));
    p = fused(p, r, all(2.40226507e-1f));
    p = fused(p, r, all(6.93147181e-1f));
    return fused(p, r, all(1.0f));
}

constexpr float log2_e = 1.44269504f;

// exponential returns e to the power of x. x is first limited to -80 to 80.
INLINE floats exponential(floats x) {
    x = lesser(greater(x, all(-80.0f)), all(80.0f));
    const floats t = x * all(log2_e), n = rounded(t);
    return times_power(fraction(t - n), n);
}

struct f32_weights {
    static INLINE floats load(const char * row, int64_t i) { return kernels::load((const float *) (row + i * 4)); }
};

struct f16_weights {
    static INLINE floats load(const char * row, int64_t i) { return halves(row + i * 2); }
};

struct bf16_weights {
    static INLINE floats load(const char * row, int64_t i) { return upper_halves(row + i * 2); }
};

// A tile is R rows by C columns, kept in registers. Each product has its own accumulator, so its value does not
// depend on the tile it is in.

template <typename W, int R, int C>
INLINE void float_tile(const rows & w, int64_t row, const float * const * columns, float * const * out) {
    floats acc[C][R];
    for (int c = 0; c < C; c++) {
        for (int r = 0; r < R; r++) {
            acc[c][r] = all(0.0f);
        }
    }
    const char * base = w.data + row * w.stride;
    for (int64_t i = 0; i < w.n; i += lanes) {
        floats x[C];
        for (int c = 0; c < C; c++) {
            x[c] = load(columns[c] + i);
            in_register(x[c]);
        }
        for (int r = 0; r < R; r++) {
            const floats v = W::load(base + r * w.stride, i);
            for (int c = 0; c < C; c++) {
                acc[c][r] = fused(v, x[c], acc[c][r]);
            }
        }
    }
    put<R, C>(acc, row, out);
}

// A strip is all rows for C columns, as many rows at a time as fit into registers.

template <int C> constexpr int rows_of_tile = C * 8 <= lanes ? 8 : C * 4 <= lanes ? 4 : 2;

template <typename W, int C>
KERNEL void float_strip(const rows & w, int64_t first, int64_t last, const float * const * columns,
    float * const * out) {
    constexpr int R = rows_of_tile<C>;
    for (; first + R <= last; first += R) {
        float_tile<W, R, C>(w, first, columns, out);
    }
    for (; first < last; first++) {
        float_tile<W, 1, C>(w, first, columns, out);
    }
}

// A block of rows that stays in the cache while all columns are multiplied with it.
constexpr int64_t row_block = 32;

// Columns are processed a tile's width at a time. The rest forms one more strip, because each strip reads the
// weights again.

template <typename W, int C>
KERNEL void float_block(const rows & w, int64_t first, int64_t last, const float * const * columns,
    float * const * out, int64_t count) {
    for (; count >= C; count -= C, columns += C, out += C) {
        float_strip<W, C>(w, first, last, columns, out);
    }
    if constexpr (C > 1) {
        float_block<W, C - 1>(w, first, last, columns, out, count);
    }
}

template <typename W>
KERNEL void float_products(const rows & w, int64_t first, int64_t last, const float * const * columns,
    float * const * out, int64_t count) {
    for (int64_t r = first; r < last; r += row_block) {
        float_block<W, lanes / 2>(w, r, std::min(r + row_block, last), columns, out, count);
    }
}

void multiply_floats(const rows & w, int64_t first, int64_t last, const float * const * columns, float * const * out,
    int64_t count) {
    const auto products = w.format == rows::f32   ? float_products<f32_weights>
                          : w.format == rows::f16 ? float_products<f16_weights>
                                                  : float_products<bf16_weights>;
    products(w, first, last, columns, out, count);
}

KERNEL void add(const float * x, const float * y, int64_t n, float * out) {
    for (int64_t i = 0; i < n; i += lanes) {
        store(out + i, load(x + i) + load(y + i));
    }
}

KERNEL void scale(const float * x, float factor, int64_t n, float * out) {
    for (int64_t i = 0; i < n; i += lanes) {
        store(out + i, load(x + i) * all(factor));
    }
}

KERNEL void gate(const float * x, const float * y, float alpha, float limit, int64_t n, float * out) {
    const floats one = all(1.0f), most = all(limit), least = all(-limit), rate = all(-alpha);
    for (int64_t i = 0; i < n; i += lanes) {
        const floats a = lesser(load(x + i), most), b = greater(lesser(load(y + i), most), least);
        store(out + i, a / (one + exponential(a * rate)) * (b + one));
    }
}

KERNEL void swiglu(const float * x, const float * y, int64_t n, float * out) {
    const floats one = all(1.0f), minus = all(-1.0f);
    for (int64_t i = 0; i < n; i += lanes) {
        const floats a = load(x + i);
        store(out + i, a / (one + exponential(a * minus)) * load(y + i));
    }
}

KERNEL void softmax(const float * x, int64_t n, float scale, float * out) {
    const floats factor = all(scale);
    floats most = all(-INFINITY);
    for (int64_t i = 0; i < n; i += lanes) {
        most = greater(most, load(x + i) * factor);
    }
    most = all(largest(most));
    doubles sum = all(0.0);
    for (int64_t i = 0; i < n; i += lanes) {
        const floats t = load(x + i) * factor, w = opened(t, exponential(t - most));
        store(out + i, w);
        sum = sum + (lower(w) + upper(w));
    }
    double total = 0;
    for (int i = 0; i < lanes / 2; i++) {
        total += sum[i];
    }
    kernels::scale(out, (float) (1 / total), n, out);
}

KERNEL void normalize(const float * x, int64_t n, float epsilon, float * out) {
    doubles sum = all(0.0);
    for (int64_t i = 0; i < n; i += lanes) {
        const floats v = load(x + i), square = v * v;
        sum = sum + (lower(square) + upper(square));
    }
    double total = 0;
    for (int i = 0; i < lanes / 2; i++) {
        total += sum[i];
    }
    scale(x, 1 / std::sqrt((float) (total / (double) n) + epsilon), n, out);
}

KERNEL void rotate(const float * x, const float * turns, int64_t n, float * out) {
    for (int64_t i = 0; i < n; i += lanes) {
        const floats a = load(x + i), b = load(x + n + i), cosine = load(turns + i), sine = load(turns + n + i);
        store(out + i, fused(a, cosine, -b * sine));
        store(out + n + i, fused(a, sine, b * cosine));
    }
}

} // namespace

} // namespace kernels

#include "attention.h"

#endif
