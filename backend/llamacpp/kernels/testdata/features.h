// Lets a program that checks the kernels say that the processor lacks some instructions. The kernels are compiled with
// this file in front.
#ifndef RUNNER_TESTDATA_FEATURES_H
#define RUNNER_TESTDATA_FEATURES_H

// runner_test_lacks reports whether a feature of the processor is to be taken as missing. matrices.h defines it.
extern "C" bool runner_test_lacks(const char * feature);

// In its own expansion the name is the compiler's.
#define __builtin_cpu_supports(feature) (__builtin_cpu_supports(feature) && !runner_test_lacks(feature))

// The weights of checks have short rows, most of which are to take the same way as long ones.
#define RUNNER_STREAMED_LEAST 64

#endif
