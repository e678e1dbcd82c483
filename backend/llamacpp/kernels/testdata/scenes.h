// Attention over small caches, for programs that check the kernels.
#ifndef RUNNER_TESTDATA_SCENES_H
#define RUNNER_TESTDATA_SCENES_H

#include "matrices.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

// A cache whose tokens each see some of its cells.
struct scene {
    attention             a = {};
    std::vector<float>    q, sinks, out;
    std::vector<uint16_t> k, v, mask;
    void bind() {
        a.q = (const char *) q.data(), a.k = (const char *) k.data(), a.v = (const char *) v.data(),
            a.mask = (const char *) mask.data();
        a.sinks = sinks.empty() ? nullptr : sinks.data();
        out.assign(a.tokens * a.heads * a.size, NAN);
        a.out = out.data();
    }
    // run computes the tokens, some at a time and all key heads of these at a time or each.
    void run(int64_t together = 1, bool each = true) {
        static uint64_t ids = 0;
        bind();
        a.id = ++ids % 4 ? ids : 0;
        for (int64_t t = 0; t < a.tokens; t += together) {
            for (int64_t s = 0; s < a.shared; s += each ? 1 : a.shared) {
                own->attend(a, t, std::min(t + together, a.tokens), s, each ? s + 1 : a.shared);
            }
        }
    }
};

// check_attention compares tokens that see some cells with sums in double precision. It returns their results.
std::vector<float> check_attention(int64_t size, int64_t group, int64_t shared, int64_t cells, bool sinks) {
    scene s;
    attention & a = s.a;
    a.tokens = 3, a.cells = cells, a.size = size, a.heads = group * shared, a.shared = shared,
        a.scale = 1 / std::sqrt((float) size);
    a.q_head = size * 4, a.q_token = a.q_head * a.heads;
    a.k_head = a.v_head = size * 2, a.k_cell = a.v_cell = a.k_head * shared, a.mask_token = cells * 2;
    for (int64_t i = 0; i < a.tokens * a.heads * size; i++) {
        s.q.push_back(normal() * 2);
    }
    for (int64_t i = 0; i < cells * shared * size; i++) {
        s.k.push_back(to_half(normal() * 2));
        s.v.push_back(to_half(normal()));
    }
    for (int64_t i = 0; i < a.tokens * cells; i++) {
        const bool last = i / cells == a.tokens - 1; // it sees nothing
        s.mask.push_back(last || below(3) == 0 ? 0xfc00 : below(8) == 0 ? to_half(-normal() * normal()) : 0);
    }
    for (int64_t h = 0; sinks && h < a.heads; h++) {
        s.sinks.push_back(normal() * 3);
    }
    s.run();
    for (int64_t t = 0; t < a.tokens; t++) {
        for (int64_t h = 0; h < a.heads; h++) {
            std::vector<double> score(cells, -INFINITY), want(size);
            double most = sinks ? (double) s.sinks[h] : -INFINITY, total = 0;
            for (int64_t c = 0; c < cells; c++) {
                if (s.mask[t * cells + c] != 0xfc00) {
                    double dot = 0;
                    for (int64_t i = 0; i < size; i++) {
                        dot += s.q[(t * a.heads + h) * size + i] * from_half(s.k[(c * shared + h / group) * size + i]);
                    }
                    score[c] = dot * a.scale + from_half(s.mask[t * cells + c]);
                    most = std::max(most, score[c]);
                }
            }
            for (int64_t c = 0; c < cells; c++) {
                const double p = most == -INFINITY ? 0 : std::exp(score[c] - most);
                total += p;
                for (int64_t i = 0; i < size; i++) {
                    want[i] += p * from_half(s.v[(c * shared + h / group) * size + i]);
                }
            }
            total += sinks ? std::exp(s.sinks[h] - most) : 0;
            for (int64_t i = 0; i < size; i++) {
                close_to("attention", s.out[(t * a.heads + h) * size + i], total > 0 ? want[i] / total : 0, 2e-5);
            }
        }
    }
    // The same cells in another order, spread over a larger cache with other cells in between.
    scene wide = s;
    wide.a.cells = 0;
    wide.k.clear(), wide.v.clear(), wide.mask.clear();
    std::vector<int64_t> from;
    for (int64_t c = 0; c < cells; c++) {
        for (int i = below(4) == 0 ? below(40) : 0; i > 0; i--) {
            from.push_back(-1);
        }
        from.push_back(c);
    }
    std::shuffle(from.begin(), from.end(), source);
    wide.a.cells = from.size(), wide.a.mask_token = from.size() * 2;
    for (const int64_t c : from) {
        for (int64_t i = 0; i < shared * size; i++) {
            wide.k.push_back(c < 0 ? to_half(normal() * 100) : s.k[c * shared * size + i]);
            wide.v.push_back(c < 0 ? 0x7c00 : s.v[c * shared * size + i]);
        }
    }
    for (int64_t t = 0; t < a.tokens; t++) {
        for (const int64_t c : from) {
            wide.mask.push_back(c < 0 ? 0xfc00 : s.mask[t * cells + c]);
        }
    }
    wide.run();
    same("attention in another cache", wide.out, s.out);
    return s.out;
}

// prompt is two sequences whose tokens see the cells before them, in a window if it is not zero. Their cells take
// turns.
scene prompt(int64_t tokens, int64_t size, int64_t group, int64_t shared, int64_t window) {
    scene s;
    attention & a = s.a;
    a.tokens = tokens, a.cells = tokens + 20, a.size = size, a.heads = group * shared, a.shared = shared,
        a.scale = 1 / std::sqrt((float) size);
    a.q_head = size * 4, a.q_token = a.q_head * a.heads;
    a.k_head = a.v_head = size * 2, a.k_cell = a.v_cell = a.k_head * shared, a.mask_token = a.cells * 2;
    for (int64_t i = 0; i < a.tokens * a.heads * size; i++) {
        s.q.push_back(normal() * 2);
    }
    for (int64_t i = 0; i < a.cells * shared * size; i++) {
        s.k.push_back(to_half(normal() * 2));
        s.v.push_back(to_half(normal()));
    }
    // The first cells were there before. The last third of the tokens are those of the second sequence.
    for (int64_t t = 0; t < tokens; t++) {
        const bool second = t >= tokens - tokens / 3;
        for (int64_t c = 0; c < a.cells; c++) {
            const bool own_cell = c < 20 ? c % 2 == second : (c - 20 >= tokens - tokens / 3) == second;
            const bool open = own_cell && c <= t + 20 && (window == 0 || t + 20 - c < window);
            s.mask.push_back(open ? 0 : 0xfc00);
        }
    }
    return s;
}

// check_together checks that a token's results do not depend on the tokens that are computed with it, or on numbers in
// cells that it does not see.
void check_together() {
    for (const int64_t size : {32, 64, 256}) {
        for (const int64_t group : {1, 2, 3, 8, 16}) {
            for (const int64_t window : {0, 18}) {
                const int64_t most = std::min<int64_t>(max_queries, max_results / size) / group;
                const int64_t tokens = 13 + below(20), shared = 1 + below(2);
                scene s = prompt(tokens, size, group, shared, window);
                const attention & a = s.a;
                s.run();
                const std::vector<float> alone = s.out;
                for (int64_t together = 2; together <= most; together = together * 2 + below(2)) {
                    s.run(together, below(2));
                    same("attention together", s.out, alone);
                }
                // The key or the value of the cell of a token is not finite. Tokens before it do not see it.
                const int64_t spoiled = a.tokens / 2;
                const int which = below(3); // its key, its value or both
                const int64_t at_key = (spoiled + 20) * shared * size + below((int) size);
                const uint16_t number = below(2) ? 0x7e00 : 0x7c00;
                (which == 0 ? s.k : s.v)[at_key] = number;
                if (which == 2) {
                    s.k[at_key] = 0x7c00;
                }
                s.run(std::max<int64_t>(most, 1), below(2));
                for (int64_t t = 0; t <= spoiled; t++) {
                    for (int64_t h = 0; h < group; h++) { // of the first key head
                        const size_t at = (t * a.heads + h) * size;
                        if (t < spoiled && std::memcmp(&s.out[at], &alone[at], size * sizeof(float)) != 0) {
                            fail("attention: token %d depends on the cell of token %d", (int) t, (int) spoiled);
                        }
                        if (t == spoiled && which != 0 && !std::isnan(s.out[at])) {
                            fail("attention: a token sees a value that is not finite, and its result is a number");
                        }
                    }
                }
            }
        }
    }
}

// check_whole_numbers checks sums of equal values, which need all bits of the whole numbers that are added, for values
// of every kind and scores of every size.
void check_whole_numbers() {
    constexpr int64_t size = 32, group = 8, cells = 50;
    for (int h = 1; h < 0x7c00; h += 7) {
        scene s;
        attention & a = s.a;
        a.tokens = 1, a.cells = cells, a.size = size, a.heads = group, a.shared = 1, a.scale = 1;
        a.q_head = size * 4, a.q_token = a.q_head * group;
        a.k_head = a.v_head = a.k_cell = a.v_cell = size * 2, a.mask_token = cells * 2;
        const float scores[group] = {0, 1, -1, 77.77f, -1234.5f, 60000, -99999, 1e6f};
        for (const float score : scores) {
            s.q.insert(s.q.end(), size, 0.0f);
            s.q[s.q.size() - size] = score;
        }
        for (int64_t c = 0; c < cells; c++) {
            s.k.push_back(0x3c00); // one
            s.k.insert(s.k.end(), size - 1, 0);
            for (int64_t i = 0; i < size; i++) {
                s.v.push_back((uint16_t) (i % 2 ? h : h | 0x8000));
            }
        }
        s.mask.assign(cells, 0);
        s.run();
        for (int64_t i = 0; i < group * size; i++) {
            const double want = from_half(s.v[i % size]);
            close_to("a mean of equal values", s.out[i], want, std::max(std::fabs(want), 0x1p-14) * 1e-6);
        }
    }
}

// check_halves checks that the order of the cells does not affect a result if products lie halfway between two whole
// numbers of units. The weights are alike and powers of two. One large value makes units as large as the last bits of
// the products.
void check_halves() {
    constexpr int64_t size = 32, group = 11, cells = 200;
    for (int large = 9; large <= 15; large++) {
        scene s;
        attention & a = s.a;
        a.tokens = 1, a.cells = cells, a.size = size, a.heads = group, a.shared = 1, a.scale = 1;
        a.q_head = size * 4, a.q_token = a.q_head * group;
        a.k_head = a.v_head = a.k_cell = a.v_cell = size * 2, a.mask_token = cells * 2;
        s.q.assign(group * size, 0.0f);
        s.k.assign(cells * size, 0);
        for (int64_t i = 0; i < cells * size; i++) {
            s.v.push_back((uint16_t) (1 + below(0x800) + (below(2) ? 0x8000 : 0)));
        }
        s.v[below(cells) * size] = to_half(std::ldexp(1.0f, large));
        s.mask.assign(cells, 0);
        s.run();
        scene other = s;
        std::vector<int64_t> order(cells);
        std::iota(order.begin(), order.end(), 0);
        for (int i = 0; i < 10; i++) {
            std::shuffle(order.begin(), order.end(), source);
            for (int64_t c = 0; c < cells; c++) {
                std::copy_n(&s.v[order[c] * size], size, &other.v[c * size]);
            }
            other.run();
            same("attention to products halfway between units", other.out, s.out);
        }
    }
}

// check_tail bounds what is lost where many cells have small weights.
void check_tail() {
    constexpr int64_t size = 32, cells = 5000;
    for (const float tail : {-12.5f, -15.0f, -20.0f}) {
        scene s;
        attention & a = s.a;
        a.tokens = 1, a.cells = cells, a.size = size, a.heads = 1, a.shared = 1, a.scale = 1;
        a.q_head = a.q_token = size * 4, a.k_head = a.v_head = a.k_cell = a.v_cell = size * 2, a.mask_token = cells * 2;
        s.q.assign(size, 0.0f);
        s.k.assign(cells * size, 0);
        s.v.assign(cells * size, 0x3c00); // one
        s.mask.assign(cells, to_half(tail));
        s.mask[below(cells)] = 0;
        s.run();
        for (const float x : s.out) {
            close_to("a mean of ones with small weights", x, 1, cells * 0x1p-34 + 1e-6);
        }
    }
}

} // namespace

#endif
