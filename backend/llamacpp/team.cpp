#include "team.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace team {

namespace {

using clock = std::chrono::steady_clock;

// How often a helper looks for work before it sleeps: about a third of a millisecond, which is longer than a server takes from one step of a small
// model to the next. Who sleeps misses the first operations of a step.
constexpr int looks = 6000;

// How often the caller looks whether the helpers have ended before it makes way for them.
constexpr int last_looks = 1000;

// A wait for a helper that takes longer than patience means that it lost its processor. Then the caller does without helpers for rest
// times as long as it waited, but no longer than longest. So on a busy machine long waits take at most about an eleventh of its time, and
// where a helper made way for a moment, to write an answer to a client, it is back within a step or two.
constexpr std::chrono::microseconds patience{100};
constexpr int                       rest = 10;
constexpr clock::duration           longest = std::chrono::seconds(1);

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

struct state {
    std::mutex use; // held by the caller that has the team
    // What is to be done; it changes only while open is false and nobody is inside.
    void (*f)(void *, int64_t) = nullptr;
    void *  data = nullptr;
    int64_t pieces = 0;

    std::atomic<int64_t>  next{0};
    std::atomic<bool>     open{false};
    std::atomic<int>      inside{0};
    std::atomic<uint32_t> call{0}; // counts the calls, so that helpers see a new one

    std::mutex              lock; // guards what follows
    std::condition_variable wake;
    std::atomic<int>        asleep{0};
    int                     helpers = 0;

    // Of the caller alone.
    clock::time_point alone_until{};

    void take() {
        for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < pieces; i = next.fetch_add(1, std::memory_order_relaxed)) {
            f(data, i);
        }
    }

    void help() {
        for (uint32_t seen = 0;;) {
            for (int i = 0; i < looks && call.load() == seen; i++) {
                relax();
            }
            if (call.load() == seen) {
                std::unique_lock<std::mutex> held(lock);
                asleep++;
                wake.wait(held, [&] { return call.load() != seen; });
                asleep--;
            }
            seen = call.load();
            // Inside before open: a caller that closes sees either that this helper is inside or is seen to have closed.
            inside.fetch_add(1);
            if (open.load()) {
                take();
            }
            inside.fetch_sub(1);
        }
    }

    // await returns when no helper is inside.
    void await() {
        for (int i = 0; i < last_looks; i++) {
            if (inside.load() == 0) {
                return;
            }
            relax();
        }
        const auto began = clock::now();
        while (inside.load() != 0) {
            std::this_thread::yield();
        }
        const auto now = clock::now();
        if (now - began > patience) {
            alone_until = now + std::min(rest * (now - began), longest);
        }
    }
};

// Never destroyed, since its threads outlive main.
state & shared() {
    static state * s = new state;
    return *s;
}

} // namespace

void grow(int helpers) {
    state & s = shared();
    const std::lock_guard<std::mutex> held(s.lock);
    // The helpers take no signals: those are for the threads of the program that they help.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; s.helpers < std::min(helpers, 64); s.helpers++) {
        std::thread([&s] { s.help(); }).detach();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void run(int64_t pieces, bool wake, void (*f)(void *, int64_t), void * data) {
    state & s = shared();
    std::unique_lock<std::mutex> use(s.use, std::try_to_lock);
    if (!use || (s.alone_until != clock::time_point{} && clock::now() < s.alone_until)) {
        for (int64_t i = 0; i < pieces; i++) {
            f(data, i);
        }
        return;
    }
    s.f = f, s.data = data, s.pieces = pieces;
    s.next.store(0);
    s.open.store(true);
    s.call.fetch_add(1);
    if (wake && s.asleep.load() > 0) {
        const std::lock_guard<std::mutex> held(s.lock);
        s.wake.notify_all();
    }
    s.take();
    s.open.store(false);
    s.await();
}

} // namespace team
