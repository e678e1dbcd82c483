package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	return tokenizer.FromGGUF(f, nil)
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
			if !slices.Equal(encode(a, nil, text), encode(b, nil, text)) {
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
	x, y := encode(k, nil, "x")[0], encode(k, nil, "y")[0]
	for text, want := range map[string][]backend.Token{
		"    ": {n}, "      ": {n + 3}, "          ": {n - 1, encode(k, nil, "  ")[0]}, // 8 and 2
		"<think>": {n + 1}, "x[INST]y": {x, n + 2, y},
	} {
		if got := encode(k, nil, text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if id, ok := k.Vocab().Special("<think>"); !ok || id != n+1 {
		t.Errorf("<think> is %d, %v", id, ok)
	}
}

// TestOverlappingTokens checks which of user-defined tokens that overlap is matched: the longest in GGUF files, the
// first in tokenizer.json.
func TestOverlappingTokens(t *testing.T) {
	pieces := func(k *tokenizer.Tokenizer, text string) string {
		var list []string
		for _, id := range encode(k, nil, text) {
			list = append(list, k.Vocab().Piece(id))
		}
		return strings.Join(list, "|")
	}
	added := []string{"<1>", "1><2>", "<2>x", "  "}
	a, err := tokenizer.FromJSON(readFile(t, "gpt2.json"), tokenizer.Ends{})
	if err != nil {
		t.Fatal(err)
	}
	pairs := metadata(a, "gpt-2")
	for _, text := range added {
		pairs[2].Value = append(pairs[2].Value.([]string), text)
		pairs[3].Value = append(pairs[3].Value.([]int32), 4)
	}
	pairs[5].Value = uint32(0)
	longest, err := fromPairs(t, pairs)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"<1><2>": "<|1><2>", "<1>": "<1>", "<1><1><2>x": "<1>|<|1><2>|x", "<2>x": "<2>x", "1><2": "1|>|<|2", "   ": "  | ",
	} {
		if got := pieces(longest, text); got != want {
			t.Errorf("%q of a GGUF file: %q, want %q", text, got, want)
		}
	}
	var file map[string]any
	if err := json.Unmarshal(readFile(t, "gpt2.json"), &file); err != nil {
		t.Fatal(err)
	}
	for i, text := range added {
		file["added_tokens"] = append(file["added_tokens"].([]any),
			map[string]any{"id": a.Vocab().Len() + i, "content": text, "special": false})
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	first, err := tokenizer.FromJSON(data, tokenizer.Ends{})
	if err != nil {
		t.Fatal(err)
	}
	if got := pieces(first, "<1><2>x"); got != "<1>|<2>x" {
		t.Errorf("of tokenizer.json: %q", got)
	}
}

// pieceVocabulary is metadata of a vocabulary of SentencePiece. z is in a token and is none, and only some bytes have
// tokens.
func pieceVocabulary() []ggufwriter.Pair {
	tokens := []string{"<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", "<0x7A>", "<b>", "\u2581", "a", "b", "<", "/",
		"s", ">", "</", "</s", "ab", "\u2581a", "\u2581ab", "az", "b\u2581a", "\x01", "aa"}
	scores := []float32{0, 0, 0, 0, 0, 0, 0, 0, -9, -9, -9, -9, -9, -9, -9, -1, -1, -3, -2, -4, -5, -4, -9, -1}
	types := []int32{2, 3, 3, 6, 6, 6, 6, 4}
	for len(types) < len(tokens) {
		types = append(types, 1)
	}
	return []ggufwriter.Pair{{Key: "tokenizer.ggml.model", Value: "llama"}, {Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types}, {Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)}, {Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.add_space_prefix", Value: false}}
}

// TestSentencePieces checks the rules of such vocabularies one by one. The engine's own tests compare with the engine.
func TestSentencePieces(t *testing.T) {
	k, err := fromPairs(t, pieceVocabulary())
	if err != nil {
		t.Fatal(err)
	}
	withSpace, err := fromPairs(t, pieceVocabulary()[:6])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, text, want string
		k                *tokenizer.Tokenizer
	}{
		{"the higher score first", "ab ab", "ab| ab", k},
		{"the leftmost among equals", "aaa", "aa|a", k},
		{"a token that crosses words", "b a", "b a", k},
		{"a character that is no token", "azzé\n", "az|z|\xc3|\xa9|\n", k},
		{"a user-defined token", "a<b>a", "a|<b>|a", k},
		{"the name of a control token", "</s>", "</s|>", k},
		{"a control character", "a\x01a", "a|\x01|a", k},
		{"invalid UTF-8", "a\xc3a", "a|\xc3|a", k},
		{"a space before", "a", " a", withSpace},
		{"a space before and after a token", "a<b>a", " a|<b>| a", withSpace},
		{"nothing", "", "", withSpace},
	} {
		var got []string
		for _, id := range encode(c.k, nil, c.text) {
			if c.k.Vocab().Kind(id) == backend.Control {
				t.Errorf("%s: a control token", c.what)
			}
			got = append(got, c.k.Vocab().Piece(id))
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%s: %q, want %q", c.what, s, c.want)
		}
	}
	if _, err := k.Encode(nil, "\t"); !errors.Is(err, tokenizer.ErrVocabulary) {
		t.Errorf("a byte without a token: %v", err)
	}
	if v := k.Vocab(); v.BOS() != 1 || !v.AddBOS() || !v.EndsGeneration(2) || v.Piece(18) != " a" {
		t.Errorf("BOS %d, added %t, EOS ends %t, piece %q", v.BOS(), v.AddBOS(), v.EndsGeneration(2), v.Piece(18))
	}
}

// TestBytesWithoutTokens checks that a byte-level vocabulary may lack tokens for bytes.
func TestBytesWithoutTokens(t *testing.T) {
	a, err := tokenizer.FromJSON(readFile(t, "gpt2.json"), tokenizer.Ends{})
	if err != nil {
		t.Fatal(err)
	}
	pairs := metadata(a, "gpt-2")
	tokens := pairs[2].Value.([]string)
	for _, b := range []byte{4, 0xff} {
		tokens[slices.Index(tokens, ggufwriter.Alphabet(string([]byte{b})))] = fmt.Sprintf("absent %d", b)
	}
	k, err := fromPairs(t, pairs)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"a\x04b": "ab", "\x04": "", "\x05": "\x05", "the \x04 end": "the  end"} {
		if got := decode(k.Vocab(), encode(k, nil, text)); got != want {
			t.Errorf("%q is spelled %q, want %q", text, got, want)
		}
	}
	if _, err := k.Encode(nil, "a\xffb"); !errors.Is(err, tokenizer.ErrVocabulary) {
		t.Errorf("an invalid byte without a token: %v", err)
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
		"no tokenizer": {func(p pairs) pairs { return nil }, tokenizer.ErrModel},
		"word pieces":  {func(p pairs) pairs { p[0].Value = "bert"; return p }, tokenizer.ErrModel},
		"few scores": {func(p pairs) pairs {
			p[0].Value = "llama"
			return append(p, ggufwriter.Pair{Key: "tokenizer.ggml.scores", Value: []float32{1}})
		}, tokenizer.ErrVocabulary},
		"pattern":    {func(p pairs) pairs { p[1].Value = "gpt-7"; return p }, tokenizer.ErrPattern},
		"no pattern": {func(p pairs) pairs { p[1].Key = "x"; return p }, tokenizer.ErrPattern},
		"no tokens":  {func(p pairs) pairs { p[2].Key = "x"; return p }, tokenizer.ErrVocabulary},
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
