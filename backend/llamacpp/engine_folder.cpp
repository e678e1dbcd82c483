// Engines from shared libraries.

#include "engine.h"
#include "guard.h"
#include "libraries.h"

#include <dlfcn.h>

#include <cstdio>

using guard::guarded;

namespace {

void explain(struct shim_error * err) {
    const char * why = dlerror();
    guard::set(err, why ? why : "unknown reason");
}

} // namespace

extern "C" void * library_open(const char * path, struct shim_error * err) {
    // RTLD_LOCAL keeps the library's functions apart from the program's.
    void * handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        explain(err);
    }
    return handle;
}

extern "C" int library_score(const char * path, struct shim_error * err) {
    void * handle = library_open(path, err);
    if (!handle) {
        return -1;
    }
    const auto score = (int (*)()) dlsym(handle, "ggml_backend_score");
    const int  result = score ? score() : 1;
    dlclose(handle);
    return result;
}

extern "C" const char * engine_version(void * llama) {
    const auto version = (const char * (*) ()) dlsym(llama, "llama_version");
    return version ? version() : nullptr;
}

extern "C" const char * engine_architecture(void * llama, int i) {
    // const char * llm_arch_name(llm_arch), which is C++. It returns "unknown" for numbers without a name, and
    // "(unknown)" for the last.
    const auto name = (const char * (*) (int) ) dlsym(llama, "_Z13llm_arch_name8llm_arch");
    if (!name || i >= 4096) {
        return nullptr;
    }
    const char * text = name(i);
    return text && std::strcmp(text, "(unknown)") != 0 ? text : nullptr;
}

extern "C" struct shim_engine * engine_open(void * llama, struct shim_error * err) {
    struct shim_engine * e = new shim_engine();
    const char *         missing = nullptr;
    const auto find = [&](const char * name) {
        void * f = dlsym(llama, name); // looks in the libraries that it depends on, too
        if (!f) {
            missing = name;
        }
        return f;
    };
#define X(name) e->name = (decltype(e->name)) find(#name);
    ENGINE_FUNCTIONS(X)
#undef X
    e->parameters = {find("llama_model_default_params"), find("llama_model_load_from_file"),
                     find("llama_context_default_params"), find("llama_init_from_model")};
    e->layout = &layout_v05;
    if (missing) {
        std::snprintf(err->text, sizeof err->text, "it has no function %s", missing);
        delete e;
        return nullptr;
    }
    shim_handlers(e);
    return e;
}

extern "C" const char * engine_load(const struct shim_engine * e, const char * path, struct shim_error * err) {
    return guarded<const char *>(err, nullptr, [&]() -> const char * {
        const ggml_backend_reg_t reg = e->ggml_backend_load(path);
        return reg ? e->ggml_backend_reg_name(reg) : nullptr;
    });
}

extern "C" bool engine_start(struct shim_engine * e, struct shim_error * err) {
    return guarded<bool>(err, false, [&] {
        for (size_t i = 0; i < e->ggml_backend_reg_count() && !(e->threadpool_new && e->threadpool_free); i++) {
            const auto find = [&](const char * name) {
                return e->ggml_backend_reg_get_proc_address(e->ggml_backend_reg_get(i), name);
            };
            e->threadpool_new = (decltype(e->threadpool_new)) find("ggml_threadpool_new");
            e->threadpool_free = (decltype(e->threadpool_free)) find("ggml_threadpool_free");
        }
        if (!e->threadpool_new || !e->threadpool_free) {
            return false;
        }
        e->llama_backend_init(); // now that there are devices, it does not look for more
        return true;
    });
}
