// Reading of eight rows of quantized weights, for products with few columns and for panels. The files of instruction
// sets include it after reading.h.
#ifndef RUNNER_KERNELS_ROWS_H
#define RUNNER_KERNELS_ROWS_H

#include "kernels.h"

#include <cstddef>
#include <cstdint>
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

    static INLINE floats scaled(floats factor, float scale) { return factor * scale; }

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

// row_source makes readers of the rows of a matrix before row last.
template <typename W> class row_source {
    const rows &      w;
    const int64_t     last;
    std::vector<char> padded;

  public:
    row_source(const rows & w, int64_t last) : w(w), last(last) {}

    // at is a reader of up to eight rows. If there are fewer, it reads a copy with others.
    KERNEL weight_reader<W> at(int64_t row) {
        const char * data = w.data + row * w.stride;
        if (last - row >= 8) {
            return weight_reader<W>{data, distances(w.stride)};
        }
        const size_t length = w.n / 32 / (is_super<W>::value ? 8 : 1) * W::bytes;
        padded.resize(8 * length);
        for (int64_t r = 0; r < last - row; r++) {
            std::memcpy(padded.data() + r * length, data + r * w.stride, length);
        }
        return weight_reader<W>{padded.data(), distances(length)};
    }
};

// part_of is the activations' block for the i-th block of a panel.
template <typename W> INLINE int64_t part_of(int64_t i) {
    if constexpr (is_super<W>::value) {
        return W::part(i);
    } else {
        return i;
    }
}

} // namespace

} // namespace kernels

#endif
