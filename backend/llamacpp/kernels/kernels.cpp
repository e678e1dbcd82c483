// For every operation, the engine asks the traits of each "extra" buffer type whether they compute it, before it
// uses its own kernel. Extra buffer types are meant for weights in another layout. The one registered here holds no
// buffers; it only has traits. Declarations: ggml-cpu/traits.h and ggml-cpu-impl.h of the engine.

#include "kernels.h"

#include "../capi/capi_builtin.h"
#include "formats.h"
#include "team.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

namespace ggml::cpu {

class tensor_traits {
  public:
    virtual ~tensor_traits();
    virtual bool work_size(int n_threads, const struct ggml_tensor * op, size_t & size)        = 0;
    virtual bool compute_forward(struct ggml_compute_params * params, struct ggml_tensor * op) = 0;
};

class extra_buffer_type {
  public:
    virtual ~extra_buffer_type();
    virtual bool            supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) = 0;
    virtual tensor_traits * get_tensor_traits(const struct ggml_tensor * op)                   = 0;
};

} // namespace ggml::cpu

std::vector<ggml_backend_buffer_type_t> & ggml_backend_cpu_get_extra_buffer_types();

namespace {

using kernels::attention;
using kernels::block;
using kernels::rows;

std::atomic<bool> helped{false};

int64_t columns_of(const ggml_tensor * t) { return t->ne[1] * t->ne[2]; }

// weights is a weight matrix and how its products are computed.
struct weights {
    rows r = {};
    // In formats that the kernels do not read, a product is one of the engine's functions for a row and a column.
    const ggml_type_traits_cpu * engine = nullptr;
    size_t  column = 0; // the bytes of a column that was rounded for such weights
    int64_t blocks = 0; // of 32 in a row of quantized weights that the kernels read

    // rounded returns the bytes of a column that was rounded, or 0 if columns stay floats.
    size_t rounded(const kernels::set & own) const {
        return blocks > 0 ? blocks * own.blocks(r.format) * sizeof(block) : column;
    }
    // worth returns from how many columns on they are put into bundles.
    int64_t worth(const kernels::set & own) const {
        return blocks > 0 && own.worth ? own.worth(r.format, r.n) : INT64_MAX;
    }
};

// format_of determines the memory format of weights. It returns false if nothing here can compute their products.
bool format_of(const ggml_tensor * t, weights & w) {
    rows &  r = w.r;
    size_t  bytes = 0; // of a block, and its values
    int64_t values = 1;
    const auto is = [&](enum rows::format format, size_t size, int64_t n) {
        r.format = format, bytes = size, values = n;
    };
    r.data = (const char *) t->data;
    r.stride = t->nb[1];
    r.n = t->ne[0];
    switch (t->type) {
    case GGML_TYPE_F32: is(rows::f32, 4, 1); break;
    case GGML_TYPE_F16: is(rows::f16, 2, 1); break;
    case GGML_TYPE_BF16: is(rows::bf16, 2, 1); break;
    case GGML_TYPE_Q8_0: is(rows::q8_0, kernels::q8_0_block, 32); break;
    case GGML_TYPE_MXFP4: is(rows::mxfp4, kernels::mxfp4_block, 32); break;
    case GGML_TYPE_Q4_0: is(rows::q4_0, kernels::q4_block, 32); break;
    case GGML_TYPE_IQ4_NL: is(rows::iq4_nl, kernels::q4_block, 32); break;
    case GGML_TYPE_Q4_K: is(rows::q4_k, kernels::q4_k_block, 256); break;
    case GGML_TYPE_Q5_K: is(rows::q5_k, kernels::q5_k_block, 256); break;
    case GGML_TYPE_Q6_K: is(rows::q6_k, kernels::q6_k_block, 256); break;
    case GGML_TYPE_IQ4_XS: is(rows::iq4_xs, kernels::iq4_xs_block, 256); break;
    default:
        w.engine = ggml_get_type_traits_cpu(t->type);
        if (t->extra || !w.engine->vec_dot || !ggml_get_type_traits_cpu(w.engine->vec_dot_type)->from_float) {
            return false;
        }
        w.column = ggml_row_size(w.engine->vec_dot_type, r.n);
        return true;
    }
    w.blocks = values > 1 ? r.n / 32 : 0;
    return t->nb[0] == bytes && t->extra == nullptr && r.n % std::max<int64_t>(values, 16) == 0;
}

// is_floats reports whether t holds rows of floats.
bool is_floats(const ggml_tensor * t) { return t->type == GGML_TYPE_F32 && t->nb[0] == sizeof(float) && t->ne[3] == 1; }

// row returns the start of row i of a tensor of floats.
float * row(const ggml_tensor * t, int64_t i) {
    return (float *) ((char *) t->data + i / t->ne[1] * t->nb[2] + i % t->ne[1] * t->nb[1]);
}

// A product with one weight matrix, or with the experts' matrices, where each column names its matrices.
bool is_product(const ggml_tensor * op) {
    weights format;
    const ggml_tensor * w = op->src[0], * x = op->src[1];
    if (!format_of(w, format) || w->ne[3] != 1 || !is_floats(x) || !is_floats(op)) {
        return false;
    }
    if (op->op == GGML_OP_MUL_MAT) {
        return w->ne[2] == 1;
    }
    return op->src[2]->type == GGML_TYPE_I32;
}

bool is_attention(const ggml_tensor * op) {
    const ggml_tensor * q = op->src[0], * k = op->src[1], * v = op->src[2], * mask = op->src[3], * sinks = op->src[4];
    float bias, cap;
    std::memcpy(&bias, op->op_params + 1, sizeof bias);
    std::memcpy(&cap, op->op_params + 2, sizeof cap);
    return bias == 0 && cap == 0 && is_floats(q) && is_floats(op) && mask && mask->type == GGML_TYPE_F16 &&
           mask->nb[0] == 2 &&
           mask->ne[2] == 1 && mask->ne[3] == 1 && k->type == GGML_TYPE_F16 && v->type == GGML_TYPE_F16 &&
           k->nb[0] == 2 &&
           v->nb[0] == 2 && k->ne[3] == 1 && v->ne[3] == 1 && k->ne[0] == v->ne[0] && k->ne[0] % 32 == 0 &&
           k->ne[0] <= kernels::max_size && k->ne[2] == v->ne[2] && q->ne[2] % k->ne[2] == 0 && k->ne[1] > 0 &&
           q->ne[2] / k->ne[2] <= kernels::max_group && k->ne[1] < INT32_MAX &&
           op->nb[1] == op->ne[0] * sizeof(float) &&
           (!sinks || (sinks->type == GGML_TYPE_F32 && sinks->nb[0] == sizeof(float)));
}

// is_scaling reports whether op multiplies every row of floats by a number of its own, as with the experts' shares.
bool is_scaling(const ggml_tensor * op) {
    const ggml_tensor * x = op->src[0], * by = op->src[1];
    return is_floats(x) && is_floats(by) && is_floats(op) && by->ne[0] == 1 && by->ne[1] == x->ne[1] &&
           by->ne[2] == x->ne[2] && x->ne[0] % 16 == 0;
}

// is_sum reports whether op adds two tensors of floats, or one row to all rows, or to every row that of its expert.
bool is_sum(const ggml_tensor * op) {
    const ggml_tensor * x = op->src[0], * y = op->src[1];
    if (!is_floats(x) || !is_floats(y) || !is_floats(op) || y->ne[0] != x->ne[0] || x->ne[0] % 16 != 0) {
        return false;
    }
    if (op->op == GGML_OP_ADD_ID) {
        return y->ne[2] == 1 && op->src[2]->type == GGML_TYPE_I32;
    }
    return (y->ne[1] == x->ne[1] && y->ne[2] == x->ne[2]) || (y->ne[1] == 1 && y->ne[2] == 1);
}

bool is_gate(const ggml_tensor * op) {
    const ggml_tensor * x = op->src[0], * y = op->src[1];
    const bool known = op->op_params[0] == GGML_GLU_OP_SWIGLU_OAI || op->op_params[0] == GGML_GLU_OP_SWIGLU;
    return known && y && is_floats(x) && is_floats(y) && is_floats(op) && x->ne[0] % 16 == 0;
}

// is_softmax reports whether op computes the shares of experts: without a mask, a bias or sinks.
bool is_softmax(const ggml_tensor * op) {
    float bias;
    std::memcpy(&bias, op->op_params + 1, sizeof bias);
    return bias == 0 && !op->src[1] && !op->src[2] && is_floats(op->src[0]) && is_floats(op) && op->ne[0] > 0 &&
           op->ne[0] % 16 == 0;
}

bool is_normalization(const ggml_tensor * op) {
    float epsilon;
    std::memcpy(&epsilon, op->op_params, sizeof epsilon);
    return epsilon >= 0 && is_floats(op->src[0]) && is_floats(op) && op->ne[0] % 16 == 0;
}

// turned_halves is the form of rotary embedding that rotates value i of a head together with the value half a head
// further.
constexpr int32_t turned_halves = 2;

// is_rotation reports whether op rotates whole heads, with one position per token.
bool is_rotation(const ggml_tensor * op) {
    const ggml_tensor * x = op->src[0], * positions = op->src[1];
    return is_floats(x) && is_floats(op) && positions->type == GGML_TYPE_I32 && !op->src[2] &&
           op->op_params[2] == turned_halves && op->op_params[1] == x->ne[0] &&
           x->ne[0] % 32 == 0;
}

bool is_ours(const ggml_tensor * op) {
    switch (op->op) {
    case GGML_OP_RMS_NORM: return is_normalization(op);
    case GGML_OP_ROPE: return is_rotation(op);
    case GGML_OP_SOFT_MAX: return is_softmax(op);
    case GGML_OP_MUL: return is_scaling(op);
    case GGML_OP_ADD:
    case GGML_OP_ADD_ID: return is_sum(op);
    case GGML_OP_GLU: return is_gate(op);
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID: return is_product(op);
    case GGML_OP_FLASH_ATTN_EXT: return is_attention(op);
    default: return false;
    }
}

// A piece of work is worth sharing from this many products on: a few microseconds for a helper.
constexpr int64_t worth = 1 << 16;

// meet waits until all of the engine's threads are here, before they share pieces.
void meet(ggml_compute_params * params) {
    if (params->nth == 1) {
        return;
    }
    if (params->ith == 0) {
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
}

// take_runs calls f for runs of pieces, from one to before another, which together are pieces 0 to n-1, each of about
// cost products. Runs are long at first and get shorter, so that all threads finish together. If the engine computes
// with several threads, all of them call take_runs after they met, and faster threads take more pieces. If it computes
// with one, the team helps when there is enough work.
template <typename F> void take_runs(ggml_compute_params * params, int64_t n, int64_t cost, F f) {
    if (params->nth > 1) {
        for (int64_t i = params->ith, some = 1; i < n;) {
            f(i, std::min(i + some, n));
            const int64_t left = n - ggml_threadpool_chunk_add(params->threadpool, 0);
            some = std::max<int64_t>(left / (2 * params->nth), 1);
            i = ggml_threadpool_chunk_add(params->threadpool, (int) some);
        }
        return;
    }
    const int64_t bundle = std::max<int64_t>(1, worth / std::max<int64_t>(cost, 1)),
        bundles = (n + bundle - 1) / bundle;
    const bool little = bundles < 4 && n * cost < 4 * worth;
    if (little || bundles < 2 || !helped.load(std::memory_order_relaxed)) {
        f(0, n);
        return;
    }
    const auto some = [&](int64_t first, int64_t last) { f(first * bundle, std::min(n, last * bundle)); };
    const auto call = [](void * t, int64_t first, int64_t last) { (*(decltype(some) *) t)(first, last); };
    team::run(bundles, n * cost, call, (void *) &some);
}

// take calls f for one piece at a time, shared out like take_runs.
template <typename F> void take(ggml_compute_params * params, int64_t n, int64_t cost, F f) {
    take_runs(params, n, cost, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i++) {
            f(i);
        }
    });
}

// spread calls f like take, but the engine's threads need not meet before it, and each has its fixed pieces.
template <typename F> void spread(ggml_compute_params * params, int64_t n, int64_t cost, F f) {
    if (params->nth == 1) {
        take(params, n, cost, f);
        return;
    }
    for (int64_t i = params->ith; i < n; i += params->nth) {
        f(i);
    }
}

// Rounding or normalizing a number takes about as long as this many products.
constexpr int64_t cost_of_number = 16;

// Putting a rounded number into a bundle takes about as long as this many products.
constexpr int64_t cost_of_moving = 4;

// A query and a cell take, for each number of a head, about as long as this many products: the numbers of the key and
// of the value are each converted and multiplied.
constexpr int64_t cost_of_cell = 4;

// share is both meet and take, for work whose pieces are known before the threads meet.
template <typename F> void share(ggml_compute_params * params, int64_t n, int64_t cost, F f) {
    meet(params);
    take(params, n, cost, f);
}

// bundle says which of a product's sorted columns it has.
struct bundle {
    int64_t from, count;
};

// The work buffer of a product: its rounded columns, then pointers to columns and results by expert, then the index at
// which each expert's begin, then the experts that have any, then the bundles and at which each expert's begin.
struct work {
    char *         rounded;
    const void **  columns;
    float **       out;
    int64_t *      begin; // one more than the number of experts
    int64_t *      used;  // their number, then the experts
    int64_t *      bundled; // one more than the number of experts
    bundle *       bundles;
    char *         tiles; // what the bundles hold
    size_t         size;

    work(const kernels::set & own, const ggml_tensor * op, void * base) {
        weights m;
        format_of(op->src[0], m);
        const bool ids = op->op == GGML_OP_MUL_MAT_ID;
        const int64_t all = columns_of(op), experts = ids ? op->src[0]->ne[2] : 1;
        size_t at = -(uintptr_t) base % 64;
        const auto take = [&](size_t bytes) {
            const size_t begin = at;
            at += (bytes + 63) / 64 * 64;
            return base ? (char *) base + begin : nullptr;
        };
        rounded = take(columns_of(op->src[1]) * m.rounded(own));
        columns = (const void **) take(all * sizeof *columns);
        out = (float **) take(all * sizeof *out);
        begin = (int64_t *) take((experts + 1) * sizeof *begin);
        used = (int64_t *) take((experts + 1) * sizeof *used);
        bundled = (int64_t *) take((experts + 1) * sizeof *bundled);
        // Each expert with bundles has one that may not be full.
        const int64_t least = m.worth(own), most = all < least ? 0 : all / kernels::bundle_width +
            std::min(experts, all / least);
        bundles = (bundle *) take(most * sizeof *bundles);
        tiles = take(most > 0 ? most * own.bundle_size(m.r.format, m.r.n) : 0);
        size = at + 63;
    }
};

// expert_of returns a token's i-th expert.
int32_t expert_of(const ggml_tensor * ids, int64_t i, int64_t token) {
    return *(const int32_t *) ((const char *) ids->data + token * ids->nb[1] + i * ids->nb[0]);
}

// arrange sorts the columns and their results by expert. Thread 0 does it.
void arrange(const ggml_tensor * op, size_t rounded, work & w) {
    const ggml_tensor * x = op->src[1], * ids = op->op == GGML_OP_MUL_MAT_ID ? op->src[2] : nullptr;
    const int64_t experts = ids ? op->src[0]->ne[2] : 1;
    const auto expert = [&](int64_t i, int64_t t) { return ids ? expert_of(ids, i, t) : 0; };
    std::memset(w.begin, 0, (experts + 1) * sizeof *w.begin);
    for (int64_t t = 0; t < op->ne[2]; t++) {
        for (int64_t i = 0; i < op->ne[1]; i++) {
            w.begin[expert(i, t) + 1]++;
        }
    }
    w.used[0] = 0;
    for (int64_t e = 0; e < experts; e++) {
        if (w.begin[e + 1] > 0) {
            w.used[++w.used[0]] = e;
        }
        w.begin[e + 1] += w.begin[e];
    }
    // Filling has moved every begin to the place of the next.
    for (int64_t t = 0; t < op->ne[2]; t++) {
        for (int64_t i = 0; i < op->ne[1]; i++) {
            const int64_t at = w.begin[expert(i, t)]++;
            const int64_t column = ids ? i % x->ne[1] : i;
            const int64_t from = t * x->ne[1] + column;
            w.columns[at] = rounded > 0 ? (const void *) (w.rounded + from * rounded) : row(x, from);
            w.out[at] = row(op, t * op->ne[1] + i);
        }
    }
    std::memmove(w.begin + 1, w.begin, experts * sizeof *w.begin);
    w.begin[0] = 0;
}

// bundle_up says which columns of which expert are in each bundle, after arrange. Thread 0 does it.
void bundle_up(const ggml_tensor * op, int64_t least, work & w) {
    const int64_t experts = op->op == GGML_OP_MUL_MAT_ID ? op->src[0]->ne[2] : 1;
    int64_t n = 0;
    for (int64_t e = 0; e < experts; e++) {
        w.bundled[e] = n;
        const int64_t end = w.begin[e + 1];
        for (int64_t from = end - w.begin[e] >= least ? w.begin[e] : end; from < end; from += kernels::bundle_width) {
            w.bundles[n++] = {from, std::min<int64_t>(kernels::bundle_width, end - from)};
        }
    }
    w.bundled[experts] = n;
}

// round rounds a column for the weights.
void round(const kernels::set & own, const weights & m, const float * x, void * out) {
    if (m.engine) {
        ggml_get_type_traits_cpu(m.engine->vec_dot_type)->from_float(x, out, m.r.n);
    } else {
        own.quantize(x, m.r.n, m.r.format, (block *) out);
    }
}

// multiply writes the products of rows first to last-1 with each column.
void multiply(const kernels::set & own, const weights & m, int64_t first, int64_t last, const void * const * columns,
    float * const * out, int64_t count) {
    if (m.blocks > 0) {
        own.multiply_quantized(m.r, first, last, (const block * const *) columns, out, count);
        return;
    }
    if (!m.engine) {
        own.multiply_floats(m.r, first, last, (const float * const *) columns, out, count);
        return;
    }
    constexpr int64_t some = 8; // rows that the first cache holds beside a column
    for (; first < last; first += some) {
        for (int64_t c = 0; c < count; c++) {
            for (int64_t r = first; r < std::min(first + some, last); r++) {
                m.engine->vec_dot((int) m.r.n, out[c] + r, 0, m.r.data + r * m.r.stride, 0, columns[c], 0, 1);
            }
        }
    }
}

void product(const kernels::set & own, ggml_compute_params * params, ggml_tensor * op) {
    const ggml_tensor * x = op->src[1];
    weights m;
    format_of(op->src[0], m);
    work w(own, op, params->wdata);
    const size_t column = m.rounded(own);
    const int64_t least = m.worth(own), experts = op->op == GGML_OP_MUL_MAT_ID ? op->src[0]->ne[2] : 1;
    if (params->ith == 0) {
        arrange(op, column, w);
        bundle_up(op, least, w);
    }
    if (column > 0) {
        spread(params, columns_of(x), m.r.n * cost_of_number,
            [&](int64_t c) { round(own, m, row(x, c), w.rounded + c * column); });
    }
    meet(params);
    const size_t bundle_size = w.bundled[experts] > 0 ? own.bundle_size(m.r.format, m.r.n) : 0;
    if (w.bundled[experts] > 0) {
        spread(params, w.bundled[experts], kernels::bundle_width * m.r.n * cost_of_moving, [&](int64_t i) {
            const block * const * from = (const block * const *) w.columns + w.bundles[i].from;
            own.bundle(from, w.bundles[i].count, m.r.n, m.r.format, w.tiles + i * bundle_size);
        });
        meet(params);
    }
    // A piece is some rows of one expert's matrix with all columns of that expert. Experts without columns have no
    // pieces, so that the pieces are about equally large.
    const int64_t height = op->src[0]->ne[1], used = std::max<int64_t>(w.used[0], 1);
    constexpr int64_t piece = 32;
    const int64_t each = (height + piece - 1) / piece;
    take_runs(params, each * w.used[0], piece * m.r.n * columns_of(op) / used, [&](int64_t i, int64_t end) {
        // Rows that follow one another are multiplied in one call: that reads memory without a break.
        for (int64_t next; i < end; i = next) {
            next = std::min(end, (i / each + 1) * each);
            const int64_t e = w.used[1 + i / each], first = i % each * piece;
            const int64_t last = std::min(first + (next - i) * piece, height);
            const int64_t from = w.begin[e], count = w.begin[e + 1] - from;
            weights expert = m;
            expert.r.data += e * op->src[0]->nb[2];
            if (count >= least) {
                own.multiply_bundles(expert.r, first, last, w.tiles + w.bundled[e] * bundle_size,
                    (const block * const *) w.columns + from, w.out + from, count);
            } else {
                multiply(own, expert, first, last, w.columns + from, w.out + from, count);
            }
        }
    });
}

// tokens_together is how many tokens attend computes at a time. Each thread has several such shares, so that none waits
// long for another, and memory for about most_scores numbers, or for those of one token.
int64_t tokens_together(const attention & a, int threads) {
    constexpr int64_t shares = 4, most_scores = 1 << 20;
    const int64_t group = a.heads / a.shared;
    const int64_t results = kernels::max_results / a.size, scores = most_scores / a.cells;
    const int64_t queries = std::min({(int64_t) kernels::max_queries, results, scores});
    return std::max<int64_t>(1, std::min(queries / group, a.tokens / (shares * threads)));
}

// count_open returns about how many cells are open to all tokens together. Usually they are few of all cells when many
// sequences share the cache. It counts for the first tokens and takes the others to be like them.
int64_t count_open(const attention & a) {
    constexpr int64_t enough = 1 << 12, some = 1 << 12, most_read = 1 << 18;
    int64_t open = 0, counted = 0;
    for (; counted < a.tokens && open < enough && counted * a.cells < most_read; counted++) {
        const uint16_t * mask = (const uint16_t *) (a.mask + counted * a.mask_token);
        for (int64_t c = 0; c < a.cells; c += some) {
            uint16_t n = 0; // compilers count faster with numbers as small as those of the mask
            for (int64_t i = c; i < std::min(c + some, a.cells); i++) {
                n += mask[i] != kernels::closed;
            }
            open += n;
        }
    }
    return open * a.tokens / std::max<int64_t>(counted, 1);
}

void attend(const kernels::set & own, ggml_compute_params * params, ggml_tensor * op) {
    const ggml_tensor * q = op->src[0], * k = op->src[1], * v = op->src[2], * mask = op->src[3], * sinks = op->src[4];
    attention a = {};
    a.tokens = q->ne[1];
    a.cells = k->ne[1];
    a.size = k->ne[0];
    a.heads = q->ne[2];
    a.shared = k->ne[2];
    a.q = (const char *) q->data, a.q_token = q->nb[1], a.q_head = q->nb[2];
    a.k = (const char *) k->data, a.k_cell = k->nb[1], a.k_head = k->nb[2];
    a.v = (const char *) v->data, a.v_cell = v->nb[1], a.v_head = v->nb[2];
    a.mask = (const char *) mask->data, a.mask_token = mask->nb[1];
    a.sinks = sinks ? (const float *) sinks->data : nullptr;
    std::memcpy(&a.scale, op->op_params, sizeof a.scale);
    a.out = (float *) op->data;
    static std::atomic<uint64_t> ids{0};
    a.id = ++ids;
    // The cost of all tokens matters only to the team.
    const bool    shared = params->nth == 1 && helped.load(std::memory_order_relaxed);
    const int64_t cost = shared ? count_open(a) * a.heads * a.size * cost_of_cell : 0;
    const int64_t together = tokens_together(a, params->nth);
    if (together == 1) {
        const int64_t pieces = a.tokens * a.shared;
        share(params, pieces, cost / std::max<int64_t>(pieces, 1), [&](int64_t i) {
            own.attend(a, i / a.shared, i / a.shared + 1, i % a.shared, i % a.shared + 1);
        });
        return;
    }
    const int64_t pieces = (a.tokens + together - 1) / together;
    share(params, pieces, cost / std::max<int64_t>(pieces, 1), [&](int64_t i) {
        own.attend(a, i * together, std::min((i + 1) * together, a.tokens), 0, a.shared);
    });
}

void scaling(const kernels::set & own, ggml_compute_params * params, ggml_tensor * op) {
    share(params, columns_of(op), op->ne[0], [&](int64_t i) {
        own.scale(row(op->src[0], i), *row(op->src[1], i), op->ne[0], row(op, i));
    });
}

void sum(const kernels::set & own, ggml_compute_params * params, ggml_tensor * op) {
    const ggml_tensor * y = op->src[1], * ids = op->op == GGML_OP_ADD_ID ? op->src[2] : nullptr;
    spread(params, columns_of(op), op->ne[0], [&](int64_t i) {
        const int64_t other = ids ? expert_of(ids, i % op->ne[1], i / op->ne[1]) : columns_of(y) == 1 ? 0 : i;
        own.add(row(op->src[0], i), row(y, other), op->ne[0], row(op, i));
    });
}

void gate(const kernels::set & own, ggml_compute_params * params, ggml_tensor * op) {
    float alpha, limit;
    std::memcpy(&alpha, op->op_params + 2, sizeof alpha);
    std::memcpy(&limit, op->op_params + 3, sizeof limit);
    const bool plain = op->op_params[0] == GGML_GLU_OP_SWIGLU;
    share(params, columns_of(op), op->ne[0] * 8, [&](int64_t i) {
        if (plain) {
            own.swiglu(row(op->src[0], i), row(op->src[1], i), op->ne[0], row(op, i));
        } else {
            own.gate(row(op->src[0], i), row(op->src[1], i), alpha, limit, op->ne[0], row(op, i));
        }
    });
}

void softmax(const kernels::set & own, ggml_compute_params * params, ggml_tensor * op) {
    float factor;
    std::memcpy(&factor, op->op_params, sizeof factor);
    spread(params, columns_of(op), op->ne[0] * cost_of_number,
        [&](int64_t i) { own.softmax(row(op->src[0], i), op->ne[0], factor, row(op, i)); });
}

void normalize(const kernels::set & own, ggml_compute_params * params, ggml_tensor * op) {
    float epsilon;
    std::memcpy(&epsilon, op->op_params, sizeof epsilon);
    spread(params, columns_of(op), op->ne[0] * cost_of_number,
        [&](int64_t i) { own.normalize(row(op->src[0], i), op->ne[0], epsilon, row(op, i)); });
}

// angles holds the angles by which rotary embedding (Su et al., "RoFormer", 2021), stretched by YaRN (Peng et al.,
// 2023), rotates the pairs of a head. They depend on the token's position alone. A step needs the same angles for
// the queries and keys of every layer, so each thread keeps those of its tokens.
class angles {
    enum { parameters = 11 };

    int32_t              key[parameters] = {};
    std::vector<int32_t> positions, wanted;
    std::vector<float>   turns;

    // fill computes them as the engine does: each pair rotates more slowly than the one before, by a constant
    // factor.
    void fill() {
        const int32_t n = key[1] / 2;
        float base, stretch, share, magnitude, fast, slow, ends[2];
        float * const floats[] = {&base, &stretch, &share, &magnitude, &fast, &slow};
        for (int i = 0; i < 6; i++) {
            std::memcpy(floats[i], key + 5 + i, sizeof(float));
        }
        ggml_rope_yarn_corr_dims(2 * n, key[4], base, fast, slow, ends);
        if (share != 0) {
            magnitude *= 1 + 0.1f * std::log(1 / stretch);
        }
        const float slower = std::pow(base, -1.0f / n);
        float * cosines = turns.data();
        for (const int32_t position : positions) {
            float angle = position;
            for (int32_t i = 0; i < n; i++, angle *= slower) {
                const float ramp = std::clamp((i - ends[0]) / std::max(0.001f, ends[1] - ends[0]), 0.0f, 1.0f);
                const float whole = share == 0 ? 0 : share * (1 - ramp);
                const float turn = stretch * angle * (1 - whole) + angle * whole;
                cosines[i] = std::cos(turn) * magnitude;
                cosines[n + i] = std::sin(turn) * magnitude;
            }
            cosines += 2 * n;
        }
    }

  public:
    // of returns the cosines and then the sines of each token that the thread works on.
    const float * of(const ggml_compute_params * params, const ggml_tensor * op) {
        const int32_t * all = (const int32_t *) op->src[1]->data;
        wanted.clear();
        for (int64_t t = params->ith; t < op->ne[2]; t += params->nth) {
            wanted.push_back(all[t]);
        }
        if (wanted != positions || std::memcmp(key, op->op_params, sizeof key) != 0) {
            turns.resize(wanted.size() * op->ne[0]); // first, so that nothing has changed if it throws
            std::memcpy(key, op->op_params, sizeof key);
            positions.swap(wanted);
            fill();
        }
        return turns.data();
    }
};

void rotate(const kernels::set & own, ggml_compute_params * params, ggml_tensor * op) {
    static thread_local angles kept;
    const float * turns = kept.of(params, op);
    spread(params, op->ne[2], op->ne[1] * op->ne[0] * cost_of_number, [&](int64_t t) {
        const float * own_turns = turns + t / params->nth * op->ne[0];
        for (int64_t h = 0; h < op->ne[1]; h++) {
            own.rotate(row(op->src[0], t * op->ne[1] + h), own_turns, op->ne[0] / 2, row(op, t * op->ne[1] + h));
        }
    });
}

struct traits final : ggml::cpu::tensor_traits {
    const kernels::set & own;
    explicit traits(const kernels::set & set) : own(set) {}
    bool work_size(int, const ggml_tensor * op, size_t & size) override {
        size = op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID ? work(own, op, nullptr).size : 0;
        return true;
    }
    bool compute_forward(ggml_compute_params * params, ggml_tensor * op) override {
        switch (op->op) {
        case GGML_OP_FLASH_ATTN_EXT: attend(own, params, op); return true;
        case GGML_OP_MUL: scaling(own, params, op); return true;
        case GGML_OP_ADD:
        case GGML_OP_ADD_ID: sum(own, params, op); return true;
        case GGML_OP_RMS_NORM: normalize(own, params, op); return true;
        case GGML_OP_ROPE: rotate(own, params, op); return true;
        case GGML_OP_SOFT_MAX: softmax(own, params, op); return true;
        case GGML_OP_GLU: gate(own, params, op); return true;
        default: product(own, params, op); return true;
        }
    }
};

std::vector<traits>   runnable;        // what the processor can run, the best first; kernels_offer fills it
std::atomic<traits *> in_use{nullptr}; // one of those, or null for the engine's own kernels

struct buffer_type final : ggml::cpu::extra_buffer_type {
    bool supports_op(ggml_backend_dev_t, const ggml_tensor *) override { return false; }
    ggml::cpu::tensor_traits * get_tensor_traits(const ggml_tensor * op) override {
        return is_ours(op) ? in_use.load(std::memory_order_relaxed) : nullptr;
    }
};

} // namespace

extern "C" const char * kernels_name(int i) {
    return i < (int) runnable.size() ? runnable[i].own.instructions : nullptr;
}

extern "C" int kernels_use(const char * instructions) {
    if (!instructions) {
        in_use.store(nullptr);
        return 1;
    }
    for (traits & t : runnable) {
        if (std::strcmp(t.own.instructions, instructions) == 0) {
            in_use.store(&t);
            return 1;
        }
    }
    return 0;
}

extern "C" void kernels_help(int helpers) {
    team::grow(helpers);
    helped.store(helpers > 0, std::memory_order_relaxed);
}

extern "C" unsigned kernels_woken(void) { return team::woken(); }

extern "C" const char * kernels_offer(void) {
    for (const kernels::set * const * s = kernels::sets; *s; s++) {
        if ((*s)->supported()) {
            runnable.emplace_back(**s);
        }
    }
    if (runnable.empty()) {
        return nullptr;
    }
    // The list of buffer types for weights is a copy that the engine makes on first use: before this type is added.
    for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
        const ggml_backend_reg_t reg = ggml_backend_reg_get(i);
        if (std::strcmp(ggml_backend_reg_name(reg), "CPU") == 0) {
            typedef ggml_backend_buffer_type_t * (*list)(ggml_backend_dev_t);
            const auto get = (list) ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
            if (!get) {
                runnable.clear();
                return nullptr;
            }
            get(nullptr);
        }
    }
    static buffer_type              context;
    static ggml_backend_buffer_type type = {};
    type.context = &context;
    ggml_backend_cpu_get_extra_buffer_types().push_back(&type);
    in_use.store(&runnable[0]);
    return kernels_name(0);
}

#ifdef RUNNER_PEER
#include "peer.h"
#endif
