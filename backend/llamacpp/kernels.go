package llamacpp

// #include <stdlib.h>
// #include "kernels.h"
import "C"

import "unsafe"

// ownKernels names the instructions that this package's kernels use. It is empty where only the engine's kernels
// run. start sets it.
//
// With these kernels a token's logits depend on its sequence alone, bit for bit. They do not depend on the rest of
// the batch, on how the prompt was split, or on the sequence's place in the cache. This holds on the CPU with an
// F16 cache, for models whose weights are all F32, F16, Q8_0 or MXFP4.
var ownKernels string

func offerKernels() {
	if kind := C.kernels_offer(); kind != nil {
		ownKernels = C.GoString(kind)
	}
}

// allKernels lists the instructions of all kernels of this package that the processor can run, the best first.
// ownKernels are the ones in use.
func allKernels() []string {
	var all []string
	for name := C.kernels_name(0); name != nil; name = C.kernels_name(C.int(len(all))) {
		all = append(all, C.GoString(name))
	}
	return all
}

// useKernels switches to this package's kernels for these instructions, or to the engine's if instructions is
// empty. It reports whether the processor can run them. No model may compute meanwhile.
func useKernels(instructions string) bool {
	if instructions == "" {
		return C.kernels_use(nil) != 0
	}
	name := C.CString(instructions)
	defer C.free(unsafe.Pointer(name))
	return C.kernels_use(name) != 0
}

// help lets more threads help the engine's compute thread.
func help(threads int) { C.kernels_help(C.int(threads)) }
