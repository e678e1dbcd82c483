// The engine reports failures in four ways: return values, C++ exceptions, assertions (ggml_abort) and log lines.
// This file turns all of them into return values with a line of text.
//
// Assertions: ggml_abort calls a handler before it ends the process. On a thread inside a guarded call the handler
// throws. The exception unwinds through the engine's frames to the engine's own exception handler or to the guard.
// (That includes C frames: all supported platforms have unwind tables by default.) Memory of the engine may leak,
// and the context must not be used again. On other threads, such as compute threads, the process ends as the engine
// intends.

#include "engine.h"
#include "guard.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

// Implemented in Go.
extern "C" void runnerLog(int level, char * text);
extern "C" int runnerProgress(uintptr_t handle, float fraction);

thread_local int         guard::guards = 0;
thread_local std::string guard::first_error;

namespace {

using guard::first_error;
using guard::guarded;
using guard::guards;

struct assertion : std::exception {
    std::string text;
    explicit assertion(const char * t) : text(t) {}
    const char * what() const noexcept override { return text.c_str(); }
};

std::atomic<int> log_level{GGML_LOG_LEVEL_NONE};

void on_log(enum ggml_log_level level, const char * text, void *) {
    if (guards > 0 && level == GGML_LOG_LEVEL_ERROR && first_error.empty()) {
        first_error = text; // later messages say less
    }
    const int least = log_level.load(std::memory_order_relaxed);
    if (least != GGML_LOG_LEVEL_NONE && (int) level >= least) {
        runnerLog((int) level, const_cast<char *>(text));
    }
}

void on_abort(const char * text) {
    if (guards > 0) {
        throw assertion(text);
    }
    std::fprintf(stderr, "%s\n", text);
}

bool on_progress(float fraction, void * data) {
    return runnerProgress((uintptr_t) data, fraction) != 0;
}

// computed counts the operations of all engines. They ask is_set before each.
std::atomic<uint64_t> computed{0};

bool is_set(void * data) {
    computed.fetch_add(1, std::memory_order_relaxed);
    return __atomic_load_n(static_cast<const int32_t *>(data), __ATOMIC_RELAXED) != 0;
}

} // namespace

extern "C" void shim_handlers(const struct shim_engine * e) {
    e->ggml_set_abort_callback(on_abort);
    e->llama_log_set(on_log, nullptr);
}

extern "C" uint64_t shim_computed(void) { return computed.load(std::memory_order_relaxed); }

extern "C" bool shim_known(const struct shim_engine * e) { return e->layout->known(e->parameters); }

extern "C" void shim_log_level(int level) {
    log_level.store(level, std::memory_order_relaxed);
}

extern "C" struct llama_model * shim_load(const struct shim_engine * e, const char * path,
                                          const struct shim_load_options * options, struct shim_error * err) {
    return guarded<llama_model *>(err, nullptr, [&] {
        // Without our callback the engine would print dots to its log.
        const llama_progress_callback progress = options->progress ? on_progress : [](float, void *) { return true; };
        return e->layout->load(e->parameters, path, *options, progress);
    });
}

extern "C" void shim_model_free(const struct shim_engine * e, struct llama_model * model) {
    e->llama_model_free(model);
}

extern "C" struct shim_model_facts shim_describe(const struct shim_engine * e, const struct llama_model * model) {
    struct shim_model_facts f;
    f.decodes = !e->llama_model_has_encoder(model) && e->llama_model_has_decoder(model) &&
                !e->llama_model_is_diffusion(model);
    f.recurrent = e->llama_model_is_recurrent(model) || e->llama_model_is_hybrid(model);
    f.window = e->llama_model_n_swa(model);
    f.trained_context = e->llama_model_n_ctx_train(model);
    f.width = e->llama_model_n_embd(model);
    f.layers = e->llama_model_n_layer(model);
    f.parameters = e->llama_model_n_params(model);
    f.bytes = e->llama_model_size(model);
    return f;
}

extern "C" struct ggml_threadpool * shim_pool(const struct shim_engine * e, int threads) {
    struct ggml_threadpool_params params;
    e->ggml_threadpool_params_init(&params, threads);
    return e->threadpool_new(&params);
}

extern "C" void shim_pool_free(const struct shim_engine * e, struct ggml_threadpool * pool) {
    e->threadpool_free(pool);
}

extern "C" struct llama_context * shim_context(const struct shim_engine * e, struct llama_model * model,
                                               const struct shim_context_options * options,
                                               struct ggml_threadpool * pool, struct shim_error * err) {
    return guarded<llama_context *>(err, nullptr, [&] {
        llama_context * ctx = e->layout->init(e->parameters, model, *options, is_set);
        if (ctx && pool) {
            e->llama_attach_threadpool(ctx, pool, pool);
        }
        return ctx;
    });
}

extern "C" void shim_context_free(const struct shim_engine * e, struct llama_context * ctx) { e->llama_free(ctx); }

extern "C" void shim_embeddings(const struct shim_engine * e, struct llama_context * ctx, bool on) {
    e->llama_set_embeddings(ctx, on);
}

extern "C" llama_memory_t shim_memory(const struct shim_engine * e, const struct llama_context * ctx) {
    return e->llama_get_memory(ctx);
}

extern "C" bool shim_remove(const struct shim_engine * e, llama_memory_t mem, llama_seq_id seq, llama_pos from,
                            llama_pos to) {
    return e->llama_memory_seq_rm(mem, seq, from, to);
}

extern "C" void shim_copy(const struct shim_engine * e, llama_memory_t mem, llama_seq_id src, llama_seq_id dst,
                          llama_pos from, llama_pos to) {
    e->llama_memory_seq_cp(mem, src, dst, from, to);
}

extern "C" llama_pos shim_lowest(const struct shim_engine * e, llama_memory_t mem, llama_seq_id seq) {
    return e->llama_memory_seq_pos_min(mem, seq);
}

extern "C" const struct llama_vocab * shim_vocab(const struct shim_engine * e, const struct llama_model * model) {
    return e->llama_model_get_vocab(model);
}

extern "C" int32_t shim_vocab_size(const struct shim_engine * e, const struct llama_vocab * v) {
    return e->llama_vocab_n_tokens(v);
}

extern "C" enum llama_vocab_type shim_vocab_type(const struct shim_engine * e, const struct llama_vocab * v) {
    return e->llama_vocab_type(v);
}

extern "C" bool shim_vocab_adds_bos(const struct shim_engine * e, const struct llama_vocab * v) {
    return e->llama_vocab_get_add_bos(v);
}

extern "C" enum llama_token_attr shim_attr(const struct shim_engine * e, const struct llama_vocab * v, llama_token t) {
    return e->llama_vocab_get_attr(v, t);
}

extern "C" bool shim_ends(const struct shim_engine * e, const struct llama_vocab * v, llama_token t) {
    return e->llama_vocab_is_eog(v, t);
}

extern "C" int32_t shim_piece(const struct shim_engine * e, const struct llama_vocab * v, llama_token t, char * buf,
                              int32_t size) {
    return e->llama_token_to_piece(v, t, buf, size, 0, true);
}

extern "C" int32_t shim_decode(const struct shim_engine * e, struct llama_context * ctx,
                               const struct llama_batch * batch, struct shim_error * err) {
    return guarded<int32_t>(err, SHIM_FAILED, [&] { return e->llama_decode(ctx, *batch); });
}

extern "C" float * shim_logits(const struct shim_engine * e, struct llama_context * ctx, int32_t index) {
    struct shim_error ignored;
    return guarded<float *>(&ignored, nullptr, [&] { return e->llama_get_logits_ith(ctx, index); });
}

extern "C" float * shim_hidden(const struct shim_engine * e, struct llama_context * ctx, int32_t index) {
    struct shim_error ignored;
    return guarded<float *>(&ignored, nullptr, [&] { return e->llama_get_embeddings_ith(ctx, index); });
}

extern "C" int32_t shim_tokenize(const struct shim_engine * e, const struct llama_vocab * vocab, const char * text,
                                 int32_t length, llama_token * tokens, int32_t room) {
    struct shim_error ignored;
    return guarded<int32_t>(&ignored, INT32_MIN, [&] {
        return e->llama_tokenize(vocab, text, length, tokens, room, false, false);
    });
}

extern "C" bool shim_fork(const struct shim_engine * e, struct llama_context * ctx, llama_seq_id src, llama_seq_id dst,
                          llama_pos window_start, struct shim_error * err) {
    return guarded<bool>(err, false, [&] {
        llama_memory_t mem = e->llama_get_memory(ctx);
        e->llama_memory_seq_cp(mem, src, dst, -1, -1);
        if (window_start < 0) {
            return true;
        }
        // The interface cannot address the sliding-window cells alone, except by saving and restoring them. So src
        // drops everything before the window. Its window is saved and restored as dst's, which frees dst's share of
        // the old cells. Then src takes the tokens before the window back from dst: the cells of the other layers.
        if (window_start > 0) {
            e->llama_memory_seq_rm(mem, src, 0, window_start);
        }
        const llama_state_seq_flags partial = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;
        std::vector<uint8_t> state(e->llama_state_seq_get_size_ext(ctx, src, partial));
        const size_t size = e->llama_state_seq_get_data_ext(ctx, state.data(), state.size(), src, partial);
        const bool ok = size > 0 && e->llama_state_seq_set_data_ext(ctx, state.data(), size, dst, partial) > 0;
        if (window_start > 0) {
            e->llama_memory_seq_cp(mem, dst, src, 0, window_start);
        }
        if (!ok) {
            e->llama_memory_seq_rm(mem, dst, -1, -1);
        }
        return ok;
    });
}

extern "C" size_t shim_registries(const struct shim_engine * e) { return e->ggml_backend_reg_count(); }

extern "C" const char * shim_registry(const struct shim_engine * e, size_t i) {
    return e->ggml_backend_reg_name(e->ggml_backend_reg_get(i));
}

extern "C" struct ggml_backend_feature shim_feature(const struct shim_engine * e, size_t registry, size_t i) {
    const ggml_backend_reg_t reg = e->ggml_backend_reg_get(registry);
    const auto features =
        (ggml_backend_get_features_t) e->ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features");
    const struct ggml_backend_feature none = {nullptr, nullptr};
    if (!features) {
        return none;
    }
    for (const struct ggml_backend_feature * f = features(reg); f && f->name; f++) {
        if (i-- == 0) {
            return *f;
        }
    }
    return none;
}

extern "C" struct shim_device shim_device_at(const struct shim_engine * e, size_t i) {
    struct shim_device d = {};
    if (i < e->ggml_backend_dev_count()) {
        const ggml_backend_dev_t device = e->ggml_backend_dev_get(i);
        d.name = e->ggml_backend_dev_name(device);
        d.description = e->ggml_backend_dev_description(device);
        d.type = e->ggml_backend_dev_type(device);
        e->ggml_backend_dev_memory(device, &d.free, &d.total);
    }
    return d;
}

#ifdef RUNNER_PEER
extern "C" struct llama_sampler * shim_grammar(const struct llama_vocab * vocab, const char * text,
    struct shim_error * err) {
    return guarded<llama_sampler *>(err, nullptr, [&] { return llama_sampler_init_grammar(vocab, text, "root"); });
}

extern "C" bool shim_grammar_fill(struct llama_sampler * grammar, const llama_token * tokens, size_t n,
                                  llama_token_data * room, uint64_t * bits, struct shim_error * err) {
    return guarded<bool>(err, false, [&] {
        for (size_t i = 0; i < n; i++) {
            room[i] = {tokens ? tokens[i] : (llama_token) i, 0.0f, 0.0f};
        }
        llama_token_data_array list = {room, n, -1, false};
        llama_sampler_apply(grammar, &list);
        std::memset(bits, 0, (n + 63) / 64 * sizeof *bits);
        for (size_t i = 0; i < n; i++) {
            bits[i / 64] |= (uint64_t) (list.data[i].logit == 0.0f) << (i % 64); // refused tokens have -INFINITY
        }
        return true;
    });
}

extern "C" bool shim_grammar_accept(struct llama_sampler * grammar, llama_token token, struct shim_error * err) {
    return guarded<bool>(err, false, [&] {
        llama_sampler_accept(grammar, token);
        return true;
    });
}
#endif
