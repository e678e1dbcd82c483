// Products with quantized weights, written once for vectors of any width; see kernels_simd.h.
//
// Every sum has the same order, for one column or many: the products of a block of 32 (16 for Q6_K) are added exactly,
// as whole numbers, and the blocks one after another, each with one fused operation, and one more where a format
// subtracts a minimum from its weights. A vector holds one number for each of some rows, so nothing is added across a
// vector. Columns are in registers, up to width of them at a time.
//
// Few columns are multiplied with eight rows where they lie. For more, lanes rows are taken apart into a panel.
//
// Before the include the file of an instruction set also defines:
//
//   ints8, floats8, distances  see kernels_reading.h
//   store, to_floats, fused    also for vectors of eight
//   every<F>           a vector F of one number
//   width              how many columns a tile has at most
//   mxfp4_weights, q4_0_weights and so on  the formats; with what kernels_reading.h has of them:
//     offset             what is added to each weight
//     sums               how many sums a block of 32 has; the i-th has the scale factor[i]
//     minimum            whether factor[1] times the sum of the activations is subtracted
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

// is_super reports whether a format has blocks of 256.
template <typename W, typename = void> struct is_super { static constexpr bool value = false; };
template <typename W> struct is_super<W, decltype(void(W::part(0)))> { static constexpr bool value = true; };

// weight_reader reads eight rows of weights where they lie. Meanwhile it asks for the rows that follow, into the second
// cache: the first is too small for more rows. Into the first it takes what it reads next.
template <typename W> struct weight_reader {
    const char * data;
    distances    rows;

    using ints = ints8;
    using floats = floats8;

    // each calls f for all blocks of 32: with the activations' block, the weights and their factors.
    template <typename F> INLINE void each(int64_t blocks, F f) const {
        if constexpr (is_super<W>::value) {
            const char * p = data;
            for (int64_t b = 0; b < blocks; b += 8, p += W::bytes) {
                floats8 factor[8][W::factors];
                W::read_factors(p, rows, factor);
                for (int j = 0; j < 4; j++) {
                    ask(p, b / 8, j);
                    ints8 w[2][block_vectors];
                    W::load_two(p, rows, j, w[0], w[1]);
                    UNROLL for (int i = 0; i < 2; i++) {
                        f(b + W::part(2 * j + i), w[i], factor[2 * j + i]);
                    }
                }
            }
        } else {
            for (int64_t b = 0; b < blocks; b++) {
                ask(b);
                ints8 w[block_vectors];
                const floats8 factor[1] = {W::scale(data + b * W::bytes, rows)};
                W::load(data + b * W::bytes, rows, w);
                f(b, w, factor);
            }
        }
    }

    // A cache line has period blocks, so with each block it is another part of the rows' turn.
    static constexpr int64_t period = W::bytes < 64 ? (64 + W::bytes / 2) / W::bytes : 1, soon = 6;

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

    // The same for a fourth of a block of 256: two of the rows.
    INLINE void ask(const char * p, int64_t b, int j) const {
        const char * next = p + W::bytes + 2 * j * rows.of(1);
        UNROLL for (size_t line = 0; line < W::bytes; line += 64) {
            __builtin_prefetch(next + line, 0, 3);
            __builtin_prefetch(next + rows.of(1) + line, 0, 3);
        }
        const char * later = data + rows.of(1) * 8 + (4 * b + j) * W::bytes * 2;
        UNROLL for (size_t line = 0; line < W::bytes * 2; line += 64) {
            __builtin_prefetch(later + line, 0, 2);
        }
    }
};

// A panel is lanes rows of weights, taken apart once for many columns.
template <typename W> struct alignas(64) panel_block {
    ints   w[block_vectors];
    floats factor[W::factors];
};

// part_of is the activations' block for the i-th block of a panel.
template <typename W> INLINE int64_t part_of(int64_t i) {
    if constexpr (is_super<W>::value) {
        return W::part(i);
    } else {
        return i;
    }
}

template <typename W> struct panel_reader {
    const panel_block<W> * panel;

    using ints = kernels::ints;
    using floats = kernels::floats;

    template <typename F> INLINE void each(int64_t blocks, F f) const {
        for (int64_t i = 0; i < blocks; i++) {
            f(part_of<W>(i), panel[i].w, panel[i].factor);
        }
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
    reader.each(blocks, [&](int64_t b, const ints (&w)[block_vectors], const floats * factor) INLINED {
        ints sum[C][W::sums];
        W::add(w, x, b, sum);
        UNROLL for (int c = 0; c < C; c++) {
            UNROLL for (int i = 0; i < W::sums; i++) {
                acc[c] = fused(to_floats(sum[c][i]), factor[i] * x[c][b].scale, acc[c]);
            }
            if constexpr (W::minimum) {
                acc[c] = fused(factor[1], every<floats>(x[c][b].sum), acc[c]);
            }
        }
    });
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
KERNEL void fill(const weight_reader<W> & reader, int64_t blocks, panel_block<W> * panel, int64_t first) {
    reader.each(blocks, [&](int64_t, const ints8 (&w)[block_vectors], const floats8 * factor) INLINED {
        UNROLL for (int j = 0; j < block_vectors; j++) {
            std::memcpy((int32_t *) &panel->w[j] + first, &w[j], sizeof w[j]);
        }
        UNROLL for (int i = 0; i < W::factors; i++) {
            std::memcpy((float *) &panel->factor[i] + first, &factor[i], sizeof factor[i]);
        }
        panel++;
    });
}

// row_readers makes readers of up to eight rows. If there are fewer before row last, it reads a copy with others.
template <typename W> struct row_readers {
    const rows &      w;
    int64_t           last;
    size_t            length = w.n / 32 / (is_super<W>::value ? 8 : 1) * W::bytes;
    std::vector<char> padded = {};

    INLINE weight_reader<W> at(int64_t row) {
        const char * data = w.data + row * w.stride;
        if (last - row >= 8) {
            return weight_reader<W>{data, distances(w.stride)};
        }
        padded.resize(8 * length);
        for (int64_t r = 0; r < last - row; r++) {
            std::memcpy(padded.data() + r * length, data + r * w.stride, length);
        }
        return weight_reader<W>{padded.data(), distances(length)};
    }
};

template <typename W>
KERNEL void quantized_products(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    static thread_local std::vector<panel_block<W>> panel;
    const int64_t blocks = w.n / 32;
    if (count > width && (int64_t) panel.size() < blocks) {
        panel.resize(blocks);
    }
    row_readers<W> readers{w, last};
    if (count <= width) { // each weight is used once
        for (; first < last; first += 8) {
            quantized_tiles<W, width>(readers.at(first), blocks, group{first, last - first}, columns, out, count);
        }
    }
    for (; first < last; first += lanes) {
        for (int64_t r = 0; r < lanes && first + r < last; r += 8) {
            fill(readers.at(first + r), blocks, panel.data(), r);
        }
        const panel_reader<W> reader{panel.data()};
        quantized_tiles<W, width>(reader, blocks, group{first, last - first}, columns, out, count);
    }
}

// with_weights calls f with a format's weights.
template <typename F> void with_weights(enum rows::format format, F f) {
    switch (format) {
    case rows::mxfp4: f(mxfp4_weights{}); break;
    case rows::q4_0: f(q4_0_weights{}); break;
    case rows::iq4_nl: f(iq4_nl_weights{}); break;
    case rows::q8_0: f(q8_0_weights{}); break;
    case rows::q4_k: f(q4_k_weights{}); break;
    case rows::q5_k: f(q5_k_weights{}); break;
    case rows::q6_k: f(q6_k_weights{}); break;
    case rows::iq4_xs: f(iq4_xs_weights{}); break;
    default: break; // not quantized
    }
}

void multiply_quantized(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    with_weights(w.format, [&](auto weights) {
        quantized_products<decltype(weights)>(w, first, last, columns, out, count);
    });
}

// quantize rounds activations to bytes, block by block.
KERNEL void quantize(const float * x, int64_t n, enum rows::format format, block * out) {
    int32_t offset = 0, sums = 1;
    bool minimum = false;
    with_weights(format, [&](auto w) { offset = w.offset, sums = w.sums, minimum = w.minimum; });
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
        out->scale = most / 127;
        const int32_t first = sum_bytes(out->x), second = sum_bytes(out->x + 16);
        if (minimum) {
            out->sum = (float) -(first + second) * out->scale;
        } else {
            out->offset[0] = -offset * (sums == 1 ? first + second : first);
            out->offset[1] = -offset * second;
        }
    }
}

} // namespace

} // namespace kernels

#endif
