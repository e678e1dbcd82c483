package llamacpp

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"runner/backend"
	"runner/models/random"
)

// anonymous returns the memory of this process that does not belong to a file, in bytes.
func anonymous(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Skip("the kernel does not report RssAnon in /proc/self/status")
	return 0
}

// A cache takes memory when it is used, not when the model is loaded, so a large cache costs nothing until then.
// Unwritten parts are zero; the engine relies on that.
func TestUnusedCacheTakesNoMemory(t *testing.T) {
	path := writeModel(t, random.Config{Layers: 8, KVHeads: 8, Heads: 8, HeadSize: 64, Context: 1 << 17})
	openModel(t, path, backend.Config{ContextSize: 256, Sequences: 1}) // objects that are made only once
	before := anonymous(t)
	m := openModel(t, path, backend.Config{ContextSize: 1 << 16, Sequences: 1, BatchSize: 512, FullWindow: "on"})
	const cache = 8 * 2 * 8 * 64 * 2 << 16 // 1 GiB
	if grown := anonymous(t) - before; grown > cache/8 {
		t.Errorf("loading with a cache of %d MiB took %d MiB", cache>>20, grown>>20)
	}
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tokens := make([]backend.Token, 300)
	for i := range tokens {
		tokens[i] = backend.Token(i % 500)
	}
	outputs := make([]backend.Output, 1)
	inputs := []backend.Input{{Sequence: s, Tokens: tokens, Sampling: &backend.Sampling{}}}
	if err := m.Step(t.Context(), inputs, outputs); err != nil {
		t.Fatal(err)
	}
	if grown := anonymous(t) - before; grown > cache/8 {
		t.Errorf("300 tokens of a cache of %d MiB took %d MiB", cache>>20, grown>>20)
	}
}
