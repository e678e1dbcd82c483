package ggufwriter

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"runner/backend/gguf"
)

// sizes notes the size of every write.
type sizes struct {
	bytes.Buffer
	all []int
}

func (s *sizes) Write(p []byte) (int, error) {
	s.all = append(s.all, len(p))
	return s.Buffer.Write(p)
}

// TestPieces writes a model with a long header and tensors in parts of random sizes. All writes but the last have the
// size of a piece, so each begins at a multiple of it.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := make([]string, 200_000)
	for i := range names {
		names[i] = "a name of a token, to make the header longer than a piece"
	}
	list := []gguf.Tensor{
		{Name: "a", Type: gguf.F32, Dims: []int64{1 << 20}},
		{Name: "b", Type: gguf.F32, Dims: []int64{3_000_001}},
	}
	var out sizes
	w, err := New(&out, []Pair{{"names", names}}, list)
	if err != nil {
		t.Fatal(err)
	}
	for left := 4 * (1<<20 + 3_000_001); left > 0; {
		n := min(left, 1+r.IntN(3*pieces))
		if _, err := w.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		left -= n
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for i, n := range out.all {
		if n != pieces && i+1 < len(out.all) || n > pieces {
			t.Fatalf("write %d of %d had %d bytes", i+1, len(out.all), n)
		}
	}
	if len(out.all) < 6 {
		t.Fatalf("only %d writes", len(out.all))
	}
	if _, err := gguf.Read(bytes.NewReader(out.Bytes()), int64(out.Len())); err != nil {
		t.Fatal(err)
	}
}
