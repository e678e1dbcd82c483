package llamacpp

// #include <stdlib.h>
// #include "kernels.h"
import "C"

import (
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"
)

// ownKernels names the instructions that this package's kernels use. It is empty where only the engine's kernels
// run. start sets it.
//
// With these kernels a token's logits depend on its sequence alone, bit for bit. They do not depend on the rest of
// the batch, on how the prompt was split, or on the sequence's place in the cache. This holds on the CPU with an
// F16 cache, for weights in any format.
var ownKernels string

// ownFormats are the formats of weights that this package's kernels read. In the others each product of a row and a
// column is the engine's; sharing them out is this package's.
var ownFormats = set("F32 F16 BF16 Q8_0 MXFP4 Q4_0 Q4_K Q5_K Q6_K IQ4_NL IQ4_XS")

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

// helpersWoken counts the operations that those threads could share and that were large enough to wake them.
func helpersWoken() int { return int(C.kernels_woken()) }

// Kernels says which kernels compute on the CPU, for people to read.
func (e *Engine) Kernels() string {
	switch {
	case e.cpu != "":
		return e.cpu
	case e.folder != "":
		return "those in libggml"
	case e.kernels != "":
		return "the runner's own, with " + e.kernels
	}
	switch runtime.GOOS + " " + runtime.GOARCH {
	case "linux arm64":
		return "the engine's; the runner's own need 8-bit dot products (asimddp)"
	case "darwin arm64":
		return "the engine's"
	}
	return "the engine's; the runner's own need AVX2 with FMA and F16C"
}

// kernelsOf says which kernels compute a model.
func (e *Engine) kernelsOf(p *plan) string {
	switch {
	case e.folder != "" && p.gpuLayers > 0:
		names := []string{}
		for _, l := range e.libraries {
			if l.Err == nil {
				names = append(names, filepath.Base(l.Path))
			}
		}
		if len(names) > 0 {
			return strings.Join(names, ", ")
		}
	case e.folder == "" && e.kernels != "" && p.gpuLayers > 0:
		return "the engine's on the GPU"
	case e.folder == "" && e.kernels != "" && !p.own:
		return e.Kernels() + "; for weights in some formats the engine's"
	}
	return e.Kernels()
}
