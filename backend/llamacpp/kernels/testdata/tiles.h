// Instructions on tiles in plain C++, for processors without them and for sanitizers. amx.cpp includes it in
// place of its own.
//
// Each does what Intel's manual says: products of bfloat16 are added with one fused operation each, even and odd ones
// apart, and the two sums to the tile, rounded to nearest. Subnormal numbers count as zero.

// state is the tiles of a thread. A tile that was not shaped has no rows, so wrong numbers of tiles show.
struct state {
    uint8_t  rows[8] = {};
    uint16_t bytes[8] = {};
    alignas(64) uint8_t data[8][16][64];
};
inline thread_local state tiles_of_thread;

// The sums take most of a check's time, and touch nothing but tiles. So sanitizers leave them out.
#define UNCHECKED __attribute__((target("fma"), no_sanitize("address"), no_sanitize("undefined")))

inline void require(bool right) {
    if (!right) {
        __builtin_trap();
    }
}

inline void configure(const void * sizes) {
    const uint8_t * p = (const uint8_t *) sizes;
    require(p[0] == 1 && p[1] == 0);
    for (int t = 0; t < 8; t++) {
        std::memcpy(&tiles_of_thread.bytes[t], p + 16 + 2 * t, 2);
        tiles_of_thread.rows[t] = p[48 + t];
        require(tiles_of_thread.bytes[t] <= 64 && tiles_of_thread.rows[t] <= 16);
    }
}

inline void release() { tiles_of_thread = state(); }

template <int T> void clear() {
    require(tiles_of_thread.rows[T] > 0);
    std::memset(tiles_of_thread.data[T], 0, sizeof tiles_of_thread.data[T]);
}

template <int T> void load(const void * p, int64_t stride) {
    clear<T>();
    for (int r = 0; r < tiles_of_thread.rows[T]; r++) {
        std::memcpy(tiles_of_thread.data[T][r], (const char *) p + r * stride, tiles_of_thread.bytes[T]);
    }
}

template <int T> void store(void * p, int64_t stride) {
    require(tiles_of_thread.rows[T] > 0);
    for (int r = 0; r < tiles_of_thread.rows[T]; r++) {
        std::memcpy((char *) p + r * stride, tiles_of_thread.data[T][r], tiles_of_thread.bytes[T]);
    }
}

template <int C, int A, int B> void require_shapes() {
    const state & s = tiles_of_thread;
    require(s.rows[C] > 0 && s.rows[C] == s.rows[A] && s.bytes[A] == 4 * s.rows[B] && s.bytes[C] == s.bytes[B]);
}

template <int C, int A, int B> UNCHECKED void add_bytes() {
    require_shapes<C, A, B>();
    state & s = tiles_of_thread;
    for (int m = 0; m < s.rows[C]; m++) {
        int32_t sums[16];
        std::memcpy(sums, s.data[C][m], sizeof sums);
        for (int k = 0; k < s.bytes[A]; k++) {
            const int8_t   a = (int8_t) s.data[A][m][k];
            const int8_t * b = (const int8_t *) s.data[B][k / 4] + k % 4;
            for (int n = 0; n < s.bytes[C] / 4; n++) {
                sums[n] += a * b[4 * n];
            }
        }
        std::memcpy(s.data[C][m], sums, sizeof sums);
    }
}

UNCHECKED inline float normal_or_zero(float f) { return std::fabs(f) < 0x1p-126f ? std::copysign(0.0f, f) : f; }

// bfloat is the number in two bytes.
UNCHECKED inline float bfloat(const uint8_t * p) {
    const uint32_t bits = (uint32_t) p[0] << 16 | (uint32_t) p[1] << 24;
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return normal_or_zero(f);
}

template <int C, int A, int B> UNCHECKED void add_floats() {
    require_shapes<C, A, B>();
    state & s = tiles_of_thread;
    for (int m = 0; m < s.rows[C]; m++) {
        float all[16], sums[2][16] = {};
        std::memcpy(all, s.data[C][m], sizeof all);
        for (int k = 0; k < s.bytes[A] / 2; k++) {
            const float a = bfloat(s.data[A][m] + 2 * k);
            for (int n = 0; n < s.bytes[C] / 4; n++) {
                float & sum = sums[k % 2][n];
                sum = normal_or_zero(__builtin_fmaf(a, bfloat(s.data[B][k / 2] + 4 * n + 2 * (k % 2)), sum));
            }
        }
        for (int n = 0; n < s.bytes[C] / 4; n++) {
            all[n] = normal_or_zero(normal_or_zero(all[n]) + normal_or_zero(sums[0][n] + sums[1][n]));
        }
        std::memcpy(s.data[C][m], all, sizeof all);
    }
}
