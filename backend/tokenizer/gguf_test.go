package tokenizer_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/tokenizer"
	"runner/backend/tokenizer/texttest"
	"runner/models/random/ggufwriter"
)

// metadata writes the vocabulary of k the way a GGUF file has it.
func metadata(k *tokenizer.Tokenizer, pre string) []ggufwriter.Pair {
	v := k.Vocab()
	tokens, types := make([]string, v.Len()), make([]int32, v.Len())
	for i := range tokens {
		id := backend.Token(i)
		tokens[i], types[i] = ggufwriter.Alphabet(v.Piece(id)), 1
		switch v.Kind(id) {
		case backend.Control:
			tokens[i], types[i] = v.Piece(id), 3
		case backend.UserDefined:
			tokens[i], types[i] = v.Piece(id), 4
		case backend.Unused:
			types[i] = 5
		}
	}
	byRank := map[int]string{}
	k.Merges(func(rank int, left, right string) bool {
		byRank[rank] = ggufwriter.Alphabet(left) + " " + ggufwriter.Alphabet(right)
		return true
	})
	merges := make([]string, len(byRank))
	for rank, m := range byRank {
		merges[rank] = m
	}
	return []ggufwriter.Pair{
		{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.pre", Value: pre},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types}, {Key: "tokenizer.ggml.merges", Value: merges},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(v.EOS())},
	}
}

func fromPairs(t testing.TB, pairs []ggufwriter.Pair) (*tokenizer.Tokenizer, error) {
	t.Helper()
	var out bytes.Buffer
	w, err := ggufwriter.New(&out, pairs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Read(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer.FromGGUF(f)
}

// TestGGUFEqualsJSON writes the tokenizers of testdata as GGUF metadata. The engine's own tests compare with the
// engine.
func TestGGUFEqualsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, pre := range map[string]string{"llama3": "llama-bpe", "qwen2": "qwen2", "gpt2": "gpt-2",
		"starcoder": "starcoder"} {
		a, err := tokenizer.FromJSON(readFile(t, name+".json"), tokenizer.Ends{EOS: "<|endoftext|>"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := fromPairs(t, metadata(a, pre))
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			text := strings.ReplaceAll(texttest.Random(r, 20), "ſ", "s")
			if !slices.Equal(a.Encode(nil, text), b.Encode(nil, text)) {
				t.Fatalf("%s: %q differs", name, text)
			}
		}
		if b.Vocab().EOS() != a.Vocab().EOS() || b.Vocab().Kind(b.Vocab().EOS()) != backend.Control {
			t.Errorf("%s: EOS is %d", name, b.Vocab().EOS())
		}
	}
}

func TestUserDefinedTokens(t *testing.T) {
	a, err := tokenizer.FromJSON(readFile(t, "gpt2.json"), tokenizer.Ends{})
	if err != nil {
		t.Fatal(err)
	}
	pairs := metadata(a, "gpt-2")
	pairs[2].Value = append(pairs[2].Value.([]string), "    ", "<think>", "[INST]", "      ")
	pairs[3].Value = append(pairs[3].Value.([]int32), 4, 4, 4, 4)
	pairs[5].Value = uint32(0)
	k, err := fromPairs(t, pairs)
	if err != nil {
		t.Fatal(err)
	}
	n := backend.Token(a.Vocab().Len())
	for text, want := range map[string][]backend.Token{
		"    ": {n}, "      ": {n + 3}, "          ": {n - 1, k.Encode(nil, "  ")[0]}, // 8 and 2
	} {
		if got := k.Encode(nil, text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"<think>", "x[INST]y"} {
		for _, id := range k.Encode(nil, text) {
			if k.Vocab().Kind(id) != backend.Normal {
				t.Errorf("%q holds the token %q", text, k.Vocab().Piece(id))
			}
		}
	}
	if id, ok := k.Vocab().Special("<think>"); !ok || id != n+1 {
		t.Errorf("<think> is %d, %v", id, ok)
	}
}

func TestGGUFErrors(t *testing.T) {
	a, err := tokenizer.FromJSON(readFile(t, "gpt2.json"), tokenizer.Ends{})
	if err != nil {
		t.Fatal(err)
	}
	type pairs = []ggufwriter.Pair
	for name, test := range map[string]struct {
		change func(p pairs) pairs
		want   error
	}{
		"no tokenizer":  {func(p pairs) pairs { return nil }, tokenizer.ErrModel},
		"SentencePiece": {func(p pairs) pairs { p[0].Value = "llama"; return p }, tokenizer.ErrModel},
		"pattern":       {func(p pairs) pairs { p[1].Value = "gpt-7"; return p }, tokenizer.ErrPattern},
		"no pattern":    {func(p pairs) pairs { p[1].Key = "x"; return p }, tokenizer.ErrPattern},
		"no tokens":     {func(p pairs) pairs { p[2].Key = "x"; return p }, tokenizer.ErrVocabulary},
		"empty tokens": {func(p pairs) pairs {
			p[2].Value, p[3].Value = []string{}, []int32{}
			return p
		}, tokenizer.ErrVocabulary},
		"numbers":       {func(p pairs) pairs { p[2].Value = []int32{1}; return p }, tokenizer.ErrVocabulary},
		"few types":     {func(p pairs) pairs { p[3].Value = []int32{1}; return p }, tokenizer.ErrVocabulary},
		"no merges":     {func(p pairs) pairs { return p[:4] }, tokenizer.ErrVocabulary},
		"odd merge":     {func(p pairs) pairs { p[4].Value = []string{"ab"}; return p }, tokenizer.ErrVocabulary},
		"unknown merge": {func(p pairs) pairs { p[4].Value = []string{"~ ~"}; return p }, tokenizer.ErrVocabulary},
	} {
		if _, err := fromPairs(t, test.change(metadata(a, "gpt-2"))); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}
