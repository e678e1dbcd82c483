// Products of many columns with tiles: AMX multiplies 16 rows by 16 columns at a time.
//
// The results are the same, to the bit, as those of AVX-512 VNNI with the same blocks of activations.

#include "amx.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#define KERNEL_TARGET AVX512_TARGET
#include "target.h"

#include "reading.h"

#include "lanes.h"
#include "rows.h"

namespace kernels {

namespace {

using ints = __m512i;
using floats = __m512;

constexpr int64_t height = 16, width = 16; // rows and columns of a product of tiles

#ifdef RUNNER_TILES_EMULATED
#include "testdata/tiles.h"
#else
// Instructions on tiles. Compilers neither keep tiles across functions nor order their own functions for tiles after
// plain stores, so these are statements of assembly that touch memory. T, A, B and C are numbers of tiles.
template <int T> INLINE void clear() { __asm__ volatile("tilezero %%tmm%c0" : : "i"(T) : "memory"); }
template <int T> INLINE void load(const void * p, int64_t stride) {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(T), "r"(p), "r"(stride) : "memory");
}
template <int T> INLINE void store(void * p, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(T), "r"(p), "r"(stride) : "memory");
}
// add_bytes adds to C the products of the signed bytes of A and B, and add_floats those of bfloat16.
template <int C, int A, int B> INLINE void add_bytes() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B) : "memory");
}
template <int C, int A, int B> INLINE void add_floats() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B) : "memory");
}
inline void configure(const void * sizes) {
    __asm__ volatile("ldtilecfg %0" : : "m"(*(const char (*)[64]) sizes) : "memory");
}
inline void release() { __asm__ volatile("tilerelease" : : : "memory"); }
#endif

// shapes are the sizes of the eight tiles. A thread has its own, and only while it computes: a thread with tiles is
// slower to switch from.
class shapes {
    struct alignas(64) {
        uint8_t  palette = 1, start = 0, reserved[14] = {};
        uint16_t bytes[16] = {}; // of a row
        uint8_t  rows[16] = {};
    } sizes;

  public:
    void set(int tile, int rows, int bytes) { sizes.rows[tile] = (uint8_t) rows, sizes.bytes[tile] = (uint16_t) bytes; }
    void begin() const { configure(&sizes); }
    ~shapes() { release(); }
};

// Bytes, for all formats but MXFP4. Rows of A are columns of activations, and columns of B are rows of weights, so a
// tile has the products of one block of activations each. They are stored and added up as AVX-512 VNNI does.

// number_bundle is a block of each of 16 columns.
struct alignas(64) number_bundle {
    int8_t x[width][32];
    float  scale[width], sum[width];
};

// Weights stay signed.
template <typename B, int offset_, int sums_ = 1, bool minimum_ = false> struct signed_weights : B {
    static constexpr int  sums = sums_, offset = offset_;
    static constexpr bool minimum = minimum_;
};
using q4_0_weights = signed_weights<q4_0_blocks, 8>;
using iq4_nl_weights = signed_weights<iq4_nl_blocks<0>, 0>;
using q8_0_weights = signed_weights<q8_0_blocks, 0>;
using q4_k_weights = signed_weights<q4_k_blocks, 0, 1, true>;
using q5_k_weights = signed_weights<q5_k_blocks, 0, 1, true>;
using q6_k_weights = signed_weights<q6_k_blocks, 32, 2>;
using iq4_xs_weights = signed_weights<iq4_xs_blocks<0>, 0>;

// panel is a block of each of 16 rows.
template <typename W> struct alignas(64) panel {
    int32_t w[block_vectors][height]; // four weights each
    float   factor[W::factors][height];
};

template <typename W>
KERNEL void fill(const weight_reader<W> & reader, int64_t blocks, panel<W> * to, int64_t first) {
    reader.each(blocks, [&](int64_t, const ints8 (&w)[block_vectors], const floats8 * factor) INLINED {
        UNROLL for (int j = 0; j < block_vectors; j++) {
            const ints8 v = W::offset == 0 ? w[j] : _mm256_sub_epi8(w[j], bytes_of(W::offset));
            _mm256_storeu_si256((ints8 *) (to->w[j] + first), v);
        }
        UNROLL for (int i = 0; i < W::factors; i++) {
            _mm256_storeu_ps(to->factor[i] + first, factor[i]);
        }
        to++;
    });
}

// The tiles: weights, then activations and products of 16 columns, and the same for up to eight.
enum { weights, columns_16, products_16, columns_8, products_8 };

template <typename W> KERNEL void number_shapes(shapes & s) {
    constexpr int bytes = 32 / W::sums;
    s.set(weights, bytes / 4, 64);
    s.set(columns_16, 16, bytes);
    s.set(products_16, 16, 64);
    s.set(columns_8, 8, bytes);
    s.set(products_8, 8, 64);
    s.begin();
}

// Products are added up this many blocks later, when they have been stored.
constexpr int64_t later = 3;

// number_tile multiplies 16 rows with up to C columns, 8 or 16.
template <typename W, int C>
KERNEL void number_tile(const panel<W> * p, const number_bundle * x, int64_t blocks, int64_t row, int64_t rows,
    float * const * out, int64_t count) {
    constexpr int columns = C == 16 ? columns_16 : columns_8, products = C == 16 ? products_16 : products_8;
    alignas(64) int32_t stored[later + 1][W::sums][C][height];
    floats acc[C];
    UNROLL for (int c = 0; c < C; c++) {
        acc[c] = _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < blocks + later; i++) {
        if (i < blocks) {
            UNROLL for (int s = 0; s < W::sums; s++) {
                clear<products>();
                load<weights>(p[i].w[s * block_vectors / W::sums], 64);
                load<columns>(x[part_of<W>(i)].x[0] + s * 16, 32);
                add_bytes<products, columns, weights>();
                store<products>(stored[i % (later + 1)][s], 64);
            }
        }
        const int64_t b = i - later;
        if (b < 0) {
            continue;
        }
        const number_bundle & own = x[part_of<W>(b)];
        UNROLL for (int s = 0; s < W::sums; s++) {
            const floats factor = _mm512_load_ps(p[b].factor[s]);
            const int32_t(&sums)[C][height] = stored[b % (later + 1)][s];
            UNROLL for (int c = 0; c < C; c++) {
                const floats sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[c]));
                acc[c] = _mm512_fmadd_ps(sum, factor * _mm512_set1_ps(own.scale[c]), acc[c]);
            }
        }
        if constexpr (W::minimum) {
            const floats minimum = _mm512_load_ps(p[b].factor[1]);
            UNROLL for (int c = 0; c < C; c++) {
                acc[c] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(own.sum[c]), acc[c]);
            }
        }
    }
    const __mmask16 there = (__mmask16) ((1u << rows) - 1);
    UNROLL for (int c = 0; c < C; c++) {
        if (c < count) {
            _mm512_mask_storeu_ps(out[c] + row, there, acc[c]);
        }
    }
}

template <typename W>
KERNEL void number_products(const rows & w, int64_t first, int64_t last, const char * bundles, float * const * out,
    int64_t count) {
    static thread_local std::vector<panel<W>> weights;
    const int64_t blocks = w.n / 32;
    if ((int64_t) weights.size() < blocks) {
        weights.resize(blocks);
    }
    row_source<W> source(w, last);
    shapes own;
    number_shapes<W>(own);
    for (; first < last; first += height) {
        const int64_t rows = std::min(height, last - first);
        for (int64_t r = 0; r < rows; r += 8) {
            fill(source.at(first + r), blocks, weights.data(), r);
        }
        const number_bundle * x = (const number_bundle *) bundles;
        for (int64_t c = 0; c < count; c += width, x += blocks) {
            const auto tile = count - c > 8 ? number_tile<W, 16> : number_tile<W, 8>;
            tile(weights.data(), x, blocks, first, rows, out + c, std::min(width, count - c));
        }
    }
}

// bundle_numbers leaves out columns as zeros.
void bundle_numbers(const block * const * columns, int64_t count, int64_t blocks, number_bundle * to) {
    for (int64_t b = 0; b < blocks; b++, to++) {
        for (int64_t c = 0; c < count; c++) {
            std::memcpy(to->x[c], columns[c][b].x, 32);
            to->scale[c] = columns[c][b].scale;
            to->sum[c] = columns[c][b].sum; // of formats with a minimum only
        }
        std::memset(to->x[count], 0, (width - count) * 32);
        std::fill(to->scale + count, to->scale + width, 0.0f);
        std::fill(to->sum + count, to->sum + width, 0.0f);
    }
}

// with_numbers calls f with a format's weights.
template <typename F> void with_numbers(enum rows::format format, F f) {
    switch (format) {
    case rows::q4_0: f(q4_0_weights{}); break;
    case rows::iq4_nl: f(iq4_nl_weights{}); break;
    case rows::q8_0: f(q8_0_weights{}); break;
    case rows::q4_k: f(q4_k_weights{}); break;
    case rows::q5_k: f(q5_k_weights{}); break;
    case rows::q6_k: f(q6_k_weights{}); break;
    case rows::iq4_xs: f(iq4_xs_weights{}); break;
    default: break; // not such a format
    }
}

// Bfloat16, for MXFP4. A weight with its scale is exact in it, and so is an activation: nine bits with a power of two.
// The products of a block of 32 and their sum are exact in single precision, so one instruction adds a block to what a
// tile holds, rounded once: what a fused operation does.

// float_bundle is 16 columns. The powers are those of the smallest and the largest scale of a block that has a number
// other than zero.
struct alignas(64) float_bundle {
    int32_t least, most;
    struct alignas(64) block {
        int32_t x[16][width]; // two activations each
    };
    const block * blocks() const { return (const block *) (this + 1); }
    block *       blocks() { return (block *) (this + 1); }
    static size_t size(int64_t n) { return sizeof(float_bundle) + n * sizeof(block); }
};

// scaled is the bits of the floats of 16 activations of nine bits.
INLINE ints scaled(const int8_t * high, const int8_t * low, floats scale) {
    const ints h = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) high));
    const ints l = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) low));
    return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(h, h), l)) * scale);
}

KERNEL void bundle_floats(const block * const * columns, int64_t count, int64_t blocks, float_bundle * to) {
    int32_t least = INT32_MAX, most = INT32_MIN;
    // Of two vectors of floats, the upper halves in the order of the numbers.
    alignas(64) static const int16_t upper[32] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37,
        39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const ints order = _mm512_load_si512(upper);
    for (int64_t b = 0; b < blocks; b++) {
        ints v[16];
        UNROLL for (int c = 0; c < 16; c++) {
            v[c] = _mm512_setzero_si512();
            if (c < count) {
                const tiles::pair & x = *(const tiles::pair *) (columns[c] + 2 * b);
                const floats scale = _mm512_set1_ps(x[0].scale);
                const ints first = scaled(x[0].x, x[1].x, scale), second = scaled(x[0].x + 16, x[1].x + 16, scale);
                v[c] = _mm512_permutex2var_epi16(first, order, second);
                if (_mm512_test_epi32_mask(v[c], v[c]) != 0) {
                    int32_t bits;
                    std::memcpy(&bits, &x[0].scale, sizeof bits);
                    least = std::min(least, (bits >> 23) - 127), most = std::max(most, (bits >> 23) - 127);
                }
            }
        }
        transpose(v);
        UNROLL for (int i = 0; i < 16; i++) {
            _mm512_store_si512(to->blocks()[b].x[i], v[i]);
        }
    }
    to->least = least, to->most = most;
}

// decoder turns blocks of MXFP4 into bfloat16.
struct decoder {
    alignas(64) uint16_t values[32], shifts[32]; // the values of four bits twice, and which bits each number has
    struct entry {
        uint32_t power; // what is added to the values' bits, twice
        uint32_t range; // a bit for every eight exponents
    } entries[256];

    decoder() {
        static const float half_steps[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
        for (int i = 0; i < 32; i++) {
            uint32_t bits;
            std::memcpy(&bits, &half_steps[i % 8], sizeof bits);
            values[i] = (uint16_t) (i % 8 == 0 ? 0 : bits >> 16 | (i % 16 >= 8 ? 0x8000 : 0));
            shifts[i] = i < 16 ? 0 : 4;
        }
        for (int e = 0; e < 256; e++) {
            entries[e].power = (uint16_t) ((e - 127) * 128) * 0x10001u;
            entries[e].range = 1u << e / 8;
        }
    }
};

const decoder tables;

// strip is 32 rows of weights, of which some blocks are decoded at a time, while the tiles multiply those before.
constexpr int64_t strip = 32, some_blocks = 8, most_bundles = 8;

struct strip_state {
    alignas(64) uint16_t weights[2][some_blocks][2][height][32]; // [in turns][block][half of the rows]
    alignas(64) float    products[most_bundles][2][height][width];
};

// decode decodes eight rows of a block, the first of them at p, and notes the exponents.
INLINE void decode(const char * p, int64_t stride, uint16_t (*to)[32], uint32_t & range) {
    const ints values = _mm512_load_si512(tables.values), shifts = _mm512_load_si512(tables.shifts);
    UNROLL for (int r = 0; r < 8; r++, p += stride) {
        const decoder::entry & e = tables.entries[(uint8_t) *p];
        const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) (p + 1)));
        const ints number = _mm512_srlv_epi16(_mm512_cvtepu8_epi16(bytes), shifts);
        // Zeros stay zeros.
        const ints scaled = _mm512_maskz_add_epi16(0xfefefefe, values, _mm512_set1_epi32((int32_t) e.power));
        _mm512_store_si512(to[r], _mm512_permutexvar_epi16(number, scaled));
        range |= e.range;
    }
}

// work decodes the blocks that come next, eight rows at a time.
struct work {
    const char * data; // of the strip
    int64_t      stride, first, count, done = 0; // blocks, and times eight rows
    uint16_t (*to)[2][height][32];

    INLINE bool left() const { return done < count * 4; }
    INLINE void some(uint32_t & range) {
        const int64_t b = done / 4, r = done % 4 * 8;
        const char * p = data + r * stride + (first + b) * mxfp4_block;
        decode(p, stride, to[b][r / 16] + r % 16, range);
        // The next strip is asked for, into the second cache.
        const char * next = data + strip * stride + ((first + b) * strip + r) * mxfp4_block;
        __builtin_prefetch(next, 0, 2);
        __builtin_prefetch(next + 64, 0, 2);
        done++;
    }
};

enum { first_rows, second_rows, first_columns, second_columns, product_11, product_12, product_21, product_22 };

// step multiplies some blocks of a strip with one or two bundles, and decodes more blocks meanwhile.
template <bool two>
KERNEL void step(strip_state & st, int turn, int64_t count, bool begin, const float_bundle::block * x,
    const float_bundle::block * y, float (*products)[2][height][width], work & next, int64_t each, uint32_t & range) {
    if (begin) {
        clear<product_11>(), clear<product_21>();
        if constexpr (two) {
            clear<product_12>(), clear<product_22>();
        }
    } else {
        load<product_11>(products[0][0], 64), load<product_21>(products[0][1], 64);
        if constexpr (two) {
            load<product_12>(products[1][0], 64), load<product_22>(products[1][1], 64);
        }
    }
    for (int64_t b = 0; b < count; b++) {
        load<first_rows>(st.weights[turn][b][0], 64);
        load<first_columns>(x[b].x, 64);
        add_floats<product_11, first_rows, first_columns>();
        load<second_rows>(st.weights[turn][b][1], 64);
        add_floats<product_21, second_rows, first_columns>();
        if constexpr (two) {
            load<second_columns>(y[b].x, 64);
            add_floats<product_12, first_rows, second_columns>();
            add_floats<product_22, second_rows, second_columns>();
        }
        for (int64_t i = 0; i < each && next.left(); i++) {
            next.some(range);
        }
    }
    store<product_11>(products[0][0], 64), store<product_21>(products[0][1], 64);
    if constexpr (two) {
        store<product_12>(products[1][0], 64), store<product_22>(products[1][1], 64);
    }
}

// float_strip multiplies 32 rows with some bundles. It returns false if an exponent could be too large or too small.
KERNEL bool float_strip(strip_state & st, const char * data, int64_t stride, int64_t blocks, const char * bundles,
    int64_t count) {
    const size_t size = float_bundle::size(blocks);
    const auto at = [&](int64_t i) { return (const float_bundle *) (bundles + i * size); };
    const int64_t pairs = (count + 1) / 2, each = (4 + pairs - 1) / pairs;
    uint32_t range = 0;
    work next = {data, stride, 0, std::min(some_blocks, blocks), 0, st.weights[0]};
    while (next.left()) {
        next.some(range);
    }
    int turn = 0;
    for (int64_t b = 0; b < blocks; b += some_blocks, turn ^= 1) {
        const int64_t here = std::min(some_blocks, blocks - b), rest = blocks - b - here;
        next = {data, stride, b + here, std::min(some_blocks, rest), 0, st.weights[turn ^ 1]};
        for (int64_t i = 0; i < count; i += 2) {
            const float_bundle::block * x = at(i)->blocks() + b;
            if (i + 1 < count) {
                step<true>(st, turn, here, b == 0, x, at(i + 1)->blocks() + b, st.products + i, next, each, range);
            } else {
                step<false>(st, turn, here, b == 0, x, x, st.products + i, next, each, range);
            }
        }
        while (next.left()) {
            next.some(range);
        }
    }
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (int64_t i = 0; i < count; i++) {
        least = std::min(least, at(i)->least), most = std::max(most, at(i)->most);
    }
    // A value of a block is from 1 to 12 times its scale, two to the power of e-128, and an activation from 1 to 255
    // times its own. No sum may be below the normal numbers or beyond the largest.
    const int  lower = 8 * __builtin_ctz(range), upper = 8 * (31 - __builtin_clz(range)) + 7;
    const bool numbers = lower >= 8 && upper < 248; // zeros times others would not be zeros
    return numbers && (least > most || // all activations are zero
                          (lower - 128 + least >= -126 && most <= 119 && upper - 128 + most <= 90));
}

KERNEL void put_turned(const float (&products)[height][width], int64_t row, int64_t rows, float * const * out,
    int64_t count) {
    ints v[16];
    UNROLL for (int i = 0; i < 16; i++) {
        v[i] = _mm512_load_si512(products[i]);
    }
    transpose(v);
    const __mmask16 there = (__mmask16) ((1u << rows) - 1);
    UNROLL for (int c = 0; c < 16; c++) {
        if (c < count) {
            _mm512_mask_storeu_epi32(out[c] + row, there, v[c]);
        }
    }
}

KERNEL void float_products(const rows & w, int64_t first, int64_t last, const char * bundles,
    const block * const * columns, float * const * out, int64_t count) {
    static thread_local std::vector<strip_state> kept(1);
    strip_state & st = kept[0];
    const int64_t blocks = w.n / 32, length = blocks * mxfp4_block;
    std::vector<char> padded;
    shapes own;
    for (int i = 0; i < 8; i++) {
        own.set(i, 16, 64);
    }
    own.begin();
    for (; first < last; first += strip) {
        const int64_t rows = std::min(strip, last - first);
        const char *  data = w.data + first * w.stride;
        int64_t       stride = w.stride;
        if (rows < strip) { // a copy with others
            padded.assign(strip * length, 127); // exponents of 1
            for (int64_t r = 0; r < rows; r++) {
                std::memcpy(padded.data() + r * length, data + r * stride, length);
            }
            data = padded.data(), stride = length;
        }
        for (int64_t c = 0; c < count; c += most_bundles * width) {
            const int64_t some = std::min(most_bundles * width, count - c), n = (some + width - 1) / width;
            if (!float_strip(st, data, stride, blocks, bundles + c / width * float_bundle::size(blocks), n)) {
                amx.multiply_quantized(w, first, first + rows, columns + c, out + c, some);
                continue;
            }
            for (int64_t i = 0; i < n; i++) {
                for (int64_t half = 0; half * height < rows; half++) {
                    put_turned(st.products[i][half], first + half * height, std::min(height, rows - half * height),
                        out + c + i * width, some - i * width);
                }
            }
        }
    }
}

} // namespace

namespace tiles {

[[gnu::cold]] bool supported() {
#ifdef RUNNER_TILES_EMULATED
    return avx512.supported();
#else
    unsigned a, b, c, d = 0;
    if (!avx512.supported() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return false;
    }
    const unsigned bfloats = 1 << 22, tiles = 1 << 24, bytes = 1 << 25;
    if ((d & (bfloats | tiles | bytes)) != (bfloats | tiles | bytes)) {
        return false;
    }
    // Linux gives a process the registers on request. It refuses where it or a supervisor does not keep them.
    constexpr long request = 0x1023, registers = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    static const bool granted = syscall(SYS_arch_prctl, request, registers) == 0;
    return granted;
#endif
}

// Below, taking weights apart for tiles costs more than it saves. Matrices of MXFP4 with short rows usually have few of
// them. A bundle, which costs as much however many rows there are, then pays only for more columns.
int64_t worth(enum rows::format format, int64_t n) {
    constexpr int64_t short_row = 1024;
    return format != rows::mxfp4 ? 9 : n < short_row ? 12 : 6;
}

size_t size(enum rows::format format, int64_t n) {
    return format == rows::mxfp4 ? float_bundle::size(n / 32) : n / 32 * sizeof(number_bundle);
}

void bundle(const block * const * columns, int64_t count, int64_t n, enum rows::format format, char * out) {
    if (format == rows::mxfp4) {
        bundle_floats(columns, count, n / 32, (float_bundle *) out);
    } else {
        bundle_numbers(columns, count, n / 32, (number_bundle *) out);
    }
}

void multiply(const rows & w, int64_t first, int64_t last, const char * bundles, const block * const * columns,
    float * const * out, int64_t count) {
    if (w.format == rows::mxfp4) {
        float_products(w, first, last, bundles, columns, out, count);
        return;
    }
    with_numbers(w.format, [&](auto weights) {
        number_products<decltype(weights)>(w, first, last, bundles, out, count);
    });
}

} // namespace tiles

} // namespace kernels

#elif defined(__x86_64__)

// Other systems than Linux do not offer tiles.
namespace kernels {

namespace tiles {

bool    supported() { return false; }
int64_t worth(enum rows::format, int64_t) { return 0; }
size_t  size(enum rows::format, int64_t) { return 0; }
void    bundle(const block * const *, int64_t, int64_t, enum rows::format, char *) {}
void    multiply(const rows &, int64_t, int64_t, const char *, const block * const *, float * const *, int64_t) {}

} // namespace tiles

} // namespace kernels

#endif
