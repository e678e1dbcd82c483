// Ends the program with a message on a processor that lacks instructions which the compiler was allowed to use. Without
// it such a processor would meet an unknown instruction somewhere and end the program with SIGILL.
//
// The check runs before any other code of the program: before C++ initializers, which may use these instructions, and
// before Go. So it is an entry of .preinit_array, which only programs for ELF systems have. It asks for the
// instructions of the compiler's own macros, so every build checks exactly what it was compiled for.

#if defined(__linux__) && defined(__x86_64__)

#include <cpuid.h>
#include <unistd.h>

// The functions of this file use the instructions that all 64-bit processors have.
#define BASELINE __attribute__((target("no-sse3,no-popcnt,no-lzcnt,no-bmi,no-bmi2,no-movbe")))

namespace {

// has_bit reports whether bit is set in ECX of a leaf of CPUID. These are the features whose names not every compiler
// knows.
BASELINE inline bool has_bit(unsigned leaf, unsigned bit) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(leaf, &a, &b, &c, &d) && (c & bit);
}

BASELINE const char * lacking() {
    __builtin_cpu_init(); // other initializers have not run
#define REQUIRE(feature, name) \
    if (!__builtin_cpu_supports(feature)) { \
        return name; \
    }
#ifdef __SSE3__
    REQUIRE("sse3", "SSE3")
#endif
#ifdef __SSSE3__
    REQUIRE("ssse3", "SSSE3")
#endif
#ifdef __SSE4_1__
    REQUIRE("sse4.1", "SSE4.1")
#endif
#ifdef __SSE4_2__
    REQUIRE("sse4.2", "SSE4.2")
#endif
#ifdef __POPCNT__
    REQUIRE("popcnt", "POPCNT")
#endif
#ifdef __AVX__
    REQUIRE("avx", "AVX")
#endif
#ifdef __AVX2__
    REQUIRE("avx2", "AVX2")
#endif
#ifdef __FMA__
    REQUIRE("fma", "FMA")
#endif
#ifdef __BMI__
    REQUIRE("bmi", "BMI1")
#endif
#ifdef __BMI2__
    REQUIRE("bmi2", "BMI2")
#endif
#ifdef __AVX512F__
    REQUIRE("avx512f", "AVX-512 F")
#endif
#ifdef __AVX512CD__
    REQUIRE("avx512cd", "AVX-512 CD")
#endif
#ifdef __AVX512BW__
    REQUIRE("avx512bw", "AVX-512 BW")
#endif
#ifdef __AVX512DQ__
    REQUIRE("avx512dq", "AVX-512 DQ")
#endif
#ifdef __AVX512VL__
    REQUIRE("avx512vl", "AVX-512 VL")
#endif
#ifdef __AVX512IFMA__
    REQUIRE("avx512ifma", "AVX-512 IFMA")
#endif
#ifdef __AVX512VBMI__
    REQUIRE("avx512vbmi", "AVX-512 VBMI")
#endif
#ifdef __AVX512VBMI2__
    REQUIRE("avx512vbmi2", "AVX-512 VBMI2")
#endif
#ifdef __AVX512VNNI__
    REQUIRE("avx512vnni", "AVX-512 VNNI")
#endif
#ifdef __AVX512BITALG__
    REQUIRE("avx512bitalg", "AVX-512 BITALG")
#endif
#ifdef __AVX512VPOPCNTDQ__
    REQUIRE("avx512vpopcntdq", "AVX-512 VPOPCNTDQ")
#endif
#ifdef __AVX512BF16__
    REQUIRE("avx512bf16", "AVX-512 BF16")
#endif
#ifdef __GFNI__
    REQUIRE("gfni", "GFNI")
#endif
#undef REQUIRE
#ifdef __F16C__
    if (!has_bit(1, 1u << 29)) {
        return "F16C";
    }
#endif
#ifdef __MOVBE__
    if (!has_bit(1, 1u << 22)) {
        return "MOVBE";
    }
#endif
#ifdef __LZCNT__
    if (!has_bit(0x80000001, 1u << 5)) {
        return "LZCNT";
    }
#endif
    return nullptr;
}

// say writes to standard error. It does not need the C library to be ready, and its loop is no call that a compiler
// could replace.
BASELINE void say(const char * text) {
    size_t n = 0;
    while (text[n] != 0) {
        n++;
        __asm__("" : "+r"(n));
    }
    (void) !write(STDERR_FILENO, text, n);
}

BASELINE void check(int, char **, char **) {
    if (const char * name = lacking()) {
        say("runner: this processor does not have ");
        say(name);
        say(", which this program was compiled for; compile it on this machine with 'make build'\n");
        _exit(1);
    }
}

__attribute__((section(".preinit_array"), used)) void (*const first)(int, char **, char **) = check;

} // namespace

#endif
