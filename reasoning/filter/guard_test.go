package filter_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"runner/backend"
	"runner/backend/tokenizer/o200ktest"
	"runner/chattemplate/readertest"
	"runner/reasoning/filter"
)

// longestQuote is the plain definition that the guard must match: the maximum number of consecutive words of text that
// are consecutive words of reasoning.
func longestQuote(words func(string) []string, reasoning, text string) int {
	a, b := words(reasoning), words(text)
	most := 0
	for i := range a {
		for j := range b {
			n := 0
			for i+n < len(a) && j+n < len(b) && a[i+n] == b[j+n] {
				n++
			}
			most = max(most, n)
		}
	}
	return most
}

var (
	lettersPattern  = regexp.MustCompile(`[\p{L}\p{N}\p{M}]+`)
	unspacedPattern = regexp.MustCompile(`[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]`)
)

// guardWords splits text into words as the guard does, in a simpler way.
func guardWords(s string) []string {
	var out []string
	for _, f := range strings.FieldsFunc(s, unicode.IsSpace) {
		var words []string
		for _, run := range lettersPattern.FindAllString(f, -1) {
			for run != "" {
				loc := unspacedPattern.FindStringIndex(run)
				if loc == nil {
					words = append(words, strings.ToLower(run))
					break
				}
				if loc[0] > 0 {
					words = append(words, strings.ToLower(run[:loc[0]]))
				}
				words = append(words, run[loc[0]:loc[1]])
				run = run[loc[1]:]
			}
		}
		if words == nil {
			words = []string{f}
		}
		out = append(out, words...)
	}
	return out
}

// quoteVocab has few words, spelled and cut in many ways, so that quotations are frequent.
func quoteVocab(t testing.TB) (*backend.Vocab, []backend.Token) {
	x := readertest.NewLexicon([]string{"<|end|>"}, "<|end|>")
	var tokens []backend.Token
	for _, p := range []string{
		"a", "b", "ab", " a", " b", " A", "B", " ", "  ", "\n", ",", ", ", ".", " a b", "b a b a b a b a b a b a b a",
		" a b a b a b a b",
		"+", " + ", "-", "中", "中中", "\xe4", "\xb8", "\xad", "中中中中中中", "a中b", "é", "É", "(", ") ", "1", " 2", " 12 1", "\xff",
	} {
		tokens = append(tokens, x.Text(p))
	}
	return x.Vocab(t), append(tokens, 0)
}

// TestGuard writes random texts under the guard, and checks that they do not quote the reasoning.
func TestGuard(t *testing.T) {
	v, tokens := quoteVocab(t)
	r := rand.New(rand.NewPCG(7, 7))
	refused := map[int]int{}
	for round := range 400 {
		var think strings.Builder
		for range 4 + r.IntN(1+round/3) { // so that every limit occurs
			think.WriteString(v.Piece(tokens[r.IntN(len(tokens)-1)]))
		}
		thoughts := strings.ToValidUTF8(think.String(), "\uFFFD")
		g := filter.NewGuard(v, thoughts)
		limit := filter.QuoteLimit(len(guardWords(thoughts)))
		mask := backend.NewMask(v.Len())
		var text []byte
		pos := r.IntN(len(thoughts))
		for step := range 100 {
			// Half of the time, continue as the reasoning does.
			var tok backend.Token
			if r.IntN(4) > 0 {
				tok = tokens[r.IntN(len(tokens))]
				for try := 0; try < 50 && !strings.HasPrefix(thoughts[pos:], v.Piece(tok)); try++ {
					tok = tokens[r.IntN(len(tokens))]
				}
			} else {
				tok = tokens[r.IntN(len(tokens))]
			}
			g.Fill(mask)
			for _, a := range tokens {
				if mask.Has(a) != g.Allows(a) {
					t.Fatalf("mask and Allows disagree on %q", v.Piece(a))
				}
			}
			if !mask.Has(0) {
				t.Fatal("the end is not allowed")
			}
			if !g.Allows(tok) {
				refused[limit]++
				with := valid(append(slices.Clone(text), v.Piece(tok)...))
				if longestQuote(guardWords, thoughts, with) <= limit && !replacesNumber(thoughts, with, limit) {
					t.Fatalf("%q is refused without need after %q", v.Piece(tok), text)
				}
				continue
			}
			if v.Kind(tok) == backend.Control {
				continue
			}
			g.Accept(tok)
			text = append(text, v.Piece(tok)...)
			if strings.HasPrefix(thoughts[pos:], v.Piece(tok)) && len(thoughts) > pos+len(v.Piece(tok)) {
				pos += len(v.Piece(tok))
			} else {
				pos = r.IntN(len(thoughts))
			}
			if step%8 != 0 {
				continue
			}
			if n := longestQuote(guardWords, thoughts, valid(text)); n > limit {
				t.Fatalf("%d words in a row of the reasoning:\n%q\n%q", n, thoughts, text)
			}
		}
		final := valid(text)
		if replacesNumber(thoughts, final, limit) {
			t.Fatalf("a number is replaced by another one:\n%q\n%q", thoughts, final)
		}
		// strings.Fields is another definition of words, which does not need the guard's code.
		if n := longestQuote(strings.Fields, thoughts, final); n > limit {
			t.Fatalf("%d fields in a row of the reasoning:\n%q\n%q", n, thoughts, final)
		}
		if filter.Quotes(thoughts, final) {
			t.Fatal("Quotes disagrees")
		}
	}
	for limit := filter.MinQuote; limit <= filter.MaxQuote; limit++ {
		if refused[limit] < 10 {
			t.Errorf("at a limit of %d words only %d tokens were refused, too few for this test", limit, refused[limit])
		}
	}
}

// replacesNumber is the plain definition of the guard's other rule: no other number after a run of limit words that
// the reasoning continues with a number.
func replacesNumber(thoughts, text string, limit int) bool {
	a, b := guardWords(thoughts), guardWords(text)
	number := func(word string) bool { return strings.IndexFunc(word, unicode.IsNumber) == 0 }
	for i := limit; i < len(a); i++ {
		for j := limit; j < len(b); j++ {
			if number(a[i]) && number(b[j]) && slices.Equal(a[i-limit:i], b[j-limit:j]) {
				return true
			}
		}
	}
	return false
}

// TestNumbersAreNotReplaced puts a number after the longest run that may be quoted. Neither the reasoning's number nor
// another one may follow.
func TestNumbersAreNotReplaced(t *testing.T) {
	const thoughts = "In order: 3, 5, 9, and that is all there is."
	for text, refused := range map[string]bool{
		"In order: 5, 3":           false,
		"In order: 3, 5":           true,
		"In order: 3, 7":           true,
		"In order: 3, and more":    false,
		"In order: 3 -7":           true,
		"In order: 3, then 5":      false,
		"It goes order: 3, 5, 7":   true,
		"It goes order: 3, 5, 9":   true,
		"It goes order: 3, 5, and": false,
		"and that is 7":            false,
		"In order: 3, x7":          false,
	} {
		if got := filter.Quotes(thoughts, text); got != refused {
			t.Errorf("%q: refused is %v", text, got)
		}
	}
}

// TestQuoteLimit quotes as many words as a summary may contain, and one more, from reasoning of every length up to 60
// words.
func TestQuoteLimit(t *testing.T) {
	var words []string
	for n := range 60 {
		words = append(words, fmt.Sprintf("w%d", n))
		thoughts := strings.Join(words, " ")
		limit := min(12, max(3, len(words)/3))
		if got := filter.QuoteLimit(len(words)); got != limit {
			t.Fatalf("%d words may be quoted of %d, want %d", got, len(words), limit)
		}
		from := len(words) - min(limit+1, len(words))
		quote := "Well, " + strings.Join(words[from:], ", ")
		if got, want := filter.Quotes(thoughts, quote), len(words) > limit; got != want {
			t.Errorf("%d words, quoted from word %d on: %v", len(words), from, got)
		}
		if quote = strings.Join(words[:min(limit, len(words))], " ") + " and so on"; filter.Quotes(thoughts, quote) {
			t.Errorf("%d words: quoting the first %d is refused", len(words), limit)
		}
	}
}

func valid(b []byte) string { return string([]rune(string(b))) }

func TestQuotes(t *testing.T) {
	const thoughts = "First add the units: 7 + 5 = 12, write 2 and carry 1. Then add the tens and the carry. " +
		"That is all there is to it, so the sum of both numbers is what I have written down."
	for text, want := range map[string]bool{
		"":                                       false,
		thoughts:                                 true,
		"first ADD the units 7 + 5 = 12 write 2": false, // 12 words
		"first ADD the units 7 + 5 = 12 (write) 2, and":           false, // 12
		"first ADD the units 7 + 5 = 12 (write) 2, and Carry":     true,
		"Add the units, 7 and 5; the result is 12, so write 2.":   false,
		"xfirst add the units: 7 + 5 = 12, write 2 and":           false,
		"the units: 7 + 5 = 12, write 2 and carry 1. Then":        true,
		"the units: 7 + 5 = 12, write 2 and carry 10. Then":       false,
		"the units:\n7\n+\n5\n=\n12,\nwrite\n2\nand\ncarry\n1...": false,
	} {
		if got := filter.Quotes(thoughts, text); got != want {
			t.Errorf("Quotes(%q) = %v (%d words)", text, got, longestQuote(guardWords, thoughts, text))
		}
		if n := longestQuote(guardWords, thoughts, text); (n > filter.MaxQuote) != want {
			t.Errorf("%q: the plain definition says %d words", text, n)
		}
	}
}

// BenchmarkGuardAllows measures the usual cost of a sampled token. BenchmarkGuardFill measures the highest cost after
// a refusal.
func BenchmarkGuardAllows(b *testing.B) {
	g, quote := benchGuard(b)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		t := quote[i%len(quote)]
		if g.Allows(t) {
			g.Accept(t)
		}
	}
}

func BenchmarkGuardFill(b *testing.B) {
	g, quote := benchGuard(b)
	for _, t := range quote {
		if !g.Allows(t) {
			break
		}
		g.Accept(t)
	}
	m := backend.NewMask(o200ktest.Tokenizer(b).Vocab().Len())
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		g.Fill(m)
	}
}

func BenchmarkNewGuard(b *testing.B) {
	text := strings.Join(benchWords(b, 30000), " ")
	b.ResetTimer()
	for b.Loop() {
		filter.NewGuard(o200ktest.Tokenizer(b).Vocab(), text)
	}
}

// benchWords returns n words of o200k.
func benchWords(b testing.TB, n int) []string {
	v, r := o200ktest.Tokenizer(b).Vocab(), rand.New(rand.NewPCG(3, 4))
	var words []string
	for len(words) < n {
		if p := v.Piece(backend.Token(r.IntN(50000))); len(p) > 1 && p[0] == ' ' && unicode.IsLetter(rune(p[1])) {
			words = append(words, p[1:])
		}
	}
	return words
}

// benchGuard returns a guard over 30,000 words of reasoning, and the tokens of a quotation from it.
func benchGuard(b *testing.B) (*filter.Guard, []backend.Token) {
	v := o200ktest.Tokenizer(b).Vocab()
	words := benchWords(b, 30000)
	ids := map[string]backend.Token{}
	for t := range backend.Token(v.Len()) {
		ids[v.Piece(t)] = t
	}
	var quote []backend.Token
	for _, w := range words[1000:1400] {
		quote = append(quote, ids[" "+w])
	}
	return filter.NewGuard(v, strings.Join(words, " ")), quote
}
