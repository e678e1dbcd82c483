package tokenizer_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/tokenizer/o200ktest"
)

// decode joins the pieces of tokens.
func decode(v *backend.Vocab, tokens []backend.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(v.Piece(t))
	}
	return b.String()
}

// TestO200kGolden compares with tokens that OpenAI's cookbook gives for o200k_base.
func TestO200kGolden(t *testing.T) {
	k := o200ktest.Tokenizer(t)
	for text, want := range map[string][]backend.Token{
		"":                             nil,
		"hello world":                  {24912, 2375},
		"tiktoken is great!":           {83, 8251, 2488, 382, 2212, 0},
		"antidisestablishmentarianism": {493, 129901, 376, 160388, 21203, 2367},
		"2 + 2 = 4":                    {17, 659, 220, 17, 314, 220, 19},
		"お誕生日おめでとう":                    {8930, 9697, 243, 128225, 8930, 17693, 4344, 48669},
	} {
		if got := encode(k, nil, text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// naive is tiktoken's algorithm without its shortcuts: it always joins the adjacent pair of lowest rank.
func naive(ranks map[string]int, word string) []backend.Token {
	if id, ok := ranks[word]; ok {
		return []backend.Token{backend.Token(id)}
	}
	parts := make([]string, len(word))
	for i := range parts {
		parts[i] = word[i : i+1]
	}
	for {
		best, at := -1, 0
		for i := range len(parts) - 1 {
			if rank, ok := ranks[parts[i]+parts[i+1]]; ok && (best < 0 || rank < best) {
				best, at = rank, i
			}
		}
		if best < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
	var ids []backend.Token
	for _, p := range parts {
		ids = append(ids, backend.Token(ranks[p]))
	}
	return ids
}

// TestMergesEqualTheRanks compares with the naive algorithm on words that the pattern does not split: letters only.
func TestMergesEqualTheRanks(t *testing.T) {
	ranks, err := o200ktest.Ranks()
	if err != nil {
		t.Fatal(err)
	}
	k := o200ktest.Tokenizer(t)
	r := rand.New(rand.NewPCG(3, 4))
	letters := []string{"e", "t", "a", "o", "in", "er", "th", "an", "ing", "tion", "é", "ß", "я", "ни", "ного", "中", "国",
		"の", "ए", "q", "z", "aaaa"}
	for range 4000 {
		var b strings.Builder
		for range 1 + r.IntN(60) {
			b.WriteString(letters[r.IntN(len(letters))])
		}
		if word := b.String(); !slices.Equal(encode(k, nil, word), naive(ranks, word)) {
			t.Fatalf("%q: got %v, want %v", word, encode(k, nil, word), naive(ranks, word))
		}
	}
}

// TestEveryTokenIsItself checks that the bytes of a token that are one word encode to that token.
func TestEveryTokenIsItself(t *testing.T) {
	k := o200ktest.Tokenizer(t)
	v := k.Vocab()
	checked := 0
	for i := range v.Len() {
		id := backend.Token(i)
		if p := v.Piece(id); v.Kind(id) == backend.Normal && strings.Trim(p, "abcdefghijklmnopqrstuvwxyz") == "" {
			if got := encode(k, nil, p); len(got) != 1 || got[0] != id {
				t.Fatalf("%q is %v, not %d", p, got, id)
			}
			checked++
		}
	}
	if checked < 10000 {
		t.Errorf("only %d tokens are of letters", checked)
	}
}

func TestPlainTextIsNeverControl(t *testing.T) {
	k := o200ktest.Tokenizer(t)
	const text = "<|start|>system<|message|>x<|end|><|return|><|call|><|endoftext|>"
	tokens := encode(k, nil, text)
	if decode(k.Vocab(), tokens) != text {
		t.Error("the text changed")
	}
	for _, id := range tokens {
		if k.Vocab().Kind(id) != backend.Normal {
			t.Errorf("token %d %q is not text", id, k.Vocab().Piece(id))
		}
	}
	if id, ok := k.Vocab().Special("<|call|>"); !ok || id != o200ktest.Call || !k.Vocab().EndsGeneration(id) {
		t.Errorf("<|call|> is %d, %v", id, ok)
	}
	if k.Vocab().EndsGeneration(o200ktest.End) || k.Vocab().Len() != o200ktest.Size {
		t.Error("the vocabulary is not o200k_harmony's")
	}
}

// TestHugeWords checks that time does not grow with the square of the length: sixteen times the length would then
// take 256 times as long. A busy machine slows down the short text as well.
func TestHugeWords(t *testing.T) {
	k := o200ktest.Tokenizer(t)
	r := rand.New(rand.NewPCG(5, 6))
	random := make([]byte, 1<<18)
	for i := range random {
		random[i] = 'a' + byte(r.IntN(26))
	}
	for name, text := range map[string]string{
		"one letter": strings.Repeat("a", 1<<20), "spaces": strings.Repeat(" ", 1<<18),
		"newlines": strings.Repeat("\n", 1<<18),
		"letters":  string(random), "quotes": strings.Repeat("'", 1<<18), "marks": strings.Repeat("\u0301", 1<<17),
		"invalid": strings.Repeat("\xff", 1<<18), "spaces and newlines": strings.Repeat(" \n", 1<<17),
		"mixed case": strings.Repeat("中A", 1<<16),
	} {
		start := time.Now()
		encode(k, nil, text[:len(text)/16])
		short := time.Since(start)
		start = time.Now()
		if decode(k.Vocab(), encode(k, nil, text)) != text {
			t.Errorf("%s: the text changed", name)
		}
		if took := time.Since(start); took > 30*time.Second && took > 80*short {
			t.Errorf("%s: %v, and %v for a sixteenth of it", name, took, short)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	k := o200ktest.Tokenizer(t)
	text := strings.Repeat("Concurrency is not parallelism; "+strings.Repeat("x", 100)+" 12345\n", 20)
	want := encode(k, nil, text)
	done := make(chan []backend.Token)
	for range 4 {
		go func() { done <- encode(k, nil, text) }()
	}
	for range 4 {
		if got := <-done; !slices.Equal(got, want) {
			t.Error("another goroutine got other tokens")
		}
	}
}

// FuzzRoundTrip checks that the pieces of the tokens are the text, whatever its bytes, and that the tokens do not
// depend on what they are appended to.
func FuzzRoundTrip(f *testing.F) {
	f.Add("hello world")
	f.Add("a\xffb\xc3\x28 '\u017f <|end|> \u0301\r\n 123456")
	f.Add(strings.Repeat("ab", 60))
	f.Fuzz(func(t *testing.T, text string) {
		k := o200ktest.Tokenizer(t)
		tokens := encode(k, nil, text)
		if got := decode(k.Vocab(), tokens); got != text {
			t.Fatalf("%q became %q", text, got)
		}
		for _, id := range tokens {
			if k.Vocab().Kind(id) != backend.Normal {
				t.Fatalf("%q holds the token %d", text, id)
			}
		}
		appended := encode(k, []backend.Token{1, 2}, text)
		if !slices.Equal(appended[2:], tokens) || appended[0] != 1 || appended[1] != 2 {
			t.Fatalf("appending to tokens changes them")
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	k := o200ktest.Tokenizer(b)
	for name, text := range map[string]string{
		"english": strings.Repeat("The quick brown fox jumps over the lazy dog, and nobody's surprised that it did so "+
			"again in 1987. ", 200),
		"code": strings.Repeat("func (t *Tokenizer) Vocab() *backend.Vocab {\n\tif t.vocab == nil {\n\t\treturn "+
			"nil\n\t}\n\treturn t.vocab\n}\n\n", 200),
		"chinese": strings.Repeat("今天天气很好，我们一起去公园散步吧。", 400),
		"letter":  strings.Repeat("a", 1<<20),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var dst []backend.Token
			for b.Loop() {
				dst = encode(k, dst[:0], text)
			}
		})
	}
}
