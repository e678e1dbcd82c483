// Attention, written once for vectors of any width; see simd.h.
//
// Neither the layout of the cache nor the tokens that are computed together affect a result. A result is a sum over
// cells, and the cells have no order. So each product of a weight and a value is rounded to a whole number of units,
// and whole numbers are added exactly. How large a unit is depends on the query and the cells that it sees. It is 2^-33
// of a bound of all products, so all scores are computed before the first weight. Products of less than half a unit
// are lost: of n cells at most n * 2^-34 of the bound.
//
// One instruction rounds a product and adds it. The sums begin at a number whose last bit in double precision is one
// unit, and which is so large that they keep its exponent. So every sum is a whole number of units, and a product is
// rounded alike whatever the sum is, unless it lies halfway between two whole numbers: then the sum would decide. No
// product lies there, because weights are made uneven. They have a bit of at most 2^-51 of themselves, and a half float
// is a whole multiple of its own last bit, so a product that is less than one has a bit that is far below half a unit.
//
// A query here is one head of one token. The queries of a tile share a key head, and keys and values are prepared once
// for all of them.
#ifndef RUNNER_KERNELS_ATTENTION_H
#define RUNNER_KERNELS_ATTENTION_H

#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace kernels {

namespace {

// Products of a weight and a value are smaller than one. Sums of up to 2^18 of them keep the exponent of the number at
// which they begin. So do those of more, unless nearly all of these are near one.
constexpr double beginning = 0x1.8p19;

// uneven is what weights are multiplied by. Floats in double precision end in zeros, and their products with it do not.
constexpr double uneven = 1 + 0x1p-52;

// Values of so many cells are blended at a time. With heads of the usual sizes the first cache holds them.
constexpr int cell_block = 16;

// From so many queries on, keys and values are first prepared.
constexpr int many_queries = 8;

// Keys and values are prefetched this many cells ahead.
constexpr int ahead = 16;

// scratch has room for numbers. They are not set, so the system gives only the memory that is used.
template <typename T> class scratch {
    std::unique_ptr<T[]> at;
    int64_t              size = 0;

  public:
    // make_room makes room for so many. What was there is lost if there was less room.
    void make_room(int64_t n) {
        if (size < n) {
            n = std::max(n, 2 * size); // the cells become more with each token
            at.reset();
            size = 0;
            at.reset(new T[n]);
            size = n;
        }
    }

    T *       data() { return at.get(); }
    const T * data() const { return at.get(); }
    T &       operator[](int64_t i) { return at[i]; }
    T         operator[](int64_t i) const { return at[i]; }
};

// open_list is the cells that are open to at least one of some tokens, and numbers for each of them. It is kept for the
// other key heads. Its lists have room for one more vector, because packing and padding write whole vectors.
struct open_list {
    uint64_t id = 0;
    int64_t  first = -1, last = -1; // the tokens
    int64_t  count = 0;             // of cells
    int64_t  room = 0;              // from the numbers of one token or query to those of the next
    bool     alike = false;         // whether the tokens see mostly the same cells
    bool     apart = false;         // whether there is one token, and its neighbour in the step sees other cells
    scratch<int32_t> cell;
    scratch<float>   bias;   // of each token, times log2(e); minus infinity closes a cell
    scratch<float>   scores; // of each query, as powers of two; then the weights
    scratch<float>   peak;   // at least the logarithm of a value's largest number, to base two
};

// query_tile is the queries that share a key head. Heads of the usual sizes have their own, because compilers make
// faster code where they know a size. known is 0 for the others.
template <int known> struct query_tile {
    int64_t size() const { return known > 0 ? known : a->size; }

    alignas(64) float  keys[max_size][lanes];                       // of one vector of cells, transposed
    alignas(64) double values[max_size / lanes][cell_block][lanes]; // of a block of cells
    alignas(64) double results[max_results];                        // sums that began at beginning, size for each query
    const attention *  a;
    open_list *        list;
    int                queries;
    const char *       k, * v;
    const float *      query[max_queries];
    const float *      bias[max_queries];
    float *            scores[max_queries]; // weigh makes them weights
    bool               finite;             // whether all values are
    floats             most[max_queries];  // the largest scores
    floats             bound[max_queries]; // the largest sums of a score and a peak
    float              scale[max_queries], highest[max_queries]; // see limit
    float              to_highest[max_queries];                  // two to the power of scale - highest
    doubles            total[max_queries];                       // of the weights, times to_highest
};

// sees reports whether a cell is open to a token.
INLINE bool sees(const attention & a, int64_t token, int64_t cell) {
    uint16_t bias;
    std::memcpy(&bias, a.mask + token * a.mask_token + cell * 2, sizeof bias);
    return bias != closed;
}

// gather fills the list for some tokens.
KERNEL void gather(const attention & a, int64_t first, int64_t last, open_list & list) {
    const int64_t tokens = last - first;
    list.room = a.cells + lanes;
    list.cell.make_room(list.room);
    list.peak.make_room(list.room);
    list.bias.make_room(tokens * list.room);
    int64_t n = 0, open_to_each = 0;
    for (int64_t c = 0; c < a.cells; c += lanes) {
        // Tokens often see few of all cells, because other sequences have the rest.
        bool closed_to_all = c + 2 * lanes <= a.cells;
        for (int64_t t = first; closed_to_all && t < last; t++) {
            closed_to_all = all_closed(a.mask + t * a.mask_token + c * 2);
        }
        if (closed_to_all) {
            c += lanes;
            continue;
        }
        floats bias[max_queries];
        unsigned open = 0;
        for (int64_t t = 0; t < tokens; t++) {
            const unsigned own = open_cells(a.mask + (first + t) * a.mask_token + c * 2, a.cells - c, bias[t]);
            open_to_each += __builtin_popcount(own);
            open |= own;
        }
        if (open != 0) {
            for (int64_t t = 0; t < tokens; t++) {
                float * biases = list.bias.data() + t * list.room + n;
                pack(open, bias[t] * all(log2_e), (int32_t) c, list.cell.data() + n, biases);
            }
            n += __builtin_popcount(open);
        }
    }
    for (int64_t j = n; j % lanes != 0; j++) {
        list.cell[j] = list.cell[0];
        for (int64_t t = 0; t < tokens; t++) {
            list.bias[t * list.room + j] = -INFINITY;
        }
    }
    list.id = a.id, list.first = first, list.last = last, list.count = n;
    list.alike = open_to_each * 4 >= n * tokens * 3;
    list.apart = tokens == 1 && a.tokens > 1 && n > 0 && !sees(a, first > 0 ? first - 1 : 1, list.cell[n / 2]);
}

// fetch prefetches a key or a value.
INLINE void fetch(int64_t size, const char * at) {
    for (int64_t line = 0; line < size * 2; line += 64) {
        __builtin_prefetch(at + line);
    }
}

// to_fetch reports whether the i-th cell of a list should be prefetched. The processor does not predict the access to a
// cell after those of another sequence. It predicts cells that follow one another well enough, unless the tokens of a
// step have cells of their own: then these have left the nearer caches since the last step.
INLINE bool to_fetch(const open_list & list, int64_t i) {
    return list.apart || i == 0 || list.cell[i] != list.cell[i - 1] + 1;
}

// A score adds the products of each lane, then four lanes at a time, then the rest. Both ways to compute it have this
// order, which is that of sums.

// dots writes the products of Q queries, from query q on, with one vector of keys, to the scores from cell j on. It
// suits few queries.
template <int Q, typename T> INLINE void dots(T & tile, const char * const * keys, int q, int64_t j) {
    floats four[Q][lanes / 4];
    UNROLL for (int c = 0; c < lanes; c += 4) {
        floats acc[Q][4];
        UNROLL for (int k = 0; k < Q; k++) {
            UNROLL for (int i = 0; i < 4; i++) {
                acc[k][i] = all(0.0f);
            }
        }
        for (int64_t n = 0; n < tile.size(); n += lanes) {
            floats query[Q];
            UNROLL for (int k = 0; k < Q; k++) {
                query[k] = load(tile.query[q + k] + n);
                in_register(query[k]);
            }
            UNROLL for (int i = 0; i < 4; i++) {
                const floats x = halves(keys[c + i] + n * 2);
                UNROLL for (int k = 0; k < Q; k++) {
                    acc[k][i] = fused(x, query[k], acc[k][i]);
                }
            }
        }
        UNROLL for (int k = 0; k < Q; k++) {
            four[k][c / 4] = fours(acc[k]);
        }
    }
    UNROLL for (int k = 0; k < Q; k++) {
        store(tile.scores[q + k] + j, joined(four[k]));
    }
}

// two_lanes adds the products of lanes n and n+2 of Q queries and transposed keys.
template <int Q, typename T>
INLINE void two_lanes(const T & tile, const float * const * query, int64_t n, floats * out) {
    floats other[Q];
    UNROLL for (int i = 0; i < Q; i++) {
        out[i] = other[i] = all(0.0f);
    }
    for (; n < tile.size(); n += lanes) {
        const floats x = load(tile.keys[n]), y = load(tile.keys[n + 2]);
        UNROLL for (int i = 0; i < Q; i++) {
            out[i] = fused(all(query[i][n]), x, out[i]);
            other[i] = fused(all(query[i][n + 2]), y, other[i]);
        }
    }
    UNROLL for (int i = 0; i < Q; i++) {
        out[i] = out[i] + other[i];
    }
}

// dots_transposed does what dots does, with the transposed keys. It suits many queries.
template <int Q, typename T> INLINE void dots_transposed(T & tile, int q, int64_t j) {
    constexpr int fours = lanes / 4;
    const float * query[Q];
    UNROLL for (int i = 0; i < Q; i++) {
        query[i] = tile.query[q + i];
    }
    floats four[fours][Q];
    UNROLL for (int f = 0; f < fours; f++) {
        floats odd[Q];
        two_lanes<Q>(tile, query, f * 4, four[f]);
        two_lanes<Q>(tile, query, f * 4 + 1, odd);
        UNROLL for (int i = 0; i < Q; i++) {
            four[f][i] = four[f][i] + odd[i];
        }
    }
    UNROLL for (int i = 0; i < Q; i++) {
        floats sum = four[0][i] + four[1][i];
        if constexpr (fours == 4) {
            sum = sum + (four[2][i] + four[3][i]);
        }
        store(tile.scores[q + i] + j, sum);
    }
}

// score computes the scores of all queries for one vector of cells, from cell j on.
template <typename T> INLINE void score(T & tile, const char * const * keys, int64_t j) {
    int q = 0;
    if (tile.queries >= many_queries) {
        for (int64_t n = 0; n < tile.size(); n += 32) {
            const char * part[lanes];
            for (int i = 0; i < lanes; i++) {
                part[i] = keys[i] + n * 2;
            }
            transpose(part, tile.keys[n]);
        }
        for (; q + 4 <= tile.queries; q += 4) {
            dots_transposed<4>(tile, q, j);
        }
    }
    for (; few_queries == 4 && q + 4 <= tile.queries; q += 4) {
        dots<4>(tile, keys, q, j);
    }
    for (; q + 2 <= tile.queries; q += 2) {
        dots<2>(tile, keys, q, j);
    }
    for (; q < tile.queries; q++) {
        dots<1>(tile, keys, q, j);
    }
    const floats rate = all(tile.a->scale * log2_e), peak = load(tile.list->peak.data() + j);
    for (q = 0; q < tile.queries; q++) {
        // The score of a closed cell is minus infinity, whatever its key is.
        const floats bias = load(tile.bias[q] + j), t = fused(opened(bias, load(tile.scores[q] + j)), rate, bias);
        store(tile.scores[q] + j, t);
        tile.most[q] = greater(t, tile.most[q]);
        tile.bound[q] = greater(t + peak, tile.bound[q]);
    }
}

// peaks writes at least the logarithms of the largest numbers of the values of one vector of cells, to base two:
// infinity if a number is infinite or is not a number. It reports whether all are finite.
//
// The bits of a half float, divided by 1024 and less 15, are at most 0.0861 below its logarithm. The rest of 14.91 is
// for the rounding of weights and products, so that products are below one.
INLINE bool peaks(int64_t size, const char * const * values, float * out) {
    constexpr float infinite = 0x7c00;
    const floats bits = largest_halves(values, size);
    store(out, fused(bits, all(0x1p-10f), all(-14.91f)));
    if (largest(bits) < infinite) {
        return true;
    }
    float each[lanes];
    store(each, bits);
    for (int i = 0; i < lanes; i++) {
        out[i] = each[i] < infinite ? out[i] : INFINITY;
    }
    return false;
}

// score_cells computes all scores.
template <typename T> KERNEL void score_cells(T & tile) {
    const attention & a = *tile.a;
    open_list & list = *tile.list;
    tile.finite = true;
    for (int64_t j = 0; j < list.count; j += lanes) {
        for (int64_t i = j + ahead; i < std::min(j + ahead + lanes, list.count); i++) {
            if (to_fetch(list, i)) {
                fetch(tile.size(), tile.k + list.cell[i] * a.k_cell);
                fetch(tile.size(), tile.v + list.cell[i] * a.v_cell);
            }
        }
        const char * keys[lanes], * values[lanes];
        for (int i = 0; i < lanes; i++) {
            keys[i] = tile.k + list.cell[j + i] * a.k_cell;
            values[i] = tile.v + list.cell[j + i] * a.v_cell;
        }
        tile.finite &= peaks(tile.size(), values, list.peak.data() + j);
        score(tile, keys, j);
    }
}

// limit finds what a query's scores are reduced by, two whole numbers. Reduced by highest, none is above one half.
// Reduced by scale, none is above the negative logarithm of the largest number of its value. If a score is too large or
// a value is not finite, all results of the query become not a number.
template <typename T> INLINE void limit(T & tile, int q) {
    const float most = largest(tile.most[q]), bound = largest(tile.bound[q]);
    tile.scale[q] = 0, tile.to_highest[q] = 1, tile.highest[q] = 0;
    if (most == -INFINITY && tile.finite) {
        return; // the query sees no cell, or no score is a number
    }
    // The last bit of a larger score is more than one half. No sensible model has one.
    if (!(std::abs(most) < 0x1p22f && tile.finite)) {
        tile.total[q] = all((double) NAN);
        return;
    }
    // The second term is more than what was rounded in the sum of a score and a peak, which are at most 16 apart in
    // the largest.
    tile.scale[q] = std::ceil(bound + (std::abs(bound) + 16) * 0x1p-22f);
    tile.highest[q] = std::rint(most);
    tile.to_highest[q] = std::exp2(tile.scale[q] - tile.highest[q]);
}

// weigh turns the scores of a query into weights.
template <typename T> INLINE void weigh(T & tile, int q) {
    // Weights are added up in units of 2^-34, so that no sum of up to 2^18 of them is rounded.
    const doubles round = all(0x1.8p18);
    const floats  scale = all(tile.scale[q]), to_highest = all(tile.to_highest[q]);
    float *       scores = tile.scores[q];
    doubles       total = tile.total[q];
    for (int64_t j = 0; j < tile.list->count; j += lanes) {
        const floats t = load(scores + j), exponent = rounded(t);
        const floats w = opened(t, times_power(fraction(t - exponent), exponent - scale)), part = w * to_highest;
        store(scores + j, w);
        total = total + (((lower(part) + round) - round) + ((upper(part) + round) - round));
    }
    tile.total[q] = total;
}

// blend adds the values of n cells, from cell j on, each times its weight, to the results of Q queries, from query q
// on. It takes W vectors of the values at a time. value returns half a vector of the i-th value, from a number on.
template <int Q, int W, typename T, typename V> INLINE void blend(T & tile, int q, int64_t j, int n, V value) {
    constexpr int half = lanes / 2;
    alignas(64) double weights[Q][cell_block];
    UNROLL for (int i = 0; i < Q; i++) {
        for (int c = 0; c < n; c += half) {
            store(weights[i] + c, wide(tile.scores[q + i] + j + c) * all(uneven));
        }
    }
    for (int64_t at = 0; at < tile.size(); at += W * lanes) {
        double * results = tile.results + q * tile.size() + at;
        doubles sum[Q][2 * W];
        UNROLL for (int i = 0; i < Q; i++) {
            UNROLL for (int w = 0; w < 2 * W; w++) {
                sum[i][w] = load(results + i * tile.size() + w * half);
            }
        }
        for (int c = 0; c < n; c++) {
            doubles x[2 * W];
            UNROLL for (int w = 0; w < 2 * W; w++) {
                x[w] = value(c, at + w * half);
            }
            UNROLL for (int i = 0; i < Q; i++) {
                const doubles weight = all(weights[i][c]);
                UNROLL for (int w = 0; w < 2 * W; w++) {
                    sum[i][w] = fused(weight, x[w], sum[i][w]);
                }
            }
        }
        UNROLL for (int i = 0; i < Q; i++) {
            UNROLL for (int w = 0; w < 2 * W; w++) {
                store(results + i * tile.size() + w * half, sum[i][w]);
            }
        }
    }
}

// blend_cells adds the values of n cells, from cell j on.
template <typename T> KERNEL void blend_cells(T & tile, int64_t j, int n) {
    const int32_t * cell = tile.list->cell.data() + j;
    for (int64_t i = n; i < std::min<int64_t>(n + cell_block, tile.list->count - j); i++) {
        if (to_fetch(*tile.list, j + i)) {
            fetch(tile.size(), tile.v + cell[i] * tile.a->v_cell);
        }
    }
    int q = 0;
    if (tile.queries >= many_queries) {
        for (int i = 0; i < n; i++) {
            const char * value = tile.v + cell[i] * tile.a->v_cell;
            for (int64_t at = 0; at < tile.size(); at += lanes) {
                const floats v = halves(value + at * 2);
                store(tile.values[at / lanes][i], lower(v));
                store(tile.values[at / lanes][i] + lanes / 2, upper(v));
            }
        }
        const auto value = [&](int i, int64_t at) INLINED { return load(tile.values[at / lanes][i] + at % lanes); };
        for (; q + lanes / 2 <= tile.queries; q += lanes / 2) {
            blend<lanes / 2, 1>(tile, q, j, n, value);
        }
    }
    const auto value = [&](int i, int64_t at) INLINED {
        return wide_halves(tile.v + cell[i] * tile.a->v_cell + at * 2);
    };
    for (; q + 4 <= tile.queries; q += 4) {
        blend<4, lanes / 8>(tile, q, j, n, value);
    }
    for (; q + 2 <= tile.queries; q += 2) {
        blend<2, 2>(tile, q, j, n, value);
    }
    for (; q < tile.queries; q++) {
        blend<1, 2>(tile, q, j, n, value);
    }
}

// finish writes the results of a query, divided by the total of its weights.
template <typename T> INLINE void finish(const T & tile, int q, const float * sink, float * out) {
    double seen = 0;
    for (int i = 0; i < lanes / 2; i++) {
        seen += tile.total[q][i];
    }
    if (std::isnan(seen)) { // the sums may have any bits
        std::fill_n(out, tile.size(), NAN);
        return;
    }
    const double total = seen + (sink ? std::exp2((double) *sink * log2_e - tile.highest[q]) : 0);
    const double by = seen == 0 ? 0 : tile.to_highest[q] / total;
    for (int64_t i = 0; i < tile.size(); i += lanes / 2) {
        narrow(out + i, (load(tile.results + q * tile.size() + i) - all(beginning)) * all(by));
    }
}

// attend_to computes the tokens of a list for key head s. It reports false if they have to be computed one by one.
template <int known> KERNEL bool attend_to(const attention & a, int64_t s, open_list & list) {
    const int64_t group = a.heads / a.shared, queries = group * (list.last - list.first);
    list.scores.make_room(queries * list.room);
    query_tile<known> tile;
    tile.a = &a, tile.list = &list, tile.queries = (int) queries;
    tile.k = a.k + s * a.k_head, tile.v = a.v + s * a.v_head;
    for (int64_t q = 0; q < queries; q++) {
        const int64_t token = q / group, head = s * group + q % group;
        tile.query[q] = (const float *) (a.q + (list.first + token) * a.q_token + head * a.q_head);
        tile.bias[q] = list.bias.data() + token * list.room;
        tile.scores[q] = list.scores.data() + q * list.room;
        tile.most[q] = tile.bound[q] = all(-INFINITY);
        tile.total[q] = all(0.0);
    }
    std::fill_n(tile.results, queries * tile.size(), beginning);
    score_cells(tile);
    // The value of a cell that is closed to one of several tokens would spoil its results.
    if (!tile.finite && list.last - list.first > 1) {
        return false;
    }
    for (int q = 0; q < queries; q++) {
        limit(tile, q);
        weigh(tile, q);
    }
    for (int64_t j = 0; j < list.count; j += cell_block) {
        blend_cells(tile, j, (int) std::min<int64_t>(cell_block, list.count - j));
    }
    for (int64_t q = 0; q < queries; q++) {
        const int64_t token = list.first + q / group, head = s * group + q % group;
        finish(tile, (int) q, a.sinks ? a.sinks + head : nullptr, a.out + (token * a.heads + head) * a.size);
    }
    return true;
}

// list_of returns the open cells of some tokens.
KERNEL open_list & list_of(const attention & a, int64_t first, int64_t last) {
    // One list is for tokens together, the other for one token.
    static thread_local open_list lists[2];
    open_list & list = lists[last - first == 1];
    if (a.id == 0 || list.id != a.id || list.first != first || list.last != last) {
        gather(a, first, last, list);
    }
    return list;
}

template <int known> KERNEL void attend_of(const attention & a, int64_t first, int64_t last, int64_t s, int64_t end) {
    if (last - first > 1) {
        open_list & list = list_of(a, first, last);
        while (list.alike && s < end && attend_to<known>(a, s, list)) {
            s++;
        }
    }
    // Token by token, so that each is gathered once.
    for (; first < last; first++) {
        for (int64_t each = s; each < end; each++) {
            attend_to<known>(a, each, list_of(a, first, first + 1));
        }
    }
}

void attend(const attention & a, int64_t first, int64_t last, int64_t s, int64_t end) {
    const auto attend_known = a.size == 32 ? attend_of<32> : a.size == 64 ? attend_of<64>
                            : a.size == 128 ? attend_of<128> : attend_of<0>;
    attend_known(a, first, last, s, end);
}

} // namespace

} // namespace kernels

#endif
