// Measures how far the results of kernels are from those in double precision. Prints a line for each kernel of each set
// that the processor can run: the instructions, the kernel and the error, with tabs between them. Products are named
// after the format of the weights. An argument names the instructions that are measured.
//
// The error is the root mean square of the differences, relative to that of the right results. Products start from the
// weights as they are stored and from activations before rounding. One activation in a hundred is an outlier of 20
// times the size, because those of large models have some.

#include "matrices.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

namespace {

// error collects results and what they should be.
class error {
    double off = 0, all = 0;

  public:
    void add(double got, double want) {
        off += (got - want) * (got - want);
        all += want * want;
    }
    double value() const { return std::sqrt(off / all); }
};

std::vector<float> activations(int64_t n) {
    std::vector<float> x(n);
    for (float & v : x) {
        v = normal() * (below(100) == 0 ? 20 : 1);
    }
    return x;
}

// The sizes of a product.
constexpr int64_t height = 64, length = 4096, width = 37;

// product is a matrix, columns, and what their products should be.
struct product {
    const char *                    name;
    matrix                          m;
    std::vector<std::vector<float>> columns;
    std::vector<double>             want; // column by column

    product(const char * name, enum rows::format format) : name(name), m(make(format, height, length, false)) {
        for (int64_t c = 0; c < width; c++) {
            columns.push_back(activations(length));
            for (int64_t r = 0; r < height; r++) {
                double sum = 0;
                for (int64_t i = 0; i < length; i++) {
                    sum += m.values[r * length + i] * columns[c][i];
                }
                want.push_back(sum);
            }
        }
    }

    // measure returns the error of the worst of the ways in which a set multiplies: a column alone, all together, and
    // all from bundles.
    double measure() const {
        const bool rounded = layout_of(m.r.format) != nullptr;
        std::vector<std::vector<block>> blocks(width);
        std::vector<const block *>      quantized;
        std::vector<const float *>      floats;
        std::vector<std::vector<float>> out(width, std::vector<float>(height));
        std::vector<float *>            to;
        for (int64_t c = 0; c < width; c++) {
            if (rounded) {
                blocks[c].resize(length / 32 * own->blocks(m.r.format));
                own->quantize(columns[c].data(), length, m.r.format, blocks[c].data());
            }
            quantized.push_back(blocks[c].data());
            floats.push_back(columns[c].data());
            to.push_back(out[c].data());
        }
        double     most = 0;
        const auto check = [&](const std::function<void()> & multiply) {
            for (auto & column : out) {
                std::fill(column.begin(), column.end(), NAN);
            }
            multiply();
            error e;
            for (int64_t c = 0; c < width; c++) {
                for (int64_t r = 0; r < height; r++) {
                    e.add(out[c][r], want[c * height + r]);
                }
            }
            if (!(e.value() <= most)) {
                most = e.value();
            }
        };
        for (const int64_t some : {(int64_t) 1, width}) {
            check([&] {
                for (int64_t c = 0; c < width; c += some) {
                    if (rounded) {
                        own->multiply_quantized(m.r, 0, height, quantized.data() + c, to.data() + c, some);
                    } else {
                        own->multiply_floats(m.r, 0, height, floats.data() + c, to.data() + c, some);
                    }
                }
            });
        }
        if (rounded && own->worth) {
            const bundles all(quantized, length, m.r.format);
            check([&] { own->multiply_bundles(m.r, 0, height, all.data(), quantized.data(), to.data(), width); });
        }
        return most;
    }
};

// Plain C++ with the rounding of AVX2 and AVX-512. It has products with quantized weights alone.

bool always() { return true; }

int one_block(enum rows::format) { return 1; }

void plain_quantize(const float * x, int64_t n, enum rows::format, block * out) {
    for (int64_t i = 0; i < n; i += 32, out++) {
        double most = 0;
        for (int64_t j = 0; j < 32; j++) {
            most = std::max(most, std::fabs((double) x[i + j]));
        }
        out->scale = (float) (most / 127);
        for (int64_t j = 0; j < 32; j++) {
            out->x[j] = most > 0 ? (int8_t) std::lrint(x[i + j] * 127 / most) : 0;
        }
    }
}

void plain_multiply(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count) {
    matrix m;
    m.r = w;
    m.bytes.assign(w.data, w.data + (last - 1) * w.stride + length / layout_of(w.format)->weights *
        layout_of(w.format)->bytes);
    for (int64_t r = first; r < last; r++) {
        const std::vector<part> parts = m.parts_of(r);
        for (int64_t c = 0; c < count; c++) {
            out[c][r] = in_order(w.format, parts, columns[c]);
        }
    }
}

const set plain = {"plain C++", always, one_block, plain_quantize, nullptr, plain_multiply, nullptr, nullptr, nullptr,
    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};

// attention_error is that of tokens that see a part of a cache with so many cells. Scores have a deviation of spread.
double attention_error(int64_t cells, float spread) {
    constexpr int64_t tokens = 4, heads = 8, size = 64;
    std::vector<float>    q, sinks, out(tokens * heads * size, NAN);
    std::vector<uint16_t> k, v, mask;
    for (int64_t i = 0; i < tokens * heads * size; i++) {
        q.push_back(normal() * spread / 2);
    }
    for (int64_t i = 0; i < cells * size; i++) {
        k.push_back(to_half(normal() * 2));
        v.push_back(to_half(normal()));
    }
    for (int64_t i = 0; i < tokens * cells; i++) {
        mask.push_back(below(3) == 0 ? 0xfc00 : 0); // minus infinity closes a cell
    }
    for (int64_t h = 0; h < heads; h++) {
        sinks.push_back(normal() * 3);
    }
    attention a = {};
    a.tokens = tokens, a.cells = cells, a.size = size, a.heads = heads, a.shared = 1;
    a.q = (const char *) q.data(), a.q_head = size * 4, a.q_token = a.q_head * heads;
    a.k = (const char *) k.data(), a.v = (const char *) v.data(), a.mask = (const char *) mask.data();
    a.k_cell = a.v_cell = a.k_head = a.v_head = size * 2, a.mask_token = cells * 2;
    a.sinks = sinks.data(), a.scale = 1 / std::sqrt((float) size), a.out = out.data();
    error e;
    for (int64_t t = 0; t < tokens; t++) {
        own->attend(a, t, t + 1, 0, 1);
        for (int64_t h = 0; h < heads; h++) {
            double total = std::exp((double) sinks[h]), want[size] = {};
            for (int64_t c = 0; c < cells; c++) {
                double score = 0;
                for (int64_t i = 0; i < size; i++) {
                    score += (double) q[(t * heads + h) * size + i] * from_half(k[c * size + i]);
                }
                const double share = mask[t * cells + c] == 0 ? std::exp(score * a.scale) : 0;
                total += share;
                for (int64_t i = 0; i < size; i++) {
                    want[i] += share * from_half(v[c * size + i]);
                }
            }
            for (int64_t i = 0; i < size; i++) {
                e.add(out[(t * heads + h) * size + i], want[i] / total);
            }
        }
    }
    return e.value();
}

// each_error is that of a kernel that computes n numbers of x, and for some kernels y. want computes the i-th.
template <typename K, typename F> double each_error(int64_t n, K kernel, F want) {
    std::vector<float> out(n, NAN);
    kernel(out.data());
    error e;
    for (int64_t i = 0; i < n; i++) {
        e.add(out[i], want(i));
    }
    return e.value();
}

void print(const char * kernel, double value) { std::printf("%s\t%s\t%.3g\n", own->instructions, kernel, value); }

void measure_others() {
    constexpr int64_t n = 2048;
    source.seed(2);
    print("attention", attention_error(300, 4));
    const std::vector<float> x = activations(n), y = activations(n);
    const float alpha = 1.702f, limit = 7, epsilon = 1e-5f, factor = 0.1f;
    print("gate", each_error(n, [&](float * out) { own->gate(x.data(), y.data(), alpha, limit, n, out); },
        [&](int64_t i) {
            const double g = std::min(x[i], limit), u = std::min(std::max(y[i], -limit), limit);
            return g / (1 + std::exp(-(double) alpha * g)) * (u + 1);
        }));
    print("swiglu", each_error(n, [&](float * out) { own->swiglu(x.data(), y.data(), n, out); },
        [&](int64_t i) { return x[i] / (1 + std::exp(-(double) x[i])) * y[i]; }));
    double total = 0, squares = 0;
    for (const float v : x) {
        total += std::exp((double) factor * v);
        squares += (double) v * v;
    }
    print("softmax", each_error(n, [&](float * out) { own->softmax(x.data(), n, factor, out); },
        [&](int64_t i) { return std::exp((double) factor * x[i]) / total; }));
    print("normalize", each_error(n, [&](float * out) { own->normalize(x.data(), n, epsilon, out); },
        [&](int64_t i) { return x[i] / std::sqrt(squares / n + (double) epsilon); }));
    std::vector<float> turns(n);
    for (int64_t i = 0; i < n / 2; i++) {
        const float angle = normal() * 100;
        turns[i] = std::cos(angle), turns[n / 2 + i] = std::sin(angle);
    }
    print("rotate", each_error(n, [&](float * out) { own->rotate(x.data(), turns.data(), n / 2, out); },
        [&](int64_t i) {
            const int64_t pair = i % (n / 2);
            const double a = x[pair], b = x[n / 2 + pair], cosine = turns[pair], sine = turns[n / 2 + pair];
            return i < n / 2 ? a * cosine - b * sine : a * sine + b * cosine;
        }));
    print("add", each_error(n, [&](float * out) { own->add(x.data(), y.data(), n, out); },
        [&](int64_t i) { return (double) x[i] + y[i]; }));
    print("scale", each_error(n, [&](float * out) { own->scale(x.data(), alpha, n, out); },
        [&](int64_t i) { return (double) x[i] * alpha; }));
    print("long attention", attention_error(4096, 4));
    print("even attention", attention_error(4096, 0.05f));
}

} // namespace

int main(int, char ** argv) {
    odd = false;
    std::vector<product> products;
    const struct {
        const char *      name;
        enum rows::format format;
    } formats[] = {{"F32", rows::f32}, {"F16", rows::f16}, {"BF16", rows::bf16}, {"MXFP4", rows::mxfp4},
        {"Q8_0", rows::q8_0}, {"Q4_0", rows::q4_0}, {"IQ4_NL", rows::iq4_nl}, {"Q4_K", rows::q4_k}, {"Q5_K", rows::q5_k},
        {"Q6_K", rows::q6_k}, {"IQ4_XS", rows::iq4_xs}};
    for (const auto & f : formats) {
        products.emplace_back(f.name, f.format);
    }
    std::vector<const set *> all = {&plain};
    for (const set * const * s = sets; *s; s++) {
        all.push_back(*s);
    }
    for (const set * s : all) {
        if (!s->supported() || (argv[1] && std::strcmp(argv[1], s->instructions) != 0)) {
            continue;
        }
        own = s;
        for (const product & p : products) {
            if (s != &plain || layout_of(p.m.r.format)) {
                print(p.name, p.measure());
            }
        }
        if (s != &plain) {
            measure_others();
        }
    }
}
