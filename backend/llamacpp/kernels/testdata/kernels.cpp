// Compares all kernels that the processor can run with sums in double precision. It also checks that a token's
// result does not depend on the other tokens. Prints the instructions of the kernels that passed and digests of their
// results. The first argument can name the instructions that are checked, or be "team" to check only the team of
// threads, or "names" to print instructions without a check.

#include "matrices.h"
#include "scenes.h"

#include "team.h"
#include "team_rest.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

namespace {

// The digests of the results so far, by FNV-1a: of products with quantized weights, and of all others.
uint64_t quantized_bits, other_bits;

void digest(uint64_t & bits, const float * x, size_t n) {
    for (size_t i = 0; i < n * sizeof *x; i++) {
        bits = (bits ^ ((const uint8_t *) x)[i]) * 0x100000001b3;
    }
}

void check_products(enum rows::format format, int64_t height, int64_t n, int64_t count, bool extreme = false) {
    const bool rounded = layout_of(format) != nullptr;
    const matrix m = make(format, height, n, extreme);
    std::vector<std::vector<float>> x(count), out(count, std::vector<float>(height + 1, NAN));
    std::vector<std::vector<block>> blocks(count);
    std::vector<const float *> columns;
    std::vector<const block *> quantized;
    std::vector<float *> results;
    for (int64_t c = 0; c < count; c++) {
        const float size = std::exp(normal());
        for (int64_t i = 0; i < n; i++) {
            x[c].push_back(extreme ? (below(8) > c % 9 - 1 ? -size : size) : normal() * size);
        }
        if (c == 1 && !extreme) {
            std::fill(x[c].begin(), x[c].begin() + std::min<int64_t>(n, 32), 0.0f); // a block of zeros
        }
        if (rounded) {
            blocks[c].resize(n / 32 * own->blocks(format));
            own->quantize(x[c].data(), n, format, blocks[c].data());
        }
        columns.push_back(x[c].data());
        quantized.push_back(blocks[c].data());
        results.push_back(out[c].data());
    }
    const auto multiply = [&](int64_t first, int64_t last, int64_t c, int64_t some, float * const * to) {
        if (rounded) {
            own->multiply_quantized(m.r, first, last, quantized.data() + c, to, some);
        } else {
            own->multiply_floats(m.r, first, last, columns.data() + c, to, some);
        }
    };
    multiply(0, height, 0, count, results.data());
    std::vector<std::vector<part>> parts;
    for (int64_t r = 0; rounded && r < height; r++) {
        parts.push_back(m.parts_of(r));
    }
    for (int64_t c = 0; c < count; c++) {
        std::vector<double> taken;
        for (int64_t i = 0; i < n; i++) {
            taken.push_back(x[c][i]);
            if (rounded) {
                const float scale = scale_of(format, quantized[c], i / 32);
                taken[i] = (double) number_of(format, quantized[c], i / 32, i % 32) * scale;
                if (std::fabs(taken[i] - x[c][i]) > scale * 0.5001) {
                    fail("activation %.9g rounded to %.9g", x[c][i], taken[i]);
                }
            }
        }
        for (int64_t r = 0; r < height; r++) {
            double want = 0, size = 0;
            for (int64_t i = 0; i < n; i++) {
                want += m.values[r * n + i] * taken[i];
                size += std::fabs(m.sizes[r * n + i] * taken[i]);
            }
            close_to("product", out[c][r], want, size * 3e-6 + 1e-37);
            if (rounded) {
                close_to("product in order", out[c][r], in_order(format, parts[r], quantized[c]), 0);
            }
        }
        if (!std::isnan(out[c][height])) {
            fail("a value was written behind the %d rows", (int) height);
        }
        out[c].pop_back();
        digest(rounded ? quantized_bits : other_bits, out[c].data(), out[c].size());
        // Alone, and in two pieces.
        std::vector<float> alone(height);
        float * to = alone.data();
        const int64_t cut = below((int) height + 1);
        multiply(0, cut, c, 1, &to);
        multiply(cut, height, c, 1, &to);
        same("product alone", alone, out[c]);
    }
    if (!rounded || !own->worth) {
        return;
    }
    // From bundles, in two pieces.
    const bundles all(quantized, n, format);
    std::vector<std::vector<float>> again(count, std::vector<float>(height + 1, NAN));
    std::vector<float *>            to;
    for (auto & column : again) {
        to.push_back(column.data());
    }
    const int64_t cut = below((int) height + 1);
    own->multiply_bundles(m.r, 0, cut, all.data(), quantized.data(), to.data(), count);
    own->multiply_bundles(m.r, cut, height, all.data(), quantized.data(), to.data(), count);
    for (int64_t c = 0; c < count; c++) {
        if (!std::isnan(again[c][height])) {
            fail("a value was written behind the %d rows of a bundle", (int) height);
        }
        again[c].pop_back();
        same("product of a bundle", again[c], out[c]);
    }
}

// Every scale is taken as it is, also below the normal numbers: the products are powers of two, and exact.
void check_scales() {
    block b[16]; // a column with one value
    const auto fill = [&](const matrix & m, int power) {
        float x[256];
        std::fill(x, x + 256, std::ldexp(127.0f, power));
        own->quantize(x, m.r.n, m.r.format, b);
    };
    const auto product = [&](matrix & m, int power, double want, int most, bool in_bundles) {
        std::vector<const block *> columns(40);
        float out[40], * to[40];
        for (int c = 0; c < 40; c++) {
            columns[c] = b;
            to[c] = &out[c];
        }
        for (const int count : {1, most}) {
            own->multiply_quantized(m.r, 0, 1, columns.data(), to, count);
            for (int c = 0; c < count; c++) {
                close_to("product with a scale", out[c], want * std::ldexp(127.0, power), 0);
            }
        }
        if (own->worth && in_bundles) {
            const bundles all(columns, m.r.n, m.r.format);
            std::fill(out, out + 40, NAN);
            own->multiply_bundles(m.r, 0, 1, all.data(), columns.data(), to, 40);
            for (int c = 0; c < 40; c++) {
                close_to("product of a bundle with a scale", out[c], want * std::ldexp(127.0, power), 0);
            }
        }
    };
    matrix m = make(rows::mxfp4, 1, 32, false);
    for (int e = 0; e < 256; e++) {
        char * p = m.bytes.data();
        p[0] = (char) e;
        std::fill(p + 1, p + 17, 0x22); // ones
        const int power = e < 128 ? 60 : -90;
        fill(m, power);
        product(m, power, std::ldexp(32.0, e - 127), 40, true);
    }
    // Blocks of ones, whose parts have the scale 1 and the minimum 0.
    const auto ones = [](enum rows::format format, char * p) {
        const int64_t bytes = layout_of(format)->bytes;
        std::memset(p, 0, bytes);
        switch (format) {
        case rows::q8_0: std::memset(p + 2, 1, bytes - 2); break;
        case rows::q4_0: std::memset(p + 2, 0x99, bytes - 2); break;
        case rows::q4_k: std::memset(p + 4, 1, 4), std::memset(p + 12, 1, 4), std::memset(p + 16, 0x11, 128); break;
        case rows::q5_k: std::memset(p + 4, 1, 4), std::memset(p + 12, 1, 4), std::memset(p + 48, 0x11, 128); break;
        case rows::q6_k: std::memset(p, 0x11, 128), std::memset(p + 128, 0xaa, 64), std::memset(p + 192, 1, 16); break;
        case rows::iq4_xs: std::memset(p + 2, 0xaa, 2), std::memset(p + 4, 0x11, 4), std::memset(p + 8, 0x88, 128); break;
        default: std::memset(p + 2, 0x88, bytes - 2);
        }
    };
    for (const layout & l : layouts) {
        if (l.format == rows::mxfp4) {
            continue;
        }
        m = make(l.format, 1, l.weights, false);
        ones(l.format, m.bytes.data());
        fill(m, -10);
        // All half floats for two formats; every fifth for the others, which read them the same way.
        for (int h = 0; h < 0x10000; h += l.format == rows::q8_0 || l.format == rows::q4_k ? 1 : 5) {
            if ((h & 0x7c00) != 0x7c00) {
                const uint16_t scale = (uint16_t) h;
                std::memcpy(m.bytes.data() + (l.format == rows::q6_k ? 208 : 0), &scale, 2);
                // Emulated tiles take long.
                product(m, -10, l.weights * from_half(scale), h % 9 == 0 ? 40 : 1, h % 97 == 0);
            }
        }
    }
}

// Activations become bytes from -127 to 127, even those so small that dividing 127 by them gives infinity.
void check_smallest() {
    for (float size = 1e-30f; size > 0; size /= 2) {
        float x[32];
        for (int i = 0; i < 32; i++) {
            x[i] = i % 2 ? size : -size;
        }
        for (const layout & l : layouts) {
            block b[2];
            own->quantize(x, 32, l.format, b);
            const int most = own->blocks(l.format) == 1 ? 127 : 255;
            for (int i = 0; i < 32; i++) {
                const int number = number_of(l.format, b, 0, i);
                if (std::abs(number) > most || (i % 2 ? number < 0 : number > 0)) {
                    fail("activation %.9g became %d", x[i], number);
                }
            }
        }
    }
}

void check_elementwise() {
    const float alpha = 1.702f, limit = 7;
    for (const float size : {0.1f, 1.0f, 10.0f, 1000.0f}) {
        float x[32], y[32], out[32];
        for (int i = 0; i < 32; i++) {
            x[i] = normal() * size, y[i] = normal() * size;
        }
        own->gate(x, y, alpha, limit, 32, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 32; i++) {
            const double g = std::min(x[i], limit), u = std::clamp(y[i], -limit, limit);
            const double want = g / (1 + std::exp(-(double) alpha * g)) * (u + 1);
            close_to("gate", out[i], want, std::fabs(want) * 1e-5 + 1e-30);
        }
        own->swiglu(x, y, 32, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 32; i++) {
            const double want = x[i] / (1 + std::exp(-(double) x[i])) * y[i];
            // The power of e is limited to e to the 80th.
            close_to("swiglu", out[i], want, std::fabs(want) * 1e-5 + 1e-33 * std::fabs((double) x[i] * y[i]) + 1e-30);
        }
        own->softmax(x, 32, alpha, out);
        digest(other_bits, out, 32);
        double shares = 0, highest = -INFINITY;
        for (int i = 0; i < 32; i++) {
            highest = std::max(highest, (double) x[i] * alpha);
        }
        for (int i = 0; i < 32; i++) {
            shares += std::exp(x[i] * (double) alpha - highest);
        }
        for (int i = 0; i < 32; i++) {
            const double want = std::exp(x[i] * (double) alpha - highest) / shares;
            close_to("softmax", out[i], want, want * (1e-5 + std::fabs(highest) * 1e-6) + 1e-30);
        }
        own->normalize(x, 32, 1e-5f, out);
        digest(other_bits, out, 32);
        double squares = 0;
        for (int i = 0; i < 32; i++) {
            squares += (double) x[i] * x[i];
        }
        for (int i = 0; i < 32; i++) {
            const double want = x[i] / std::sqrt(squares / 32 + 1e-5);
            close_to("normalize", out[i], want, std::fabs(want) * 1e-6);
        }
        float turns[32];
        for (int i = 0; i < 16; i++) {
            const float angle = normal() * 100;
            turns[i] = std::cos(angle), turns[16 + i] = std::sin(angle);
        }
        own->rotate(x, turns, 16, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 16; i++) {
            close_to("rotate, first", out[i], (double) x[i] * turns[i] - (double) x[16 + i] * turns[16 + i],
                size * 1e-6);
            close_to("rotate, second", out[16 + i], (double) x[i] * turns[16 + i] + (double) x[16 + i] * turns[i],
                size * 1e-6);
        }
        own->add(x, y, 32, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 32; i++) {
            close_to("add", out[i], x[i] + y[i], 0);
        }
        own->scale(x, 0.75f, 32, out);
        digest(other_bits, out, 32);
        for (int i = 0; i < 32; i++) {
            close_to("scale", out[i], x[i] * 0.75f, 0);
        }
    }
}

constexpr int64_t a_lot = 1 << 30; // of work, worth waking helpers for

// Several threads use the team at once. Every piece must run once, before run returns.
void check_team() {
    team::grow(3);
    std::vector<std::thread> callers;
    for (int t = 0; t < 3; t++) {
        callers.emplace_back([] {
            for (int n = 0; n < 3000; n++) {
                struct job {
                    std::vector<int> done;
                } j = {std::vector<int>(n % 50)};
                const auto count = [](void * data, int64_t first, int64_t last) {
                    for (; first < last; first++) {
                        ((job *) data)->done[first]++;
                    }
                };
                team::run(n % 50, n % 3 != 0 ? a_lot : 0, count, &j);
                for (const int d : j.done) {
                    if (d != 1) {
                        fail("a piece was done %d times", d);
                    }
                }
                if (n % 1000 == 999) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(5)); // long enough for the helpers to sleep
                }
            }
        });
    }
    for (auto & c : callers) {
        c.join();
    }
}

// Helpers take part, and a call in which a piece throws ends like any other.
void check_help() {
    const std::thread::id   caller = std::this_thread::get_id();
    static std::atomic<int> helped{0};
    const auto              end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int n = 0; helped.load() < 10; n++) {
        if (std::chrono::steady_clock::now() > end) {
            fail("helpers took part in %d pieces of %d calls", helped.load(), n);
        }
        const bool thrown = n % 3 == 0;
        struct job {
            std::thread::id caller;
            bool            thrown;
        } j = {caller, thrown};
        bool caught = false;
        try {
            team::run(64, a_lot, [](void * data, int64_t first, int64_t last) {
                const job & own = *(const job *) data;
                if (std::this_thread::get_id() != own.caller) {
                    helped.fetch_add((int) (last - first));
                } else if (own.thrown) {
                    throw 1;
                }
                std::this_thread::sleep_for(std::chrono::microseconds(10 * (last - first)));
            }, &j);
        } catch (int) {
            caught = true;
        }
        if (caught && !thrown) {
            fail("a call threw that should not have");
        }
    }
}

// The caller takes its share, a fourth with three helpers, from the front and in order. Helpers that have no more work
// of their own take the rest of it from the back.
void check_order() {
    constexpr int share = 16;
    int           helped = 0;
    const auto    end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (helped < 10) {
        if (std::chrono::steady_clock::now() > end) {
            fail("helpers took pieces of the caller's share in %d calls", helped);
        }
        struct job {
            std::thread::id caller = std::this_thread::get_id();
            int64_t         next = 0;
            bool            broken = false;
        } j;
        team::run(4 * share, a_lot, [](void * data, int64_t first, int64_t last) {
            job & own = *(job *) data;
            const bool caller = std::this_thread::get_id() == own.caller;
            if (caller && first < share) {
                own.broken |= first != own.next;
                own.next = last;
            }
            // Not much slower than helpers, so that the caller goes on after they took some of its share.
            std::this_thread::sleep_for(std::chrono::microseconds((caller ? 40 : 20) * (last - first)));
        }, &j);
        if (j.broken) {
            fail("the caller did not take its share in order");
        }
        helped += j.next < share;
    }
}

// outcome counts a call's pieces that helpers ran.
struct outcome {
    const std::thread::id            caller = std::this_thread::get_id();
    const std::chrono::microseconds  own, helpers; // how long a piece takes on the caller and on helpers
    std::atomic<int>                 helped{0};

    outcome(int own, int helpers) : own(own), helpers(helpers) {}
    void run(int64_t pieces) {
        team::run(pieces, a_lot, [](void * data, int64_t first, int64_t last) {
            outcome & o = *(outcome *) data;
            const bool help = std::this_thread::get_id() != o.caller;
            for (; first < last; first++) {
                o.helped += help;
                std::this_thread::sleep_for(help ? o.helpers : o.own);
            }
        }, this);
    }
};

// A wait of a few large pieces does not count as a helper's loss of its processor, so the next call is helped too. A
// wait of many small pieces does: the caller is then alone for at least as long.
void check_patience() {
    constexpr int calls = 20, pieces = 16;
    int most = 0;
    for (int i = 0; i < 20 && most * 5 < calls * pieces * 2; i++) { // beside other work some runs are disturbed
        outcome large(1000, 3000);
        for (int n = 0; n < calls; n++) {
            large.run(pieces);
        }
        most = std::max(most, large.helped.load());
    }
    if (most * 5 < calls * pieces * 2) {
        fail("helpers took %d of %d large pieces", most, calls * pieces);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
        outcome slow(10, 50000);
        slow.run(pieces);
        if (slow.helped == 0) {
            if (std::chrono::steady_clock::now() > end) {
                fail("helpers took no piece");
            }
            continue;
        }
        outcome next(10, 10);
        next.run(pieces);
        if (next.helped != 0) {
            fail("helpers took %d pieces of the call after a long wait", next.helped.load());
        }
        return;
    }
}

// shares is how the time of a caller passes: in waits and in rests.
struct shares {
    double waits, rests;
};

// shares_of computes them for a caller whose helper is away for so long, once in every period. The caller needs it all
// the time, and learns at once that it is away. A rest ends with a piece.
shares shares_of(std::chrono::microseconds away, std::chrono::microseconds period) {
    using clock = team::rests::clock;
    constexpr std::chrono::microseconds piece{50}, shortest{100}; // waits that are shorter begin no rest
    const clock::duration all = std::max<clock::duration>(std::chrono::seconds(60), 100 * period);
    team::rests own;
    clock::time_point begin{std::chrono::hours(1)}, now = begin;
    const auto time = [&] { return now; };
    clock::duration waits{}, resting{};
    while (now - begin < all) {
        const clock::duration at = (now - begin) % period;
        if (own.resting(time)) {
            now += piece, resting += piece;
        } else if (at < away) {
            const clock::time_point began = now;
            now += away - at;
            waits += now - began;
            if (now - began > shortest) {
                own.waited(began, now);
            }
        } else {
            now += period - at;
        }
    }
    return {(double) waits.count() / (now - begin).count(), (double) resting.count() / (now - begin).count()};
}

// Where a helper is away nearly half of the time or more, short waits take at most a fiftieth of the time. Where it is
// there most of the time, the caller rests about as long as it waits. With a helper that makes it 1.6 times as fast, it
// does at least 0.94 times as much as alone, and 0.85 times if waits take up to a tenth of a second.
void check_rests() {
    using namespace std::chrono;
    team::rests fresh;
    if (fresh.resting([]() -> team::rests::clock::time_point { std::abort(); })) {
        fail("a caller that never waited rests");
    }
    team::rests::clock::time_point now{hours(100)};
    for (int i = 0; i < 100; i++) {
        fresh.waited(now, now + hours(1));
        now += hours(1) + seconds(1);
        if (fresh.resting([&] { return now; })) {
            fail("the caller rests for more than a second");
        }
    }
    for (const microseconds away : {200us, 1000us, 4000us, 10000us, 40000us, 100000us}) {
        // The longest rest is ten times the longest of these waits.
        const bool short_wait = away <= 10000us;
        for (double more = 1.01; more < 1000; more *= 1.1) {
            const microseconds period((int64_t) ((double) away.count() * more));
            const shares s = shares_of(away, period);
            const auto check = [&](bool ok, const char * what) {
                if (!ok) {
                    fail("away %d us of %d us: %s (waits %.4f of the time, rests %.4f)", (int) away.count(),
                        (int) period.count(), what, s.waits, s.rests);
                }
            };
            if (more < 2.5) {
                check(s.waits < (short_wait ? 0.02 : 0.11), "it waits too much");
            }
            if (more > 4.5) {
                check(s.rests < 1.1 * s.waits, "it rests too much");
            }
            const double work = s.rests + 1.6 * (1 - s.rests - s.waits);
            check(work > (short_wait ? 0.94 : 0.85), "it does less than alone");
        }
    }
}

// Small calls keep no helper awake: during them one processor is busy.
void check_sleep() {
    using clock = std::chrono::steady_clock;
    const auto call = [](int64_t work) { team::run(4, work, [](void *, int64_t, int64_t) {}, nullptr); };
    const auto calls = [&](int milliseconds) {
        for (const auto end = clock::now() + std::chrono::milliseconds(milliseconds); clock::now() < end;) {
            call(1);
        }
    };
    for (int i = 0; i < 5; i++) {
        call(a_lot);
        calls(50);
        const auto began = clock::now();
        const std::clock_t used = std::clock();
        calls(50);
        const double wall = std::chrono::duration<double>(clock::now() - began).count(),
            cpu = (double) (std::clock() - used) / CLOCKS_PER_SEC;
        if (cpu > 1.5 * wall) {
            fail("%.3f s of processors in %.3f s of small calls", cpu, wall);
        }
    }
}

void check() {
    source.seed(1);
    odd = false;
    quantized_bits = other_bits = 0xcbf29ce484222325;
    for (const int64_t n : {32, 96, 160, 512, 832}) {
        for (const int64_t count : {1, 2, 3, 6, 8, 15, 21, 37}) {
            for (const int64_t height : {1, 13, 34}) {
                check_products(rows::f32, height, n, count);
                check_products(rows::f16, height, n + 16, count);
                check_products(rows::bf16, height, n + 16, count);
                for (const layout & l : layouts) {
                    const int64_t whole = (n + l.weights - 1) / l.weights * l.weights;
                    check_products(l.format, height, whole, count);
                    check_products(l.format, height, whole, count, true);
                }
                odd = !odd;
            }
        }
    }
    for (const int64_t size : {32, 64, 96, 128, 256}) {
        for (const int64_t group : {1, 2, 7, 8, 16}) {
            for (const int64_t cells : {1, 16, 17, 65, 170}) {
                const int shared = 1 + below(2); // compilers evaluate arguments in any order
                const std::vector<float> out = check_attention(size, group, shared, cells, below(2) == 0);
                digest(other_bits, out.data(), out.size());
            }
        }
    }
    check_together();
    check_whole_numbers();
    check_halves();
    check_tail();
    check_elementwise();
    check_smallest();
    check_scales();
}

} // namespace

int main(int, char ** argv) {
    const auto asked = [&](const char * what) { return argv[1] && std::strcmp(argv[1], what) == 0; };
    if (!argv[1] || asked("team")) {
        check_team();
        check_help();
        check_order();
        check_rests();
        check_patience();
        check_sleep();
    }
    if (asked("team")) {
        return 0;
    }
    for (const set * const * s = sets; *s; s++) {
        if (!(*s)->supported()) {
            continue;
        }
        own = *s;
        if (asked("names")) {
            std::puts(own->instructions);
        } else if (!argv[1] || asked(own->instructions)) {
            check();
            std::printf("%s: %016" PRIx64 " %016" PRIx64 "\n", own->instructions, quantized_bits, other_bits);
        }
    }
}
