package widentest_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"runner/backend/gguf"
	"runner/models/random"
	"runner/models/random/randomtest"
	"runner/models/random/widentest"
)

// TestWiden compares a model with its copy in float32.
func TestWiden(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a.gguf"), filepath.Join(dir, "b.gguf")
	if err := randomtest.WriteFile(from, random.Config{Layers: 2, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	if err := widentest.Widen(from, to); err != nil {
		t.Fatal(err)
	}
	a, b := read(t, from), read(t, to)
	if len(a.Metadata) == 0 || len(a.Metadata) != len(b.Metadata) || len(a.Tensors) != len(b.Tensors) {
		t.Fatalf("%d and %d values, %d and %d tensors", len(a.Metadata), len(b.Metadata), len(a.Tensors), len(b.Tensors))
	}
	for i, kv := range a.Metadata {
		if k := b.Metadata[i]; k.Key != kv.Key || k.Value.Type() != kv.Value.Type() {
			t.Errorf("%s became %s of another type", kv.Key, k.Key)
		}
	}
	converted := 0
	for i := range a.Tensors {
		if a.Tensors[i].Type != gguf.F32 {
			converted++
		}
		if b.Tensors[i].Type != gguf.F32 || !slices.Equal(a.values(t, i), b.values(t, i)) {
			t.Errorf("%s has other values as %v", a.Tensors[i].Name, b.Tensors[i].Type)
		}
	}
	if converted == 0 {
		t.Error("all weights were float32 before")
	}
	if err := widentest.Widen(from, filepath.Join(dir, "none", "c.gguf")); err == nil {
		t.Error("a copy in a folder that does not exist was written")
	}
}

// opened is a file with its bytes.
type opened struct {
	*gguf.File
	data []byte
}

func read(t *testing.T, path string) opened {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return opened{f, data}
}

// values returns the values of a tensor.
func (o opened) values(t *testing.T, i int) []float32 {
	t.Helper()
	x := o.Tensors[i]
	values, err := widentest.Values(nil, x.Type, o.data[o.DataOffset+x.Offset:][:x.Size])
	if err != nil {
		t.Fatal(err)
	}
	return values
}
