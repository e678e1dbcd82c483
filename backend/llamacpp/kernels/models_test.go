package kernels_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/llamacpp"
	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/models/demo"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// writeModel writes a random model and returns its path.
func writeModel(t testing.TB, c random.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := randomtest.WriteFile(path, c); err != nil {
		t.Fatal(err)
	}
	return path
}

// openModel opens a model, on one thread unless the test wants more, and closes it after the test.
func openModel(t testing.TB, path string, cfg backend.Config) backend.Model {
	t.Helper()
	cfg.Threads = max(cfg.Threads, 1)
	m, err := llamacpp.Open(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestKernelsAgree compares whole models with the engine's own kernels.
func TestKernelsAgree(t *testing.T) {
	kernelstest.ForEach(t, func(t *testing.T, instructions string) {
		for name, c := range kernelstest.Models() {
			t.Run(name, func(t *testing.T) { kernelsAgree(t, instructions, c) })
		}
	})
}

func kernelsAgree(t *testing.T, instructions string, c random.Config) {
	path := writeModel(t, c)
	tokens := kernelstest.Tokens(200, 1)
	logits := func() []float32 {
		m := openModel(t, path, backend.Config{ContextSize: 512, Sequences: 2})
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		return kernelstest.Logits(t, m, s, tokens, 64)
	}
	got := logits()
	kernelstest.Use("")
	defer kernelstest.Use(instructions)
	want := logits()
	if slices.Equal(got, want) {
		t.Fatal("the logits are the same to the bit: the kernels did not run")
	}
	var dot, a, b float64
	for i := range got {
		dot += float64(got[i]) * float64(want[i])
		a += float64(got[i]) * float64(got[i])
		b += float64(want[i]) * float64(want[i])
	}
	least := 0.999
	if c.Precise {
		least = 0.99999 // the cache is still of half floats
	}
	if cos := dot / math.Sqrt(a*b); cos < least {
		t.Errorf("the logits' cosine is %.6f", cos)
	}
}

// TestLogitsDependOnTheSequenceAlone checks that a token's logits do not depend on the rest of the batch, the
// chunks of the prompt, the place in the cache or the number of threads.
func TestLogitsDependOnTheSequenceAlone(t *testing.T) {
	kernelstest.ForEach(t, func(t *testing.T, _ string) {
		for name, c := range kernelstest.Models() {
			t.Run(name, func(t *testing.T) { dependOnTheSequenceAlone(t, c, 1, 3) })
		}
	})
}

func dependOnTheSequenceAlone(t *testing.T, c random.Config, threads ...int) {
	path := writeModel(t, c)
	tokens := kernelstest.Tokens(180, 1)
	var want []float32
	for _, threads := range threads {
		m := openModel(t, path, backend.Config{ContextSize: 512, Sequences: 12, Threads: threads})
		fresh := func() backend.Sequence {
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		check := func(how string, got []float32) {
			t.Helper()
			if want == nil {
				want = got
			}
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d threads, %s: logit %d is %.9g instead of %.9g", threads, how, i, got[i], want[i])
				}
			}
		}
		for _, chunk := range []int{180, 1, 7, 64} {
			s := fresh()
			check(fmt.Sprintf("chunks of %d", chunk), kernelstest.Logits(t, m, s, tokens, chunk))
			s.Close()
		}
		// Seven other sequences write into the cache, then all decode the last token in one step.
		all := make([]backend.Input, 8)
		for i := range all {
			all[i] = backend.Input{Sequence: fresh(), Tokens: []backend.Token{backend.Token(i)}}
		}
		for i := range all {
			for at := 0; at < 150; at += 50 {
				j := (i + at/50) % len(all)
				history := kernelstest.Tokens(150, j)
				if j == 5 {
					history = tokens
				}
				s := all[j].Sequence
				if n := len(s.Tokens()); n < 150 {
					kernelstest.Logits(t, m, s, history[n:n+50], 50)
				}
			}
		}
		all[5].Tokens = tokens[150:]
		all[5].Logits = make([]float32, m.Vocab().Len())
		if err := m.Step(context.Background(), all, make([]backend.Output, len(all))); err != nil {
			t.Fatal(err)
		}
		check("among seven others", all[5].Logits)
	}
}

// TestWhatWakesHelpers checks that tokens of the bundled model wake the helpers where attention is large: over a long
// context, or for several sequences. A token over a short context does not, so it keeps one processor busy.
func TestWhatWakesHelpers(t *testing.T) {
	if kernels.Offer() == "" {
		t.Skip(kernelstest.Lacking + "; helpers are for those alone")
	}
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := openModel(t, path, backend.Config{ContextSize: 2048, Sequences: 8, Threads: 2})
	woken := func(sequences, length int, want bool) bool {
		in := make([]backend.Input, sequences)
		for i := range in {
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			kernelstest.Logits(t, m, s, kernelstest.Tokens(length, i), m.Info().BatchSize)
			in[i] = backend.Input{Sequence: s, Tokens: []backend.Token{1}}
		}
		// After a long wait for a helper the next steps are computed without it.
		for end := time.Now().Add(5 * time.Second); ; {
			before := kernelstest.Woken()
			if err := m.Step(t.Context(), in, make([]backend.Output, len(in))); err != nil {
				t.Fatal(err)
			}
			if kernelstest.Woken() > before {
				return true
			}
			if !want || time.Now().After(end) {
				return false
			}
			for i := range in {
				if _, err := in[i].Sequence.Truncate(length); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		sequences, length int
		want              bool
	}{{1, 200, false}, {1, 1500, true}, {3, 400, true}} {
		if got := woken(c.sequences, c.length, c.want); got != c.want {
			t.Errorf("%d sequences of %d tokens: helpers were woken: %v", c.sequences, c.length, got)
		}
	}
}

// TestLogitsOfOtherFormats checks the same for all formats of weights that the kernels read, and for two whose products
// are the engine's. MXFP4 is in the models of gpt-oss's kind.
func TestLogitsOfOtherFormats(t *testing.T) {
	for _, format := range kernels.Formats() {
		if format != "MXFP4" && !slices.Contains(kernelstest.Formats, format) {
			t.Errorf("weights in %s are not tested", format)
		}
	}
	kernelstest.ForEach(t, func(t *testing.T, _ string) {
		for _, format := range kernelstest.Formats {
			t.Run(format, func(t *testing.T) {
				c := kernelstest.InFormat(format)
				requireFormat(t, c, format)
				dependOnTheSequenceAlone(t, c, 1, 2, 3)
			})
		}
	})
}

// requireFormat checks that the matrices of a model are in a format.
func requireFormat(t *testing.T, c random.Config, format string) {
	t.Helper()
	f, err := gguf.Open(writeModel(t, c))
	if err != nil {
		t.Fatal(err)
	}
	w, ok := f.Tensor("blk.0.ffn_down.weight")
	if !ok {
		t.Fatal("the model lacks a matrix")
	}
	if got := w.Type.String(); got != format {
		t.Fatalf("a matrix is in %s instead of %s", got, format)
	}
}

// TestKernelsOfFormats checks that a model says whether the package's kernels read all of its weights.
func TestKernelsOfFormats(t *testing.T) {
	kernelstest.ForEach(t, func(t *testing.T, _ string) {
		for quant, own := range map[string]bool{"Q4_K": true, "Q2_K": false} {
			path := writeModel(t, random.Config{Architecture: "llama", Quant: quant, Layers: 1, Width: 256, FeedForward: 256,
				HeadSize: 64})
			m := openModel(t, path, backend.Config{ContextSize: 256})
			if got := m.Info().Kernels; strings.Contains(got, "the engine's") == own {
				t.Errorf("%s: %q", quant, got)
			}
		}
	})
}
