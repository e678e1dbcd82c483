// Package kernelstest has what tests of the kernels and of package llamacpp share: they run with each set of kernels,
// and compare the logits of small models.
package kernelstest

// #include <stdlib.h>
// #include "../kernels.h"
import "C"

import (
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"runner/backend"
	"runner/backend/llamacpp/kernels"
	"runner/models/random"
)

// Why tests are skipped: the processor can run none of the kernels, or not those with tiles.
const (
	Lacking      = "the processor can run none of the runner's own kernels"
	LackingTiles = "the processor lacks AMX, or the system does not grant it"
)

// Names lists the instructions of all kernels that the processor can run, the best first.
func Names() []string {
	kernels.Offer()
	var all []string
	for name := C.kernels_name(0); name != nil; name = C.kernels_name(C.int(len(all))) {
		all = append(all, C.GoString(name))
	}
	return all
}

// Use switches to the kernels for these instructions, or to the engine's if instructions is empty. It reports whether
// the processor can run them. No model may compute meanwhile.
func Use(instructions string) bool {
	kernels.Offer()
	if instructions == "" {
		return C.kernels_use(nil) != 0
	}
	name := C.CString(instructions)
	defer C.free(unsafe.Pointer(name))
	return C.kernels_use(name) != 0
}

// Woken counts the operations that the helpers of [kernels.Help] could share and that were large enough to wake them.
func Woken() int { return int(C.kernels_woken()) }

// ForEach runs f with each of the kernels that the processor can run, by their instructions.
func ForEach(t *testing.T, f func(t *testing.T, instructions string)) {
	t.Helper()
	if kernels.Offer() == "" {
		t.Skip(Lacking + "; the engine's own kernels add in another order for one token than for many")
	}
	defer Use(kernels.Offer())
	for _, instructions := range Names() {
		if !Use(instructions) {
			t.Fatalf("no kernels for %s", instructions)
		}
		t.Run(instructions, func(t *testing.T) { f(t, instructions) })
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" && !slices.Contains(Names(), "AMX") {
		t.Run("AMX", func(t *testing.T) { t.Skip(LackingTiles) })
	}
}

// Logits feeds tokens in chunks and returns the logits after the last one.
func Logits(t testing.TB, m backend.Model, s backend.Sequence, tokens []backend.Token, chunk int) []float32 {
	t.Helper()
	logits := make([]float32, m.Vocab().Len())
	for len(tokens) > 0 {
		n := min(chunk, len(tokens))
		in := []backend.Input{{Sequence: s, Tokens: tokens[:n]}}
		if tokens = tokens[n:]; len(tokens) == 0 {
			in[0].Logits = logits
		}
		if err := m.Step(t.Context(), in, make([]backend.Output, 1)); err != nil {
			t.Fatal(err)
		}
	}
	return logits
}

// Tokens returns n tokens that any vocabulary has.
func Tokens(n, seed int) []backend.Token {
	tokens := make([]backend.Token, n)
	for i := range tokens {
		tokens[i] = backend.Token((i*i*7 + i*13*(seed+1) + seed*31) % 500)
	}
	return tokens
}

// Models are small models of gpt-oss's kind, whose experts are in MXFP4.
func Models() map[string]random.Config {
	return map[string]random.Config{
		"quantized": {Layers: 3, Width: 96, FeedForward: 160, Seed: 3},
		"precise":   {Layers: 3, Precise: true, Seed: 4},
		"grouped":   {Layers: 2, Heads: 8, KVHeads: 1, HeadSize: 64, Seed: 5},
	}
}

// Formats are those of weights whose bits are tested besides MXFP4. There are no kernels for the last two.
var Formats = []string{"Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "F32", "F16", "BF16", "Q4_1",
	"Q2_K"}

// InFormat is a small model in one of them.
func InFormat(format string) random.Config {
	c := random.Config{Architecture: "llama", Quant: format, Layers: 2, Width: 256, FeedForward: 512, HeadSize: 64,
		Seed: 6}
	if format == "F32" {
		c.Quant, c.Precise = "", true
	}
	return c
}
