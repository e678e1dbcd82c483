// Memory that ends where nobody may read or write, for programs that check the kernels.
#ifndef RUNNER_TESTDATA_FENCE_H
#define RUNNER_TESTDATA_FENCE_H

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <sys/mman.h>
#include <unistd.h>

namespace {

// now says what is checked. The handler of a signal prints it.
char now[256];

// fence owns pages. The one behind them cannot be touched.
class fence {
    char * pages = nullptr;
    size_t bytes = 0;

  public:
    fence() = default;
    fence(const fence &) = delete;
    fence & operator=(const fence &) = delete;
    ~fence() { release(); }

    // place returns memory for this many bytes. The last of them is right before the fence. What place returned
    // before is no longer valid.
    char * place(size_t n) {
        const size_t page = (size_t) sysconf(_SC_PAGESIZE);
        if (n > bytes) {
            release();
            bytes = (n + page - 1) / page * page;
            void * p = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED || mprotect((char *) p + bytes, page, PROT_NONE) != 0) {
                std::abort();
            }
            pages = (char *) p;
        }
        return pages + bytes - n;
    }

  private:
    void release() {
        if (pages) {
            munmap(pages, bytes + (size_t) sysconf(_SC_PAGESIZE));
        }
    }
};

// explain_signals ends the program with a word about what was checked when it touched memory that it must not touch, or
// met an instruction that the processor lacks.
inline void explain_signals() {
    const auto handler = [](int signal) {
        const char * what = signal == SIGILL ? "an unknown instruction: " : "touched memory behind the end: ";
        (void) !write(STDERR_FILENO, what, std::strlen(what));
        (void) !write(STDERR_FILENO, now, std::strlen(now));
        (void) !write(STDERR_FILENO, "\n", 1);
        _exit(1);
    };
    for (const int s : {SIGSEGV, SIGBUS, SIGILL}) {
        std::signal(s, handler);
    }
}

} // namespace

#endif
