// The compiled-in llama.cpp as an engine.

#include "capi/capi_builtin.h"
#include "engine.h"

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace {

bool known(const parameter_functions &) {
    const struct llama_model_params   m = llama_model_default_params();
    const struct llama_context_params c = llama_context_default_params();
    return usual_load_options(m) && m.n_gpu_layers == 999 && m.use_mmap && !m.use_mlock && usual_context_options(c);
}

struct llama_model * load(const parameter_functions &, const char * path, const struct shim_load_options & o,
                          llama_progress_callback progress) {
    struct llama_model_params p = llama_model_default_params();
    set_load_options(p, o, progress);
    p.use_mmap = o.map;
    return llama_model_load_from_file(path, p);
}

// A context of the engine frees its backends first and its scheduler then. But the scheduler still resets each
// backend, which crashes with a GPU and reads freed memory without one. So while a context is made or freed,
// backends that the engine frees wait until it is done.
enum { INIT_BACKEND = 5, FREE_BACKEND = 1 }; // their places in the tables of functions

typedef ggml_backend_t (*init_function)(ggml_backend_dev_t, const char *);
typedef void (*free_function)(ggml_backend_t);

// The engine's own functions of each device.
struct originals {
    init_function init;
    free_function free;
};
std::mutex                              devices_lock;
std::map<ggml_backend_dev_t, originals> devices;

thread_local std::vector<ggml_backend_t> * waiting = nullptr;

originals of_device(ggml_backend_dev_t device) {
    const std::lock_guard<std::mutex> lock(devices_lock);
    return devices[device];
}

void free_late(ggml_backend_t backend) {
    if (waiting) {
        waiting->push_back(backend);
    } else {
        of_device(backend->device).free(backend);
    }
}

ggml_backend_t init_freed_late(ggml_backend_dev_t device, const char * params) {
    const ggml_backend_t backend = of_device(device).init(device, params);
    if (backend && backend->iface[FREE_BACKEND] != (void *) free_late) {
        const std::lock_guard<std::mutex> lock(devices_lock);
        devices[device].free = (free_function) backend->iface[FREE_BACKEND];
        backend->iface[FREE_BACKEND] = (void *) free_late;
    }
    return backend;
}

class backends_wait {
    std::vector<ggml_backend_t> list;

  public:
    // Libraries add devices at any time, so every device is looked at each time.
    backends_wait() {
        const std::lock_guard<std::mutex> lock(devices_lock);
        for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
            const ggml_backend_dev_t device = ggml_backend_dev_get(i);
            if (device->iface[INIT_BACKEND] != (void *) init_freed_late) {
                devices[device].init = (init_function) device->iface[INIT_BACKEND];
                device->iface[INIT_BACKEND] = (void *) init_freed_late;
            }
        }
        list.reserve(devices.size() + 1);
        waiting = &list;
    }
    ~backends_wait() {
        waiting = nullptr;
        for (const ggml_backend_t backend : list) {
            of_device(backend->device).free(backend);
        }
    }
    backends_wait(const backends_wait &) = delete;
    backends_wait & operator=(const backends_wait &) = delete;
};

struct llama_context * init(const parameter_functions &, struct llama_model * model,
                            const struct shim_context_options & o, ggml_abort_callback stop) {
    const backends_wait         wait;
    struct llama_context_params p = llama_context_default_params();
    set_context_options(p, o, stop);
    return llama_init_from_model(model, p);
}

void free_context(struct llama_context * ctx) {
    const backends_wait wait;
    llama_free(ctx);
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

} // namespace

const layout layout_builtin = {known, load, init};

extern "C" const struct shim_engine * shim_builtin(void) {
#define X(name) name,
    static struct shim_engine engine = {
        ENGINE_FUNCTIONS(X) ggml_threadpool_new, ggml_threadpool_free, {}, &layout_builtin};
#undef X
    static const bool started = [] {
        engine.llama_free = free_context;
        shim_handlers(&engine);
        llama_backend_init();
        clear_late();
        return true;
    }();
    (void) started;
    return &engine;
}
