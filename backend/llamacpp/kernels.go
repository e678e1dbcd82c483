package llamacpp

// #include "kernels.h"
import "C"

// ownKernels names the instructions that this package's kernels use, or is empty where the engine's run alone. It is set by start.
//
// With them a token's logits depend on its sequence alone, bit for bit: not on what else is in the batch, nor on how the prompt was
// cut into chunks, nor on where in the cache the sequence lies. That holds for models whose weights are all F32, F16, Q8_0 or MXFP4,
// on the CPU, with an F16 cache.
var ownKernels string

func offerKernels() {
	if kind := C.kernels_offer(); kind != nil {
		ownKernels = C.GoString(kind)
	}
}

// useKernels turns this package's kernels on or off, for models that compute from now on.
func useKernels(on bool) {
	v := C.int(0)
	if on {
		v = 1
	}
	C.kernels_use(v)
}

// help lets more threads help the one that the engine computes with.
func help(threads int) { C.kernels_help(C.int(threads)) }
