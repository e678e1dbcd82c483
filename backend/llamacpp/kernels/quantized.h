// Products with quantized weights, written once for vectors of any width; see simd.h.
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
//   ints8, floats8, distances  see reading.h
//   store, to_floats, fused    also for vectors of eight
//   every<F>           a vector F of one number
//   added_bits, subtracted_bits  the sums and differences of the bits of two vectors of floats, as whole numbers
//   width              how many columns a tile has at most
//   mxfp4_weights, q4_0_weights and so on  the formats; with what reading.h has of them:
//     offset             what is added to each weight
//     sums               how many sums a block of 32 has; the i-th has the scale factor[i]
//     minimum            whether factor[1] times the sum of the activations is subtracted
//     power_scales       whether the factors are powers of two
//     blocks             how many blocks quantize makes of 32 activations
//     add                the sums of such a block's products with a block of each of C columns, for eight or lanes rows
#ifndef RUNNER_KERNELS_QUANTIZED_H
#define RUNNER_KERNELS_QUANTIZED_H

#include "kernels.h"
#include "rows.h"

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <vector>

namespace kernels {

namespace {

// A panel is lanes rows of weights, taken apart once for many columns.
template <typename W> struct alignas(64) panel_block {
    ints   w[block_vectors];
    floats factor[W::factors];
};

// usual_powers reports whether all factors of a panel are usual. If so, it replaces them by what is to be added to the
// bits of a scale. A processor has fewer units for products of floats, and dot products use them.
template <typename W> KERNEL bool usual_powers(panel_block<W> * panel, int64_t blocks) {
    floats least = all(largest_usual), most = all(smallest_usual);
    for (int64_t i = 0; i < blocks; i++) {
        least = lesser(panel[i].factor[0], least);
        most = greater(panel[i].factor[0], most);
    }
    float each[lanes];
    store(each, least);
    if (*std::min_element(each, each + lanes) < smallest_usual || largest(most) > largest_usual) {
        return false;
    }
    for (int64_t i = 0; i < blocks; i++) {
        panel[i].factor[0] = subtracted_bits(panel[i].factor[0], all(1.0f));
    }
    return true;
}

// wish is a part of the weights that will be read after a panel. Readers of the panel ask for it, a little with each
// block, so that it is in the second cache when the panel is done.
struct wish {
    const char * next, * end;
    static constexpr int lines = 2; // at a time

    INLINE void ask() {
        UNROLL for (int i = 0; i < lines; i++) {
            __builtin_prefetch(next, 0, 2);
            next = std::min(next + 64, end);
        }
    }
};

// panel_reader reads a panel; with usual is true, one whose factors usual_powers replaced.
template <typename W, bool usual> struct panel_reader {
    const panel_block<W> * panel;
    wish * later;

    using ints = kernels::ints;
    using floats = kernels::floats;

    static INLINE floats scaled(floats factor, float scale) {
        if constexpr (usual) {
            return added_bits(factor, all(scale));
        } else {
            return factor * scale;
        }
    }

    template <typename F> INLINE void each(int64_t blocks, F f) const {
        wish asked = *later;
        for (int64_t i = 0; i < blocks; i++) {
            asked.ask();
            f(part_of<W>(i), panel[i].w, panel[i].factor);
        }
        *later = asked;
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
                acc[c] = fused(to_floats(sum[c][i]), R::scaled(factor[i], x[c][b * W::blocks].scale), acc[c]);
            }
            if constexpr (W::minimum) {
                acc[c] = fused(factor[1], every<floats>(x[c][b * W::blocks].sum), acc[c]);
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

template <typename W>
KERNEL void quantized_products(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    static thread_local std::vector<panel_block<W>> panel;
    const int64_t blocks = w.n / 32;
    row_source<W> source(w, last);
    if (count > width && (int64_t) panel.size() < blocks) {
        panel.resize(blocks);
    }
    if (count <= width) { // each weight is used once
        for (; first < last; first += 8) {
            quantized_tiles<W, width>(source.at(first), blocks, group{first, last - first}, columns, out, count);
        }
    }
    const bool usual =
        W::power_scales && std::all_of(columns, columns + count, [](const block * x) { return x->offset[1]; });
    for (; first < last; first += lanes) {
        for (int64_t r = 0; r < lanes && first + r < last; r += 8) {
            fill(source.at(first + r), blocks, panel.data(), r);
        }
        const char * end = w.data + (first + lanes) * w.stride;
        wish later{end, end + lanes * w.stride};
        const group rows{first, last - first};
        if (usual && usual_powers(panel.data(), blocks)) {
            const panel_reader<W, W::power_scales> reader{panel.data(), &later};
            quantized_tiles<W, width>(reader, blocks, rows, columns, out, count);
        } else {
            const panel_reader<W, false> reader{panel.data(), &later};
            quantized_tiles<W, width>(reader, blocks, rows, columns, out, count);
        }
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

int blocks(enum rows::format) { return 1; }

// quantize rounds activations to bytes, block by block.
KERNEL void quantize(const float * x, int64_t n, enum rows::format format, block * out) {
    int32_t offset = 0, sums = 1;
    bool minimum = false, power_scales = false, usual = true;
    with_weights(format, [&](auto w) {
        offset = w.offset, sums = w.sums, minimum = w.minimum, power_scales = w.power_scales;
    });
    block * const begin = out;
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
        // The products of zeros are zero with every scale.
        out->scale = most == 0 && power_scales ? 1 : most / 127;
        usual = usual && out->scale >= smallest_usual && out->scale <= largest_usual;
        const int32_t first = sum_bytes(out->x), second = sum_bytes(out->x + 16);
        if (minimum) {
            out->sum = (float) -(first + second) * out->scale;
        } else {
            out->offset[0] = -offset * (sums == 1 ? first + second : first);
            out->offset[1] = -offset * second;
        }
    }
    if (power_scales && n > 0) {
        begin->offset[1] = usual;
    }
}

} // namespace

} // namespace kernels

#endif
