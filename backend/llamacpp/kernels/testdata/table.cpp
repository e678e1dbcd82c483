// Prints which products each set of kernels takes: a line with the instructions, the format of the weights, the number
// of columns, and the file that multiplies, or "own" for the one that has the set; with tabs between them. Rows have
// 4,096 weights.
//
// The linker puts the functions below in front of those that other files than a set's own have (--wrap).

#include "amx.h"
#include "streamed.h"
#include "vbmi.h"

#include <cstdio>
#include <string>
#include <vector>

using namespace kernels;

// products are the arguments of a product, as a name of C++ has them.
#define PRODUCT "ERKNS_4rowsEllPKPKNS_5blockEPKPfl"
#define BUNDLES "ERKNS_4rowsEllPKcPKPKNS_5blockEPKPfl"

extern "C" {

int64_t real_vbmi(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count) __asm__("__real__ZN7kernels4vbmi8multiply" PRODUCT);
int64_t wrapped_vbmi(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count) __asm__("__wrap__ZN7kernels4vbmi8multiply" PRODUCT);
int64_t real_streamed(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count) __asm__("__real__ZN7kernels8streamed8multiply" PRODUCT);
int64_t wrapped_streamed(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) __asm__("__wrap__ZN7kernels8streamed8multiply" PRODUCT);
void real_tiles(const rows & w, int64_t first, int64_t last, const char * bundles, const block * const * columns,
    float * const * out, int64_t count) __asm__("__real__ZN7kernels5tiles8multiply" BUNDLES);
void wrapped_tiles(const rows & w, int64_t first, int64_t last, const char * bundles, const block * const * columns,
    float * const * out, int64_t count) __asm__("__wrap__ZN7kernels5tiles8multiply" BUNDLES);

bool runner_test_lacks(const char *) { return false; }

} // extern "C"

namespace {

std::string taken; // which file multiplied

} // namespace

int64_t wrapped_vbmi(const rows & w, int64_t first, int64_t last, const block * const * columns, float * const * out,
    int64_t count) {
    taken = "vbmi.cpp";
    return real_vbmi(w, first, last, columns, out, count);
}

int64_t wrapped_streamed(const rows & w, int64_t first, int64_t last, const block * const * columns,
    float * const * out, int64_t count) {
    taken = "streamed.cpp";
    return real_streamed(w, first, last, columns, out, count);
}

void wrapped_tiles(const rows & w, int64_t first, int64_t last, const char * bundles, const block * const * columns,
    float * const * out, int64_t count) {
    taken = "amx.cpp";
    real_tiles(w, first, last, bundles, columns, out, count);
}

namespace {

constexpr int64_t height = 32, length = 4096, most = 20;

struct alignas(64) line {
    char bytes[64];
};

void products(const set & own, const char * name, enum rows::format format, bool quantized) {
    std::vector<char>  weights(height * length * sizeof(float), 127); // exponents of 1, where a format has some
    std::vector<float> activations(length), results(height * most);
    const rows w = {format, weights.data(), length * sizeof(float), length};
    std::vector<block> rounded(quantized ? length / 32 * own.blocks(format) : 1);
    if (quantized) {
        own.quantize(activations.data(), length, format, rounded.data());
    }
    const std::vector<const block *> blocks(most, rounded.data());
    const std::vector<const float *> floats(most, activations.data());
    std::vector<float *> out;
    for (int64_t c = 0; c < most; c++) {
        out.push_back(results.data() + c * height);
    }
    for (int64_t count = 1; count <= most; count++) {
        taken = "own";
        if (!quantized) {
            own.multiply_floats(w, 0, height, floats.data(), out.data(), count);
        } else if (own.worth && count >= own.worth(format, length)) { // as in kernels.cpp
            const size_t size = own.bundle_size(format, length) / sizeof(line);
            std::vector<line> bundles(size * ((count + bundle_width - 1) / bundle_width));
            for (int64_t c = 0; c < count; c += bundle_width) {
                const int64_t wide = count - c < bundle_width ? count - c : (int64_t) bundle_width;
                own.bundle(blocks.data() + c, wide, length, format, bundles[c / bundle_width * size].bytes);
            }
            own.multiply_bundles(w, 0, height, bundles[0].bytes, blocks.data(), out.data(), count);
        } else {
            own.multiply_quantized(w, 0, height, blocks.data(), out.data(), count);
        }
        std::printf("%s\t%s\t%d\t%s\n", own.instructions, name, (int) count, taken.c_str());
    }
}

} // namespace

int main() {
    for (const set * const * s = sets; *s; s++) {
        if (!(*s)->supported()) {
            continue;
        }
        products(**s, "F32", rows::f32, false);
        products(**s, "F16", rows::f16, false);
        products(**s, "BF16", rows::bf16, false);
        products(**s, "MXFP4", rows::mxfp4, true);
        products(**s, "Q8_0", rows::q8_0, true);
        products(**s, "Q4_0", rows::q4_0, true);
        products(**s, "IQ4_NL", rows::iq4_nl, true);
        products(**s, "Q4_K", rows::q4_k, true);
        products(**s, "Q5_K", rows::q5_k, true);
        products(**s, "Q6_K", rows::q6_k, true);
        products(**s, "IQ4_XS", rows::iq4_xs, true);
    }
    return 0;
}
