// Products outside of a model; see kernels.h. kernels.cpp includes this file with the build tag peer, because it needs
// what the engine's products are made of there.
#ifndef RUNNER_KERNELS_PEER_H
#define RUNNER_KERNELS_PEER_H

namespace {

struct peer_product {
    struct alignas(64) line {
        char bytes[64];
    };
    using lines = std::vector<line>; // memory on addresses that bundles need

    const kernels::set *      own = nullptr;
    ggml_type                 type;
    weights                   m;
    int64_t                   height = 0;
    std::vector<char>         stored;
    std::vector<float>        activations, results;
    std::vector<lines>        rounded;
    std::vector<const void *> columns;
    std::vector<float *>      out;
    lines                     tiles;

    int64_t count() const { return (int64_t) columns.size(); }
    bool    bundled() const { return count() >= m.worth(*own); }

    static lines room(size_t bytes) { return lines((bytes + sizeof(line) - 1) / sizeof(line)); }

    // store stores weights, and finds out how they are multiplied. It reports whether they can be.
    bool store(const char * instructions, const float * values, int64_t rows, int64_t n) {
        height = rows;
        stored.resize(rows * ggml_row_size(type, n));
        ggml_quantize_chunk(type, values, stored.data(), 0, rows, n, nullptr);
        ggml_tensor t = {};
        t.type = type;
        t.data = stored.data();
        t.ne[0] = n, t.ne[1] = rows;
        t.nb[0] = ggml_get_type_traits(type)->type_size, t.nb[1] = ggml_row_size(type, n);
        if (!format_of(&t, m)) {
            return false;
        }
        for (const traits & r : runnable) {
            if (!instructions || std::strcmp(r.own.instructions, instructions) == 0) {
                own = &r.own;
                break;
            }
        }
        if (!instructions) {
            m.engine = ggml_get_type_traits_cpu(type);
            m.blocks = 0;
            m.column = ggml_row_size(m.engine->vec_dot_type, n);
        }
        return own && (!instructions || !m.engine);
    }

    // prepare rounds columns and puts them into bundles, where that is worth it.
    void prepare(const float * values, int64_t some) {
        const int64_t n = m.r.n;
        activations.assign(values, values + n * some);
        results.resize(height * some);
        const size_t bytes = m.rounded(*own);
        for (int64_t c = 0; c < some; c++) {
            out.push_back(results.data() + c * height);
            columns.push_back(activations.data() + c * n);
            if (bytes > 0) {
                rounded.push_back(room(bytes));
                round(*own, m, activations.data() + c * n, rounded[c].data());
                columns[c] = rounded[c].data();
            }
        }
        if (!bundled()) {
            return;
        }
        const size_t size = own->bundle_size(m.r.format, n);
        tiles = room((some + kernels::bundle_width - 1) / kernels::bundle_width * size);
        for (int64_t c = 0; c < some; c += kernels::bundle_width) {
            own->bundle((const block * const *) columns.data() + c, std::min<int64_t>(kernels::bundle_width, some - c),
                n, m.r.format, tiles[0].bytes + c / kernels::bundle_width * size);
        }
    }

    void run() {
        if (bundled()) {
            own->multiply_bundles(m.r, 0, height, tiles[0].bytes, (const block * const *) columns.data(), out.data(),
                count());
        } else {
            multiply(*own, m, 0, height, columns.data(), out.data(), count());
        }
    }
};

peer_product * of(kernels_product * p) { return (peer_product *) p; }

const peer_product * of(const kernels_product * p) { return (const peer_product *) p; }

} // namespace

extern "C" kernels_product * kernels_product_new(const char * instructions, int format, const float * weights,
    int64_t rows, int64_t n, const float * activations, int64_t columns) {
    peer_product * p = new peer_product;
    p->type = (ggml_type) format;
    if (!p->store(instructions, weights, rows, n)) {
        delete p;
        return nullptr;
    }
    p->prepare(activations, columns);
    return (kernels_product *) p;
}

extern "C" void kernels_product_run(kernels_product * p) { of(p)->run(); }

extern "C" void kernels_product_weights(const kernels_product * p, float * weights) {
    const peer_product & own = *of(p);
    const size_t values = (size_t) (own.height * own.m.r.n);
    if (own.type == GGML_TYPE_F32) {
        std::memcpy(weights, own.stored.data(), values * sizeof *weights);
    } else {
        ggml_get_type_traits(own.type)->to_float(own.stored.data(), weights, (int64_t) values);
    }
}

extern "C" void kernels_product_results(const kernels_product * p, float * results) {
    std::copy(of(p)->results.begin(), of(p)->results.end(), results);
}

extern "C" void kernels_product_free(kernels_product * p) { delete of(p); }

#endif
