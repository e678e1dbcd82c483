// Package kernels has the runner's own kernels for the CPU. They take the place of those of the compiled-in engine for
// the operations in which a mixture-of-experts model spends its time, and share large ones among a team of threads.
//
// With these kernels a token's logits depend on its sequence alone, bit for bit. They do not depend on the rest of the
// batch, on how the prompt was split, or on the sequence's place in the cache. This holds on the CPU with an F16 cache,
// for weights in any format.
//
// # Files
//
//   - kernels.cpp offers the kernels to the engine, operation by operation, and shares out the work; kernels.h declares
//     what a set of them has.
//   - simd.h, quantized.h, rows.h and attention.h have the arithmetic, written once for vectors of any width. A file
//     for instructions (avx2.cpp, avx512.cpp, neon.cpp) defines the vectors and includes them.
//   - formats.h has the layout of quantized weights, reading.h, reading_x86.h and reading_neon.h how they are read.
//   - amx.cpp multiplies many columns with tiles. vbmi.cpp and streamed.cpp multiply few columns in another order of
//     memory, with what lanes.h has.
//   - team.cpp and team_rest.h have the threads that help the engine's one compute thread.
//   - testdata has programs that check and measure the kernels without the engine.
//
// # Which file multiplies
//
// The products of weights in each format, by the instructions of the kernels, for rows of 4,096 weights. Numbers are of
// columns; shorter rows with AMX go from file to file at others. NEON is both NEON I8MM and NEON DotProd.
//
//	format   AMX                                           AVX-512 VBMI                 AVX-512 VNNI  AVX2      NEON
//	F32      avx512.cpp                                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	F16      avx512.cpp                                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	BF16     avx512.cpp                                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	MXFP4    streamed.cpp 1-3, avx512.cpp 4-5, amx.cpp 6-  vbmi.cpp 1-3, avx512.cpp 4-  avx512.cpp    avx2.cpp  neon.cpp
//	Q8_0     streamed.cpp 1-2, avx512.cpp 3-8, amx.cpp 9-  avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	Q4_0     avx512.cpp 1-8, amx.cpp 9-                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	IQ4_NL   avx512.cpp 1-8, amx.cpp 9-                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	Q4_K     avx512.cpp 1-8, amx.cpp 9-                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	Q5_K     avx512.cpp 1-8, amx.cpp 9-                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	Q6_K     avx512.cpp 1-8, amx.cpp 9-                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//	IQ4_XS   avx512.cpp 1-8, amx.cpp 9-                    avx512.cpp                   avx512.cpp    avx2.cpp  neon.cpp
//
// For weights in other formats kernels.cpp takes the engine's function for a row and a column, and shares out the work.
// On other processors, on macOS, and for operations of other shapes the engine's own kernels run.
//
// # A format of weights
//
//  1. Its number in enum ggml_type of ../capi/capi.h, and its name in enum format of kernels.h.
//  2. Its layout in formats.h, and in reading.h how a block of eight rows is read.
//  3. Its products: a struct in avx2.cpp, avx512.cpp, neon.cpp and amx.cpp, and a case in with_weights of quantized.h
//     and with_numbers of amx.cpp.
//  4. A case in format_of of kernels.cpp, its name in kernels.go, and a row above.
//  5. For the tests: its definition in testdata/matrices.h, its name in the programs there, the bound of its error in
//     precision_test.go, and in kernelstest and ../bits_test.go models that have it.
package kernels
