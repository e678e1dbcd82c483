// Checks of the kernels that compute numbers one by one, with numbers of every size.
#ifndef RUNNER_TESTDATA_ELEMENTWISE_H
#define RUNNER_TESTDATA_ELEMENTWISE_H

#include "edges.h"

#include <functional>
#include <limits>

namespace {

const double least = std::numeric_limits<float>::denorm_min();

// remarkable are numbers at which something might change, of both signs, in any order.
std::vector<float> remarkable() {
    std::vector<float> x;
    for (const float size : {0.0f, FLT_TRUE_MIN, 1e-40f, 0x1.fffffcp-127f, FLT_MIN, 1e-30f, 1e-10f, 0.1f, 0.5f, 1.0f,
             1.5f, 6.9999995f, 7.0f, 7.0000005f, 46.0f, 47.5f, 79.9f, 80.0f, 80.1f, 88.8f, 104.0f, 1e4f, 1e18f, 1e30f,
             FLT_MAX}) {
        x.push_back(size);
        x.push_back(-size);
    }
    for (int i = 0; i < 12; i++) {
        x.push_back(normal() * std::exp(3 * normal()));
    }
    x.push_back(INFINITY);
    x.push_back(-INFINITY);
    std::shuffle(x.begin(), x.end(), source);
    return x;
}

// lists are numbers at fences, and room for results.
class lists {
    fence first, second, third;

    static float * at(fence & f, int64_t n) { return (float *) f.place(n * sizeof(float)); }

  public:
    float * x, * y, * out;
    lists(int64_t xs, int64_t ys, int64_t results) : x(at(first, xs)), y(at(second, ys)), out(at(third, results)) {}
};

using kernel = std::function<void(const float * x, const float * y, int64_t n, float * out)>;

// check_pairs runs a kernel on all pairs of remarkable numbers, and compares each result by right. A result depends
// on its pair alone: the same pairs in another order, in other lengths and in place give the same bits.
void check_pairs(const char * what, const kernel & run, const std::function<void(float, float, float)> & right) {
    std::snprintf(now, sizeof now, "%s", what);
    std::vector<std::pair<float, float>> pairs;
    for (const float a : remarkable()) {
        for (const float b : remarkable()) {
            pairs.emplace_back(a, b);
        }
    }
    while (pairs.size() % 16 != 0) {
        pairs.emplace_back(normal(), normal());
    }
    const int64_t n = (int64_t) pairs.size();
    std::vector<int64_t> order(n);
    for (int64_t i = 0; i < n; i++) {
        order[i] = i;
    }
    std::vector<float> want;
    for (int turn = 0; turn < 4; turn++) {
        for (int64_t from = 0, length = 0; from < n; from += length) {
            length = turn == 0 ? n : std::min<int64_t>(16 * (1 + below(9)), n - from);
            lists l(length, length, length);
            for (int64_t i = 0; i < length; i++) {
                l.x[i] = pairs[order[from + i]].first, l.y[i] = pairs[order[from + i]].second;
            }
            float * out = turn == 2 ? l.x : turn == 3 ? l.y : l.out;
            run(l.x, l.y, length, out);
            for (int64_t i = 0; i < length; i++) {
                if (turn == 0) {
                    want.push_back(out[i]);
                    right(pairs[i].first, pairs[i].second, out[i]);
                    digest(other_bits, out[i]);
                } else {
                    expect(what, out[i], want[order[from + i]], from + i, turn);
                }
            }
        }
        std::shuffle(order.begin(), order.end(), source);
    }
}

void check_gates() {
    for (const float alpha : {1.702f, 1.0f}) {
        for (const float limit : {7.0f, 0.5f, 1e30f}) {
            check_pairs("gate", [&](const float * x, const float * y, int64_t n, float * out) {
                own->gate(x, y, alpha, limit, n, out);
            }, [&](float x, float y, float got) {
                if (x == -INFINITY) {
                    return; // times 0
                }
                const double g = std::min(x, limit), u = std::min(std::max(y, -limit), limit) + 1.0;
                const double want = g / (1 + std::exp(-(double) alpha * g)) * u;
                // The power of e is limited to e to the 80th.
                near("gate", got, want, std::fabs(want) * 1e-5 + std::fabs(g * u) * 2e-35 + least * (std::fabs(u) + 1));
            });
        }
    }
    check_pairs("swiglu", [&](const float * x, const float * y, int64_t n, float * out) { own->swiglu(x, y, n, out); },
        [&](float x, float y, float got) {
            if (x == -INFINITY || (std::isinf(y) && (x < -80 || std::fabs(x) < FLT_MIN))) {
                return; // infinity times what may be rounded to 0
            }
            const double want = x / (1 + std::exp(-(double) x)) * y;
            near("swiglu", got, want,
                std::fabs(want) * 1e-5 + std::fabs((double) x * y) * 2e-35 + least * (std::fabs((double) y) + 1));
        });
}

void check_rotations() {
    const float turns[][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}, {0.6f, 0.8f}, {-0.8f, 0.6f},
        {0.70710678f, 0.70710678f}};
    for (const auto & turn : turns) {
        for (const bool second : {false, true}) {
            check_pairs("rotate", [&](const float * x, const float * y, int64_t n, float * out) {
                lists l(2 * n, 2 * n, 2 * n);
                std::copy(x, x + n, l.x);
                std::copy(y, y + n, l.x + n);
                std::fill(l.y, l.y + n, turn[0]);
                std::fill(l.y + n, l.y + 2 * n, turn[1]);
                float * to = out == x ? l.x : l.out;
                own->rotate(l.x, l.y, n, to);
                std::copy(to + (second ? n : 0), to + (second ? 2 * n : n), out);
            }, [&](float x, float y, float got) {
                const double a = (double) x * turn[second], b = (double) y * turn[!second];
                near("rotate", got, second ? a + b : a - b, (std::fabs(a) + std::fabs(b)) * 1.3e-7 + 2 * least);
            });
        }
    }
}

// some_of returns n remarkable numbers that ok allows.
std::vector<float> some_of(int64_t n, const std::function<bool(float)> & ok) {
    std::vector<float> x;
    while ((int64_t) x.size() < n) {
        for (const float v : remarkable()) {
            if ((int64_t) x.size() < n && ok(v)) {
                x.push_back(v);
            }
        }
    }
    return x;
}

void check_softmax(int64_t n, float scale, float most) {
    std::snprintf(now, sizeof now, "softmax of %d numbers of up to %.9g times %.9g", (int) n, most, scale);
    lists l(n, 16, n);
    const std::vector<float> x = some_of(n, [&](float v) { return v <= most; });
    std::copy(x.begin(), x.end(), l.x);
    l.x[below((int) n)] = most;
    double highest = -INFINITY, total = 0;
    for (int64_t i = 0; i < n; i++) {
        highest = std::max(highest, (double) (float) (l.x[i] * scale));
    }
    const auto share = [&](int64_t i) { return std::exp((double) (float) (l.x[i] * scale) - highest); };
    for (int64_t i = 0; i < n; i++) {
        total += share(i);
    }
    own->softmax(l.x, n, scale, l.out);
    for (int64_t i = 0; i < n; i++) {
        const double want = share(i) / total;
        near("softmax", l.out[i], want, l.x[i] == -INFINITY ? 0 : want * 1e-5 + 2e-35);
        digest(other_bits, l.out[i]);
    }
}

void check_normalize(int64_t n, float epsilon, float smallest, float largest) {
    std::snprintf(now, sizeof now, "normalize %d numbers of %.9g to %.9g, epsilon %.9g", (int) n, smallest, largest,
        epsilon);
    lists l(n, 16, n);
    const auto ok = [&](float v) { return std::fabs(v) >= smallest && std::fabs(v) <= largest; };
    const std::vector<float> x = some_of(n, ok);
    std::copy(x.begin(), x.end(), l.x);
    double squares = 0;
    for (const float v : x) {
        squares += (double) (v * v); // infinite where floats end, as in the engine
    }
    const float by = 1 / std::sqrt((float) (squares / (double) n) + epsilon);
    own->normalize(l.x, n, epsilon, l.out);
    for (int64_t i = 0; i < n; i++) {
        const double want = (double) l.x[i] * by;
        near("normalize", l.out[i], want, std::fabs(want) * 1e-6 + least);
        digest(other_bits, l.out[i]);
    }
}

void check_elementwise() {
    check_pairs("add", [](const float * x, const float * y, int64_t n, float * out) { own->add(x, y, n, out); },
        [](float x, float y, float got) { expect("add", got, x + y, 0, 0); });
    for (const float factor : remarkable()) {
        check_pairs("scale", [&](const float * x, const float * y, int64_t n, float * out) {
            (void) y;
            own->scale(x, factor, n, out);
        }, [&](float x, float, float got) { expect("scale", got, x * factor, 0, 0); });
        if (!all_cases && below(8) == 0) {
            break;
        }
    }
    check_gates();
    check_rotations();
    for (int64_t n = 16; n <= 160; n += 16) {
        for (const float most : {-FLT_MAX, -1e4f, -1.0f, -FLT_MIN, 0.0f, FLT_TRUE_MIN, 1.0f, 50.0f, 1e18f, FLT_MAX}) {
            for (const float scale : {1.0f, 0.125f, 1e-3f}) {
                check_softmax(n, scale, most);
            }
        }
        for (const float epsilon : {1e-5f, 1e-12f}) {
            check_normalize(n, epsilon, 0, FLT_TRUE_MIN * 1000);
            check_normalize(n, epsilon, 0, FLT_MIN);
            check_normalize(n, epsilon, 0, 100);
            check_normalize(n, epsilon, 0, 1e18f);
            check_normalize(n, epsilon, 0, FLT_MAX);
            check_normalize(n, epsilon, 1e30f, FLT_MAX);
        }
        check_normalize(n, 0, 0.1f, 1e18f);
    }
}

} // namespace

#endif
