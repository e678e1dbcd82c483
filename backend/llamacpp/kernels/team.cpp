#include "team.h"

#include "team_rest.h"

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

using clock = rests::clock;

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
// rests: it runs without helpers for a while.
constexpr std::chrono::microseconds patience{100};
constexpr int                       patient_pieces = 8;

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

// Data that one thread writes and others read next to other data moves back and forth between their caches. So each
// part has cache lines of its own, but for the shares.
constexpr size_t line = 64;

constexpr int most_helpers = 64;

// share is what is left of the pieces that a thread takes first. The thread takes them from the front, so that it reads
// memory without a break. When it has none left, it takes from the back of the others' shares.
class share {
    std::atomic<uint64_t> bounds{0}; // the first piece, and in the upper half the one behind the last

    static uint64_t both(uint64_t first, uint64_t last) { return last << 32 | first; }

  public:
    // most is how many pieces a call can have.
    static constexpr int64_t most = UINT32_MAX;

    void set(int64_t first, int64_t last) {
        bounds.store(both((uint64_t) first, (uint64_t) last), std::memory_order_relaxed);
    }

    int64_t left() const {
        const uint64_t now = bounds.load(std::memory_order_relaxed);
        return (int64_t) (now >> 32) - (uint32_t) now;
    }

    // take takes up to n pieces, from the front or the back, and reports whether any were left.
    bool take(int64_t n, bool front, int64_t & first, int64_t & last) {
        uint64_t now = bounds.load(std::memory_order_relaxed);
        for (;;) {
            const int64_t from = (uint32_t) now, to = (int64_t) (now >> 32);
            if (from >= to) {
                return false;
            }
            first = front ? from : std::max(from, to - n), last = front ? std::min(from + n, to) : to;
            const uint64_t then = front ? both(last, to) : both(from, first);
            if (bounds.compare_exchange_weak(now, then, std::memory_order_relaxed)) {
                return true;
            }
        }
    }
};

struct state {
    std::mutex use; // held by the caller that has the team, and guards its rests
    rests      rest;

    // The current work. It changes only while the call is closed and no helper is inside.
    alignas(line) void (*f)(void *, int64_t, int64_t) = nullptr;
    void *                data = nullptr;
    int                   threads = 1;
    std::atomic<uint64_t> work{0};  // sums up what there was to do
    std::atomic<uint32_t> wakes{0}; // counts the calls that were worth waking helpers

    alignas(line) std::atomic<uint32_t> call{0}; // is odd while a call is open, and another number for every call
    alignas(line) std::atomic<int>      inside{0};

    // The caller's, then the helpers'. With few threads they are in one cache line, because each thread looks at all of
    // them.
    alignas(line) share shares[1 + most_helpers];

    alignas(line) std::mutex lock; // guards what follows
    std::condition_variable  wake;
    std::atomic<int>         asleep{0};
    std::atomic<int>         helpers{0};

    // share_out gives each thread its share of the pieces, and the caller most where they differ: it surely runs.
    void share_out(int64_t pieces) {
        const auto begin = [&](int64_t i) { return (pieces * i + threads - 1) / threads; };
        for (int i = 0; i < threads; i++) {
            shares[i].set(begin(i), begin(i + 1));
        }
    }

    // some is how many pieces a thread takes at once: many at first, because taking costs time, and fewer towards the
    // end. The others have enough left to do meanwhile, so that all threads finish together.
    int64_t some() const {
        int64_t left = 0;
        for (int i = 0; i < threads; i++) {
            left += shares[i].left();
        }
        return std::max<int64_t>(left / (2 * threads), 1);
    }

    // take runs pieces until none are left, as the thread with this number, and counts them. A helper that came after
    // the call began has a number without a share, and helps with another's.
    void take(int own, int64_t & taken) {
        int64_t first, last;
        for (int i = 0; i < threads; i++) {
            while (shares[(own + i) % threads].take(some(), i == 0, first, last)) {
                f(data, first, last);
                taken += last - first;
            }
        }
    }

    void help(int own) {
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
                    take(own, taken);
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
        int64_t                 taken = 0;    // pieces of the caller
        bool                    done = false; // whether none are left
        const clock::time_point began = clock::now();
        explicit opened(state & of) : s(of), call(of.call.load(std::memory_order_relaxed) + 1) { s.call.store(call); }
        ~opened() {
            if (!done) {
                s.share_out(0);
            }
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
        const auto wait = now - began, piece = (began - opened) / std::max<int64_t>(taken, 1);
        if (wait > patience + patient_pieces * piece) {
            rest.waited(began, now);
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
    for (; s.helpers < std::min(helpers, most_helpers); s.helpers++) {
        std::thread([&s, own = s.helpers + 1] { s.help(own); }).detach();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void run(int64_t pieces, int64_t work, void (*f)(void *, int64_t, int64_t), void * data) {
    state & s = shared();
    std::unique_lock<std::mutex> use(s.use, std::try_to_lock);
    if (!use || pieces > share::most || s.rest.resting(clock::now)) {
        if (pieces > 0) {
            f(data, 0, pieces);
        }
        return;
    }
    s.f = f, s.data = data, s.threads = 1 + s.helpers.load(std::memory_order_relaxed);
    s.share_out(pieces);
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
    s.take(0, call.taken);
    call.done = true;
}

uint32_t woken() { return shared().wakes.load(); }

} // namespace team
