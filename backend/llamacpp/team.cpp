#include "team.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

namespace team {

namespace {

using clock = std::chrono::steady_clock;

// A call that has as much work as this is worth waking helpers for. No single token of a tiny model has, so that who decodes alone keeps one core busy
// and not two.
constexpr int64_t worth_waking = 10 << 16;

// How often a helper looks for work before it sleeps: at most for about a millisecond, and only in proportion to the work that there was, once for every
// work_of_look. With eight sequences of a small model it is still there when a server's next step begins, and who sleeps misses the first operations of a step;
// with one or two there is too little to share for the processor that looking costs.
constexpr int64_t  most_looks = 20000;
constexpr uint64_t work_of_look = 1 << 10;

// After so many looks a helper makes way for other threads. Who has an answer to write then takes the processor while the helper has nothing to do, and not in
// the middle of a piece, for which the caller would have to wait.
constexpr int looks_at_once = 64;

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

// What one thread writes while others look at what lies beside it goes back and forth between their caches, so each part has lines of its own.
constexpr size_t line = 64;

struct state {
    std::mutex        use; // held by the caller that has the team
    clock::time_point alone_until{};

    // What is to be done; it changes only while the call is closed and nobody is inside.
    alignas(line) void (*f)(void *, int64_t) = nullptr;
    void *                data = nullptr;
    int64_t               pieces = 0, threads = 1;
    std::atomic<uint64_t> work{0};  // sums up what there was to do
    std::atomic<uint32_t> wakes{0}; // counts the calls that were worth waking helpers

    alignas(line) std::atomic<uint32_t> call{0}; // is odd while a call is open, and another number for every call
    alignas(line) std::atomic<int64_t>  next{0};
    alignas(line) std::atomic<int>      inside{0};

    alignas(line) std::mutex lock; // guards what follows
    std::condition_variable  wake;
    std::atomic<int>         asleep{0};
    std::atomic<int>         helpers{0};

    // take does pieces as long as there are any: many at a time at first, since every taking is seen by all, and fewer towards the end, so that all end together.
    void take() {
        for (;;) {
            const int64_t left = pieces - next.load(std::memory_order_relaxed), n = std::max<int64_t>(left / (2 * threads), 1);
            const int64_t first = next.fetch_add(n, std::memory_order_relaxed);
            if (first >= pieces) {
                return;
            }
            for (int64_t i = first; i < std::min(first + n, pieces); i++) {
                f(data, i);
            }
        }
    }

    void help() {
        uint32_t seen = 0, woken = 0;
        uint64_t counted = 0;
        int64_t  looks = 0;
        for (;;) {
            for (; call.load(std::memory_order_relaxed) == seen && looks > 0; looks--) {
                relax();
                if (looks % looks_at_once == 0) {
                    std::this_thread::yield();
                }
            }
            if (looks <= 0) {
                std::unique_lock<std::mutex> held(lock);
                asleep++;
                wake.wait(held, [&] { return wakes.load() != woken; });
                asleep--;
            }
            woken = wakes.load();
            const uint64_t all = work.load(std::memory_order_relaxed);
            looks = std::min(looks + (int64_t) ((all - counted) / work_of_look), most_looks) - 1;
            counted = all;
            // Inside before a second look at the call: who closes it sees either that this helper is inside or is seen to have closed it.
            seen = call.load();
            if (seen % 2 != 0) {
                inside.fetch_add(1);
                if (call.load() == seen) {
                    take();
                }
                inside.fetch_sub(1);
            }
        }
    }

    // opened keeps a call open while it lives. It ends the call too when a piece of the caller's throws; then nobody begins another.
    struct opened {
        state &        s;
        const uint32_t call;
        explicit opened(state & of) : s(of), call(of.call.load(std::memory_order_relaxed) + 1) { s.call.store(call); }
        ~opened() {
            s.next.store(s.pieces, std::memory_order_relaxed);
            s.call.store(call + 1);
            s.await();
        }
    };

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

void run(int64_t pieces, int64_t work, void (*f)(void *, int64_t), void * data) {
    state & s = shared();
    std::unique_lock<std::mutex> use(s.use, std::try_to_lock);
    if (!use || (s.alone_until != clock::time_point{} && clock::now() < s.alone_until)) {
        for (int64_t i = 0; i < pieces; i++) {
            f(data, i);
        }
        return;
    }
    s.f = f, s.data = data, s.pieces = pieces, s.threads = 1 + s.helpers.load(std::memory_order_relaxed);
    s.next.store(0, std::memory_order_relaxed);
    s.work.store(s.work.load(std::memory_order_relaxed) + work, std::memory_order_relaxed);
    const state::opened call(s);
    if (work >= worth_waking) {
        s.wakes.fetch_add(1);
        if (s.asleep.load() > 0) {
            // Where a helper that loses its processor as it falls asleep holds the lock, the next large call wakes it.
            const std::unique_lock<std::mutex> held(s.lock, std::try_to_lock);
            if (held) {
                s.wake.notify_all();
            }
        }
    }
    s.take();
}

} // namespace team
