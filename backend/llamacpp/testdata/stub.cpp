// A stub of the engine for TestShimSanitized. On demand it fails in every way that the shim must survive. Prints
// "ok".

#include "capi/capi_builtin.h"
#include "capi/capi_v05.h"
#include "engine.h"
#include "libraries.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <string>

// The stub's context: the positions of each sequence, in the layers with full attention and in the sliding ones.
struct llama_context {
    std::map<llama_seq_id, std::set<llama_pos>> base, window;
    bool room = true;
};

namespace {

ggml_log_callback     log_callback;
ggml_abort_callback_t abort_callback;
std::string           behave; // what the next call of the engine does
llama_context         context;
int                   logged, freed;

void fail(const char * what) {
    std::fprintf(stderr, "failed: %s\n", what);
    std::exit(1);
}
#define CHECK(c) do { if (!(c)) fail(#c); } while (0)

struct cleaned_up { // destructors must run while the shim unwinds
    ~cleaned_up() { freed++; }
};

void act() {
    cleaned_up witness;
    const std::string b = behave;
    if (b == "throw")   throw std::runtime_error("thrown");
    if (b == "memory")  throw std::bad_alloc();
    if (b == "odd")     throw 42;
    if (b == "assert")  abort_callback("file.cpp:1: GGML_ASSERT(x) failed");
    if (b == "long")    throw std::runtime_error(std::string(5000, 'x'));
    if (b == "log") {
        log_callback(GGML_LOG_LEVEL_ERROR, "first cause\n", nullptr);
        log_callback(GGML_LOG_LEVEL_ERROR, "then this\n", nullptr);
    }
}

// context_defaults returns what all versions have in common.
template <typename P> P context_defaults() {
    P p = {};
    p.n_ctx = p.n_ubatch = 512, p.n_batch = 2048, p.n_seq_max = 1;
    p.rope_scaling_type = LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED;
    p.pooling_type = LLAMA_POOLING_TYPE_UNSPECIFIED;
    p.attention_type = LLAMA_ATTENTION_TYPE_UNSPECIFIED;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO;
    p.yarn_ext_factor = p.defrag_thold = -1;
    p.type_k = p.type_v = GGML_TYPE_F16;
    p.offload_kqv = p.no_perf = p.op_offload = p.swa_full = true;
    return p;
}

template <typename P> void check_context(const P & p) {
    CHECK(p.n_ctx == 20 && p.n_batch == 21 && p.n_ubatch == 21 && p.n_seq_max == 22 && p.n_threads == 23);
    CHECK(p.n_threads_batch == 23 && p.kv_unified && !p.swa_full && !p.offload_kqv && !p.op_offload);
    CHECK(p.type_k == GGML_TYPE_Q8_0 && p.type_v == GGML_TYPE_Q8_0 && p.pooling_type == LLAMA_POOLING_TYPE_NONE);
    CHECK(!p.abort_callback(p.abort_callback_data));
    *static_cast<int32_t *>(p.abort_callback_data) = 1;
    CHECK(p.abort_callback(p.abort_callback_data));
    *static_cast<int32_t *>(p.abort_callback_data) = 0;
}

llama_memory_t memory_of(llama_context * c) { return reinterpret_cast<llama_memory_t>(c); }
llama_context * context_of(llama_memory_t m) { return reinterpret_cast<llama_context *>(m); }

} // namespace

extern "C" {

void runnerLog(int, char *) { logged++; }
int runnerProgress(uintptr_t handle, float fraction) { return handle == 7 && fraction < 0.5f; }

void llama_backend_init(void) {}
void llama_log_set(ggml_log_callback f, void *) { log_callback = f; }
ggml_abort_callback_t ggml_set_abort_callback(ggml_abort_callback_t f) { abort_callback = f; return nullptr; }

struct llama_model_params llama_model_default_params(void) {
    struct llama_model_params p = {};
    p.n_gpu_layers = 999;
    p.split_mode = LLAMA_SPLIT_MODE_LAYER;
    p.use_mmap = p.use_extra_bufts = true;
    return p;
}

struct llama_context_params llama_context_default_params(void) { return context_defaults<llama_context_params>(); }

struct llama_model * llama_model_load_from_file(const char *, struct llama_model_params p) {
    act();
    CHECK((p.n_gpu_layers == 0) == (p.devices && !p.devices[0]) && !p.use_mmap);
    CHECK(p.progress_callback);
    if (p.progress_callback_user_data) {
        CHECK(p.progress_callback(0.1f, p.progress_callback_user_data));
        CHECK(!p.progress_callback(0.9f, p.progress_callback_user_data));
    } else {
        CHECK(p.progress_callback(0.1f, nullptr));
    }
    return behave.empty() ? reinterpret_cast<struct llama_model *>(&context) : nullptr;
}

// A device and its backend. A context has one, and frees it before the end of its scheduler, which still reads it.
// If it is not freed late, the sanitizer stops the test.
static struct ggml_backend_device device;
static struct ggml_backend *      backend;
static int                        backends;

static void free_backend(struct ggml_backend * b) {
    backends--;
    delete b;
}

static struct ggml_backend * init_backend(struct ggml_backend_device * d, const char *) {
    struct ggml_backend * b = new struct ggml_backend();
    b->device = d;
    b->iface[1] = (void *) free_backend;
    backends++;
    return b;
}

static void free_all() {
    if (backend) {
        ((void (*)(struct ggml_backend *)) backend->iface[1])(backend);
        CHECK(backend->iface[16] == nullptr); // a scheduler would reset it now
        backend = nullptr;
    }
}

struct llama_context * llama_init_from_model(struct llama_model *, struct llama_context_params p) {
    free_all();
    backend = ((struct ggml_backend * (*) (struct ggml_backend_device *, const char *)) device.iface[5])(&device, "");
    try {
        act();
        check_context(p);
    } catch (...) {
        free_all();
        throw;
    }
    return &context;
}

// What the shim only passes on.
ggml_backend_reg_t ggml_backend_load(const char *) { return nullptr; }
size_t ggml_backend_reg_count(void) { return 2; }
ggml_backend_reg_t ggml_backend_reg_get(size_t i) { return reinterpret_cast<ggml_backend_reg_t>(i); }
const char * ggml_backend_reg_name(ggml_backend_reg_t reg) { return reg ? "one" : "zero"; }
size_t ggml_backend_dev_count(void) { return 1; }
ggml_backend_dev_t ggml_backend_dev_get(size_t) {
    if (!device.iface[5]) {
        device.iface[5] = (void *) init_backend;
    }
    return &device;
}
const char * ggml_backend_dev_name(ggml_backend_dev_t) { return "CPU"; }
const char * ggml_backend_dev_description(ggml_backend_dev_t) { return "a processor"; }
enum ggml_backend_dev_type ggml_backend_dev_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_CPU; }
void ggml_backend_dev_memory(ggml_backend_dev_t, size_t * free, size_t * total) { *free = 1, *total = 2; }
void ggml_threadpool_params_init(struct ggml_threadpool_params * p, int n) { *p = {}, p->n_threads = n; }
struct ggml_threadpool * ggml_threadpool_new(struct ggml_threadpool_params * p) {
    CHECK(p->n_threads == 3);
    return reinterpret_cast<struct ggml_threadpool *>(&context);
}
void ggml_threadpool_free(struct ggml_threadpool *) {}
void llama_model_free(struct llama_model *) {}
const struct llama_vocab * llama_model_get_vocab(const struct llama_model *) { return nullptr; }
int32_t llama_model_n_ctx_train(const struct llama_model *) { return 10; }
int32_t llama_model_n_embd(const struct llama_model *) { return 11; }
int32_t llama_model_n_layer(const struct llama_model *) { return 13; }
int32_t llama_model_n_swa(const struct llama_model *) { return 12; }
uint64_t llama_model_size(const struct llama_model *) { return 13; }
uint64_t llama_model_n_params(const struct llama_model *) { return 14; }
bool llama_model_has_encoder(const struct llama_model *) { return false; }
bool llama_model_has_decoder(const struct llama_model *) { return true; }
bool llama_model_is_recurrent(const struct llama_model *) { return false; }
bool llama_model_is_hybrid(const struct llama_model *) { return true; }
bool llama_model_is_diffusion(const struct llama_model *) { return false; }
enum llama_vocab_type llama_vocab_type(const struct llama_vocab *) { return LLAMA_VOCAB_TYPE_BPE; }
int32_t llama_vocab_n_tokens(const struct llama_vocab *) { return 15; }
enum llama_token_attr llama_vocab_get_attr(const struct llama_vocab *, llama_token) { return LLAMA_TOKEN_ATTR_BYTE; }
bool llama_vocab_is_eog(const struct llama_vocab *, llama_token t) { return t == 1; }
bool llama_vocab_get_add_bos(const struct llama_vocab *) { return true; }
int32_t llama_token_to_piece(const struct llama_vocab *, llama_token, char *, int32_t, int32_t strip, bool special) {
    CHECK(strip == 0 && special);
    return 16;
}
void llama_free(struct llama_context *) { free_all(); }
void llama_set_embeddings(struct llama_context *, bool) {}
llama_pos llama_memory_seq_pos_min(llama_memory_t, llama_seq_id) { return 17; }

void llama_attach_threadpool(struct llama_context *, ggml_threadpool_t, ggml_threadpool_t) {}
int32_t llama_decode(struct llama_context *, struct llama_batch) { act(); return 0; }
float * llama_get_embeddings_ith(struct llama_context *, int32_t) { act(); static float x[4]; return x; }
float * llama_get_logits_ith(struct llama_context *, int32_t) { act(); static float x[4]; return x; }
int32_t llama_tokenize(const struct llama_vocab *, const char *, int32_t n, llama_token *, int32_t, bool add,
    bool parse) {
    act();
    CHECK(!add && !parse);
    return n;
}

llama_memory_t llama_get_memory(const struct llama_context * c) { return memory_of(const_cast<llama_context *>(c)); }

void llama_memory_seq_cp(llama_memory_t m, llama_seq_id a, llama_seq_id b, llama_pos p0, llama_pos p1) {
    for (auto * cells : {&context_of(m)->base, &context_of(m)->window}) {
        for (llama_pos p : (*cells)[a]) {
            if (p >= p0 && (p1 < 0 || p < p1)) (*cells)[b].insert(p);
        }
    }
}

bool llama_memory_seq_rm(llama_memory_t m, llama_seq_id a, llama_pos p0, llama_pos p1) {
    for (auto * cells : {&context_of(m)->base, &context_of(m)->window}) {
        auto & s = (*cells)[a];
        for (auto it = s.begin(); it != s.end();) {
            it = *it >= p0 && (p1 < 0 || *it < p1) ? s.erase(it) : std::next(it);
        }
    }
    return true;
}

size_t llama_state_seq_get_size_ext(struct llama_context * c, llama_seq_id a, llama_state_seq_flags f) {
    CHECK(f == LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    return c->window[a].size() * sizeof(llama_pos);
}

size_t llama_state_seq_get_data_ext(struct llama_context * c, uint8_t * dst, size_t size, llama_seq_id a,
    llama_state_seq_flags) {
    size_t n = 0;
    for (llama_pos p : c->window[a]) {
        CHECK(n + sizeof p <= size);
        std::memcpy(dst + n, &p, sizeof p);
        n += sizeof p;
    }
    return n;
}

size_t llama_state_seq_set_data_ext(struct llama_context * c, const uint8_t * src, size_t size, llama_seq_id a,
    llama_state_seq_flags) {
    act();
    c->window[a].clear();
    if (!c->room) return 0;
    for (size_t n = 0; n < size; n += sizeof(llama_pos)) {
        llama_pos p;
        std::memcpy(&p, src + n, sizeof p);
        c->window[a].insert(p);
    }
    return size;
}

// The stub's grammar allows the even tokens.
struct llama_sampler * llama_sampler_init_grammar(const struct llama_vocab *, const char *, const char * root) {
    act();
    CHECK(std::strcmp(root, "root") == 0);
    return reinterpret_cast<struct llama_sampler *>(&context);
}

void llama_sampler_apply(struct llama_sampler *, llama_token_data_array * list) {
    act();
    for (size_t i = 0; i < list->size; i++) {
        if (list->data[i].id % 2) list->data[i].logit = -INFINITY;
    }
}

void llama_sampler_accept(struct llama_sampler *, llama_token) { act(); }

void * ggml_backend_reg_get_proc_address(ggml_backend_reg_t reg, const char *) {
    static struct ggml_backend_feature list[] = {{"A", "1"}, {"B", "2"}, {nullptr, nullptr}};
    static const auto give = +[](ggml_backend_reg_t) -> struct ggml_backend_feature * { return list; };
    return reg ? reinterpret_cast<void *>(give) : nullptr;
}

// Buffers of the stub begin in the middle of a page.
static char pages[1 << 16];
static int  filled;

static ggml_backend_buffer_t alloc_pages(ggml_backend_buffer_type_t type, size_t size) {
    static struct ggml_backend_buffer buffer;
    if (size > sizeof pages - 100) return nullptr;
    buffer.buft = type;
    buffer.context = pages + 100;
    buffer.size = size;
    buffer.iface[7] = (void *) +[](ggml_backend_buffer_t, uint8_t) { filled++; };
    return &buffer;
}

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void) {
    static struct ggml_backend_buffer_type type = {{nullptr, (void *) alloc_pages}, nullptr, nullptr, false};
    return &type;
}

} // extern "C"

static void test_clear() {
#ifdef __linux__
    const auto type = ggml_backend_cpu_buffer_type();
    const auto alloc = (ggml_backend_buffer_t (*)(ggml_backend_buffer_type_t, size_t)) type->iface[1];
    CHECK(alloc(type, sizeof pages) == nullptr);
    for (size_t size : {size_t(1), size_t(1000), size_t(5000), size_t(40000), sizeof pages - 100}) {
        for (int value : {0, 7}) {
            const auto buffer = alloc(type, size);
            std::memset(pages, 1, sizeof pages);
            ((void (*)(ggml_backend_buffer_t, uint8_t)) buffer->iface[7])(buffer, (uint8_t) value);
            for (size_t i = 0; i < sizeof pages; i++) {
                CHECK(pages[i] == (i >= 100 && i < 100 + size ? value : 1));
            }
        }
    }
    CHECK(filled == 0);
#endif
}

static const struct shim_engine * engine;

static struct shim_context_options options(const int32_t * cancel) {
    return {20, 21, 22, 23, LLAMA_FLASH_ATTN_TYPE_AUTO, GGML_TYPE_Q8_0, false, false, cancel};
}

static void test_failures() {
    const struct shim_load_options lo = {};
    struct llama_batch             batch = {};
    struct shim_error              err;
    const struct { const char * how, * says; } ways[] = {
        {"throw", "thrown"}, {"memory", "out of memory"}, {"odd", "unknown exception"},
        {"assert", "file.cpp:1: GGML_ASSERT(x) failed"},
        {"log", "first cause"}, {"long", "xxxx"},
    };
    for (const auto & w : ways) {
        behave = w.how;
        const int before = freed;
        CHECK(shim_load(engine, "path", &lo, &err) == nullptr);
        CHECK(std::strncmp(err.text, w.says, std::strlen(w.says)) == 0);
        CHECK(freed == before + 1);
        if (behave != "log") {
            int32_t cancel = 0;
            const struct shim_context_options co = options(&cancel);
            CHECK(shim_context(engine, nullptr, &co, nullptr, &err) == nullptr);
            CHECK(shim_decode(engine, &context, &batch, &err) == SHIM_FAILED);
            CHECK(shim_logits(engine, &context, 0) == nullptr);
            CHECK(shim_tokenize(engine, nullptr, "a", 1, nullptr, 0) == INT32_MIN);
            llama_token_data data[1];
            uint64_t         bits[1];
            CHECK(shim_grammar(nullptr, "", &err) == nullptr);
            CHECK(!shim_grammar_fill(nullptr, nullptr, 1, data, bits, &err));
            CHECK(!shim_grammar_accept(nullptr, 0, &err));
        }
    }
    behave.clear();
}

static void test_success() {
    struct llama_batch                batch = {};
    struct shim_error                 err;
    int32_t                           cancel = 0;
    const struct shim_load_options    quiet = {}, all = {5, false, false, 7};
    const struct shim_context_options co = options(&cancel);
    CHECK(shim_known(engine));
    CHECK(shim_load(engine, "path", &quiet, &err) && shim_load(engine, "path", &all, &err));
    CHECK(shim_context(engine, nullptr, &co, shim_pool(engine, 3), &err) == &context);
    CHECK(shim_decode(engine, &context, &batch, &err) == 0 && err.text[0] == 0);
    CHECK(shim_logits(engine, &context, 0) != nullptr);
    CHECK(shim_tokenize(engine, nullptr, "abc", 3, nullptr, 0) == 3);
    CHECK(backends == 1);
    shim_context_free(engine, &context);
    CHECK(backends == 0);
}

static void test_facts() {
    const struct shim_model_facts f = shim_describe(engine, nullptr);
    CHECK(f.decodes && f.recurrent && f.window == 12 && f.trained_context == 10 && f.width == 11 && f.layers == 13);
    CHECK(f.parameters == 14 && f.bytes == 13);
    CHECK(shim_vocab_size(engine, nullptr) == 15 && shim_ends(engine, nullptr, 1) && !shim_ends(engine, nullptr, 2));
    CHECK(shim_piece(engine, nullptr, 0, nullptr, 0) == 16 && shim_lowest(engine, nullptr, 0) == 17);
    CHECK(shim_registries(engine) == 2 && std::strcmp(shim_registry(engine, 1), "one") == 0);
    CHECK(std::strcmp(shim_feature(engine, 1, 1).value, "2") == 0 && shim_feature(engine, 1, 2).name == nullptr);
    CHECK(shim_feature(engine, 0, 0).name == nullptr);
    CHECK(shim_device_at(engine, 0).total == 2 && shim_device_at(engine, 1).name == nullptr);
}

// The functions of llama.cpp 0.5 and 0.6 with parameters.
static struct llama_model_params_v05 model_defaults_v05() {
    struct llama_model_params_v05 p = {};
    p.n_gpu_layers = -1;
    p.split_mode = LLAMA_SPLIT_MODE_LAYER;
    p.load_mode = LLAMA_LOAD_MODE_AUTO;
    p.lazy_mode = LLAMA_LAZY_MODE_AUTO;
    p.use_extra_bufts = true;
    return p;
}

static struct llama_model * load_v05(const char *, struct llama_model_params_v05 p) {
    act();
    CHECK((p.n_gpu_layers == 0) == (p.devices && !p.devices[0]) && p.load_mode == LLAMA_LOAD_MODE_MMAP && !p.load_mtp);
    return reinterpret_cast<struct llama_model *>(&context);
}

static struct llama_context_params_v05 context_defaults_v05() {
    auto p = context_defaults<struct llama_context_params_v05>();
    p.n_outputs_max_per_seq = 1;
    return p;
}

static struct llama_context * init_v05(struct llama_model *, struct llama_context_params_v05 p) {
    act();
    check_context(p);
    CHECK(p.n_rs_seq == 0 && p.n_outputs_max == 0 && !p.samplers && !p.ctx_other);
    return &context;
}

static void test_v05() {
    struct shim_engine e = *engine;
    e.layout = &layout_v05;
    e.parameters = {(void *) model_defaults_v05, (void *) load_v05, (void *) context_defaults_v05, (void *) init_v05};
    struct shim_error                 err;
    int32_t                           cancel = 0;
    const struct shim_load_options    lo = {0, true, false, 0};
    const struct shim_context_options co = options(&cancel);
    CHECK(shim_known(&e) && shim_load(&e, "path", &lo, &err));
    CHECK(shim_context(&e, nullptr, &co, nullptr, &err) == &context);
    behave = "throw";
    CHECK(!shim_load(&e, "path", &lo, &err) && !shim_context(&e, nullptr, &co, nullptr, &err));
    behave.clear();
    e.parameters.context_defaults = (void *) context_defaults<struct llama_context_params_v05>;
    CHECK(!shim_known(&e));
}

// What only shared libraries have.
extern "C" const char * llama_version(void) { return "0.5.9"; }
enum llm_arch { first, nameless, second, last };
const char * llm_arch_name(llm_arch a) {
    const char * names[] = {"a", "unknown", "b", "(unknown)"};
    return names[a];
}

// test_folder opens this program as if it were a library.
static void test_folder() {
    struct shim_error err;
    void * self = library_open(nullptr, &err);
    CHECK(self && !library_open("/nowhere/libllama.so", &err) && std::strstr(err.text, "/nowhere/libllama.so"));
    CHECK(library_score("/nowhere/libggml-cpu.so", &err) == -1 && library_score(nullptr, &err) == 1);
    CHECK(std::strcmp(engine_version(self), "0.5.9") == 0);
    CHECK(std::strcmp(engine_architecture(self, 2), "b") == 0 && !engine_architecture(self, 3));
    CHECK(!engine_architecture(self, 5000));
    struct shim_engine * e = engine_open(self, &err);
    CHECK(e && e->llama_decode == llama_decode && e->parameters.load == (void *) llama_model_load_from_file);
    CHECK(!engine_load(e, "nothing", &err) && shim_registries(e) == 2);
    CHECK(engine_start(e, &err) && e->threadpool_new && e->threadpool_free);
    delete e;
    void * other = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    if (other) {
        CHECK(!engine_version(other) && !engine_architecture(other, 0) && !engine_open(other, &err));
        CHECK(std::strstr(err.text, "it has no function "));
    }
}

static void test_grammar() {
    struct shim_error err;
    llama_token_data  data[70];
    uint64_t          bits[2];
    const llama_token tokens[3] = {3, 4, 6};
    struct llama_sampler * g = shim_grammar(nullptr, "", &err);
    CHECK(g && shim_grammar_fill(g, nullptr, 70, data, bits, &err));
    CHECK(bits[0] == 0x5555555555555555u && bits[1] == 0x15);
    CHECK(shim_grammar_fill(g, tokens, 3, data, bits, &err) && bits[0] == 6);
    CHECK(shim_grammar_accept(g, 4, &err) && err.text[0] == 0);
}

static void test_log_levels() {
    logged = 0;
    log_callback(GGML_LOG_LEVEL_ERROR, "quiet", nullptr);
    CHECK(logged == 0);
    shim_log_level(GGML_LOG_LEVEL_WARN);
    log_callback(GGML_LOG_LEVEL_INFO, "too low", nullptr);
    CHECK(logged == 0);
    log_callback(GGML_LOG_LEVEL_ERROR, "heard", nullptr);
    CHECK(logged == 1);
    shim_log_level(GGML_LOG_LEVEL_NONE);
}

static std::set<llama_pos> range(int from, int to) {
    std::set<llama_pos> s;
    for (int i = from; i < to; i++) s.insert(i);
    return s;
}

static void test_fork() {
    struct shim_error err;
    for (int start : {-1, 0, 60}) {
        for (const char * how : {"", "throw", "full"}) {
            context = llama_context();
            context.base[0] = range(0, 100);
            context.window[0] = range(20, 100);
            context.room = std::strcmp(how, "full") != 0;
            behave = std::strcmp(how, "throw") == 0 ? "throw" : "";
            const bool ok = shim_fork(engine, &context, 0, 1, start, &err);
            behave.clear();
            CHECK(ok == (how[0] == 0 || start < 0));
            if (ok) {
                CHECK(context.base[0] == range(0, 100) && context.base[1] == range(0, 100));
                CHECK(context.window[1] == range(start < 20 ? 20 : start, 100));
                CHECK(context.window[0] == context.window[1]);
            } else if (std::strcmp(how, "full") == 0) {
                CHECK(context.base[0] == range(0, 100) && context.base[1].empty() && context.window[1].empty());
            }
        }
    }
}

int main() {
    engine = shim_builtin();
    test_failures();
    test_success();
    test_facts();
    test_v05();
    test_folder();
    test_grammar();
    test_clear();
    test_log_levels();
    test_fork();
    std::puts("ok");
}
