// Products of few columns with weights in the order in which they lie in memory.
//
// A vector of 64 bytes gets the weights of four blocks of MXFP4 or of two of Q8_0 of a row, without the scales between
// them. A row is first multiplied to its end, which gives the exact sums of its blocks. When 16 rows have
// theirs, the sums are transposed, so that one vector has those of a block of each row, and added block after block.
//
// The results are the same, to the bit, as those of AVX-512 VNNI with the same blocks of activations.

#include "streamed.h"

#if defined(__x86_64__)

#include "amx.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <vector>

#define KERNEL_TARGET AVX512_TARGET ",avx512vbmi"
#include "target.h"

#include "lanes.h"

// Matrices with shorter rows stay in the cache. There other orders are faster. Tests, whose rows are short, set it.
#ifndef RUNNER_STREAMED_LEAST
#define RUNNER_STREAMED_LEAST 1024
#endif

namespace kernels {

namespace {

using ints = __m512i;
using floats = __m512;

constexpr int64_t height = 16; // rows of a tile

// A group is 16 blocks of a row, whose sums are in one vector. A step is the blocks of it that one vector of weights
// holds. The sums of four steps are added at a time.
constexpr int    group = 16, steps_at_once = 4;
constexpr size_t step_bytes = 68;

// So many bytes before they are read, weights are asked for: into the second cache and then into the first.
constexpr int64_t far_ahead = 3072, ahead = 512;

INLINE ints load(const void * p) { return _mm512_load_si512(p); }

constexpr e2m1_of_bytes              e2m1_table;
constexpr weights_at<mxfp4_block, 1> order;

// mxfp4 is multiplied by activations of nine bits: two times those of the first part, and those of the second.
struct mxfp4 {
    static constexpr size_t bytes = mxfp4_block;
    static constexpr int    blocks = 4, steps = 4, parts = 2, vectors = 2; // of a step; of weights in it

    // scales is the exponents of 16 rows.
    struct alignas(64) scales {
        uint8_t of[height][group];
    };

    // place is where the sum of a group's b-th block is. Lane i has the i-th blocks of the steps.
    static constexpr int place(int b) { return b % 4 * 4 + b / 4; }

    static void arrange(const int8_t * x, int b, int8_t (*to)[64]) {
        std::memcpy(to[0] + b * 16, x, 16);
        std::memcpy(to[1] + b * 16, x + 16, 16);
    }

    // read reads the weights of a step's blocks, as many as are left, and the step's first bytes.
    static INLINE ints read(const char * p, int left, ints & head) {
        if (left < blocks) {
            head = _mm512_maskz_loadu_epi8(left > 0 ? (1ull << bytes * left) - 1 : 0, p);
            return _mm512_permutexvar_epi8(load(order.byte), head);
        }
        // The last block ends behind these 64 bytes, so the permutation leaves it wrong, and it is replaced. Loading it
        // takes no unit that permutations need.
        head = _mm512_loadu_si512(p);
        const __m128i last = _mm_loadu_si128((const __m128i *) (p + (blocks - 1) * bytes + 1));
        return _mm512_mask_broadcast_i32x4(_mm512_permutexvar_epi8(load(order.byte), head), 0xf000, last);
    }

    static INLINE void unpack(ints (&w)[vectors][steps_at_once]) {
        UNROLL for (int i = 0; i < steps_at_once; i++) {
            w[1][i] = _mm512_srli_epi16(w[0][i], 4);
        }
        keep_order(w[1]);
        UNROLL for (int j = 0; j < vectors; j++) {
            UNROLL for (int i = 0; i < steps_at_once; i++) {
                w[j][i] = _mm512_permutexvar_epi8(w[j][i], load(e2m1_table.weight));
            }
            keep_order(w[j]);
        }
    }

    static INLINE ints joined(const ints (&sum)[1]) { return sum[0]; }

    // take takes the scales of the s-th step's blocks, of which count are left, from its first bytes.
    static INLINE void take(scales &, int64_t, int s, int count, const char *, ints head, ints & exponents) {
        const uint64_t there = count < blocks ? (1ull << count) - 1 : 15;
        exponents = _mm512_mask_permutexvar_epi8(exponents, there << 4 * s, load(table.exponents), head);
    }
    // keep keeps those of a row.
    static INLINE void keep(scales & to, int64_t row, ints exponents) {
        _mm_store_si128((__m128i *) to.of[row], _mm512_castsi512_si128(exponents));
    }

    // turned computes the scales of each block: two to the power of the exponents less 128.
    static INLINE void turned(const scales & from, floats (&scale)[group]) {
        const ints a = load(from.of[0]), b = load(from.of[4]), c = load(from.of[8]), d = load(from.of[12]);
        const ints two = _mm512_set1_epi8(2), one = _mm512_set1_epi32(1), smallest = _mm512_set1_epi32(smallest_scale);
        const bool small = (_mm512_cmplt_epu8_mask(a, two) | _mm512_cmplt_epu8_mask(b, two) |
            _mm512_cmplt_epu8_mask(c, two) | _mm512_cmplt_epu8_mask(d, two)) != 0;
        alignas(64) uint8_t exponents[group][height];
        UNROLL for (int half = 0; half < 2; half++) {
            const ints ab = _mm512_permutex2var_epi8(a, load(table.turn[half]), b);
            const ints cd = _mm512_permutex2var_epi8(c, load(table.turn[half]), d);
            UNROLL for (int i = 0; i < 2; i++) {
                const ints rows = _mm512_permutex2var_epi64(ab, load(table.join[i]), cd);
                _mm512_store_si512(exponents[8 * half + 4 * i], rows);
            }
        }
        UNROLL for (int i = 0; i < group; i++) {
            const ints e = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *) exponents[i]));
            ints bits = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
            if (__builtin_expect(small, 0)) {
                bits = _mm512_mask_sllv_epi32(bits, _mm512_cmple_epi32_mask(e, one), smallest, e);
            }
            scale[i] = _mm512_castsi512_ps(bits);
        }
    }

    // The tables: where the exponents of a step are, for all steps; where eight rows have the exponents of eight
    // blocks; and how these are joined to 16 rows.
    struct alignas(64) tables {
        uint8_t exponents[64], turn[2][64];
        int64_t join[2][8];
        constexpr tables() : exponents(), turn(), join() {
            for (int i = 0; i < 64; i++) {
                exponents[i] = (uint8_t) (i % blocks * (int) bytes);
                turn[0][i] = (uint8_t) (i % 8 * group + i / 8);
                turn[1][i] = (uint8_t) (i % 8 * group + i / 8 + 8);
            }
            for (int i = 0; i < 8; i++) {
                join[0][i] = i / 2 + i % 2 * 8;
                join[1][i] = i / 2 + i % 2 * 8 + 4;
            }
        }
    };
    static const tables table;
};

constexpr mxfp4::tables mxfp4::table;

struct q8_0 {
    static constexpr size_t bytes = q8_0_block;
    static constexpr int    blocks = 2, steps = 8, parts = 1, vectors = 1;

    // scales is those of each block, as half floats.
    struct alignas(64) scales {
        uint16_t of[group][height];
    };

    // Lanes 2i and 2i+1 have the first and second blocks of the i-th four steps.
    static constexpr int place(int b) { return b / 8 * 8 + b % 2 * 4 + b / 2 % 4; }

    static void arrange(const int8_t * x, int b, int8_t (*to)[64]) { std::memcpy(to[0] + b * 32, x, 32); }

    static INLINE ints read(const char * p, int left, ints & head) {
        const __m256i zero = _mm256_setzero_si256();
        const __m256i first = left > 0 ? _mm256_loadu_si256((const __m256i *) (p + 2)) : zero;
        const __m256i second = left > 1 ? _mm256_loadu_si256((const __m256i *) (p + bytes + 2)) : zero;
        head = _mm512_setzero_si512(); // take reads the scales where they lie
        return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
    }

    // A dot product multiplies unsigned weights: 128 is added.
    static INLINE void unpack(ints (&w)[vectors][steps_at_once]) {
        UNROLL for (int i = 0; i < steps_at_once; i++) {
            w[0][i] = _mm512_xor_si512(w[0][i], _mm512_set1_epi8((char) 128));
        }
    }

    // A block has two lanes of the sums of four steps.
    static INLINE ints joined(const ints (&sum)[2]) {
        return _mm512_add_epi32(_mm512_shuffle_i32x4(sum[0], sum[1], 0x88), _mm512_shuffle_i32x4(sum[0], sum[1], 0xdd));
    }

    // Copying halves takes no unit that vectors need.
    static INLINE void take(scales & to, int64_t row, int s, int count, const char * p, ints, ints &) {
        UNROLL for (int b = 0; b < blocks; b++) {
            if (b < count) {
                std::memcpy(&to.of[s * blocks + b][row], p + b * bytes, sizeof(uint16_t));
            }
        }
    }
    static INLINE void keep(scales &, int64_t, ints) {}

    static INLINE void turned(const scales & from, floats (&scale)[group]) {
        UNROLL for (int b = 0; b < group; b++) {
            scale[b] = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *) from.of[b]));
        }
    }
};

// activations is those of a group in a column. The offsets are in the places of the sums, and the scales in the order
// of the blocks.
template <typename W> struct alignas(64) activations {
    int8_t  x[W::steps][W::parts][W::vectors][64];
    int32_t offset[group];
    float   scale[group];
};

// products is what a tile has of a group: the sums of its blocks, for each column, and the scales of the weights.
template <typename W, int C> struct alignas(64) products {
    float sums[C][height][group];
    typename W::scales scales;
};

// ask asks for the weights that lie ahead of some steps, in this row and the next. Behind the last row it does no harm.
INLINE void ask(const char * p) {
    UNROLL for (int64_t line = 0; line < steps_at_once * (int64_t) step_bytes; line += 64) {
        __builtin_prefetch(p + ahead + line, 0, 3);
        __builtin_prefetch(p + far_ahead + line, 0, 2);
    }
}

// multiply multiplies the next blocks of a row, at most a group, with C columns. It reads no more than these.
template <typename W, int C>
INLINE void multiply(const char * p, int blocks, const activations<W> * const (&x)[C], int64_t row,
    products<W, C> & to) {
    ints scales = _mm512_set1_epi8(127), sum[C][W::steps / steps_at_once];
    UNROLL for (int s = 0; s < W::steps; s += steps_at_once, p += steps_at_once * step_bytes) {
        ints w[W::vectors][steps_at_once], head[steps_at_once], each[C][steps_at_once];
        ask(p);
        UNROLL for (int i = 0; i < steps_at_once; i++) {
            w[0][i] = W::read(p + i * step_bytes, blocks - (s + i) * W::blocks, head[i]);
        }
        keep_order(w[0]);
        W::unpack(w);
        UNROLL for (int i = 0; i < steps_at_once; i++) {
            const int left = blocks - (s + i) * W::blocks;
            if (left > 0) {
                W::take(to.scales, row, s + i, left, p + i * step_bytes, head[i], scales);
            }
        }
        UNROLL for (int c = 0; c < C; c++) {
            UNROLL for (int i = 0; i < steps_at_once; i++) {
                each[c][i] = _mm512_setzero_si512();
            }
            UNROLL for (int k = 0; k < W::parts; k++) {
                UNROLL for (int j = 0; j < W::vectors; j++) {
                    UNROLL for (int i = 0; i < steps_at_once; i++) {
                        each[c][i] = k > 0 && j == 0 ? _mm512_add_epi32(each[c][i], each[c][i]) : each[c][i];
                        each[c][i] = _mm512_dpbusd_epi32(each[c][i], w[j][i], load(x[c]->x[s + i][k][j]));
                    }
                    keep_order(each[c]);
                }
            }
            sum[c][s / steps_at_once] = added(each[c]);
        }
    }
    W::keep(to.scales, row, scales);
    UNROLL for (int c = 0; c < C; c++) {
        const ints exact = _mm512_add_epi32(W::joined(sum[c]), load(x[c]->offset));
        _mm512_store_ps(to.sums[c][row], _mm512_cvtepi32_ps(exact));
    }
}

// load_turned loads 16 rows and transposes them.
INLINE void load_turned(const float (&rows)[height][group], ints (&v)[group]) {
    UNROLL for (int r = 0; r < height; r++) {
        v[r] = load(rows[r]);
    }
    transpose(v);
}

// add adds the sums of some blocks, at most a group, each times its scales.
template <typename W, int C>
INLINE void add(const products<W, C> & from, int blocks, const activations<W> * const (&x)[C], floats (&acc)[C]) {
    floats scales[group];
    W::turned(from.scales, scales);
    UNROLL for (int c = 0; c < C; c++) {
        ints sums[group];
        load_turned(from.sums[c], sums);
        UNROLL for (int b = 0; b < group; b++) {
            if (b < blocks) {
                const floats scale = scales[b] * _mm512_set1_ps(x[c]->scale[b]);
                acc[c] = _mm512_fmadd_ps(_mm512_castsi512_ps(sums[W::place(b)]), scale, acc[c]);
            }
        }
    }
}

// tile multiplies 16 rows with C columns.
template <typename W, int C>
KERNEL void tile(const rows & w, int64_t row, const activations<W> * const (&x)[C], products<W, C> * kept,
    float * const * out) {
    const int64_t whole = w.n / 32 / group;
    const int     rest = (int) (w.n / 32 % group);
    const activations<W> * at[C];
    const auto go = [&](int64_t g) INLINED {
        UNROLL for (int c = 0; c < C; c++) {
            at[c] = x[c] + g;
        }
    };
    for (int64_t r = 0; r < height; r++) {
        const char * p = w.data + (row + r) * w.stride;
        for (int64_t g = 0; g < whole; g++, p += group * W::bytes) {
            go(g);
            multiply<W, C>(p, group, at, r, kept[g]);
        }
        if (rest > 0) {
            go(whole);
            multiply<W, C>(p, rest, at, r, kept[whole]);
        }
    }
    floats acc[C];
    UNROLL for (int c = 0; c < C; c++) {
        acc[c] = _mm512_setzero_ps();
    }
    for (int64_t g = 0; g < whole; g++) {
        go(g);
        add<W, C>(kept[g], group, at, acc);
    }
    if (rest > 0) {
        go(whole);
        add<W, C>(kept[whole], rest, at, acc);
    }
    UNROLL for (int c = 0; c < C; c++) {
        _mm512_storeu_ps(out[c] + row, acc[c]);
    }
}

// arrange arranges the blocks of a column.
template <typename W> void arrange(const block * x, int64_t blocks, activations<W> * to) {
    for (int64_t b = 0; b < blocks; b++, x += W::parts) {
        activations<W> & own = to[b / group];
        const int at = (int) (b % group);
        for (int k = 0; k < W::parts; k++) {
            W::arrange(x[k].x, at % W::blocks, own.x[at / W::blocks][k]);
        }
        own.offset[W::place(at)] = x->offset[0];
        own.scale[at] = x->scale;
    }
}

template <typename W, int C>
int64_t tiles_of(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out) {
    static thread_local std::vector<activations<W>> arranged;
    static thread_local std::vector<products<W, C>> kept;
    const int64_t blocks = w.n / 32, groups = (blocks + group - 1) / group;
    if ((int64_t) arranged.size() < C * groups) {
        arranged.resize(C * groups);
    }
    if ((int64_t) kept.size() < groups) {
        kept.resize(groups);
    }
    const activations<W> * x[C];
    for (int c = 0; c < C; c++) {
        arrange(columns[c], blocks, arranged.data() + c * groups);
        x[c] = arranged.data() + c * groups;
    }
    for (; first + height <= last; first += height) {
        tile<W, C>(w, first, x, kept.data(), out);
    }
    return first;
}

template <typename W>
int64_t any_tiles(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count) {
    switch (count) {
    case 1: return tiles_of<W, 1>(w, first, last, columns, out);
    case 2: return tiles_of<W, 2>(w, first, last, columns, out);
    case 3: return tiles_of<W, 3>(w, first, last, columns, out);
    default: return first;
    }
}

} // namespace

} // namespace kernels

bool kernels::streamed::supported() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vbmi");
}

bool kernels::streamed::suits(const rows & w, int64_t count) {
    const int64_t most = w.format == rows::mxfp4 ? 3 : w.format == rows::q8_0 ? 2 : 0;
    return w.n >= RUNNER_STREAMED_LEAST && count <= most;
}

int64_t kernels::streamed::multiply(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    return w.format == rows::mxfp4 ? any_tiles<mxfp4>(w, first, last, columns, out, count)
                                   : any_tiles<q8_0>(w, first, last, columns, out, count);
}

#endif
