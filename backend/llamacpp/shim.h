// The interface between Go and the engines. Every call that may throw or assert goes through a guard, so that a
// failure becomes a return value. See shim.cpp and engine.h.
#ifndef RUNNER_SHIM_H
#define RUNNER_SHIM_H

#include "capi/capi.h"

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

// shim_engine is one llama.cpp: its functions in a table.
struct shim_engine;

// shim_builtin returns the compiled-in engine. The first call starts it.
const struct shim_engine * shim_builtin(void);

// shim_handlers installs the log and assertion handlers.
void shim_handlers(const struct shim_engine * e);

// shim_known reports whether the engine's default parameters are as its declarations say.
bool shim_known(const struct shim_engine * e);

// shim_computed returns a count that grows while any engine computes. It may be called from any thread.
uint64_t shim_computed(void);

// shim_log_level sets the lowest ggml_log_level that reaches runnerLog, for all engines. GGML_LOG_LEVEL_NONE passes no
// messages.
void shim_log_level(int level);

// Devices.

struct shim_device {
    const char *               name; // NULL if there is no such device
    const char *               description;
    enum ggml_backend_dev_type type;
    size_t                     free, total; // bytes
};

struct shim_device shim_device_at(const struct shim_engine * e, size_t i);

// shim_registries returns the number of device registries, and shim_registry the name of one.
size_t shim_registries(const struct shim_engine * e);
const char * shim_registry(const struct shim_engine * e, size_t i);

// shim_feature returns the i-th feature of a device registry. Its name is NULL if there are no more.
struct ggml_backend_feature shim_feature(const struct shim_engine * e, size_t registry, size_t i);

// Models.

struct shim_load_options {
    int32_t   gpu_layers;    // 0 keeps the model off every GPU
    bool      map;           // map the file instead of reading it
    bool      default_split; // split texts into words by the default rule, whatever the file says
    uintptr_t progress;      // a handle for runnerProgress, or 0
};

struct shim_model_facts {
    bool     decodes;   // generates text token by token
    bool     recurrent; // has layers that cannot rewind
    int32_t  window;    // of sliding-window layers, or 0
    int32_t  trained_context, width, layers;
    uint64_t parameters, bytes;
};

// shim_load opens a model. NULL on failure.
struct llama_model * shim_load(const struct shim_engine * e, const char * path,
    const struct shim_load_options * options, struct shim_error * err);
void shim_model_free(const struct shim_engine * e, struct llama_model * model);
struct shim_model_facts shim_describe(const struct shim_engine * e, const struct llama_model * model);

// Vocabularies.

const struct llama_vocab * shim_vocab(const struct shim_engine * e, const struct llama_model * model);
int32_t shim_vocab_size(const struct shim_engine * e, const struct llama_vocab * v);
enum llama_vocab_type shim_vocab_type(const struct shim_engine * e, const struct llama_vocab * v);
bool shim_vocab_adds_bos(const struct shim_engine * e, const struct llama_vocab * v);
enum llama_token_attr shim_attr(const struct shim_engine * e, const struct llama_vocab * v, llama_token t);

// shim_ends reports whether the engine would end generation after t.
bool shim_ends(const struct shim_engine * e, const struct llama_vocab * v, llama_token t);

// shim_piece writes a token's bytes and returns how many. A negative result is the size needed.
int32_t shim_piece(const struct shim_engine * e, const struct llama_vocab * v, llama_token t, char * buf,
    int32_t size);

// shim_tokenize is llama_tokenize without special tokens; it is safe to call from several threads.
int32_t shim_tokenize(const struct shim_engine * e, const struct llama_vocab * v, const char * text, int32_t length,
    llama_token * tokens, int32_t room);

// Contexts.

struct shim_context_options {
    uint32_t                   cells, batch, sequences;
    int32_t                    threads;
    enum llama_flash_attn_type flash;
    enum ggml_type             cache;
    bool                       full_window, offload;
    const int32_t *            cancel; // a computation stops soon after it becomes nonzero
};

struct ggml_threadpool * shim_pool(const struct shim_engine * e, int threads);
void shim_pool_free(const struct shim_engine * e, struct ggml_threadpool * pool);

// shim_context makes a context. NULL on failure.
struct llama_context * shim_context(const struct shim_engine * e, struct llama_model * model,
    const struct shim_context_options * options, struct ggml_threadpool * pool, struct shim_error * err);
void shim_context_free(const struct shim_engine * e, struct llama_context * ctx);

// shim_embeddings turns hidden states as outputs on or off.
void shim_embeddings(const struct shim_engine * e, struct llama_context * ctx, bool on);

// shim_decode is llama_decode; SHIM_FAILED leaves the context unusable.
int32_t shim_decode(const struct shim_engine * e, struct llama_context * ctx, const struct llama_batch * batch,
    struct shim_error * err);

// shim_logits returns the logits of a batch index that asked for them, or NULL.
float * shim_logits(const struct shim_engine * e, struct llama_context * ctx, int32_t index);

// shim_hidden returns the last hidden state of a batch index that asked for an output, or NULL.
float * shim_hidden(const struct shim_engine * e, struct llama_context * ctx, int32_t index);

// The cache.

llama_memory_t shim_memory(const struct shim_engine * e, const struct llama_context * ctx);

// shim_remove removes the cells of a sequence from position from up to to; -1 means without a limit. Returns false if
// the engine cannot.
bool shim_remove(const struct shim_engine * e, llama_memory_t mem, llama_seq_id seq, llama_pos from, llama_pos to);

// shim_copy gives the cells of src from position from up to to to dst as well.
void shim_copy(const struct shim_engine * e, llama_memory_t mem, llama_seq_id src, llama_seq_id dst, llama_pos from,
    llama_pos to);

// shim_lowest returns the lowest position of a sequence in all layers, or -1.
llama_pos shim_lowest(const struct shim_engine * e, llama_memory_t mem, llama_seq_id seq);

// shim_fork copies src to dst, which must be empty. With a negative window_start they share every cell. Otherwise
// the sliding-window layers have a smaller cache, and the engine could not reuse shared cells there when the window
// moves on. Each sequence then has its own cells there, from position window_start. Returns false if there is no
// room; dst is then empty.
bool shim_fork(const struct shim_engine * e, struct llama_context * ctx, llama_seq_id src, llama_seq_id dst,
    llama_pos window_start, struct shim_error * err);

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
