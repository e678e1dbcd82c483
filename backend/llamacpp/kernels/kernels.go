package kernels

// #cgo CXXFLAGS: -std=c++17
// #cgo linux LDFLAGS: -lstdc++ -lm
// #cgo darwin LDFLAGS: -lc++
// #include <stdlib.h>
// #include "kernels.h"
import "C"

import (
	"slices"
	"sync"
	"unsafe"

	_ "github.com/ollama/ollama/ml/backend/ggml/ggml/src" // ggml and its CPU backend

	_ "runner/backend/llamacpp/capi" // see there
)

// Offer gives the best kernels that the processor can run precedence over the engine's own. It returns the
// instructions that they use, or "" where only the engine's kernels run. The first call must come before the first
// model; others return the same.
var Offer = sync.OnceValue(func() string {
	if kind := C.kernels_offer(); kind != nil {
		return C.GoString(kind)
	}
	return ""
})

// Names lists the instructions of all kernels of this package that the processor can run, the best first.
func Names() []string {
	Offer()
	var all []string
	for name := C.kernels_name(0); name != nil; name = C.kernels_name(C.int(len(all))) {
		all = append(all, C.GoString(name))
	}
	return all
}

// Use switches to the kernels for these instructions, or to the engine's if instructions is empty. It reports whether
// the processor can run them. No model may compute meanwhile. It is for tests and comparisons.
func Use(instructions string) bool {
	Offer()
	if instructions == "" {
		return C.kernels_use(nil) != 0
	}
	name := C.CString(instructions)
	defer C.free(unsafe.Pointer(name))
	return C.kernels_use(name) != 0
}

// Help lets more threads help the engine's compute thread.
func Help(threads int) { C.kernels_help(C.int(threads)) }

// Woken counts the operations that those threads could share and that were large enough to wake them. It is for tests.
func Woken() int { return int(C.kernels_woken()) }

var formats = []string{"F32", "F16", "BF16", "MXFP4", "Q8_0", "Q4_0", "IQ4_NL", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"}

// Formats lists the formats of weights that the kernels read. In the others each product of a row and a column is the
// engine's; sharing them out is this package's.
func Formats() []string { return slices.Clone(formats) }

// Read reports whether the kernels read weights in a format.
func Read(format string) bool { return slices.Contains(formats, format) }
