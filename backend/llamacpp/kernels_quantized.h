// Products with quantized weights, written once for vectors of any width; see kernels_simd.h.
//
// Every sum has the same order, for one column or many: the products of a block of 32 are added exactly, as whole
// numbers, and the blocks one after another, each with one fused operation. A vector holds one number for each of
// lanes rows, so nothing is added across a vector. Columns are in registers, up to width of them at a time.
//
// Before the include the file of an instruction set also defines:
//
//   block_vectors        8: a vector has 4 bytes for each row, a block 32
//   width                how many columns a tile has at most
//   mxfp4_weights, q8_0_weights  read one block of lanes rows:
//     bytes, offset      the size of a block, and what is added to each weight
//     scales             the blocks' scales
//     load               the weights, as block_vectors vectors
//     add                the sums of such a block's products with a block of each of C columns
#ifndef RUNNER_KERNELS_QUANTIZED_H
#define RUNNER_KERNELS_QUANTIZED_H

#include "kernels.h"

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <vector>

namespace kernels {

namespace {

// weight_reader reads lanes rows of weights where they lie. Meanwhile it asks for the rows that follow, into the second
// cache: the first is too small for two groups of rows.
template <typename W> struct weight_reader {
    const char * data;
    size_t       stride;

    INLINE void read(int64_t b, ints (&w)[block_vectors], floats & scale) const {
        const char * ahead = data + lanes * stride + b * W::bytes * lanes;
        UNROLL for (size_t line = 0; line < W::bytes * lanes; line += 64) {
            __builtin_prefetch(ahead + line, 0, 2);
        }
        scale = W::scales(data + b * W::bytes, stride);
        W::load(data + b * W::bytes, stride, w);
    }
};

// A panel is lanes rows of weights, taken apart once for many columns.
struct alignas(64) panel_block {
    ints   w[block_vectors];
    floats scale;
};

struct panel_reader {
    const panel_block * blocks;
    INLINE void read(int64_t b, ints (&w)[block_vectors], floats & scale) const {
        UNROLL for (int j = 0; j < block_vectors; j++) {
            w[j] = blocks[b].w[j];
        }
        scale = blocks[b].scale;
    }
};

// group is where the results of some rows, at most lanes, go.
struct group {
    int64_t first, count;
    INLINE void put(float * out, floats v) const {
        if (count == lanes) {
            store(out + first, v);
        } else {
            float each[lanes];
            store(each, v);
            std::memcpy(out + first, each, count * sizeof(float));
        }
    }
};

// tile multiplies lanes rows with C columns.
template <typename W, int C, typename R>
KERNEL void quantized_tile(const R & reader, int64_t blocks, group rows, const block * const * columns,
    float * const * out) {
    const block * x[C];
    floats acc[C];
    UNROLL for (int c = 0; c < C; c++) {
        x[c] = columns[c];
        acc[c] = all(0.0f);
    }
    for (int64_t b = 0; b < blocks; b++) {
        ints w[block_vectors], sum[C];
        floats scale;
        reader.read(b, w, scale);
        W::add(w, x, b, sum);
        UNROLL for (int c = 0; c < C; c++) {
            acc[c] = fused(to_floats(sum[c]), scale * all(x[c][b].scale), acc[c]);
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

// fill takes rows apart for a panel.
template <typename W> KERNEL void fill(const weight_reader<W> & reader, int64_t blocks, panel_block * panel) {
    for (int64_t b = 0; b < blocks; b++) {
        ints w[block_vectors];
        reader.read(b, w, panel[b].scale);
        UNROLL for (int j = 0; j < block_vectors; j++) {
            panel[b].w[j] = w[j];
        }
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
    for (; first < last; first += lanes) {
        const group rows = {first, std::min<int64_t>(lanes, last - first)};
        weight_reader<W> reader = {w.data + first * w.stride, w.stride};
        if (rows.count < lanes) { // the last few, as if there were more
            padded.resize(lanes * length);
            for (int64_t r = 0; r < rows.count; r++) {
                std::memcpy(padded.data() + r * length, reader.data + r * w.stride, length);
            }
            reader = {padded.data(), length};
        }
        if (count <= width) { // each weight is used once
            quantized_tiles<W, width>(reader, blocks, rows, columns, out, count);
        } else {
            fill(reader, blocks, panel.data());
            const panel_reader taken = {panel.data()};
            quantized_tiles<W, width>(taken, blocks, rows, columns, out, count);
        }
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
