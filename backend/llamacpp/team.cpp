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

// Work of at least this size wakes sleeping helpers. In a tiny model a single token has such work only in attention
// over a long context. So decoding one short sequence keeps one core busy, not two.
constexpr int64_t worth_waking = 1 << 20;

// How often a helper looks for work before it sleeps: for about a millisecond at most, and in proportion to the
// work done, once for every work_of_look. With eight sequences of a small model the helper is still awake when a
// server's next step begins; a sleeping helper would miss the first operations of a step. With one or two sequences
// there is too little to share to justify the processor time of looking.
constexpr int64_t  most_looks = 20000;
constexpr uint64_t work_of_look = 1 << 10;

// After this many looks a helper yields to other threads. A thread that writes an answer then gets the processor
// while the helper is idle, and not in the middle of a piece, for which the caller would have to wait.
constexpr int looks_at_once = 64;

// How often the caller checks whether the helpers have finished before it yields to them.
constexpr int last_looks = 1000;

// When the caller has no more pieces, a helper that runs finishes within a few pieces, however large they are. If the
// wait exceeds patience and patient_pieces of the caller's pieces, the helper has lost its processor. The caller then
// runs without helpers for rest times as long as it waited, but at most for longest. So on a busy machine long waits
// take at most about an eleventh of the time. If a helper only yielded for a moment, to let an answer be written, it is
// back within a step or two.
constexpr std::chrono::microseconds patience{100};
constexpr int                       patient_pieces = 8;
constexpr int                       rest = 10;
constexpr clock::duration           longest = std::chrono::seconds(1);

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

// Data that one thread writes and others read next to other data moves back and forth between their caches. So each
// part has cache lines of its own.
constexpr size_t line = 64;

struct state {
    std::mutex        use; // held by the caller that has the team
    clock::time_point alone_until{};

    // The current work. It changes only while the call is closed and no helper is inside.
    alignas(line) void (*f)(void *, int64_t, int64_t) = nullptr;
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

    // take runs pieces until none are left: many at a time at first, because all threads see every taking, and
    // fewer towards the end, so that all threads finish together. It counts the pieces.
    void take(int64_t & taken) {
        for (;;) {
            const int64_t left = pieces - next.load(std::memory_order_relaxed),
                n = std::max<int64_t>(left / (2 * threads), 1);
            const int64_t first = next.fetch_add(n, std::memory_order_relaxed);
            if (first >= pieces) {
                return;
            }
            const int64_t last = std::min(first + n, pieces);
            f(data, first, last);
            taken += last - first;
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
            // Count this helper as inside, then check the call again. A caller that closes the call then either
            // sees the helper inside, or the helper sees the call closed.
            seen = call.load();
            if (seen % 2 != 0) {
                inside.fetch_add(1);
                if (call.load() == seen) {
                    int64_t taken = 0;
                    take(taken);
                }
                inside.fetch_sub(1);
            }
        }
    }

    // opened keeps a call open during its lifetime. It also ends the call when one of the caller's pieces throws;
    // no helper then takes another piece.
    struct opened {
        state &                 s;
        const uint32_t          call;
        int64_t                 taken = 0; // pieces of the caller
        const clock::time_point began = clock::now();
        explicit opened(state & of) : s(of), call(of.call.load(std::memory_order_relaxed) + 1) { s.call.store(call); }
        ~opened() {
            s.next.store(s.pieces, std::memory_order_relaxed);
            s.call.store(call + 1);
            s.await(began, taken);
        }
    };

    // await returns when no helper is inside. The caller took pieces since the call began.
    void await(clock::time_point opened, int64_t taken) {
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
        const auto piece = (began - opened) / std::max<int64_t>(taken, 1);
        if (now - began > patience + patient_pieces * piece) {
            alone_until = now + std::min(rest * (now - began), longest);
        }
    }
};

// Never destroyed, because the helpers run until the process ends.
state & shared() {
    static state * s = new state;
    return *s;
}

} // namespace

void grow(int helpers) {
    state & s = shared();
    const std::lock_guard<std::mutex> held(s.lock);
    // Helpers block all signals: those are for the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; s.helpers < std::min(helpers, 64); s.helpers++) {
        std::thread([&s] { s.help(); }).detach();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void run(int64_t pieces, int64_t work, void (*f)(void *, int64_t, int64_t), void * data) {
    state & s = shared();
    std::unique_lock<std::mutex> use(s.use, std::try_to_lock);
    if (!use || (s.alone_until != clock::time_point{} && clock::now() < s.alone_until)) {
        if (pieces > 0) {
            f(data, 0, pieces);
        }
        return;
    }
    s.f = f, s.data = data, s.pieces = pieces, s.threads = 1 + s.helpers.load(std::memory_order_relaxed);
    s.next.store(0, std::memory_order_relaxed);
    s.work.store(s.work.load(std::memory_order_relaxed) + work, std::memory_order_relaxed);
    state::opened call(s);
    if (work >= worth_waking) {
        s.wakes.fetch_add(1);
        if (s.asleep.load() > 0) {
            // If a helper holds the lock because it lost its processor while falling asleep, the next large call
            // wakes it.
            const std::unique_lock<std::mutex> held(s.lock, std::try_to_lock);
            if (held) {
                s.wake.notify_all();
            }
        }
    }
    s.take(call.taken);
}

uint32_t woken() { return shared().wakes.load(); }

} // namespace team
