package kernels

// #cgo CXXFLAGS: -std=c++17
// #cgo linux LDFLAGS: -lstdc++ -lm
// #cgo darwin LDFLAGS: -lc++
// #include "kernels.h"
import "C"

import (
	"slices"
	"sync"

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

// Help lets more threads help the engine's compute thread.
func Help(threads int) { C.kernels_help(C.int(threads)) }

var formats = []string{"F32", "F16", "BF16", "MXFP4", "Q8_0", "Q4_0", "IQ4_NL", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"}

// Formats lists the formats of weights that the kernels read. In the others each product of a row and a column is the
// engine's; sharing them out is this package's.
func Formats() []string { return slices.Clone(formats) }
