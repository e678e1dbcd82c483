// A stub of the engine for TestShimSanitized. On demand it fails in every way that the shim must survive. Prints
// "ok".

#include "shim.h"

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

llama_memory_t memory_of(llama_context * c) { return reinterpret_cast<llama_memory_t>(c); }
llama_context * context_of(llama_memory_t m) { return reinterpret_cast<llama_context *>(m); }

} // namespace

extern "C" {

void runnerLog(int, char *) { logged++; }
int runnerProgress(uintptr_t handle, float fraction) { return handle == 7 && fraction < 0.5f; }

void llama_backend_init(void) {}
void llama_log_set(ggml_log_callback f, void *) { log_callback = f; }
ggml_abort_callback_t ggml_set_abort_callback(ggml_abort_callback_t f) { abort_callback = f; return nullptr; }

struct llama_model * llama_model_load_from_file(const char *, struct llama_model_params p) {
    act();
    CHECK(p.progress_callback);
    if (p.progress_callback_user_data) {
        CHECK(p.progress_callback(0.1f, p.progress_callback_user_data));
        CHECK(!p.progress_callback(0.9f, p.progress_callback_user_data));
    } else {
        CHECK(p.progress_callback(0.1f, nullptr));
    }
    return behave.empty() ? reinterpret_cast<struct llama_model *>(&context) : nullptr;
}

struct llama_context * llama_init_from_model(struct llama_model *, struct llama_context_params p) {
    act();
    CHECK(!p.abort_callback(p.abort_callback_data));
    *static_cast<int32_t *>(p.abort_callback_data) = 1;
    CHECK(p.abort_callback(p.abort_callback_data));
    return &context;
}

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

static void test_failures() {
    struct llama_model_params   mp = {};
    struct llama_context_params cp = {};
    struct llama_batch          batch = {};
    struct shim_error           err;
    const struct { const char * how, * says; } ways[] = {
        {"throw", "thrown"}, {"memory", "out of memory"}, {"odd", "unknown exception"},
        {"assert", "file.cpp:1: GGML_ASSERT(x) failed"},
        {"log", "first cause"}, {"long", "xxxx"},
    };
    for (const auto & w : ways) {
        behave = w.how;
        const int before = freed;
        CHECK(shim_load("path", mp, 0, &err) == nullptr);
        CHECK(std::strncmp(err.text, w.says, std::strlen(w.says)) == 0);
        CHECK(freed == before + 1);
        if (behave != "log") {
            int32_t cancel = 0;
            CHECK(shim_context(nullptr, cp, nullptr, &cancel, &err) == nullptr);
            CHECK(shim_decode(&context, &batch, &err) == SHIM_FAILED);
            CHECK(shim_logits(&context, 0) == nullptr);
            CHECK(shim_tokenize(nullptr, "a", 1, nullptr, 0) == INT32_MIN);
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
    struct llama_model_params   mp = {};
    struct llama_context_params cp = {};
    struct llama_batch          batch = {};
    struct shim_error           err;
    int32_t                     cancel = 0;
    CHECK(shim_load("path", mp, 0, &err) && shim_load("path", mp, 7, &err));
    CHECK(shim_context(nullptr, cp, reinterpret_cast<struct ggml_threadpool *>(1), &cancel, &err) == &context);
    CHECK(shim_decode(&context, &batch, &err) == 0 && err.text[0] == 0);
    CHECK(shim_logits(&context, 0) != nullptr);
    CHECK(shim_tokenize(nullptr, "abc", 3, nullptr, 0) == 3);
    ggml_backend_reg_t reg = reinterpret_cast<ggml_backend_reg_t>(1);
    CHECK(std::strcmp(shim_feature(reg, 1).value, "2") == 0 && shim_feature(reg, 2).name == nullptr);
    CHECK(shim_feature(nullptr, 0).name == nullptr);
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
            const bool ok = shim_fork(&context, 0, 1, start, &err);
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
    shim_start();
    test_failures();
    test_success();
    test_grammar();
    test_clear();
    test_log_levels();
    test_fork();
    std::puts("ok");
}
