// A program that says what it reached. Its initializer and its main use the instructions that it was compiled for.

#include <cstdio>

namespace {

// twice is compiled to the widest vectors and to fused products where the compiler may use them.
__attribute__((noinline)) float twice(const float * x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) {
        sum = x[i] * 2 + sum;
    }
    return sum;
}

volatile float ones[] = {1, 1, 1, 1, 1, 1, 1, 1};

struct initializer {
    initializer() {
        float copy[8];
        for (int i = 0; i < 8; i++) {
            copy[i] = ones[i];
        }
        std::printf("initializer %.0f\n", (double) twice(copy, 8));
        std::fflush(stdout);
    }
} const before_main;

} // namespace

int main() {
    std::puts("main");
    return 0;
}
