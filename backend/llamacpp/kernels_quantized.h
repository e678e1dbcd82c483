// Products with quantized weights, written once for vectors of any width; see kernels_simd.h.
//
// Every sum has the same order, for one column or many: the products of a block of 32 are added exactly, as whole
// numbers, and the blocks one after another, each with one fused operation. A vector holds one number for each of
// some rows, so nothing is added across a vector. Columns are in registers, up to width of them at a time.
//
// Few columns are multiplied with eight rows where they lie. For more, lanes rows are taken apart into a panel.
//
// Before the include the file of an instruction set also defines:
//
//   ints8, floats8, distances  see kernels_reading.h
//   store, to_floats, fused    also for vectors of eight
//   width                      how many columns a tile has at most
//   mxfp4_weights, q8_0_weights  read one block of eight rows:
//     bytes, offset      the size of a block, and what is added to each weight
//     scale              the blocks' scales
//     load               the weights, as block_vectors vectors
//     add                the sums of such a block's products with a block of each of C columns, for eight or lanes rows
#ifndef RUNNER_KERNELS_QUANTIZED_H
#define RUNNER_KERNELS_QUANTIZED_H

#include "kernels.h"

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <vector>

namespace kernels {

namespace {

// weight_reader reads eight rows of weights where they lie. Meanwhile it asks for the rows that follow, into the second
// cache: the first is too small for more rows. Into the first it takes what it reads next.
template <typename W> struct weight_reader {
    const char * data;
    distances    rows;

    using ints = ints8;
    using floats = floats8;

    // A cache line has period blocks, so with each block it is another part of the rows' turn.
    static constexpr int64_t period = (64 + W::bytes / 2) / W::bytes, soon = 6;

    INLINE void ask(int64_t b) const {
        const char * next = data + b % period * (8 / period) * rows.of(1) + (b + soon) * W::bytes;
        UNROLL for (int64_t r = 0; r < 8 / period; r++) {
            __builtin_prefetch(next + rows.of(r), 0, 3);
        }
        const char * later = data + rows.of(1) * 8 + b * W::bytes * 8;
        UNROLL for (size_t line = 0; line < W::bytes * 8; line += 64) {
            __builtin_prefetch(later + line, 0, 2);
        }
    }
    INLINE void read(int64_t b, ints8 (&w)[block_vectors], floats8 & scale) const {
        ask(b);
        scale = W::scale(data + b * W::bytes, rows);
        W::load(data + b * W::bytes, rows, w);
    }
};

// A panel is lanes rows of weights, taken apart once for many columns.
struct alignas(64) panel_block {
    ints   w[block_vectors];
    floats scale;
};

struct panel_reader {
    const panel_block * blocks;

    using ints = kernels::ints;
    using floats = kernels::floats;

    INLINE void read(int64_t b, ints (&w)[block_vectors], floats & scale) const {
        UNROLL for (int j = 0; j < block_vectors; j++) {
            w[j] = blocks[b].w[j];
        }
        scale = blocks[b].scale;
    }
};

// group is where the results of some rows, at most one of a vector's, go.
struct group {
    int64_t first, count;
    template <typename F> INLINE void put(float * out, F v) const {
        constexpr int64_t all = sizeof v / sizeof(float);
        if (count >= all) {
            store(out + first, v);
        } else {
            float each[all];
            store(each, v);
            std::memcpy(out + first, each, count * sizeof(float));
        }
    }
};

// tile multiplies the rows of a reader with C columns.
template <typename W, int C, typename R>
KERNEL void quantized_tile(const R & reader, int64_t blocks, group rows, const block * const * columns,
    float * const * out) {
    using ints = typename R::ints;
    using floats = typename R::floats;
    const block * x[C];
    floats acc[C];
    UNROLL for (int c = 0; c < C; c++) {
        x[c] = columns[c];
        acc[c] = floats{};
    }
    for (int64_t b = 0; b < blocks; b++) {
        ints w[block_vectors], sum[C];
        floats scale;
        reader.read(b, w, scale);
        W::add(w, x, b, sum);
        UNROLL for (int c = 0; c < C; c++) {
            acc[c] = fused(to_floats(sum[c]), scale * x[c][b].scale, acc[c]);
        }
    }
    for (int c = 0; c < C; c++) {
        rows.put(out[c], acc[c]);
    }
}

// tiles does the same for any number of columns.
template <typename W, int C, typename R>
KERNEL void quantized_tiles(const R & reader, int64_t blocks, group rows, const block * const * columns,
    float * const * out, int64_t count) {
    for (; count >= C; count -= C, columns += C, out += C) {
        quantized_tile<W, C>(reader, blocks, rows, columns, out);
    }
    if constexpr (C > 1) {
        quantized_tiles<W, C - 1>(reader, blocks, rows, columns, out, count);
    }
}

// fill takes eight rows apart for a panel, from row first of the panel on.
template <typename W>
KERNEL void fill(const weight_reader<W> & reader, int64_t blocks, panel_block * panel, int64_t first) {
    for (int64_t b = 0; b < blocks; b++) {
        ints8 w[block_vectors];
        floats8 scale;
        reader.read(b, w, scale);
        UNROLL for (int j = 0; j < block_vectors; j++) {
            std::memcpy((int32_t *) &panel[b].w[j] + first, &w[j], sizeof w[j]);
        }
        std::memcpy((float *) &panel[b].scale + first, &scale, sizeof scale);
    }
}

template <typename W>
KERNEL void quantized_products(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    static thread_local std::vector<panel_block> panel;
    const int64_t blocks = w.n / 32;
    const size_t length = blocks * W::bytes;
    std::vector<char> padded;
    if (count > width && (int64_t) panel.size() < blocks) {
        panel.resize(blocks);
    }
    // at is a reader of up to eight rows. If there are fewer, it reads a copy with others.
    const auto at = [&](int64_t row) INLINED {
        const char * data = w.data + row * w.stride;
        if (last - row >= 8) {
            return weight_reader<W>{data, distances(w.stride)};
        }
        padded.resize(8 * length);
        for (int64_t r = 0; r < last - row; r++) {
            std::memcpy(padded.data() + r * length, data + r * w.stride, length);
        }
        return weight_reader<W>{padded.data(), distances(length)};
    };
    if (count <= width) { // each weight is used once
        for (; first < last; first += 8) {
            quantized_tiles<W, width>(at(first), blocks, group{first, last - first}, columns, out, count);
        }
    }
    for (; first < last; first += lanes) {
        for (int64_t r = 0; r < lanes && first + r < last; r += 8) {
            fill(at(first + r), blocks, panel.data(), r);
        }
        quantized_tiles<W, width>(panel_reader{panel.data()}, blocks, group{first, last - first}, columns, out, count);
    }
}

void multiply_quantized(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    const bool mxfp4 = w.format == rows::mxfp4;
    const auto products = mxfp4 ? quantized_products<mxfp4_weights> : quantized_products<q8_0_weights>;
    products(w, first, last, columns, out, count);
}

// quantize rounds activations to bytes, block by block.
KERNEL void quantize(const float * x, int64_t n, enum rows::format format, block * out) {
    const int32_t offset = format == rows::mxfp4 ? mxfp4_weights::offset : q8_0_weights::offset;
    for (int64_t i = 0; i < n; i += 32, out++) {
        floats sizes = all(0.0f);
        UNROLL for (int j = 0; j < 32; j += lanes) {
            sizes = greater(sizes, magnitude(load(x + i + j)));
        }
        const float most = largest(sizes);
        // The smallest activations would need a factor beyond the largest float.
        const floats by = all(most > 0 ? std::min(127 / most, FLT_MAX) : 0.0f);
        UNROLL for (int j = 0; j < 32; j += lanes) {
            round_bytes(out->x + j, load(x + i + j) * by);
        }
        out->offset = -offset * sum_bytes(out->x);
        out->scale = most / 127;
    }
}

} // namespace

} // namespace kernels

#endif
