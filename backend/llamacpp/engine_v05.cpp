// The parameters of llama.cpp 0.5 and 0.6.

#include "capi/capi_v05.h"
#include "engine.h"

namespace {

using model_params = struct llama_model_params_v05;
using context_params = struct llama_context_params_v05;

model_params model_defaults(const parameter_functions & f) { return ((model_params(*)()) f.model_defaults)(); }
context_params context_defaults(const parameter_functions & f) { return ((context_params(*)()) f.context_defaults)(); }

bool known(const parameter_functions & f) {
    const model_params   m = model_defaults(f);
    const context_params c = context_defaults(f);
    return usual_load_options(m) && m.n_gpu_layers == -1 && m.load_mode == LLAMA_LOAD_MODE_AUTO &&
           m.lazy_mode == LLAMA_LAZY_MODE_AUTO && !m.load_mtp && usual_context_options(c) && c.n_rs_seq == 0 &&
           c.n_outputs_max == 0 && c.n_outputs_max_per_seq == 1 && c.ctx_type == LLAMA_CONTEXT_TYPE_DEFAULT &&
           !c.samplers && c.n_samplers == 0 && !c.ctx_other;
}

struct llama_model * load(const parameter_functions & f, const char * path, const struct shim_load_options & o,
                          llama_progress_callback progress) {
    model_params p = model_defaults(f);
    set_load_options(p, o, progress);
    p.load_mode = o.map ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    return ((struct llama_model * (*) (const char *, model_params)) f.load)(path, p);
}

struct llama_context * init(const parameter_functions & f, struct llama_model * model,
                            const struct shim_context_options & o, ggml_abort_callback stop) {
    context_params p = context_defaults(f);
    set_context_options(p, o, stop);
    return ((struct llama_context * (*) (struct llama_model *, context_params)) f.init)(model, p);
}

} // namespace

const layout layout_v05 = {known, load, init};
