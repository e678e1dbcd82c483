// The interface between Go and the engine. Every call that may throw or assert goes through here, so that a failure
// becomes a return value. See shim.cpp.
#ifndef RUNNER_SHIM_H
#define RUNNER_SHIM_H

#include "capi.h"

#ifdef __cplusplus
extern "C" {
#endif

// SHIM_FAILED is returned by guarded calls that return a count or a status when the engine threw or asserted.
enum { SHIM_FAILED = -1000 };

// shim_error receives one line on failure: the engine's first error message, or what it threw. It must not be NULL
// in calls.
struct shim_error {
    char text[512];
};

// shim_start installs the log and assertion handlers and starts the engine. Call it once, before anything else.
void shim_start(void);

// shim_log_level sets the lowest ggml_log_level that reaches runnerLog. GGML_LOG_LEVEL_NONE passes no messages.
void shim_log_level(int level);

// shim_load opens a model. progress, if not zero, is a handle for runnerProgress. NULL on failure.
struct llama_model * shim_load(const char * path, struct llama_model_params params, uintptr_t progress,
    struct shim_error * err);

// shim_context makes a context whose computations stop soon after *cancel becomes nonzero. NULL on failure.
struct llama_context * shim_context(struct llama_model * model, struct llama_context_params params,
                                    struct ggml_threadpool * pool, const int32_t * cancel, struct shim_error * err);

// shim_decode is llama_decode; SHIM_FAILED leaves the context unusable.
int32_t shim_decode(struct llama_context * ctx, const struct llama_batch * batch, struct shim_error * err);

// shim_logits returns the logits of a batch index that asked for them, or NULL.
float * shim_logits(struct llama_context * ctx, int32_t index);

// shim_hidden returns the last hidden state of a batch index that asked for an output, or NULL.
float * shim_hidden(struct llama_context * ctx, int32_t index);

// shim_tokenize is llama_tokenize without special tokens; it is safe to call from several threads.
int32_t shim_tokenize(const struct llama_vocab * vocab, const char * text, int32_t length, llama_token * tokens,
    int32_t room);

// shim_fork copies src to dst, which must be empty. With a negative window_start they share every cell. Otherwise
// the sliding-window layers have a smaller cache, and the engine could not reuse shared cells there when the window
// moves on. Each sequence then has its own cells there, from position window_start. Returns false if there is no
// room; dst is then empty.
bool shim_fork(struct llama_context * ctx, llama_seq_id src, llama_seq_id dst, llama_pos window_start,
    struct shim_error * err);

// shim_feature returns the i-th feature of a device registry. Its name is NULL if there are no more.
struct ggml_backend_feature shim_feature(ggml_backend_reg_t reg, size_t i);

// The grammar engine is compiled with the build tag peer only, see peer.go.
#ifdef RUNNER_PEER

// shim_grammar reads a grammar with the root rule root. NULL on failure; the engine prints the reason to standard
// error.
struct llama_sampler * shim_grammar(const struct llama_vocab * vocab, const char * text, struct shim_error * err);

// shim_grammar_fill asks the grammar about n tokens: those of tokens, or 0 to n-1 if tokens is NULL. It sets bit i
// of bits if the i-th may come next. room has n elements that the call may overwrite. Returns false on failure.
bool shim_grammar_fill(struct llama_sampler * grammar, const llama_token * tokens, size_t n, llama_token_data * room,
                       uint64_t * bits, struct shim_error * err);

// shim_grammar_accept advances the grammar by a token. If the token is not allowed it fails, and the grammar must
// not be used again.
bool shim_grammar_accept(struct llama_sampler * grammar, llama_token token, struct shim_error * err);

#endif

#ifdef __cplusplus
}
#endif

#endif
