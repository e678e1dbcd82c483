package regex

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"runner/grammar/expr"
)

// patterns makes random patterns of the common subset of both dialects.
type patterns struct{ rng *rand.Rand }

func (g patterns) pick(list ...string) string { return list[g.rng.IntN(len(list))] }

func (g patterns) pattern(depth int) string {
	var b strings.Builder
	for i := range 1 + g.rng.IntN(3) {
		if i > 0 {
			b.WriteByte('|')
		}
		for range g.rng.IntN(4) {
			b.WriteString(g.atom(depth))
			b.WriteString(g.pick("", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??", "{1,3}?"))
		}
		if g.rng.IntN(5) == 0 {
			b.WriteString(g.pick("^", "$"))
		}
	}
	return g.pick("", "", "^") + b.String() + g.pick("", "", "$")
}

func (g patterns) atom(depth int) string {
	if depth > 0 && g.rng.IntN(3) == 0 {
		return g.pick("(", "(?:", fmt.Sprintf("(?<n%d>", g.rng.Int64())) + g.pattern(depth-1) + ")"
	}
	return g.pick("a", "b", "c", "é", "€", "😀", `\.`, `\\`, `\/`, `"`, `\n`, `\t`, `\x41`, `\d`, `\D`, `\w`, `\W`, `[ab]`,
		`[^a]`, `[a-cé-ü]`, `[^€]`,
		`[\w-]`, `[\d.-]`, `[^\n😀]`, `[😀-😂x]`, `\p{L}`, `\P{L}`, `[\p{Lu}\d]`, `\p{Greek}`, " ")
}

func (g patterns) text() string {
	var b strings.Builder
	for range g.rng.IntN(7) {
		b.WriteString(g.pick("a", "b", "c", "a", "b", "é", "€", "😀", "😁", ".", "\\", "/", "\"", "\n", "\t", "A", "-", "5",
			"ü", "Ω", "x", "\x00", "\x7f", " ", "\u2028", "\U0010ffff"))
	}
	return b.String()
}

// spell returns text as the inside of a JSON string literal, in one of the spellings of JSONString or, with free, of
// JSON.
func (g patterns) spell(text string, free bool) string {
	const short = "\"\"\\\\//\bb\ff\nn\rr\tt"
	var b strings.Builder
	long := func(v uint16, both bool) {
		digits := fmt.Sprintf("%04x", v)
		for _, d := range digits {
			if both && g.rng.IntN(2) == 0 {
				d = []rune(strings.ToUpper(string(d)))[0]
			}
			b.WriteRune(d)
		}
	}
	for _, r := range text {
		i := -1
		for j := 0; j < len(short); j += 2 {
			if rune(short[j]) == r {
				i = j
			}
		}
		switch {
		case i >= 0 && r != '/' && (!free || g.rng.IntN(2) == 0), i >= 0 && free && g.rng.IntN(2) == 0:
			b.WriteByte('\\')
			b.WriteByte(short[i+1])
		case r < ' ' && !free:
			b.WriteString(`\u`)
			long(uint16(r), false)
		case r < ' ' || r == '"' || r == '\\' || (free || r >= utf8.RuneSelf) && g.rng.IntN(2) == 0:
			for _, v := range utf16.Encode([]rune{r}) {
				b.WriteString(`\u`)
				long(v, true)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// tooLarge reports whether package regexp refused a valid pattern because of its size.
func tooLarge(err error) bool {
	var e *syntax.Error
	return errors.As(err, &e) && slices.Contains([]syntax.ErrorCode{syntax.ErrLarge, syntax.ErrNestingDepth,
		syntax.ErrInvalidRepeatSize}, e.Code)
}

func checkPattern(t *testing.T, pattern string, g patterns) {
	t.Helper()
	oracle, err := regexp.Compile(pattern)
	if tooLarge(err) {
		return
	}
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	r, err := Parse(pattern)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	again, err := regexp.Compile(r.RE2())
	if err != nil {
		t.Fatalf("%q as RE2: %v", pattern, err)
	}
	whole := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
	s := expr.NewSet()
	raw, full := r.Search(s, UTF8), r.Full(s, UTF8)
	strict, free := r.Search(s, JSONString), r.Search(s, JSONFree)
	least, most := r.SearchLengths()
	lo := g.rng.IntN(3)
	hi := []int{-1, lo, lo + 3}[g.rng.IntN(3)]
	between, bounded := r.SearchBetween(s, UTF8, lo, hi)
	for range 25 {
		text := g.text()
		want := oracle.MatchString(text)
		if got := s.Match(raw, text); got != want {
			t.Fatalf("%q in %q: %v, want %v", pattern, text, got, want)
		}
		if again.MatchString(text) != want {
			t.Fatalf("%q in %q: its RE2 form %q says %v", pattern, text, r.RE2(), !want)
		}
		if got, want := s.Match(full, text), whole.MatchString(text); got != want {
			t.Fatalf("%q is %q: %v, want %v", pattern, text, got, want)
		}
		for _, isFree := range []bool{false, true} {
			spelled := g.spell(text, isFree)
			var decoded string
			if err := json.Unmarshal([]byte(`"`+spelled+`"`), &decoded); err != nil || decoded != text {
				t.Fatalf("the test spells %q as %q: %q %v", text, spelled, decoded, err)
			}
			id := strict
			if isFree {
				id = free
			}
			if got := s.Match(id, spelled); got != want {
				t.Fatalf("%q in %q spelled %q (free %v): %v, want %v", pattern, text, spelled, isFree, got, want)
			}
		}
		n := utf8.RuneCountInString(text)
		if want && (n < least || most >= 0 && n > most) {
			t.Fatalf("%q in %q of %d characters, said to have %d to %d", pattern, text, n, least, most)
		}
		if inside := n >= lo && (hi < 0 || n <= hi); bounded && s.Match(between, text) != (want && inside) {
			t.Fatalf("%q in %q of %d characters, %d to %d allowed: %v", pattern, text, n, lo, hi, s.Match(between, text))
		}
		if r.SearchAll() && !want {
			t.Fatalf("%q is not in %q, but said to be in all", pattern, text)
		}
	}
}

func TestAgainstRegexp(t *testing.T) {
	n := uint64(1500)
	if testing.Short() {
		n = 400
	}
	for seed := range n {
		g := patterns{rand.New(rand.NewPCG(seed, 0))}
		checkPattern(t, g.pattern(2), g)
	}
}

func FuzzAgainstRegexp(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := patterns{rand.New(rand.NewPCG(seed, 1))}
		checkPattern(t, g.pattern(3), g)
	})
}

// FuzzParse checks that any text is refused, or gives a pattern that agrees with RE2 in RE2's own dialect.
func FuzzParse(f *testing.F) {
	for _, p := range []string{`^a*$`, `[^\u{1f600}-\ud83d\ude02]`, `(?<x>a|b){2,3}?\p{Script=Greek}`, `\cA[\b]\0`,
		`(?=a)`, `a{`, `x{1001}`, `[[:alpha:]]`} {
		f.Add(p, "aé\n")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		r, err := Parse(pattern)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(pattern) || e.Hint() == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(pattern) > 200 || !utf8.ValidString(text) {
			return
		}
		oracle, err := regexp.Compile(r.RE2())
		if tooLarge(err) {
			t.Skip("Go's regexp finds the pattern too large: ", err)
		}
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		s := expr.NewSet()
		if got, want := s.Match(r.Search(s, UTF8), text), oracle.MatchString(text); got != want {
			t.Fatalf("%q in %q: %v, want %v", pattern, text, got, want)
		}
	})
}

func TestConstructs(t *testing.T) {
	tests := []struct {
		pattern  string
		yes, not []string
	}{
		{`^\s$`, []string{" ", "\u00a0", "\ufeff", "\v", "\u2029", "\u3000"}, []string{"a", "", "\u200b", "\u0085"}},
		{`^\S$`, []string{"a", "é"}, []string{"\u00a0", "\v"}},
		{`^.$`, []string{"a", "\u0085", "😀"}, []string{"\n", "\r", "\u2028", "\u2029"}},
		{`^\cJ\cj$`, []string{"\n\n"}, []string{"jj"}},
		{`^\u{1F600}\uD83D\uDE01\u{000000061}$`, []string{"😀😁a"}, nil},
		{`^[\u{1f600}-\ud83d\ude02]$`, []string{"😀", "😂"}, []string{"😃"}},
		{`^[^\ud800-\udfff]$`, []string{"a", "😀"}, nil},
		{`^[\b\0\-\]]+$`, []string{"\b\x00-]"}, []string{"b", "0"}},
		{`^\p{Script=Greek}\p{Lu}\p{Letter}\p{gc=Nd}\p{Alphabetic}$`, []string{"ωAb1x"}, []string{"aAb1x"}},
		{`^\P{ASCII}\p{Any}$`, []string{"éa"}, []string{"aa"}},
		{`a^b`, nil, []string{"ab", "a\nb"}},
		{`a$b|c`, []string{"c", "xcx"}, []string{"ab", "a\nb"}},
		{`^a|b$`, []string{"ax", "xb"}, []string{"xa", "bx"}},
		{`(^|,)x(,|$)`, []string{"x", "a,x", "x,a", "a,x,b"}, []string{"ax", "xa"}},
		{`^(?:a|^b)+$`, []string{"a", "b", "ba", "baa"}, []string{"ab", "bb"}},
		{`^(a$|b){3}$`, []string{"bba", "bbb"}, []string{"bab", "bb"}},
		{`^$`, []string{""}, []string{"a"}},
		{``, []string{"", "a"}, nil},
		{`{a}{,2}{`, []string{"{a}{,2}{"}, nil},
		{`^(?P<name>a)(?<other>b)(?:c)$`, []string{"abc"}, nil},
		{`^[\w-.]$`, []string{"-", ".", "a"}, []string{","}},
		{`^[a-c-e]$`, []string{"a", "c", "-", "e"}, []string{"d"}},
		{`^(http)|(https)://(.*)$`, []string{"http", "httpx", "xhttps://"}, []string{"ftp://"}},
		{`^\@\_\ \#$`, []string{"@_ #"}, nil},
	}
	for _, tt := range tests {
		r, err := Parse(tt.pattern)
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		s := expr.NewSet()
		id, oracle := r.Search(s, UTF8), regexp.MustCompile(r.RE2())
		for _, text := range slices.Concat(tt.yes, tt.not) {
			want := slices.Contains(tt.yes, text)
			if got := s.Match(id, text); got != want {
				t.Errorf("%q in %q: %v", tt.pattern, text, got)
			}
			if oracle.MatchString(text) != want {
				t.Errorf("%q in %q: RE2 form says %v", tt.pattern, text, !want)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat("(", maxDepth+1) + strings.Repeat(")", maxDepth+1)
	tests := []struct {
		pattern string
		kind    error
		offset  int
	}{
		{`a(?=b)`, ErrUnsupported, 1}, {`(?!b)`, ErrUnsupported, 0}, {`(?<=b)`, ErrUnsupported, 0},
		{`(?<!b)`, ErrUnsupported, 0},
		{`ab\b`, ErrUnsupported, 2}, {`\B`, ErrUnsupported, 0}, {`(a)\1`, ErrUnsupported, 3},
		{`(?<a>b)\k<a>`, ErrUnsupported, 7},
		{`(?P<a>b)(?P=a)`, ErrUnsupported, 8}, {`(?i)a`, ErrUnsupported, 0}, {`\p{Emoji}`, ErrUnsupported, 0},
		{`a)`, ErrSyntax, 1}, {`x(a`, ErrSyntax, 1}, {`x[a`, ErrSyntax, 1}, {`*`, ErrSyntax, 0}, {`a**`, ErrSyntax, 1},
		{`a{2}{3}`, ErrSyntax, 1},
		{`a{3,2}`, ErrSyntax, 1}, {`[z-a]`, ErrSyntax, 1}, {`[a-\d]`, ErrSyntax, 1}, {`[]a]`, ErrSyntax, 0},
		{`[^]`, ErrSyntax, 0}, {`[[:alpha:]]`, ErrSyntax, 1},
		{`\`, ErrSyntax, 0}, {`\A`, ErrSyntax, 0}, {`\z`, ErrSyntax, 0}, {`\Qa\E`, ErrSyntax, 0}, {`\01`, ErrSyntax, 0},
		{`\x4`, ErrSyntax, 0}, {`\u12`, ErrSyntax, 0},
		{`\u{110000}`, ErrSyntax, 0}, {`\u{}`, ErrSyntax, 0}, {`\c1`, ErrSyntax, 0}, {`\pL`, ErrSyntax, 0},
		{`\é`, ErrSyntax, 0}, {"\xff", ErrSyntax, 0}, {`^*`, ErrSyntax, 0},
		{`(?<a>b)(?<a>c)`, ErrSyntax, 7}, {`(?<é>b)`, ErrSyntax, 0}, {`(?>a)`, ErrSyntax, 0}, {`{2}`, ErrSyntax, 0},
		{`a{1001}`, ErrTooLarge, 1}, {`a{99999999999999999999}`, ErrTooLarge, 1}, {`(a{100}b){11}`, ErrTooLarge, 0},
		{deep, ErrTooLarge, maxDepth},
		{strings.Repeat("a", MaxPattern+1), ErrTooLarge, MaxPattern}, {`(^a|b){101}`, ErrTooLarge, 0},
	}
	for _, tt := range tests {
		_, err := Parse(tt.pattern)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, tt.kind) || e.Offset != tt.offset || e.Hint() == "" {
			t.Errorf("%.40q: %v, want %v at %d", tt.pattern, err, tt.kind, tt.offset)
		}
	}
}

// TestHostile checks that no pattern within the limits takes long.
func TestHostile(t *testing.T) {
	fill := func(part string) string { return strings.Repeat(part, MaxPattern/len(part)) }
	nest := func(open, shut string) string {
		return strings.Repeat(open, maxDepth-1) + "a" + strings.Repeat(shut, maxDepth-1)
	}
	var many strings.Builder
	for i := 0; many.Len() < MaxPattern-20; i++ {
		fmt.Fprintf(&many, `[\p{L}\u{%x}]`, i)
	}
	for _, p := range []string{
		fill("(?:^|a)"), fill("(^|$|a)?"), fill("^|"), fill("a|"), fill("a?"), fill("[^a]"), fill(`\p{L}`), fill("(a|b)*"),
		fill("[a-z]{1000}"), many.String(),
		nest("(", ")*"), nest("(^|", ")+"), nest("(b?", "|$)*"), nest("(^|x", ")+|y"), nest("(^|x", "){0,2}?y|$"),
		"((((^a|b){100}|c){10})+$)*",
	} {
		r, err := Parse(p)
		if err != nil {
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%.20q…: %v", p, err)
			}
			continue
		}
		s := expr.NewSet()
		if id := r.Search(s, JSONString); id == expr.Empty {
			t.Errorf("%.20q… matches nothing", p)
		}
		if s.Len() > 40*MaxPattern {
			t.Errorf("%.20q… takes %d expressions", p, s.Len())
		}
	}
}

func TestText(t *testing.T) {
	for seed := range uint64(500) {
		g := patterns{rand.New(rand.NewPCG(seed, 3))}
		text, other := g.text(), g.text()
		s := expr.NewSet()
		if !s.Match(Text(s, UTF8, text), text) || s.Match(Text(s, UTF8, text), other) != (text == other) {
			t.Fatalf("%q or %q, raw", text, other)
		}
		for _, enc := range []Encoding{JSONString, JSONFree} {
			id := Text(s, enc, text)
			if spelled := g.spell(text, enc == JSONFree); !s.Match(id, spelled) {
				t.Fatalf("%q is not spelled %q (encoding %d)", text, spelled, enc)
			}
			if spelled := g.spell(other, enc == JSONFree); s.Match(id, spelled) != (text == other) {
				t.Fatalf("%q is spelled %q (encoding %d)", text, spelled, enc)
			}
		}
	}
}

// TestSpellingsAreLegal compares what an encoding admits with a JSON reader, for every code point and for values that
// are none.
func TestSpellingsAreLegal(t *testing.T) {
	s := expr.NewSet()
	strict, free := Any(s, JSONString), Any(s, JSONFree)
	raw := Any(s, UTF8)
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if r >= firstSurrogate && r <= lastSurrogate {
			continue
		}
		text := string(r)
		direct := r >= ' ' && r != '"' && r != '\\'
		if !s.Match(raw, text) || s.Match(strict, text) != direct || s.Match(free, text) != direct {
			t.Fatalf("%U as itself", r)
		}
	}
	for v := range 0x10000 {
		spelled := fmt.Sprintf(`\u%04X`, v)
		lone := v >= firstSurrogate && v <= lastSurrogate
		control := v < ' ' && !strings.ContainsRune("\b\f\n\r\t", rune(v))
		lower := fmt.Sprintf(`\u%04x`, v)
		if s.Match(free, spelled) == lone || s.Match(strict, spelled) != (!lone && v >= 0x80 || control && spelled == lower) {
			t.Fatalf("%s", spelled)
		}
		if v < 0x80 && s.Match(strict, lower) != control {
			t.Fatalf("%s", lower)
		}
	}
	for _, bad := range []string{"\xff", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", `\uD800\u0041`, `\uDC00\uD800`,
		`\x`, `\`, "", "ab"} {
		if s.Match(strict, bad) || s.Match(free, bad) || s.Match(raw, bad) && bad != `\` {
			t.Errorf("%q is a character", bad)
		}
	}
	for _, pair := range []string{`\ud800\udc00`, `\uDBFF\uDfFf`} {
		if text, err := strconv.Unquote(`"` + pair + `"`); err == nil {
			t.Errorf("%s: %s", pair, text)
		}
		if !s.Match(strict, pair) || !s.Match(free, pair) {
			t.Errorf("%s is no character", pair)
		}
	}
}

var benchmarked = []string{
	`^[a-z_]+$`, `^[A-Fa-f\d]{24}$`, `^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d$`, `^(http)|(https)://(.*)$`, `^[^\s/]+$`, `^.*$`,
	`^[a-f0-9]{8}-[a-f0-9]{4}-[1-5][a-f0-9]{3}-[89ab][a-f0-9]{3}-[a-f0-9]{12}$`, `^\p{L}+$`,
	`^/(([a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})+(/([a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})*)*)?$`,
}

func BenchmarkParse(b *testing.B) {
	for _, p := range benchmarked {
		b.Run(p, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				MustParse(p)
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, p := range benchmarked {
		r := MustParse(p)
		b.Run(p, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Search(expr.NewSet(), JSONString)
			}
		})
	}
}
