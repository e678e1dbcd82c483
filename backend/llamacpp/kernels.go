package llamacpp

// #include <stdlib.h>
// #include "kernels.h"
import "C"

import "unsafe"

// ownKernels names the instructions that this package's kernels use, or is empty where the engine's run alone. It
// is set by start.
//
// With them a token's logits depend on its sequence alone, bit for bit: not on what else is in the batch, nor on
// how the prompt was cut into chunks, nor on where in the cache the sequence lies. That holds for models whose
// weights are all F32, F16, Q8_0 or MXFP4, on the CPU, with an F16 cache.
var ownKernels string

func offerKernels() {
	if kind := C.kernels_offer(); kind != nil {
		ownKernels = C.GoString(kind)
	}
}

// allKernels names the instructions of all kernels of this package that the processor can run, the best first.
// Those in ownKernels are in use.
func allKernels() []string {
	var all []string
	for name := C.kernels_name(0); name != nil; name = C.kernels_name(C.int(len(all))) {
		all = append(all, C.GoString(name))
	}
	return all
}

// useKernels makes this package's kernels for these instructions compute from now on, or the engine's where they
// are empty. It reports whether the processor can run them. No model may compute meanwhile.
func useKernels(instructions string) bool {
	if instructions == "" {
		return C.kernels_use(nil) != 0
	}
	name := C.CString(instructions)
	defer C.free(unsafe.Pointer(name))
	return C.kernels_use(name) != 0
}

// help lets more threads help the one that the engine computes with.
func help(threads int) { C.kernels_help(C.int(threads)) }
