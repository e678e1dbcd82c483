// Products of few columns with MXFP4 where it lies.
//
// A vector of 64 bytes holds four blocks of a row. One permutation leaves out the exponents between them, and two
// more look up 64 weights each. So a vector has one row, and a dot product the sums of four products each. Those of
// four rows are then added together. AVX-512 VNNI alone takes a block of eight rows at a time. That needs twice as
// many instructions for as many weights.
//
// The results are the same, to the bit, as those of AVX-512 VNNI: exact sums of blocks, and the blocks one after
// another.

#include "vbmi.h"

#if defined(__x86_64__)

#include "amx.h"

#include <immintrin.h>

#include <cstring>
#include <vector>

#define KERNEL_TARGET AVX512_TARGET ",avx512vbmi"
#include "target.h"

#include "lanes.h"
#include "reading.h"

namespace kernels {

namespace {

using ints = __m512i;
using floats = __m512;

constexpr int     together = 4; // blocks of a row in a vector
constexpr int64_t height = 16;  // rows at a time
constexpr size_t  step = together * mxfp4_block;

// part is the activations of four blocks: the first half of each block and then the second.
struct alignas(64) part {
    int8_t  x[2][64];
    int32_t offset[together];
    float   scale[together];
};

// exponents_at says where the exponents of four blocks are in the first bytes of two rows, in turns.
struct alignas(64) exponents_at {
    uint8_t byte[64];
    constexpr exponents_at() : byte() {
        for (int i = 0; i < 64; i++) {
            byte[i] = (uint8_t) (i / 16 * (int) mxfp4_block + i % 2 * 64);
        }
    }
};

constexpr e2m1_of_bytes              e2m1_table;
constexpr weights_at<mxfp4_block, 1> order;
constexpr exponents_at               exponents_order;

INLINE ints load(const void * p) { return _mm512_load_si512(p); }

// turn makes lane j of vector i lane i of vector j.
INLINE void turn(ints (&v)[4]) {
    const ints a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
    const ints c = _mm512_shuffle_i32x4(v[2], v[3], 0x44), d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
    v[0] = _mm512_shuffle_i32x4(a, c, 0x88), v[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    v[2] = _mm512_shuffle_i32x4(b, d, 0x88), v[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

// powers are two to the power of each exponent less 128. The exponents are bytes, in the order of the blocks and rows.
INLINE void powers(ints exponents, floats (&power)[together]) {
    const ints one = _mm512_set1_epi32(1);
    const bool small = _mm512_cmplt_epu8_mask(exponents, _mm512_set1_epi8(2)) != 0;
    alignas(64) uint8_t bytes[64];
    _mm512_store_si512(bytes, exponents);
    UNROLL for (int b = 0; b < together; b++) {
        const ints e = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *) (bytes + 16 * b)));
        ints bits = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
        if (__builtin_expect(small, 0)) {
            bits = _mm512_mask_sllv_epi32(bits, _mm512_cmple_epi32_mask(e, one), _mm512_set1_epi32(smallest_scale), e);
        }
        power[b] = _mm512_castsi512_ps(bits);
    }
}

// rows_16 is 16 rows. q is eight rows further than p.
struct rows_16 {
    const char * p, * q;
    distances    rows;

    INLINE rows_16(const char * data, size_t stride) : p(data), q(data + 8 * stride), rows(stride) {}

    INLINE const char * at(int row) const { return (row < 8 ? p : q) + rows.of(row % 8); }

    // load loads the weights and exponents of the next blocks of four rows, from the r-th on. If blocks is less than
    // four, it reads no more than these. It asks for the blocks that follow soon.
    INLINE void load(int r, int blocks, ints (&low)[4], ints (&high)[4], ints & exponents) const {
        const bool all = blocks == together;
        const __mmask64 first = blocks >= 4 ? ~0ull : (1ull << mxfp4_block * blocks) - 1, second = first >> 4;
        const ints weights = kernels::load(e2m1_table.weight), bytes = kernels::load(order.byte);
        ints head[4];
        UNROLL for (int i = 0; i < 4; i++) {
            head[i] = all ? _mm512_loadu_si512(at(r + i)) : _mm512_maskz_loadu_epi8(first, at(r + i));
        }
        keep_order(head);
        UNROLL for (int i = 0; i < 4; i++) {
            const ints tail = all ? _mm512_loadu_si512(at(r + i) + 4) : _mm512_maskz_loadu_epi8(second, at(r + i) + 4);
            low[i] = _mm512_permutex2var_epi8(head[i], bytes, tail);
            if (all) {
                __builtin_prefetch(at(r + i) + 4 * step, 0, 3);
            }
        }
        keep_order(low);
        UNROLL for (int i = 0; i < 4; i += 2) {
            const __mmask64 these = 0x0003000300030003ull << (r + i);
            exponents = _mm512_or_si512(exponents,
                _mm512_maskz_permutex2var_epi8(these, head[i], kernels::load(exponents_order.byte), head[i + 1]));
        }
        UNROLL for (int i = 0; i < 4; i++) {
            high[i] = _mm512_srli_epi16(low[i], 4);
        }
        keep_order(high);
        UNROLL for (int i = 0; i < 4; i++) {
            low[i] = _mm512_permutexvar_epi8(low[i], weights);
        }
        keep_order(low);
        UNROLL for (int i = 0; i < 4; i++) {
            high[i] = _mm512_permutexvar_epi8(high[i], weights);
        }
        keep_order(high);
    }
};

// add adds the products of the next blocks, at most four, with the activations of C columns.
template <int C>
INLINE void add(const rows_16 & w, int blocks, const part * const (&x)[C], int64_t at, floats (&acc)[C]) {
    ints sum[C][4], exponents = _mm512_setzero_si512();
    // The next rows are loaded before these are multiplied. Else the processor, which looks ahead only so far, finds too
    // little that it can compute while it waits for results.
    ints low[2][4], high[2][4];
    w.load(0, blocks, low[0], high[0], exponents);
    UNROLL for (int r = 0; r < height; r += 4) {
        const int now = r / 4 % 2;
        if (r + 4 < height) {
            w.load(r + 4, blocks, low[1 - now], high[1 - now], exponents);
        }
        UNROLL for (int c = 0; c < C; c++) {
            const part & column = x[c][at];
            ints each[4];
            UNROLL for (int i = 0; i < 4; i++) {
                each[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low[now][i], load(column.x[0]));
            }
            keep_order(each);
            UNROLL for (int i = 0; i < 4; i++) {
                each[i] = _mm512_dpbusd_epi32(each[i], high[now][i], load(column.x[1]));
            }
            keep_order(each);
            sum[c][r / 4] = added(each);
        }
    }
    floats power[together];
    powers(exponents, power);
    UNROLL for (int c = 0; c < C; c++) {
        turn(sum[c]);
        for (int b = 0; b < blocks; b++) {
            const ints exact = _mm512_add_epi32(sum[c][b], _mm512_set1_epi32(x[c][at].offset[b]));
            const floats scale = power[b] * _mm512_set1_ps(x[c][at].scale[b]);
            acc[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), scale, acc[c]);
        }
    }
}

// tile multiplies 16 rows with C columns. Meanwhile it asks for the 16 rows that follow, into the second cache.
template <int C>
KERNEL void tile(const rows & w, int64_t row, const part * const (&x)[C], float * const * out) {
    rows_16 next(w.data + row * w.stride, w.stride);
    const char * later = next.p + height * w.stride;
    const int64_t blocks = w.n / 32;
    floats acc[C];
    UNROLL for (int c = 0; c < C; c++) {
        acc[c] = _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < blocks / together; i++) {
        add(next, together, x, i, acc);
        next.p += step, next.q += step;
        UNROLL for (size_t line = 0; line < height * step; line += 64) {
            __builtin_prefetch(later + line, 0, 2);
        }
        later += height * step;
    }
    if (blocks % together > 0) {
        add(next, (int) (blocks % together), x, blocks / together, acc);
    }
    UNROLL for (int c = 0; c < C; c++) {
        _mm512_storeu_ps(out[c] + row, acc[c]);
    }
}

// arrange arranges the blocks of a column in parts.
KERNEL void arrange(const block * x, int64_t blocks, part * to) {
    for (int64_t b = 0; b < blocks; b++, x++) {
        part & p = to[b / together];
        const int64_t i = b % together;
        std::memcpy(p.x[0] + 16 * i, x->x, 16);
        std::memcpy(p.x[1] + 16 * i, x->x + 16, 16);
        p.offset[i] = x->offset[0];
        p.scale[i] = x->scale;
    }
}

template <int C>
KERNEL int64_t tiles_of(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out) {
    static thread_local std::vector<part> arranged;
    const int64_t blocks = w.n / 32, size = (blocks + together - 1) / together;
    if ((int64_t) arranged.size() < C * size) {
        arranged.resize(C * size);
    }
    const part * x[C];
    for (int c = 0; c < C; c++) {
        arrange(columns[c], blocks, arranged.data() + c * size);
        x[c] = arranged.data() + c * size;
    }
    for (; first + height <= last; first += height) {
        tile(w, first, x, out);
    }
    return first;
}

} // namespace

} // namespace kernels

bool kernels::vbmi::supported() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vbmi");
}

int64_t kernels::vbmi::multiply(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    switch (count) {
    case 1: return tiles_of<1>(w, first, last, columns, out);
    case 2: return tiles_of<2>(w, first, last, columns, out);
    case 3: return tiles_of<3>(w, first, last, columns, out);
    default: return first;
    }
}

#endif
