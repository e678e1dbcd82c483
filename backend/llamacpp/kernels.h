// Kernels for the operations in which a mixture-of-experts model spends its time on a CPU: products, attention, rotary
// embedding, norms, and what gates and scales the experts' results. They take many tokens at once, read each weight once for
// several of them, and give a token the same result, bit for bit, whatever else is in its batch: every dot product adds in one
// fixed order.
//
// kernels.cpp offers them to the engine, operation by operation; kernels_simd.h has the arithmetic, on plain arrays, for the
// instructions of kernels_avx512.cpp and kernels_avx2.cpp, whose results differ in rounding. A processor that lacks both, or an
// operation of another shape, is left to the engine's own kernels.
#ifndef RUNNER_KERNELS_H
#define RUNNER_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

// kernels_offer puts the best kernels that the processor can run before the engine's own. Call it once, after shim_start and
// before the first model. It returns their instructions ("AVX-512 VNNI", "AVX2"), or NULL when the processor can run none and
// nothing was done.
const char * kernels_offer(void);

// kernels_help lets this many more threads help where the engine computes with one; see team.h.
void kernels_help(int helpers);

// kernels_name returns the instructions of kernels that the processor can run, the best for i = 0, or NULL where there are no more. Call
// it after kernels_offer.
const char * kernels_name(int i);

// kernels_use says which kernels compute from now on, by their instructions, or that the engine's own do, for NULL. It returns 0
// and does nothing when the processor can run none of that name. For tests and comparisons, while no model computes.
int kernels_use(const char * instructions);

#ifdef __cplusplus
}

#include <cstddef>
#include <cstdint>

namespace kernels {

// rows is a weight matrix: its rows lie stride bytes apart and hold n values each.
struct rows {
    enum format { f32, f16, q8_0, mxfp4 } format;
    const char * data;
    size_t       stride;
    int64_t      n;
};

// pair is 64 activations rounded to 8 bits, in two blocks with a scale each, made ready for one weight format.
struct alignas(64) pair {
    int8_t  x[64];
    int32_t offset[16]; // takes back what the unsigned form of the weights adds, per four activations
    float   scale[16];  // of the block, per four activations
};

// attention is one layer's: every token's query heads over those cells of the cache that its row of the mask leaves open.
// Query heads share key heads in groups of heads/shared. Strides are in bytes; mask, keys and values are half floats.
struct attention {
    int64_t       tokens, cells, size, heads, shared;
    const char *  q, * k, * v, * mask;
    size_t        q_token, q_head, k_cell, k_head, v_cell, v_head, mask_token;
    const float * sinks; // one per head, or null
    float         scale;
    float *       out; // tokens x heads x size
    uint64_t      id;  // one that no other has had, by which what the mask says of a token is kept from one key head to the next; 0 keeps nothing
};

enum { max_size = 256, max_group = 16 };

// pairs_of is how many pairs n activations take; n is a multiple of 32.
inline int64_t pairs_of(int64_t n) { return (n + 63) / 64; }

// set is the kernels for some instructions.
struct set {
    const char * instructions;

    // supported says whether this processor has them. No other function may be called where it has not.
    bool (*supported)();

    // quantize makes pairs of n activations for weights of a quantized format, for this set's own use. Where n leaves half a pair,
    // that half is zero.
    void (*quantize)(const float * x, int64_t n, enum rows::format format, pair * out);

    // multiply_floats writes the products of weight rows first to last-1 with each column; out[c][r] belongs to row r. n is a
    // multiple of 16; w is f32 or f16.
    void (*multiply_floats)(const rows & w, int64_t first, int64_t last, const float * const * columns, float * const * out, int64_t count);

    // multiply_quantized is the same for q8_0 and mxfp4 with columns from quantize; n is a multiple of 32.
    void (*multiply_quantized)(const rows & w, int64_t first, int64_t last, const pair * const * columns, float * const * out, int64_t count);

    // scale writes n values times a factor; n is a multiple of 16.
    void (*scale)(const float * x, float factor, int64_t n, float * out);

    // gate writes gpt-oss's clamped SwiGLU of n values: x sigmoid(alpha x) (y + 1), with x at most limit and y within it. n is a
    // multiple of 16.
    void (*gate)(const float * x, const float * y, float alpha, float limit, int64_t n, float * out);

    // normalize writes n values divided by their root mean square, to whose square epsilon is added (RMSNorm). n is a multiple of 16.
    void (*normalize)(const float * x, int64_t n, float epsilon, float * out);

    // rotate turns pairs of values, i and i+n of 2n, by angles of which it takes the n cosines and then the n sines. n is a multiple of 16.
    void (*rotate)(const float * x, const float * turns, int64_t n, float * out);

    // attend works out all heads that share key head s, for one token. size is a multiple of 32 and at most max_size, and
    // heads/shared is at most max_group.
    void (*attend)(const attention & a, int64_t token, int64_t s);
};

// sets are all there are for this kind of processor, the best first, up to a null.
#if defined(__x86_64__)
extern const set         avx512, avx2;
inline const set * const sets[] = {&avx512, &avx2, nullptr};
#else
inline const set * const sets[] = {nullptr};
#endif

} // namespace kernels
#endif

#endif
