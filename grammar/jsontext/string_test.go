package jsontext

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"runner/grammar/expr"
	"runner/grammar/regex"
)

// satisfied judges a value without the expressions of this package, except for formats.
func (c *StringConstraint) satisfied(text string, formats *formatOracle) bool {
	n := utf8.RuneCountInString(text)
	if n < c.MinLength || c.MaxLength >= 0 && n > c.MaxLength || slices.Contains(c.NotIn, text) {
		return false
	}
	for _, p := range c.Patterns {
		if !found(p, text) {
			return false
		}
	}
	for _, p := range c.NotPatterns {
		if found(p, text) {
			return false
		}
	}
	for _, f := range c.Formats {
		if !formats.has(f, text) {
			return false
		}
	}
	for _, f := range c.NotFormats {
		if formats.has(f, text) {
			return false
		}
	}
	return true
}

// formatOracle matches formats in plain UTF-8. The forms match them inside JSON strings.
type formatOracle struct{ s *expr.Set }

func (o *formatOracle) has(name, text string) bool {
	f := formats[name]
	if f.most > 0 && utf8.RuneCountInString(text) > f.most {
		return false
	}
	return o.s.Match(f.condition().build(o.s, regex.UTF8), text)
}

// found reports whether package regexp finds a pattern with its meaning in ECMA-262.
func found(pattern, text string) bool {
	return regexp.MustCompile(regex.MustParse(pattern).RE2()).MatchString(text)
}

var (
	somePatterns = []string{`^a*$`, `ab`, `^[a-c]{2,4}$`, `[é-ü]`, `^[^a]`, `b$`, `^(a|bc)+$`, `.`, `^.{2}`, `\d`,
		`^[a-z0-9_]+$`, `^\w{1,3}(-\w{1,3})?$`, `"`, `\\`, `😀`, `^.*$`, ``, `^x-`, `\n`}
	someFormats = []string{"date", "ipv4", "json-pointer", "time", "uuid", "duration", "uri-reference", "email",
		"hostname"}
	someWords = []string{"", "a", "ab", "abc", "é", "aé", "b", "\"", "\\", "\n", "😀", "a-b", "2024-02-29", "10.0.0.1",
		"/a", "x-y", "5", "P1D", "aa", "bb", "\x01", "aaaa", "x", "@", "a@b", "a.b"}
)

func pick(rng *rand.Rand, list []string) string { return list[rng.IntN(len(list))] }

func randomText(rng *rand.Rand) string {
	var b strings.Builder
	for range rng.IntN(3) {
		b.WriteString(pick(rng, someWords))
	}
	return b.String()
}

func randomStringConstraint(rng *rand.Rand) *StringConstraint {
	c := &StringConstraint{MaxLength: -1}
	for range rng.IntN(3) {
		c.Patterns = append(c.Patterns, pick(rng, somePatterns))
	}
	for range rng.IntN(4) / 3 {
		c.NotPatterns = append(c.NotPatterns, pick(rng, somePatterns))
	}
	for range rng.IntN(4) / 3 {
		c.Formats = append(c.Formats, pick(rng, someFormats))
	}
	for range rng.IntN(6) / 5 {
		c.NotFormats = append(c.NotFormats, pick(rng, someFormats[:7])) // those without a bound on the length
	}
	if rng.IntN(2) == 0 {
		c.MinLength = rng.IntN(4)
	}
	if rng.IntN(2) == 0 {
		c.MaxLength = rng.IntN(6)
	}
	for range max(0, rng.IntN(8)-4) {
		c.NotIn = append(c.NotIn, randomText(rng))
	}
	return c
}

// spell returns a spelling of value that every form must take.
func spell(rng *rand.Rand, value string) string {
	var b strings.Builder
	for _, r := range quote(value) {
		if r < utf8.RuneSelf || rng.IntN(2) == 0 {
			b.WriteRune(r)
			continue
		}
		for _, v := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[rng.IntN(2)], v)
		}
	}
	return b.String()
}

func checkString(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	c := randomStringConstraint(rng)
	w := newSampler(t, seed)
	oracle := &formatOracle{w.s}
	form, err := String(t.Context(), *c)
	if errors.Is(err, ErrUnsatisfiable) {
		for range 100 {
			if text := randomText(rng); c.satisfied(text, oracle) {
				t.Fatalf("%+v is said to be unsatisfiable, but there is %q", c, text)
			}
		}
		return
	}
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	id := form(w.s)
	for range 40 {
		text := randomText(rng)
		spelled := spell(rng, text)
		if got, want := w.s.Match(id, spelled), c.satisfied(text, oracle); got != want {
			t.Fatalf("%+v: %q spelled %s is %v, want %v", c, text, spelled, got, want)
		}
	}
	for range 6 {
		spelled := w.draw(id, rng.IntN(20))
		var text string
		if err := json.Unmarshal([]byte(spelled), &text); err != nil {
			t.Fatalf("%+v: admits %s: %v", c, spelled, err)
		}
		if !c.satisfied(text, oracle) {
			t.Fatalf("%+v: admits %q", c, text)
		}
	}
}

func TestStrings(t *testing.T) {
	n := uint64(1000)
	if testing.Short() {
		n = 150
	}
	for seed := range n {
		checkString(t, seed)
	}
}

func FuzzStrings(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkString)
}

func TestStringsRefused(t *testing.T) {
	none := StringConstraint{MaxLength: -1}
	with := func(change func(c *StringConstraint)) StringConstraint {
		c := none
		change(&c)
		return c
	}
	for _, c := range []StringConstraint{
		{MinLength: 3, MaxLength: 2},
		{MaxLength: 0, NotIn: []string{""}},
		{MaxLength: 2, Patterns: []string{`^a{3}`}},
		with(func(c *StringConstraint) { c.Patterns = []string{`a^`} }),
		with(func(c *StringConstraint) { c.Patterns, c.NotPatterns = []string{`^ab`}, []string{`a`} }),
		with(func(c *StringConstraint) { c.NotPatterns = []string{``} }),
		with(func(c *StringConstraint) { c.Patterns, c.NotIn = []string{`^(a|b)$`}, []string{"a", "b"} }),
		with(func(c *StringConstraint) { c.Formats = []string{"date", "ipv4"} }),
		with(func(c *StringConstraint) { c.Formats, c.MinLength = []string{"hostname"}, 254 }),
		{Formats: []string{"date"}, MaxLength: 9},
	} {
		if _, err := String(t.Context(), c); !errors.Is(err, ErrUnsatisfiable) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []StringConstraint{
		{MinLength: 5000, MaxLength: -1, Patterns: []string{`^(ab|c)*$`}},
		with(func(c *StringConstraint) { c.NotFormats = []string{"hostname"} }),
		with(func(c *StringConstraint) { c.NotFormats = []string{"unknown"} }),
		with(func(c *StringConstraint) { c.Patterns = []string{`a.{15}$`, `b`} }),
	} {
		var unsupported UnsupportedError
		if _, err := String(t.Context(), c); !errors.As(err, &unsupported) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	var bad *regex.Error
	for _, c := range []StringConstraint{{Patterns: []string{`(?=a)`}}, {NotPatterns: []string{`(`}}} {
		if _, err := String(t.Context(), c); !errors.As(err, &bad) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestLongLengths(t *testing.T) {
	form, err := String(t.Context(), StringConstraint{MinLength: 2, MaxLength: 100000})
	if err != nil {
		t.Fatal(err)
	}
	s := expr.NewSet()
	id := form(s)
	for text, want := range map[string]bool{`"a"`: false, `"\u0041\/"`: true, `"😀\ud83d\uDE00"`: true,
		`"` + strings.Repeat("x", 100000) + `"`: true, `"` + strings.Repeat("x", 100001) + `"`: false} {
		if s.Match(id, text) != want {
			t.Errorf("%.20s of %d bytes: %v", text, len(text), !want)
		}
	}
}

func TestLiterals(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		value, other := randomText(rng), randomText(rng)
		w := newSampler(t, seed)
		one := LiteralString(value)(w.s)
		many := Literals([]string{quote(value), "17", "null", quote("ü")})(w.s)
		for _, id := range []expr.ID{one, many} {
			if spelled := spell(rng, value); !w.s.Match(id, spelled) {
				t.Fatalf("%q is not spelled %s", value, spelled)
			}
			if spelled := spell(rng, other); w.s.Match(id, spelled) != (value == other) {
				t.Fatalf("%q is spelled %s", value, spelled)
			}
		}
		var decoded string
		if text := w.draw(one, 5); json.Unmarshal([]byte(text), &decoded) != nil || decoded != value {
			t.Fatalf("%q is spelled %s", value, text)
		}
		for text, want := range map[string]bool{"17": true, "null": true, `"\u00fc"`: true, "1": false, "true": false} {
			if w.s.Match(many, text) != want {
				t.Fatalf("%s: %v", text, !want)
			}
		}
	}
}

func TestAnyValue(t *testing.T) {
	for seed := range uint64(200) {
		w := newSampler(t, seed)
		text := w.draw(Free.Any(w.s), w.rng.IntN(60))
		if !json.Valid([]byte(text)) || strings.ContainsAny(text[:1], " \n") {
			t.Fatalf("admits %s", text)
		}
		if !w.s.Match(Free.Object(w.s), `{"a": `+text+`}`) || !w.s.Match(Free.Array(w.s), `[`+text+`,`+text+`, 1]`) {
			t.Fatalf("%s cannot stand inside others", text)
		}
	}
	s := expr.NewSet()
	for text, want := range map[string]bool{
		`{}`: true, `[]`: true, `[1,2, 3]`: true, `{"a":{"b": [null,true]},"\u0063": -1e5}`: true, `"\ud83d\ude00"`: true,
		`""`:   true,
		`[1,]`: false, `{"a" :1}`: false, `[ 1]`: false, `[1,  2]`: false, ` 1`: false, "\"\n\"": false, `"\ud83d"`: false,
		`tru`: false, `{"a":1`: false,
	} {
		if s.Match(Free.Any(s), text) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

func BenchmarkString(b *testing.B) {
	for _, c := range []StringConstraint{
		{MaxLength: -1}, {MinLength: 1, MaxLength: 255}, {MaxLength: -1, NotIn: []string{"name", "id", "type", "kind"}},
		{MaxLength: -1, Patterns: []string{`^[a-z_]+$`}},
		{MinLength: 1, MaxLength: 64, Patterns: []string{`^[a-z][a-z0-9-]*$`}},
		{MinLength: 1, MaxLength: 64, Patterns: []string{`^[a-z0-9]+(-[a-z0-9]+)*$`}},
		{MinLength: 5, MaxLength: 100, Patterns: []string{`foo`}}, {MaxLength: -1, Patterns: []string{`^[a-z]+$`},
			NotIn: []string{"name", "id"}},
		{MaxLength: -1, Formats: []string{"date-time"}}, {MaxLength: 100, Formats: []string{"email"}},
		{MaxLength: 200, Formats: []string{"uri"}},
		{MaxLength: -1, NotPatterns: []string{`^x-`}},
	} {
		b.Run(fmt.Sprintf("%+v", c), func(b *testing.B) {
			for b.Loop() {
				form, err := String(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				form(expr.NewSet())
			}
		})
	}
}
