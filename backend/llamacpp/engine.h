// An engine is llama.cpp's functions in a table, so that the compiled-in llama.cpp and one from shared libraries run
// through the same code. Functions whose types are the same in all versions are in the table under their own names.
// The four that take or return parameters are behind a layout, because the parameters differ between versions.
#ifndef RUNNER_ENGINE_H
#define RUNNER_ENGINE_H

#include "shim.h"

// functions in the table, found by name in shared libraries
#define ENGINE_FUNCTIONS(X) \
    X(llama_backend_init) X(llama_log_set) X(ggml_set_abort_callback) \
    X(ggml_backend_load) X(ggml_backend_reg_count) X(ggml_backend_reg_get) X(ggml_backend_reg_name) \
    X(ggml_backend_reg_get_proc_address) X(ggml_backend_dev_count) X(ggml_backend_dev_get) X(ggml_backend_dev_name) \
    X(ggml_backend_dev_description) X(ggml_backend_dev_type) X(ggml_backend_dev_memory) \
    X(ggml_threadpool_params_init) X(llama_attach_threadpool) \
    X(llama_model_free) X(llama_model_get_vocab) X(llama_model_n_ctx_train) X(llama_model_n_embd) \
    X(llama_model_n_layer) X(llama_model_n_swa) X(llama_model_size) X(llama_model_n_params) X(llama_model_has_encoder) \
    X(llama_model_has_decoder) X(llama_model_is_recurrent) X(llama_model_is_hybrid) X(llama_model_is_diffusion) \
    X(llama_vocab_type) X(llama_vocab_n_tokens) X(llama_vocab_get_attr) X(llama_vocab_is_eog) \
    X(llama_vocab_get_add_bos) X(llama_token_to_piece) X(llama_tokenize) \
    X(llama_free) X(llama_decode) X(llama_get_logits_ith) X(llama_set_embeddings) X(llama_get_embeddings_ith) \
    X(llama_get_memory) X(llama_memory_seq_rm) X(llama_memory_seq_cp) X(llama_memory_seq_pos_min) \
    X(llama_state_seq_get_size_ext) X(llama_state_seq_get_data_ext) X(llama_state_seq_set_data_ext)

// The functions that take or return parameters, as addresses: a layout knows their types.
struct parameter_functions {
    void * model_defaults, * load, * context_defaults, * init;
};

// layout is the parameters' layout in some versions of llama.cpp.
struct layout {
    // known reports whether the default parameters are those of these versions. A struct with another layout shows
    // here as a wrong value, before it does harm.
    bool (*known)(const parameter_functions & f);
    struct llama_model * (*load)(const parameter_functions & f, const char * path, const struct shim_load_options & o,
        llama_progress_callback progress);
    struct llama_context * (*init)(const parameter_functions & f, struct llama_model * model,
        const struct shim_context_options & o, ggml_abort_callback stop);
};

extern const layout layout_builtin, layout_v05;

struct shim_engine {
#define X(name) decltype(&::name) name;
    ENGINE_FUNCTIONS(X)
#undef X
    // Only the CPU's library has these.
    struct ggml_threadpool * (*threadpool_new)(struct ggml_threadpool_params *);
    void (*threadpool_free)(struct ggml_threadpool *);

    parameter_functions parameters;
    const struct layout * layout;
};

// set_load_options sets what all layouts have in common.
template <typename P>
void set_load_options(P & p, const struct shim_load_options & o, llama_progress_callback progress) {
    static ggml_backend_dev_t none[1] = {nullptr}; // an empty list keeps the engine off every GPU
    p.n_gpu_layers = o.gpu_layers;
    if (o.gpu_layers == 0) {
        p.devices = none;
    }
    static const struct llama_model_kv_override splits[2] = {
        {LLAMA_KV_OVERRIDE_TYPE_STR, "tokenizer.ggml.pre", "default"}, {LLAMA_KV_OVERRIDE_TYPE_INT, "", ""}};
    if (o.default_split) {
        p.kv_overrides = splits; // an empty key ends the list
    }
    p.progress_callback = progress;
    p.progress_callback_user_data = (void *) o.progress;
}

// set_context_options does the same for a context.
template <typename P>
void set_context_options(P & p, const struct shim_context_options & o, ggml_abort_callback stop) {
    p.n_ctx = o.cells;
    p.n_batch = p.n_ubatch = o.batch;
    p.n_seq_max = o.sequences;
    p.n_threads = p.n_threads_batch = o.threads;
    p.flash_attn_type = o.flash;
    p.type_k = p.type_v = o.cache;
    p.pooling_type = LLAMA_POOLING_TYPE_NONE; // the hidden states are returned token by token
    p.swa_full = o.full_window;
    p.kv_unified = true;
    p.offload_kqv = p.op_offload = o.offload;
    p.abort_callback = stop;
    p.abort_callback_data = const_cast<int32_t *>(o.cancel);
}

// usual_load_options and usual_context_options report whether the defaults that all layouts have in common are right.
template <typename P> bool usual_load_options(const P & p) {
    return !p.devices && !p.tensor_buft_overrides && p.split_mode == LLAMA_SPLIT_MODE_LAYER && p.main_gpu == 0 &&
           !p.tensor_split && !p.progress_callback && !p.progress_callback_user_data && !p.kv_overrides &&
           !p.vocab_only && !p.check_tensors && p.use_extra_bufts && !p.no_host && !p.no_alloc;
}

template <typename P> bool usual_context_options(const P & p) {
    return p.n_ctx == 512 && p.n_batch == 2048 && p.n_ubatch == 512 && p.n_seq_max == 1 &&
           p.rope_scaling_type == LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED &&
           p.pooling_type == LLAMA_POOLING_TYPE_UNSPECIFIED && p.attention_type == LLAMA_ATTENTION_TYPE_UNSPECIFIED &&
           p.flash_attn_type == LLAMA_FLASH_ATTN_TYPE_AUTO && p.rope_freq_base == 0 && p.yarn_ext_factor == -1 &&
           p.yarn_orig_ctx == 0 && p.defrag_thold == -1 && !p.cb_eval && p.type_k == GGML_TYPE_F16 &&
           p.type_v == GGML_TYPE_F16 && !p.abort_callback && !p.abort_callback_data && !p.embeddings &&
           p.offload_kqv && p.no_perf && p.op_offload && p.swa_full && !p.kv_unified;
}

#endif
