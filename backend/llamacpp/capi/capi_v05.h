// The parameters of llama.cpp 0.5 and 0.6. They have names of their own here, because the compiled-in engine's have
// another layout. abi_test.go compares them with the real headers of both versions.
#ifndef RUNNER_CAPI_V05_H
#define RUNNER_CAPI_V05_H

#include "capi.h"

#ifndef RUNNER_CAPI_PROTOTYPES_ONLY

struct llama_sampler_seq_config;

enum llama_load_mode {
    LLAMA_LOAD_MODE_AUTO = -1,
    LLAMA_LOAD_MODE_NONE = 0,
    LLAMA_LOAD_MODE_MMAP = 1,
};

enum llama_lazy_mode {
    LLAMA_LAZY_MODE_OFF  = 0,
    LLAMA_LAZY_MODE_AUTO = 1,
};

enum llama_context_type {
    LLAMA_CONTEXT_TYPE_DEFAULT = 0,
};

struct llama_model_params_v05 {
    ggml_backend_dev_t *                            devices;
    const struct llama_model_tensor_buft_override * tensor_buft_overrides;
    int32_t                                         n_gpu_layers;
    enum llama_split_mode                           split_mode;
    enum llama_load_mode                            load_mode;
    enum llama_lazy_mode                            lazy_mode;
    int32_t                                         main_gpu;
    const float *                                   tensor_split;
    llama_progress_callback                         progress_callback;
    void *                                          progress_callback_user_data;
    const struct llama_model_kv_override *          kv_overrides;
    bool                                            vocab_only;
    bool                                            check_tensors;
    bool                                            use_extra_bufts;
    bool                                            no_host;
    bool                                            no_alloc;
    bool                                            load_mtp;
};

struct llama_context_params_v05 {
    uint32_t                          n_ctx;
    uint32_t                          n_batch;
    uint32_t                          n_ubatch;
    uint32_t                          n_seq_max;
    uint32_t                          n_rs_seq;
    uint32_t                          n_outputs_max;
    uint32_t                          n_outputs_max_per_seq;
    int32_t                           n_threads;
    int32_t                           n_threads_batch;
    enum llama_context_type           ctx_type;
    enum llama_rope_scaling_type      rope_scaling_type;
    enum llama_pooling_type           pooling_type;
    enum llama_attention_type         attention_type;
    enum llama_flash_attn_type        flash_attn_type;
    float                             rope_freq_base;
    float                             rope_freq_scale;
    float                             yarn_ext_factor;
    float                             yarn_attn_factor;
    float                             yarn_beta_fast;
    float                             yarn_beta_slow;
    uint32_t                          yarn_orig_ctx;
    float                             defrag_thold;
    ggml_backend_sched_eval_callback  cb_eval;
    void *                            cb_eval_user_data;
    enum ggml_type                    type_k;
    enum ggml_type                    type_v;
    ggml_abort_callback               abort_callback;
    void *                            abort_callback_data;
    bool                              embeddings;
    bool                              offload_kqv;
    bool                              no_perf;
    bool                              op_offload;
    bool                              swa_full;
    bool                              kv_unified;
    struct llama_sampler_seq_config * samplers;
    size_t                            n_samplers;
    struct llama_context *            ctx_other;
};

#endif // RUNNER_CAPI_PROTOTYPES_ONLY

#endif
