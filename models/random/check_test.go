package random

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"runner/backend/gguf"
)

func writeFile(path string, c Config) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(Write(f, c), f.Close())
}

// TestCheck: a file of a Config is told from a damaged one and from those of other Configs.
func TestCheck(t *testing.T) {
	c := Config{Layers: 2, Seed: 3}
	path := filepath.Join(t.TempDir(), "a.gguf")
	if err := Check(path, c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := writeFile(path, c); err != nil {
		t.Fatal(err)
	}
	if err := Check(path, c); err != nil {
		t.Errorf("the whole file: %v", err)
	}
	for name, other := range map[string]Config{"layers": {Layers: 3, Seed: 3}, "seed": {Layers: 2, Seed: 4},
		"format": {Layers: 2, Seed: 3, Quant: "Q4_0"}, "vocabulary": {Layers: 2, Seed: 3, Vocabulary: 513}} {
		if Check(path, other) == nil {
			t.Errorf("the file passes for one of another %s", name)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := len(whole)
	flipped := func(at int) []byte {
		b := slices.Clone(whole)
		b[at] ^= 1
		return b
	}
	for name, b := range map[string][]byte{
		"empty": {}, "half": whole[:n/2], "without its last byte": whole[:n-1], "longer": append(slices.Clone(whole), 0),
		"with another version": flipped(4), "with another name": flipped(200), "with other weights": flipped(n / 2),
		"of zeros": make([]byte, n),
	} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if Check(path, c) == nil {
			t.Errorf("a file that is %s passes", name)
		}
	}
	// Of a large model the whole header and the first weights are compared.
	large := Config{Layers: 2, Vocabulary: 50_000}
	if err := writeFile(path, large); err != nil {
		t.Fatal(err)
	}
	if whole, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if n = len(whole); f.DataOffset < checked || int64(n) < f.DataOffset+2*checked {
		t.Fatalf("the model has %d bytes, %d of them in the header, and is not large", n, f.DataOffset)
	}
	for name, c := range map[string]struct {
		file []byte
		fits bool
	}{"as it was made": {whole, true}, "with another end": {flipped(n - 100), true},
		"without its end": {whole[:n-100], false}, "with other first weights": {flipped(int(f.DataOffset) + 1000), false}} {
		if err := os.WriteFile(path, c.file, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Check(path, large); (err == nil) != c.fits {
			t.Errorf("a large model %s: %v", name, err)
		}
	}
}
