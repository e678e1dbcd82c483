package llamacpp

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/tokenizer"
	"runner/backend/tokenizer/o200ktest"
	"runner/backend/tokenizer/texttest"
	"runner/models/random"
	"runner/models/random/ggufwriter"
)

// writeO200k writes a tiny model with the real vocabulary of gpt-oss, split by the pattern named pre.
func writeO200k(t testing.TB, pre string) string {
	t.Helper()
	var small bytes.Buffer
	config := random.Config{Layers: 1, Width: 32, Heads: 1, KVHeads: 1, Vocabulary: o200ktest.Size}
	if err := random.Write(&small, config); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Read(bytes.NewReader(small.Bytes()), int64(small.Len()))
	if err != nil {
		t.Fatal(err)
	}
	k := o200ktest.Tokenizer(t)
	v := k.Vocab()
	tokens, types := make([]string, v.Len()), make([]int32, v.Len())
	for i := range tokens {
		id := backend.Token(i)
		tokens[i], types[i] = ggufwriter.Alphabet(v.Piece(id)), 1
		switch v.Kind(id) {
		case backend.Control:
			tokens[i], types[i] = v.Piece(id), 3
		case backend.Unused:
			tokens[i], types[i] = fmt.Sprintf("[unused %d]", i), 5
		}
	}
	merges, err := o200ktest.Merges()
	if err != nil {
		t.Fatal(err)
	}
	var metadata []ggufwriter.Pair
	for _, kv := range f.Metadata {
		switch kv.Key {
		case "tokenizer.ggml.pre":
			metadata = append(metadata, ggufwriter.Pair{Key: kv.Key, Value: pre})
		case "tokenizer.ggml.tokens":
			metadata = append(metadata, ggufwriter.Pair{Key: kv.Key, Value: tokens})
		case "tokenizer.ggml.token_type":
			metadata = append(metadata, ggufwriter.Pair{Key: kv.Key, Value: types})
		case "tokenizer.ggml.merges":
			metadata = append(metadata, ggufwriter.Pair{Key: kv.Key, Value: merges})
		default:
			metadata = append(metadata, ggufwriter.Pair{Key: kv.Key, Value: plain(kv.Value)})
		}
	}
	var out bytes.Buffer
	w, err := ggufwriter.New(&out, metadata, f.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	for _, ti := range f.Tensors {
		if _, err := w.Write(small.Bytes()[f.DataOffset+ti.Offset:][:ti.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "o200k.gguf")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTokenizerAgrees compares backend/tokenizer with the engine on random texts, for every supported pattern. It
// leaves out invalid UTF-8, which the engine does not accept, and characters newer than Go's Unicode tables.
func TestTokenizerAgrees(t *testing.T) {
	for _, pre := range []string{"gpt-4o", "llama-bpe", "qwen2", "gpt-2", "starcoder", "tekken"} {
		t.Run(pre, func(t *testing.T) {
			path := writeO200k(t, pre)
			m, err := Open(context.Background(), path, backend.Config{ContextSize: 256, Sequences: 1, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if m.(*Model).pure == nil {
				t.Fatal("the engine does not use backend/tokenizer for this vocabulary")
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			k, err := tokenizer.FromGGUF(f, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range k.Vocab().Len() {
				id := backend.Token(i)
				if a, b := k.Vocab(), m.Vocab(); a.Piece(id) != b.Piece(id) || a.Kind(id) != b.Kind(id) ||
					a.EndsGeneration(id) != b.EndsGeneration(id) {
					t.Fatalf("token %d is %q, kind %d, but %q, kind %d for the engine", id, a.Piece(id), a.Kind(id), b.Piece(id),
						b.Kind(id))
				}
			}
			if a, b := k.Vocab(), m.Vocab(); a.BOS() != b.BOS() || a.EOS() != b.EOS() || a.AddBOS() != b.AddBOS() {
				t.Errorf("BOS %d, EOS %d, add %v, but %d, %d, %v for the engine", a.BOS(), a.EOS(), a.AddBOS(), b.BOS(), b.EOS(),
					b.AddBOS())
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 800 {
				text := strings.Map(func(c rune) rune {
					if c > 127 && !unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) {
						return -1 // unassigned here, or private
					}
					return c
				}, texttest.Random(r, 1+r.IntN(40)))
				want, err := m.(*Model).text.append(nil, text) // the engine's own, which Tokenize does not use here
				if err != nil {
					t.Fatal(err)
				}
				got, err := k.Encode(nil, text)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want) {
					i := 0
					for i < min(len(got), len(want)) && got[i] == want[i] {
						i++
					}
					t.Fatalf("%q: token %d: got %v, the engine has %v", text, i, pieces(k, got[i:]), pieces(k, want[i:]))
				}
			}
		})
	}
}

func pieces(k *tokenizer.Tokenizer, tokens []backend.Token) []string {
	var s []string
	for _, id := range tokens[:min(6, len(tokens))] {
		s = append(s, k.Vocab().Piece(id))
	}
	return s
}
