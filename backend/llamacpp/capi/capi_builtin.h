// The part of the compiled-in engine's C interface that other versions of llama.cpp declare differently, or that only
// the kernels use: llama.cpp at commit ec98e2002 with ollama's patches, as in the Go module
// github.com/ollama/ollama v0.24.0. abi_test.go compares it with the real headers, like capi.h.
#ifndef RUNNER_CAPI_BUILTIN_H
#define RUNNER_CAPI_BUILTIN_H

#include "capi.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RUNNER_CAPI_PROTOTYPES_ONLY

struct ggml_backend_buffer;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;
struct ggml_backend;
typedef struct ggml_backend * ggml_backend_t;

enum ggml_op {
    GGML_OP_ADD = 2,
    GGML_OP_ADD_ID = 3,
    GGML_OP_MUL = 7,
    GGML_OP_RMS_NORM = 25,
    GGML_OP_MUL_MAT = 29,
    GGML_OP_MUL_MAT_ID = 30,
    GGML_OP_SOFT_MAX = 46,
    GGML_OP_ROPE = 48,
    GGML_OP_FLASH_ATTN_EXT = 73,
    GGML_OP_GLU = 94,
};

enum ggml_glu_op { GGML_GLU_OP_SWIGLU = 2, GGML_GLU_OP_SWIGLU_OAI = 3 };

struct ggml_tensor {
    enum ggml_type               type;
    struct ggml_backend_buffer * buffer;
    int64_t                      ne[4];
    size_t                       nb[4];
    enum ggml_op                 op;
    int32_t                      op_params[16];
    int32_t                      flags;
    struct ggml_tensor *         src[10];
    struct ggml_tensor *         view_src;
    size_t                       view_offs;
    void *                       data;
    char                         name[64];
    void *                       extra;
    char                         padding[8];
};

struct ggml_compute_params {
    int                      ith;
    int                      nth;
    size_t                   wsize;
    void *                   wdata;
    struct ggml_threadpool * threadpool;
};

struct ggml_type_traits {
    const char * type_name;
    int64_t      blck_size;
    int64_t      blck_size_interleave;
    size_t       type_size;
    bool         is_quantized;
    void (*to_float)(const void * x, float * y, int64_t n);
    void (*from_float_ref)(const float * x, void * y, int64_t n);
};

struct ggml_type_traits_cpu {
    void (*from_float)(const float * x, void * y, int64_t n);
    void (*vec_dot)(int n, float * s, size_t bs, const void * x, size_t bx, const void * y, size_t by, int rows);
    enum ggml_type vec_dot_type;
    int64_t        nrows;
};

struct ggml_backend_buffer_type {
    void *             iface[7];
    ggml_backend_dev_t device;
    void *             context;
    bool               no_alloc;
};

struct ggml_backend_buffer {
    void *                     iface[9];
    ggml_backend_buffer_type_t buft;
    void *                     context;
    size_t                     size;
    int                        usage;
    bool                       no_alloc;
};

struct ggml_backend {
    const void *       guid;
    void *             iface[17];
    ggml_backend_dev_t device;
    void *             context;
};

struct ggml_backend_device {
    void * iface[16];
    void * reg;
    void * context;
};

struct llama_model_params {
    ggml_backend_dev_t *                            devices;
    const struct llama_model_tensor_buft_override * tensor_buft_overrides;
    int32_t                                         n_gpu_layers;
    enum llama_split_mode                           split_mode;
    int32_t                                         main_gpu;
    const float *                                   tensor_split;
    llama_progress_callback                         progress_callback;
    void *                                          progress_callback_user_data;
    const struct llama_model_kv_override *          kv_overrides;
    bool                                            vocab_only;
    bool                                            use_mmap;
    bool                                            use_mlock;
    bool                                            check_tensors;
    bool                                            use_extra_bufts;
    bool                                            no_host;
    bool                                            no_alloc;
};

struct llama_context_params {
    uint32_t                         n_ctx;
    uint32_t                         n_batch;
    uint32_t                         n_ubatch;
    uint32_t                         n_seq_max;
    int32_t                          n_threads;
    int32_t                          n_threads_batch;
    enum llama_rope_scaling_type     rope_scaling_type;
    enum llama_pooling_type          pooling_type;
    enum llama_attention_type        attention_type;
    enum llama_flash_attn_type       flash_attn_type;
    float                            rope_freq_base;
    float                            rope_freq_scale;
    float                            yarn_ext_factor;
    float                            yarn_attn_factor;
    float                            yarn_beta_fast;
    float                            yarn_beta_slow;
    uint32_t                         yarn_orig_ctx;
    float                            defrag_thold;
    ggml_backend_sched_eval_callback cb_eval;
    void *                           cb_eval_user_data;
    enum ggml_type                   type_k;
    enum ggml_type                   type_v;
    ggml_abort_callback              abort_callback;
    void *                           abort_callback_data;
    bool                             embeddings;
    bool                             offload_kqv;
    bool                             no_perf;
    bool                             op_offload;
    bool                             swa_full;
    bool                             kv_unified;
};

#endif // RUNNER_CAPI_PROTOTYPES_ONLY

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void);
struct ggml_threadpool * ggml_threadpool_new(struct ggml_threadpool_params * params);
void ggml_threadpool_free(struct ggml_threadpool * threadpool);
const struct ggml_type_traits * ggml_get_type_traits(enum ggml_type type);
const struct ggml_type_traits_cpu * ggml_get_type_traits_cpu(enum ggml_type type);
size_t ggml_row_size(enum ggml_type type, int64_t n);
void ggml_barrier(struct ggml_threadpool * tp);
void ggml_threadpool_chunk_set(struct ggml_threadpool * tp, int value);
int  ggml_threadpool_chunk_add(struct ggml_threadpool * tp, int value);

// Operations.
size_t ggml_quantize_chunk(enum ggml_type type, const float * src, void * dst, int64_t start, int64_t nrows,
    int64_t n_per_row, const float * imatrix);
void ggml_rope_yarn_corr_dims(int n_dims, int n_ctx_orig, float freq_base, float beta_fast, float beta_slow,
    float dims[2]);

// Models and contexts.
struct llama_model_params llama_model_default_params(void);
struct llama_model * llama_model_load_from_file(const char * path_model, struct llama_model_params params);
struct llama_context_params llama_context_default_params(void);
struct llama_context * llama_init_from_model(struct llama_model * model, struct llama_context_params params);

#ifdef __cplusplus
}
#endif

#endif
