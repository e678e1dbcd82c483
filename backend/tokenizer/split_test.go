package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"

	"runner/backend/tokenizer/texttest"
)

// TestSplitEqualsTheRegexp compares the hand-written patterns with a backtracking engine that runs the expressions.
func TestSplitEqualsTheRegexp(t *testing.T) {
	compiled := map[string]*regexp2.Regexp{}
	for expression := range regexps {
		// The engine has no possessive quantifiers, which only save time here, and its \s is not Unicode's.
		e := strings.NewReplacer("++", "+", "?+", "?", ",3}+", ",3}", "*+", "*").Replace(expression)
		e = strings.NewReplacer(`[^\s`, `[^\u0009-\u000d\u0020\u0085\p{Z}`, `\s`, `[\u0009-\u000d\u0020\u0085\p{Z}]`, `\S`,
			`[^\u0009-\u000d\u0020\u0085\p{Z}]`).Replace(e)
		compiled[expression] = regexp2.MustCompile(e, regexp2.None)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1500 {
		text := texttest.Random(r, 1+r.IntN(30))
		if strings.Contains(text, "ſ") { // the engine folds no long s; TestContractions covers it
			continue
		}
		for expression, re := range compiled {
			var want, got []string
			for m, err := re.FindStringMatch(text); m != nil; m, err = re.FindNextMatch(m) {
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, m.String())
			}
			p := regexps[expression]
			for i := 0; i < len(text); {
				end := p.next(text, i)
				got = append(got, text[i:end])
				i = end
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s\ngot  %q\nwant %q", expression, got, want)
			}
		}
	}
}

func words(p pattern, text string) []string {
	var w []string
	for i := 0; i < len(text); {
		end := p.next(text, i)
		w = append(w, text[i:end])
		i = end
	}
	return w
}

func TestContractions(t *testing.T) {
	for _, test := range []struct {
		p    pattern
		text string
		want string // words, with | between them
	}{
		{gpt2, "it's IT'S we're", "it|'s| IT|'|S| we|'re"},
		{llama3, "it's IT'S we'Re'llx'", "it|'s| IT|'S| we|'Re|'ll|x|'"},
		{cl100k, "a'ſ'ſx", "a|'ſ|'ſ|x"},
		{llama3, "a'ſ", "a|'ſ"}, // a quote before a letter, which is the same here
		{o200k, "it's IT'S'LL", "it's| IT'S|'LL"},
		{o200k, "a'ſb", "a'ſ|b"},
		{gpt4o, "a'ſb", "a|'ſb"},
		{tekken, "it's", "it|'s"},
	} {
		if got := strings.Join(words(test.p, test.text), "|"); got != test.want {
			t.Errorf("%q: got %s, want %s", test.text, got, test.want)
		}
	}
}

func TestDigitsAlone(t *testing.T) {
	for text, want := range map[string]string{
		"a 12  3": "a| |1|2|  |3", " 1": " |1", "x1y": "x|1|y", "!!9!": "!!|9|!", "  x": " | x", "  ": "  ",
	} {
		if got := strings.Join(words(starcoder, text), "|"); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestMarksInGPT4o shows where llama.cpp's pattern differs from the model's own.
func TestMarksInGPT4o(t *testing.T) {
	const text = "हिन्दी" // the vowel signs are combining marks
	if got := words(o200k, text); len(got) != 1 {
		t.Errorf("o200k splits a Hindi word: %q", got)
	}
	if got := words(gpt4o, text); len(got) < 2 {
		t.Errorf("gpt-4o keeps a Hindi word together: %q", got)
	}
}

func TestClasses(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		if c, n := at(string(r), 0); c != classify(r) || n != utf8.RuneLen(r) {
			t.Fatalf("%U has class %b and %d bytes, want %b", r, c, n, classify(r))
		}
	}
	if c, n := at("\xff", 0); c != 0 || n != 1 {
		t.Errorf("a stray byte has class %b and %d bytes", c, n)
	}
}
