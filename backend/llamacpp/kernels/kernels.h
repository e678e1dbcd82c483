// CPU kernels for the operations in which a mixture-of-experts model spends its time: matrix products, attention,
// rotary embedding, norms, sums, and the gating and scaling of the experts' results. They process many tokens at once
// and read each weight once for several of them. Every dot product adds in one fixed order, so a token gets the same
// result, bit for bit, whatever else is in its batch.
//
// doc.go says which files compute what. Products with quantized weights are the same to the bit in all sets of kernels,
// except that with AMX MXFP4's activations have nine bits. Other results of AVX-512 differ in rounding from those of
// AVX2 and NEON. Other processors and operations of other shapes use the engine's own kernels.
#ifndef RUNNER_KERNELS_H
#define RUNNER_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

// kernels_offer gives the best kernels that the processor can run precedence over the engine's own. Call it once,
// before the first model. It returns their instructions ("AMX", "NEON I8MM"), or NULL if
// the processor can run none.
const char * kernels_offer(void);

// kernels_help adds this many helpers for the engine's one compute thread; see team.h.
void kernels_help(int helpers);

// kernels_woken counts the operations that these helpers could share and that were large enough to wake them. For
// tests.
unsigned kernels_woken(void);

// kernels_name returns the instructions of the i-th kernels that the processor can run, the best first, or NULL if
// there are no more. Call it after kernels_offer.
const char * kernels_name(int i);

// kernels_use selects the kernels with these instructions, or the engine's own for NULL. It returns 0 and changes
// nothing if the processor cannot run them. For tests and comparisons, while no model computes.
int kernels_use(const char * instructions);

#ifdef RUNNER_PEER
#include <stdint.h>

// kernels_product is a product outside of a model, of a matrix with columns, for comparisons.
struct kernels_product;

// kernels_product_new stores rows of n weights in a format of the engine, and prepares columns of n activations. The
// kernels with these instructions will multiply, or for NULL the engine's function for a row and a column. It returns
// NULL if they cannot.
struct kernels_product * kernels_product_new(const char * instructions, int format, const float * weights, int64_t rows,
    int64_t n, const float * activations, int64_t columns);

// kernels_product_run multiplies once, on this thread.
void kernels_product_run(struct kernels_product * p);

// kernels_product_weights writes the weights as they are stored, and kernels_product_results the last results, column
// by column.
void kernels_product_weights(const struct kernels_product * p, float * weights);
void kernels_product_results(const struct kernels_product * p, float * results);

void kernels_product_free(struct kernels_product * p);
#endif

#ifdef __cplusplus
}

#include <cstddef>
#include <cstdint>

namespace kernels {

// rows is a weight matrix. Its rows are stride bytes apart and have n values each.
struct rows {
    enum format { f32, f16, bf16, q8_0, mxfp4, q4_0, iq4_nl, q4_k, q5_k, q6_k, iq4_xs } format;
    const char * data;
    size_t       stride;
    int64_t      n;
};

// block is 32 activations rounded to 8 bits, prepared for one weight format.
struct block {
    int8_t x[32];
    union {
        int32_t offset[2]; // corrects for what is added to the weights to make them unsigned, by the sums of a block
        float   sum;       // for weights with a minimum: the negative sum of the activations
    };
    float scale;
};

// Very large and very small scales are rare. Without them, multiplying a scale by a power of two adds whole numbers to
// its bits. For weights whose scales are powers of two, offset[1] of a column's first block is 1 if all scales of the
// column's blocks are in these bounds, and 0 if not.
constexpr float smallest_usual = 0x1p-62f, largest_usual = 0x1p62f;

// What a mask has for a closed cell: a half float, minus infinity.
constexpr uint16_t closed = 0xfc00;

// attention is the attention of one layer: every token's query heads attend to the cells of the cache that its row
// of the mask leaves open. Groups of heads/shared query heads share a key head. Strides are in bytes. mask, keys
// and values are half floats.
struct attention {
    int64_t       tokens, cells, size, heads, shared;
    const char *  q, * k, * v, * mask;
    size_t        q_token, q_head, k_cell, k_head, v_cell, v_head, mask_token;
    const float * sinks; // one per head, or null
    float         scale;
    float *       out; // tokens x heads x size
    // id is unique to a thread's share of one layer and step. By it, the open cells of tokens are kept from one call of
    // attend to the next. 0 keeps none.
    uint64_t id;
};

enum { max_size = 256, max_group = 16, max_queries = 32, max_results = max_group * max_size, bundle_width = 16 };

// set is the kernels for one set of instructions.
struct set {
    const char * instructions;

    // supported reports whether this processor has the instructions. If not, no other function may be called. It is
    // cold, so that the linker puts it apart: asking a set that is not chosen reads no page of its code.
    bool (*supported)();

    // blocks is how many blocks quantize makes of 32 activations for weights of a quantized format.
    int (*blocks)(enum rows::format format);

    // quantize makes blocks of n activations for weights of a quantized format; n is a multiple of 32. Only this set
    // can use them.
    void (*quantize)(const float * x, int64_t n, enum rows::format format, block * out);

    // multiply_floats writes the products of weight rows first to last-1 with each column. out[c][r] is for row r.
    // n is a multiple of 16; w is f32, f16 or bf16.
    void (*multiply_floats)(const rows & w, int64_t first, int64_t last, const float * const * columns,
        float * const * out, int64_t count);

    // multiply_quantized does the same for the quantized formats, with columns from quantize. n is a multiple of 32,
    // or of 256 for formats with such blocks. It is fastest for a multiple of 16 rows.
    void (*multiply_quantized)(const rows & w, int64_t first, int64_t last, const block * const * columns,
        float * const * out, int64_t count);

    // Some sets multiply many columns faster from bundles: up to bundle_width columns in another layout. In other sets
    // these four are null. worth is from how many columns on that is so, for rows of n weights in a quantized format.
    int64_t (*worth)(enum rows::format format, int64_t n);

    // bundle_size is the bytes of a bundle of columns of n activations, a multiple of 64.
    size_t (*bundle_size)(enum rows::format format, int64_t n);

    // bundle makes a bundle, on an address that is a multiple of 64, of columns from quantize.
    void (*bundle)(const block * const * columns, int64_t count, int64_t n, enum rows::format format, char * out);

    // multiply_bundles does what multiply_quantized does. The bundles hold the columns in their order, and all but the
    // last are full.
    void (*multiply_bundles)(const rows & w, int64_t first, int64_t last, const char * bundles,
        const block * const * columns, float * const * out, int64_t count);

    // add writes the sums of n values with others; n is a multiple of 16.
    void (*add)(const float * x, const float * y, int64_t n, float * out);

    // scale writes n values times a factor; n is a multiple of 16.
    void (*scale)(const float * x, float factor, int64_t n, float * out);

    // gate writes gpt-oss's clamped SwiGLU of n values: x sigmoid(alpha x) (y + 1), with x limited to at most limit
    // and y to between -limit and limit. n is a multiple of 16.
    void (*gate)(const float * x, const float * y, float alpha, float limit, int64_t n, float * out);

    // swiglu writes x sigmoid(x) y of n values. n is a multiple of 16.
    void (*swiglu)(const float * x, const float * y, int64_t n, float * out);

    // softmax writes the shares of n values: e to the power of each, times scale, divided by their sum. n is a multiple
    // of 16.
    void (*softmax)(const float * x, int64_t n, float scale, float * out);

    // normalize divides n values by the square root of their mean square plus epsilon (RMSNorm). n is a multiple of
    // 16.
    void (*normalize)(const float * x, int64_t n, float epsilon, float * out);

    // rotate rotates the pairs (i, i+n) of 2n values. turns holds the n cosines of the angles and then the n sines.
    // n is a multiple of 16.
    void (*rotate)(const float * x, const float * turns, int64_t n, float * out);

    // attend computes tokens first to last-1 for key heads s to end-1, with all heads that share them. size is a
    // multiple of 32 and at most max_size; heads/shared is at most max_group. For more than one token, the tokens times
    // heads/shared are at most max_queries, and that times size at most max_results. Tokens that see mostly the same
    // cells take less time together. What is computed for a token does not depend on the others.
    void (*attend)(const attention & a, int64_t first, int64_t last, int64_t s, int64_t end);
};

// sets lists the kernels for this kind of processor, the best first, ending with a null.
#if defined(__x86_64__)
extern const set         amx, avx512_vbmi, avx512, avx2;
inline const set * const sets[] = {&amx, &avx512_vbmi, &avx512, &avx2, nullptr};
#elif defined(__aarch64__) && defined(__linux__)
extern const set         neon_i8mm, neon;
inline const set * const sets[] = {&neon_i8mm, &neon, nullptr};
#else
inline const set * const sets[] = {nullptr};
#endif

} // namespace kernels
#endif

#endif
