// How functions of a set of kernels are compiled. The binary runs on every processor, so no other function may use the
// set's instructions, and these may run only after supported() returned true.
//
// A file of kernels defines KERNEL_TARGET, the instructions for the compiler's attribute, and then includes this. It
// leaves the macro out where the compiler was told to use them everywhere.
//
//   KERNEL   a function that uses the instructions
//   INLINED  the same for a lambda or a function that is inlined everywhere
//   INLINE   the same for an inline function
#ifndef RUNNER_KERNELS_TARGET_H
#define RUNNER_KERNELS_TARGET_H

#ifdef KERNEL_TARGET
#define KERNEL __attribute__((target(KERNEL_TARGET)))
#else
#define KERNEL
#endif

#ifdef RUNNER_KERNELS_CALLED // compiling with sanitizers takes minutes if everything is inlined
#define INLINED KERNEL
#else
#define INLINED KERNEL __attribute__((always_inline))
#endif
#define INLINE INLINED inline

#endif
