// The arithmetic of kernels.h, written once for vectors of any width. The file of an instruction set
// (kernels_avx512.cpp, kernels_avx2.cpp, kernels_neon.cpp) defines the vectors and how to read a block of weights, then
// includes this file. Together they define one set of kernels.
//
// Before the include it defines, in the same unnamed namespace:
//
//   KERNEL, INLINE       mark functions that use the instructions; see kernels_target.h
//   lanes                how many floats a vector has; doubles have half as many
//   floats, doubles, ints  vectors with operators, and [] for doubles; ints holds a whole number for each float
//   load, store, all     whole vectors from and to memory (any alignment), and of one number
//   halves, wide         lanes half floats from memory; half as many, as doubles
//   upper_halves         lanes floats of which memory has the upper halves (bfloat16)
//   fused                a*b + c, rounded once
//   lesser, greater      the second where one is not a number
//   magnitude, rounded   of each lane; rounded to the nearest whole number
//   times_power          x times two to the power of whole numbers up to 127; below the normal numbers 0 is allowed
//   opened               w, but 0 where t is minus infinity
//   largest              of all lanes
//   sums                 the sum of each of lanes vectors, all added in the same order
//   lower, upper         the halves of a vector, as doubles
//   narrow               stores doubles as floats
//   to_floats            whole numbers as floats
//   round_bytes          stores numbers from -127 to 127 as bytes, to the nearest
//   sum_bytes            the sum of 16 bytes
//   open_cells, pack     which of the next cells a mask leaves open and how it biases them; and those alone, packed
//
// and what kernels_quantized.h lists.
#ifndef RUNNER_KERNELS_SIMD_H
#define RUNNER_KERNELS_SIMD_H

#include "kernels.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels_quantized.h"

namespace kernels {

namespace {

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

// fraction returns two to the power of r for r from -1/2 to 1/2, to 2 units in the last place: Taylor's polynomial.
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

// Attention processes the open cells in blocks, with a running maximum and sum (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018). The layout of the cache does not affect the result. Closed cells are
// skipped first. The order of the others does not matter: a cell's weight is a fraction that depends on its score
// alone, times a power of two; the maximum is a power of two as well, so rescaling is exact; and sums have double
// precision.

constexpr int cell_block = 64;

struct head_state {
    alignas(64) double out[max_group][max_size];
    alignas(64) double weights[max_group][cell_block];
    alignas(64) float scores[max_group][cell_block];
    doubles total[max_group];
    float   most[max_group]; // the exponent of the largest weight
    const int32_t * cell; // those of the block, and how the mask biases them
    const float *   bias;
};

// open_list is the cells that are open to a token and their biases, kept for its other key heads. It has room for one
// extra vector, because gathering and padding write whole vectors.
struct open_list {
    uint64_t id = 0;
    int64_t  token = -1, count = 0;
    std::vector<int32_t> cell;
    std::vector<float>   bias;
};

// gather fills the list for a token.
KERNEL void gather(const attention & a, int64_t token, open_list & list) {
    if ((int64_t) list.cell.size() < a.cells + lanes) {
        list.cell.resize(a.cells + lanes);
        list.bias.resize(a.cells + lanes);
    }
    const char * mask = a.mask + token * a.mask_token;
    int64_t n = 0;
    for (int64_t c = 0; c < a.cells; c += lanes) {
        floats bias;
        const unsigned open = open_cells(mask + c * 2, a.cells - c, bias);
        if (open != 0) {
            pack(open, bias, (int32_t) c, list.cell.data() + n, list.bias.data() + n);
            n += __builtin_popcount(open);
        }
    }
    for (int64_t j = n; j % lanes != 0; j++) {
        list.cell[j] = list.cell[0];
        list.bias[j] = -INFINITY;
    }
    list.id = a.id, list.token = token, list.count = n;
}

// fetch prefetches a key or a value. The cells of other sequences lie in between, so the processor does not predict
// the access.
INLINE void fetch(const attention & a, const char * at) {
    for (int64_t line = 0; line < a.size * 2; line += 64) {
        __builtin_prefetch(at + line);
    }
}

// products writes the products of the queries of G heads, from h on, with the keys of one vector of cells, from j
// on.
template <int G> INLINE void products(const attention & a, const char * q, const char * k, head_state & st, int h,
    int j) {
    constexpr int cells = lanes / G;
    floats acc[lanes];
    UNROLL for (int i = 0; i < lanes; i++) {
        acc[i] = all(0.0f);
    }
    const char * keys[cells];
    UNROLL for (int c = 0; c < cells; c++) {
        keys[c] = k + st.cell[j + c] * a.k_cell;
    }
    for (int64_t i = 0; i < a.size; i += lanes) {
        floats query[G];
        UNROLL for (int g = 0; g < G; g++) {
            query[g] = load((const float *) (q + (h + g) * a.q_head) + i);
            in_register(query[g]);
        }
        UNROLL for (int c = 0; c < cells; c++) {
            const floats x = halves(keys[c] + i * 2);
            UNROLL for (int g = 0; g < G; g++) {
                acc[g * cells + c] = fused(x, query[g], acc[g * cells + c]);
            }
        }
    }
    float each[lanes];
    store(each, sums(acc));
    UNROLL for (int g = 0; g < G; g++) {
        std::memcpy(st.scores[h + g] + j, each + g * cells, cells * sizeof(float));
    }
}

// blend adds n values, each times its weight, to the results of G heads from h on, W vectors of doubles at a time.
template <int G, int W> INLINE void blend(const attention & a, const char * v, head_state & st, int h, int n) {
    constexpr int width = lanes / 2;
    for (int64_t i = 0; i < a.size; i += W * width) {
        doubles acc[G][W];
        UNROLL for (int g = 0; g < G; g++) {
            UNROLL for (int w = 0; w < W; w++) {
                acc[g][w] = load(st.out[h + g] + i + w * width);
            }
        }
        for (int j = 0; j < n; j++) {
            const char * value = v + st.cell[j] * a.v_cell + i * 2;
            doubles x[W];
            UNROLL for (int w = 0; w < W; w++) {
                x[w] = wide(value + w * width * 2);
            }
            UNROLL for (int g = 0; g < G; g++) {
                const doubles weight = all(st.weights[h + g][j]);
                UNROLL for (int w = 0; w < W; w++) {
                    acc[g][w] = fused(weight, x[w], acc[g][w]);
                }
            }
        }
        UNROLL for (int g = 0; g < G; g++) {
            UNROLL for (int w = 0; w < W; w++) {
                store(st.out[h + g] + i + w * width, acc[g][w]);
            }
        }
    }
}

// weigh converts the scores of one head to weights, and rescales the earlier results when the maximum grew.
INLINE void weigh(const attention & a, head_state & st, int h, int n) {
    const floats rate = all(a.scale * log2_e);
    floats most = all(-INFINITY);
    for (int j = 0; j < n; j += lanes) {
        const floats t = fused(load(st.scores[h] + j), rate, load(st.bias + j) * all(log2_e));
        store(st.scores[h] + j, t);
        most = greater(most, rounded(t));
    }
    const float m = std::max(st.most[h], largest(most));
    if (m > st.most[h]) {
        const doubles down = all(std::ldexp(1.0, (int) std::max(st.most[h] - m, -2000.0f)));
        st.total[h] = st.total[h] * down;
        for (int64_t i = 0; i < a.size; i += lanes / 2) {
            store(st.out[h] + i, load(st.out[h] + i) * down);
        }
        st.most[h] = m;
    }
    for (int j = 0; j < n; j += lanes) {
        const floats t = load(st.scores[h] + j), exponent = rounded(t);
        const floats w = opened(t, times_power(fraction(t - exponent), exponent - all(m)));
        store(st.weights[h] + j, lower(w));
        store(st.weights[h] + j + lanes / 2, upper(w));
        st.total[h] = st.total[h] + (lower(w) + upper(w));
    }
}

// Keys are prefetched this many cells ahead; values while the scores of their cells are computed.
constexpr int ahead = 16;

// score computes the products of G heads, from head h on, with the keys of the block.
template <int G> INLINE void score(const attention & a, const char * q, const char * k, const char * v,
    head_state & st, int h, int n) {
    constexpr int cells = lanes / G;
    const int padded = (n + lanes - 1) / lanes * lanes;
    for (int j = 0; j < padded; j += cells) {
        if (h == 0) {
            for (int i = j; i < std::min(j + cells, n); i++) {
                fetch(a, v + st.cell[i] * a.v_cell);
            }
            for (int i = j + ahead; i < std::min(j + ahead + cells, n); i++) {
                fetch(a, k + st.cell[i] * a.k_cell);
            }
        }
        products<G>(a, q, k, st, h, j);
    }
}

// take adds a block of n cells.
KERNEL void take(const attention & a, const char * q, const char * k, const char * v, head_state & st, int group,
    int n) {
    for (int i = 0; i < std::min(ahead, n); i++) {
        fetch(a, k + st.cell[i] * a.k_cell);
    }
    int h = 0;
    for (; h + 4 <= group; h += 4) {
        score<4>(a, q, k, v, st, h, n);
    }
    for (; h + 2 <= group; h += 2) {
        score<2>(a, q, k, v, st, h, n);
    }
    for (; h < group; h++) {
        score<1>(a, q, k, v, st, h, n);
    }
    for (h = 0; h < group; h++) {
        weigh(a, st, h, n);
    }
    h = 0;
    if constexpr (lanes == 16) { // so many results fit into the registers of AVX-512
        for (; h + 8 <= group; h += 8) {
            blend<8, 2>(a, v, st, h, n);
        }
    }
    for (; h + 4 <= group; h += 4) {
        blend<4, 2>(a, v, st, h, n);
    }
    for (; h + 2 <= group; h += 2) {
        blend<2, 4>(a, v, st, h, n);
    }
    for (; h < group; h++) {
        blend<1, 4>(a, v, st, h, n);
    }
}

KERNEL void attend(const attention & a, int64_t token, int64_t s) {
    const int group = (int) (a.heads / a.shared);
    const char * q = a.q + token * a.q_token + s * group * a.q_head;
    const char * k = a.k + s * a.k_head;
    const char * v = a.v + s * a.v_head;
    static thread_local open_list list;
    if (a.id == 0 || list.id != a.id || list.token != token) {
        gather(a, token, list);
    }
    head_state st;
    for (int h = 0; h < group; h++) {
        std::memset(st.out[h], 0, a.size * sizeof(double));
        st.total[h] = all(0.0);
        st.most[h] = -INFINITY;
    }
    for (int64_t j = 0; j < list.count; j += cell_block) {
        st.cell = list.cell.data() + j;
        st.bias = list.bias.data() + j;
        take(a, q, k, v, st, group, (int) std::min<int64_t>(cell_block, list.count - j));
    }
    for (int h = 0; h < group; h++) {
        double total = 0;
        for (int i = 0; i < lanes / 2; i++) {
            total += st.total[h][i];
        }
        if (a.sinks) {
            total += st.most[h] == -INFINITY ? 1 : std::exp2((double) a.sinks[s * group + h] * log2_e - st.most[h]);
        }
        const doubles by = all(total > 0 ? 1 / total : 0.0);
        float * out = a.out + (token * a.heads + s * group + h) * a.size;
        for (int64_t i = 0; i < a.size; i += lanes / 2) {
            narrow(out + i, load(st.out[h] + i) * by);
        }
    }
}

} // namespace

} // namespace kernels

#endif
