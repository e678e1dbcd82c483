package llamacpp

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/tokenizer"
	"runner/models/random"
)

// TestTokenizersAgree compares package tokenizer, which this backend prefers, with the engine's, and their
// vocabularies.
func TestTokenizersAgree(t *testing.T) {
	path := writeModel(t, random.Config{Vocabulary: 4000})
	m := openModel(t, path, backend.Config{ContextSize: 256, Sequences: 1})
	if m.pure == nil {
		t.Fatal("package tokenizer does not read the model")
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	k, err := tokenizer.FromGGUF(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, w := m.vocab, k.Vocab()
	for i := range v.Len() {
		id := backend.Token(i)
		if v.Piece(id) != w.Piece(id) || v.Kind(id) != w.Kind(id) || v.EndsGeneration(id) != w.EndsGeneration(id) {
			t.Fatalf("token %d: the engine has %q of kind %d, ends %t; package tokenizer has %q of kind %d, ends %t", i,
				v.Piece(id), v.Kind(id), v.EndsGeneration(id), w.Piece(id), w.Kind(id), w.EndsGeneration(id))
		}
	}
	if v.BOS() != w.BOS() || v.EOS() != w.EOS() || v.AddBOS() != w.AddBOS() {
		t.Errorf("BOS, EOS or AddBOS differ")
	}
	r := rand.New(rand.NewPCG(3, 3))
	parts := []string{" ", "  ", "\n", "the", "The", "ING", "'s", "'LL", "9", "1234", ".", "...", "é", "中", "🙂", "\t", "_",
		"A", "a", "/", "\r\n", "ß", "Ж", " x"}
	for range 2000 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		s := b.String()
		got, failed := m.pure.Encode(nil, s)
		want, err := m.text.append(nil, s)
		if err != nil || failed != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: package tokenizer %v, %v, engine %v, %v", s, got, failed, want, err)
		}
	}
}

// TestEngineTokenizer checks that the wrapper around the engine's tokenizer keeps the promises of Tokenize, on
// hostile text.
func TestEngineTokenizer(t *testing.T) {
	m := openModel(t, writeModel(t, random.Config{}), backend.Config{ContextSize: 256, Sequences: 1})
	size := 200_000
	if testing.Short() || os.Getenv("RUNNER_LONG") == "" {
		size = 20_000
	}
	for name, s := range map[string]string{
		"a word without end": strings.Repeat("a", size), "spaces": strings.Repeat(" ", size),
		"marks":         strings.Repeat("!", size),
		"other letters": strings.Repeat("é", size), "control tokens": strings.Repeat("<|end|><|start|>", 200),
		"broken": "a\xffb\xc3\xc3<|call|>\xe2\x82",
		"nested": "<|en<|end|>d|>", "nothing": "",
	} {
		begin := time.Now()
		tokens, err := m.text.append(nil, s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var b strings.Builder
		for _, id := range tokens {
			if m.vocab.Kind(id) != backend.Normal {
				t.Fatalf("%s became token %q", name, m.vocab.Piece(id))
			}
			b.WriteString(m.vocab.Piece(id))
		}
		if b.String() != s {
			t.Errorf("%s: the tokens spell another text of %d bytes, not %d", name, b.Len(), len(s))
		}
		t.Logf("%s: %d bytes in %v, valid UTF-8 %t", name, len(s), time.Since(begin).Round(time.Millisecond),
			utf8.ValidString(s))
	}
}
