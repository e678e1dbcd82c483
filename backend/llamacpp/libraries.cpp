// A GPU library uses a copy of ggml's base library, not the one linked into the program. That copy has its own log
// and assertion handler, which would print and end the process. So it gets the program's handlers.

#include "libraries.h"

#include <dlfcn.h>

#include <cstdio>

namespace {

void share_handlers(void * base) {
    using log_set   = void (*)(ggml_log_callback, void *);
    using abort_set = ggml_abort_callback_t (*)(ggml_abort_callback_t);
    if (const auto set = (log_set) dlsym(base, "ggml_log_set")) {
        ggml_log_callback callback = nullptr;
        void * data = nullptr;
        ggml_log_get(&callback, &data);
        set(callback, data);
    }
    if (const auto set = (abort_set) dlsym(base, "ggml_set_abort_callback")) {
        const auto callback = ggml_set_abort_callback(nullptr); // the only way to read it
        ggml_set_abort_callback(callback);
        set(callback);
    }
}

} // namespace

extern "C" ggml_backend_reg_t runner_load_library(const char * base, const char * path, char * error, size_t size) {
    // The base library is loaded first, so that the library finds this copy. Neither is ever unloaded.
    void * handle = dlopen(base, RTLD_NOW | RTLD_LOCAL);
    if (handle) {
        share_handlers(handle);
    }
    if (!handle || !dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        const char * why = dlerror();
        std::snprintf(error, size, "%s", why ? why : "unknown reason");
        return nullptr;
    }
    const ggml_backend_reg_t reg = ggml_backend_load(path);
    if (!reg) {
        std::snprintf(error, size, "it is not for this version of the engine");
    }
    return reg;
}
