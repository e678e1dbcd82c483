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
//     scale, scales      a block's scale as it lies in memory; those of lanes rows as floats
//     load               the weights of a block, as block_vectors vectors
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

// Scales are gathered for this many blocks at a time: byte by byte, and long before they are used as a vector.
constexpr int at_once = 16;

// weight_reader reads lanes rows of weights where they lie. Meanwhile it asks for the rows that follow, into the second
// cache: the first is too small for two groups of rows.
template <typename W> struct weight_reader {
    const char *                      data;
    size_t                            stride;
    alignas(64) typename W::scale scales[at_once][lanes];

    // prepare must be called before the blocks from first on, at most at_once, are read.
    INLINE void prepare(int64_t first, int count) {
        for (int r = 0; r < lanes; r++) {
            const char * p = data + r * stride + first * W::bytes;
            for (int i = 0; i < count; i++) {
                std::memcpy(&scales[i][r], p + i * W::bytes, sizeof scales[i][r]);
            }
        }
    }

    INLINE void read(int64_t first, int i, ints (&w)[block_vectors], floats & scale) const {
        const char * ahead = data + lanes * stride + (first + i) * W::bytes * lanes;
        UNROLL for (size_t line = 0; line < W::bytes * lanes; line += 64) {
            __builtin_prefetch(ahead + line, 0, 2);
        }
        W::load(data + (first + i) * W::bytes, stride, w);
        scale = W::scales(scales[i]);
    }
};

// A panel is lanes rows of weights, taken apart once for many columns.
struct alignas(64) panel_block {
    ints   w[block_vectors];
    floats scale;
};

struct panel_reader {
    const panel_block * blocks;
    INLINE void prepare(int64_t, int) {}
    INLINE void read(int64_t first, int i, ints (&w)[block_vectors], floats & scale) const {
        UNROLL for (int j = 0; j < block_vectors; j++) {
            w[j] = blocks[first + i].w[j];
        }
        scale = blocks[first + i].scale;
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
KERNEL void quantized_tile(R & reader, int64_t blocks, group rows, const block * const * columns,
    float * const * out) {
    const block * x[C];
    floats acc[C];
    UNROLL for (int c = 0; c < C; c++) {
        x[c] = columns[c];
        acc[c] = all(0.0f);
    }
    for (int64_t first = 0; first < blocks; first += at_once) {
        const int count = (int) std::min<int64_t>(at_once, blocks - first);
        reader.prepare(first, count);
        for (int i = 0; i < count; i++) {
            ints w[block_vectors], sum[C];
            floats scale;
            reader.read(first, i, w, scale);
            W::add(w, x, first + i, sum);
            UNROLL for (int c = 0; c < C; c++) {
                acc[c] = fused(to_floats(sum[c]), scale * all(x[c][first + i].scale), acc[c]);
            }
        }
    }
    for (int c = 0; c < C; c++) {
        rows.put(out[c], acc[c]);
    }
}

// tiles does the same for any number of columns.
template <typename W, int C, typename R>
KERNEL void quantized_tiles(R & reader, int64_t blocks, group rows, const block * const * columns,
    float * const * out, int64_t count) {
    for (; count >= C; count -= C, columns += C, out += C) {
        quantized_tile<W, C>(reader, blocks, rows, columns, out);
    }
    if constexpr (C > 1) {
        quantized_tiles<W, C - 1>(reader, blocks, rows, columns, out, count);
    }
}

// fill takes rows apart for a panel.
template <typename W> KERNEL void fill(weight_reader<W> & reader, int64_t blocks, panel_block * panel) {
    for (int64_t first = 0; first < blocks; first += at_once) {
        const int count = (int) std::min<int64_t>(at_once, blocks - first);
        reader.prepare(first, count);
        for (int i = 0; i < count; i++) {
            ints w[block_vectors];
            floats scale;
            reader.read(first, i, w, scale);
            UNROLL for (int j = 0; j < block_vectors; j++) {
                panel[first + i].w[j] = w[j];
            }
            panel[first + i].scale = scale;
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
        weight_reader<W> reader;
        reader.data = w.data + first * w.stride, reader.stride = w.stride;
        if (rows.count < lanes) { // the last few, as if there were more
            padded.resize(lanes * length);
            for (int64_t r = 0; r < rows.count; r++) {
                std::memcpy(padded.data() + r * length, reader.data + r * w.stride, length);
            }
            reader.data = padded.data(), reader.stride = length;
        }
        if (count <= width) { // each weight is used once
            quantized_tiles<W, width>(reader, blocks, rows, columns, out, count);
        } else {
            fill(reader, blocks, panel.data());
            panel_reader all = {panel.data()};
            quantized_tiles<W, width>(all, blocks, rows, columns, out, count);
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
