// The engine reports failures in four ways: return values, C++ exceptions, assertions (ggml_abort) and log lines.
// This file turns all of them into return values with a line of text.
//
// Assertions: ggml_abort calls a handler before it ends the process. On a thread inside a guarded call the handler
// throws. The exception unwinds through the engine's frames to the engine's own exception handler or to the guard.
// (That includes C frames: all supported platforms have unwind tables by default.) Memory of the engine may leak,
// and the context must not be used again. On other threads, such as compute threads, the process ends as the engine
// intends.

#include "shim.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

// Implemented in Go.
extern "C" void runnerLog(int level, char * text);
extern "C" int runnerProgress(uintptr_t handle, float fraction);

namespace {

struct assertion : std::exception {
    std::string text;
    explicit assertion(const char * t) : text(t) {}
    const char * what() const noexcept override { return text.c_str(); }
};

std::atomic<int> log_level{GGML_LOG_LEVEL_NONE};

thread_local int         guards = 0;
thread_local std::string first_error;

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

void set(struct shim_error * err, const char * text) {
    std::snprintf(err->text, sizeof err->text, "%s", text);
    for (size_t n = std::strlen(err->text); n > 0 && err->text[n - 1] == '\n'; n--) {
        err->text[n - 1] = 0;
    }
}

// guarded runs f and returns its result, or failed if it threw or asserted.
template <typename T, typename F> T guarded(struct shim_error * err, T failed, F f) {
    struct scope {
        scope() { guards++; }
        ~scope() { guards--; }
    } inside;
    first_error.clear();
    err->text[0] = 0;
    try {
        T result = f();
        set(err, first_error.c_str());
        return result;
    } catch (const std::bad_alloc &) {
        set(err, "out of memory");
    } catch (const std::exception & e) {
        set(err, e.what());
    } catch (...) {
        set(err, "unknown exception");
    }
    return failed;
}

bool on_progress(float fraction, void * data) {
    return runnerProgress((uintptr_t) data, fraction) != 0;
}

// The engine fills a new cache with zeros. For a large cache that takes a second, and all of its memory. The system
// hands out zeroed pages on first use, so nothing has to be written.
#ifdef __linux__
enum { ALLOC_BUFFER = 1, CLEAR = 7 }; // their places in the tables of functions

typedef ggml_backend_buffer_t (*alloc_function)(ggml_backend_buffer_type_t, size_t);
alloc_function alloc_buffer;

void clear_buffer(ggml_backend_buffer_t buffer, uint8_t value) {
    char *       from = static_cast<char *>(buffer->context);
    char * const end = from + buffer->size;
    if (value == 0) {
        const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
        char * const    first = (char *) (((uintptr_t) from + page - 1) / page * page);
        char * const    last = (char *) ((uintptr_t) end / page * page);
        if (first < last && madvise(first, (size_t) (last - first), MADV_DONTNEED) == 0) {
            std::memset(from, 0, (size_t) (first - from));
            from = last;
        }
    }
    std::memset(from, value, (size_t) (end - from));
}

ggml_backend_buffer_t alloc_cleared_late(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = alloc_buffer(type, size);
    if (buffer) {
        buffer->iface[CLEAR] = (void *) clear_buffer;
    }
    return buffer;
}

void clear_late(void) {
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    alloc_buffer = (alloc_function) type->iface[ALLOC_BUFFER];
    type->iface[ALLOC_BUFFER] = (void *) alloc_cleared_late;
}
#else
void clear_late(void) {}
#endif

bool is_set(void * data) {
    return __atomic_load_n(static_cast<const int32_t *>(data), __ATOMIC_RELAXED) != 0;
}

} // namespace

extern "C" void shim_start(void) {
    ggml_set_abort_callback(on_abort);
    llama_log_set(on_log, nullptr);
    llama_backend_init();
    clear_late();
}

extern "C" void shim_log_level(int level) {
    log_level.store(level, std::memory_order_relaxed);
}

extern "C" struct llama_model * shim_load(const char * path, struct llama_model_params params, uintptr_t progress,
                                          struct shim_error * err) {
    return guarded<llama_model *>(err, nullptr, [&] {
        // Without our callback the engine would print dots to its log.
        params.progress_callback = progress ? on_progress : [](float, void *) { return true; };
        params.progress_callback_user_data = (void *) progress;
        return llama_model_load_from_file(path, params);
    });
}

extern "C" struct llama_context * shim_context(struct llama_model * model, struct llama_context_params params,
                                               struct ggml_threadpool * pool, const int32_t * cancel,
                                               struct shim_error * err) {
    return guarded<llama_context *>(err, nullptr, [&] {
        params.abort_callback = is_set;
        params.abort_callback_data = const_cast<int32_t *>(cancel);
        llama_context * ctx = llama_init_from_model(model, params);
        if (ctx && pool) {
            llama_attach_threadpool(ctx, pool, pool);
        }
        return ctx;
    });
}

extern "C" int32_t shim_decode(struct llama_context * ctx, const struct llama_batch * batch, struct shim_error * err) {
    return guarded<int32_t>(err, SHIM_FAILED, [&] { return llama_decode(ctx, *batch); });
}

extern "C" float * shim_logits(struct llama_context * ctx, int32_t index) {
    struct shim_error ignored;
    return guarded<float *>(&ignored, nullptr, [&] { return llama_get_logits_ith(ctx, index); });
}

extern "C" float * shim_hidden(struct llama_context * ctx, int32_t index) {
    struct shim_error ignored;
    return guarded<float *>(&ignored, nullptr, [&] { return llama_get_embeddings_ith(ctx, index); });
}

extern "C" int32_t shim_tokenize(const struct llama_vocab * vocab, const char * text, int32_t length,
                                 llama_token * tokens, int32_t room) {
    struct shim_error ignored;
    return guarded<int32_t>(&ignored, INT32_MIN, [&] {
        return llama_tokenize(vocab, text, length, tokens, room, false, false);
    });
}

extern "C" bool shim_fork(struct llama_context * ctx, llama_seq_id src, llama_seq_id dst, llama_pos window_start,
                          struct shim_error * err) {
    return guarded<bool>(err, false, [&] {
        llama_memory_t mem = llama_get_memory(ctx);
        llama_memory_seq_cp(mem, src, dst, -1, -1);
        if (window_start < 0) {
            return true;
        }
        // The interface cannot address the sliding-window cells alone, except by saving and restoring them. So src
        // drops everything before the window. Its window is saved and restored as dst's, which frees dst's share of
        // the old cells. Then src takes the tokens before the window back from dst: the cells of the other layers.
        if (window_start > 0) {
            llama_memory_seq_rm(mem, src, 0, window_start);
        }
        const llama_state_seq_flags partial = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;
        std::vector<uint8_t> state(llama_state_seq_get_size_ext(ctx, src, partial));
        const size_t size = llama_state_seq_get_data_ext(ctx, state.data(), state.size(), src, partial);
        const bool ok = size > 0 && llama_state_seq_set_data_ext(ctx, state.data(), size, dst, partial) > 0;
        if (window_start > 0) {
            llama_memory_seq_cp(mem, dst, src, 0, window_start);
        }
        if (!ok) {
            llama_memory_seq_rm(mem, dst, -1, -1);
        }
        return ok;
    });
}

extern "C" struct ggml_backend_feature shim_feature(ggml_backend_reg_t reg, size_t i) {
    const auto features =
        (ggml_backend_get_features_t) ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features");
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
