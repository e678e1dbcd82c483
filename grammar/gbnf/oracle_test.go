package gbnf

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"runner/grammar/expr"
)

// The oracle has its own syntax tree. It generates the tree at random, prints it as GBNF, and matches by trying
// everything.

type tree interface {
	// ends adds to out the offsets where a match that starts at i may end.
	ends(m *matcher, i int, out *positions)
	print(p *printer)
	// sample appends a random text that matches. It returns false if it found none within the budget.
	sample(r *rand.Rand, rules []tree, out *strings.Builder, budget *int) bool
	// empty and finite report whether the empty text and any text match, given what is known about the rules.
	empty(rules []bool) bool
	finite(rules []bool) bool
	// first calls f for the rules that may be entered before a character is read.
	first(empty []bool, f func(int))
}

type (
	text  string
	chars struct {
		negated bool
		spans   []span
	}
	span     struct{ lo, hi rune }
	anything struct{}
	series   []tree
	options  []tree
	times    struct {
		of       tree
		min, max int
	}
	call int
)

type positions [4]uint64 // texts have at most 255 bytes

func (p *positions) add(i int)      { p[i/64] |= 1 << (i % 64) }
func (p *positions) has(i int) bool { return p[i/64]>>(i%64)&1 != 0 }

// matcher tries all ways to match a text.
type matcher struct {
	rules []tree
	text  string
	known map[[2]int]positions
}

func (m *matcher) matches() bool {
	var out positions
	call(0).ends(m, 0, &out)
	return out.has(len(m.text))
}

func (t text) ends(m *matcher, i int, out *positions) {
	if strings.HasPrefix(m.text[i:], string(t)) {
		out.add(i + len(t))
	}
}

func (c chars) ends(m *matcher, i int, out *positions) {
	if r, size := utf8.DecodeRuneInString(m.text[i:]); size > 0 && !(r == utf8.RuneError && size == 1) && c.has(r) {
		out.add(i + size)
	}
}

func (c chars) has(r rune) bool {
	return slices.ContainsFunc(c.spans, func(s span) bool { return s.lo <= r && r <= s.hi }) != c.negated
}

func (anything) ends(m *matcher, i int, out *positions) { chars{negated: true}.ends(m, i, out) }

func (s series) ends(m *matcher, i int, out *positions) {
	at := new(positions)
	at.add(i)
	for _, t := range s {
		at = step(m, t, at)
	}
	for w := range out {
		out[w] |= at[w]
	}
}

func step(m *matcher, t tree, at *positions) *positions {
	next := new(positions)
	for i := range len(m.text) + 1 {
		if at.has(i) {
			t.ends(m, i, next)
		}
	}
	return next
}

func (o options) ends(m *matcher, i int, out *positions) {
	for _, t := range o {
		t.ends(m, i, out)
	}
}

func (t times) ends(m *matcher, i int, out *positions) {
	at := new(positions)
	at.add(i)
	for n := 0; ; n++ {
		before := *out
		if n >= t.min {
			for w := range out {
				out[w] |= at[w]
			}
		}
		if n == t.max || n > t.min+len(m.text) && before == *out {
			return
		}
		at = step(m, t.of, at)
	}
}

func (c call) ends(m *matcher, i int, out *positions) {
	key := [2]int{int(c), i}
	found, ok := m.known[key]
	if !ok {
		m.rules[c].ends(m, i, &found)
		m.known[key] = found
	}
	for w := range out {
		out[w] |= found[w]
	}
}

func (t text) empty([]bool) bool        { return t == "" }
func (chars) empty([]bool) bool         { return false }
func (anything) empty([]bool) bool      { return false }
func (c call) empty(rules []bool) bool  { return rules[c] }
func (t times) empty(rules []bool) bool { return t.min == 0 || t.of.empty(rules) }
func (s series) empty(rules []bool) bool {
	return !slices.ContainsFunc(s, func(t tree) bool { return !t.empty(rules) })
}
func (o options) empty(rules []bool) bool {
	return slices.ContainsFunc(o, func(t tree) bool { return t.empty(rules) })
}

func (text) finite([]bool) bool          { return true }
func (chars) finite([]bool) bool         { return true }
func (anything) finite([]bool) bool      { return true }
func (c call) finite(rules []bool) bool  { return rules[c] }
func (t times) finite(rules []bool) bool { return t.min == 0 || t.of.finite(rules) }
func (s series) finite(rules []bool) bool {
	return !slices.ContainsFunc(s, func(t tree) bool { return !t.finite(rules) })
}
func (o options) finite(rules []bool) bool {
	return slices.ContainsFunc(o, func(t tree) bool { return t.finite(rules) })
}

func (text) first([]bool, func(int))       {}
func (chars) first([]bool, func(int))      {}
func (anything) first([]bool, func(int))   {}
func (c call) first(_ []bool, f func(int)) { f(int(c)) }
func (t times) first(empty []bool, f func(int)) {
	if t.max != 0 {
		t.of.first(empty, f)
	}
}
func (s series) first(empty []bool, f func(int)) {
	for _, t := range s {
		if t.first(empty, f); !t.empty(empty) {
			return
		}
	}
}
func (o options) first(empty []bool, f func(int)) {
	for _, t := range o {
		t.first(empty, f)
	}
}

func (t text) sample(_ *rand.Rand, _ []tree, out *strings.Builder, _ *int) bool {
	out.WriteString(string(t))
	return true
}
func (c chars) sample(r *rand.Rand, _ []tree, out *strings.Builder, _ *int) bool {
	for range 100 {
		x := alphabet[r.IntN(len(alphabet))]
		if len(c.spans) > 0 && r.IntN(2) == 0 {
			sp := c.spans[r.IntN(len(c.spans))]
			x = sp.lo + rune(r.IntN(int(sp.hi-sp.lo)+1))
		}
		if c.has(x) && utf8.ValidRune(x) {
			out.WriteRune(x)
			return true
		}
	}
	return false
}
func (anything) sample(r *rand.Rand, rules []tree, out *strings.Builder, budget *int) bool {
	return chars{negated: true}.sample(r, rules, out, budget)
}
func (s series) sample(r *rand.Rand, rules []tree, out *strings.Builder, budget *int) bool {
	return !slices.ContainsFunc(s, func(t tree) bool { return !t.sample(r, rules, out, budget) })
}
func (o options) sample(r *rand.Rand, rules []tree, out *strings.Builder, budget *int) bool {
	return o[r.IntN(len(o))].sample(r, rules, out, budget)
}
func (t times) sample(r *rand.Rand, rules []tree, out *strings.Builder, budget *int) bool {
	n := t.min + r.IntN(3)
	if t.max >= 0 {
		n = min(n, t.max)
	}
	for range n {
		if !t.of.sample(r, rules, out, budget) {
			return false
		}
	}
	return true
}
func (c call) sample(r *rand.Rand, rules []tree, out *strings.Builder, budget *int) bool {
	*budget--
	return *budget > 0 && out.Len() < 200 && rules[c].sample(r, rules, out, budget)
}

// alphabet holds characters of every length in UTF-8, at the borders of the lengths, and those that GBNF escapes.
var alphabet = []rune("aabbc]-[^\"\\\n\t\x00\x7f\u0080é\u07ff\u0800中\ud7ff\ue000\uffff\U0001000a😀\U0010ffff")

// printer writes GBNF with random blanks and escapes.
type printer struct {
	strings.Builder
	r      *rand.Rand
	groups int
}

func (p *printer) blank() {
	switch p.r.IntN(12) {
	case 0:
		p.WriteString("\t ")
	case 1, 2:
		if p.groups > 0 {
			p.WriteString([]string{"\n", " # ) | \"\n ", "\r\n"}[p.r.IntN(3)])
		}
	default:
		p.WriteString(" ")
	}
}

func (p *printer) char(r rune, class bool) {
	escape := map[rune]string{'\n': `\n`, '\t': `\t`, '\r': `\r`, '\\': `\\`, '"': `\"`, '[': `\[`, ']': `\]`}[r]
	must := r == '\\' || r == 0 || class && (r == ']' || r == '-' || r == '^') || !class && r == '"' || r == '\r'
	switch {
	case r >= 0xD800 && r <= 0xDFFF, must && escape == "", p.r.IntN(4) == 0:
		switch n := p.r.IntN(3); {
		case r <= 0xff && n == 0:
			fmt.Fprintf(p, `\x%02X`, r)
		case r <= 0xffff && n <= 1:
			fmt.Fprintf(p, `\u%04x`, r)
		default:
			fmt.Fprintf(p, `\U%08X`, r)
		}
	case escape != "" && (must || p.r.IntN(2) == 0):
		p.WriteString(escape)
	default:
		p.WriteRune(r)
	}
}

func (p *printer) group(t tree) {
	p.WriteString("(")
	p.groups++
	p.blank()
	t.print(p)
	p.groups--
	p.WriteString(")")
}

func (t text) print(p *printer) {
	p.WriteString(`"`)
	for _, r := range string(t) {
		p.char(r, false)
	}
	p.WriteString(`"`)
}

func (c chars) print(p *printer) {
	p.WriteString("[")
	if c.negated {
		p.WriteString("^")
	}
	for _, sp := range c.spans {
		if p.char(sp.lo, true); sp.lo != sp.hi || p.r.IntN(8) == 0 {
			p.WriteString("-")
			p.char(sp.hi, true)
		}
	}
	if p.r.IntN(6) == 0 && c.has('-') != c.negated {
		p.WriteString("-") // again, at the end, where it stands for itself
	}
	p.WriteString("]")
}

func (anything) print(p *printer) { p.WriteString(".") }

func (s series) print(p *printer) {
	for i, t := range s {
		if i > 0 {
			p.blank()
		}
		switch t.(type) {
		case series, options:
			p.group(t)
		case call:
			t.print(p)
			p.WriteString(" ")
		default:
			t.print(p)
		}
	}
}

func (o options) print(p *printer) {
	for i, t := range o {
		if i > 0 {
			p.blank()
			p.WriteString([]string{"|", "| ", "|\n ", "| # x\n"}[p.r.IntN(4)])
		}
		if _, ok := t.(options); ok {
			p.group(t)
		} else {
			t.print(p)
		}
	}
}

func (t times) print(p *printer) {
	switch t.of.(type) {
	case series, options:
		p.group(t.of)
	default:
		t.of.print(p)
	}
	switch {
	case t.min == 0 && t.max < 0 && p.r.IntN(3) > 0:
		p.WriteString("*")
	case t.min == 1 && t.max < 0 && p.r.IntN(3) > 0:
		p.WriteString("+")
	case t.min == 0 && t.max == 1 && p.r.IntN(3) > 0:
		p.WriteString("?")
	case t.max < 0:
		fmt.Fprintf(p, "{%d,}", t.min)
	case t.min == t.max && p.r.IntN(3) > 0:
		fmt.Fprintf(p, "{ %d }", t.min)
	default:
		fmt.Fprintf(p, "{%d , %d}", t.min, t.max)
	}
}

func (c call) print(p *printer) { p.WriteString(ruleNames[c]) }

var ruleNames = []string{"root", "a", "B-2", "3", "-"}

// generate makes a random tree that may call the rules call(0) to call(rules-1).
func generate(r *rand.Rand, rules, depth int) tree {
	many := func() []tree {
		list := make([]tree, 2+r.IntN(2))
		for i := range list {
			list[i] = generate(r, rules, depth-1)
		}
		return list
	}
	n := 12
	if depth == 0 {
		n = 6
	}
	switch r.IntN(n) {
	case 0, 1:
		var b strings.Builder
		for range r.IntN(3) {
			b.WriteRune(alphabet[r.IntN(len(alphabet))])
		}
		return text(b.String())
	case 2:
		return text("ab"[r.IntN(2):][:1])
	case 3:
		c := chars{negated: r.IntN(2) == 0}
		for range 1 + r.IntN(3) {
			lo := alphabet[r.IntN(len(alphabet))]
			c.spans = append(c.spans, span{lo, max(lo, alphabet[r.IntN(len(alphabet))])})
		}
		return c
	case 4:
		if r.IntN(3) > 0 {
			return text("c")
		}
		return anything{}
	case 5:
		return call(r.IntN(rules))
	case 6, 7:
		return options(many())
	case 8, 9:
		t := times{of: generate(r, rules, depth-1), min: r.IntN(3), max: -1}
		if r.IntN(2) == 0 {
			t.max = t.min + r.IntN(3)
		}
		return t
	default:
		return series(many())
	}
}

// render prints rules in a random order.
func render(r *rand.Rand, rules []tree) string {
	p := &printer{r: r}
	for _, i := range r.Perm(len(rules)) {
		p.WriteString(ruleNames[i] + " ::= ")
		rules[i].print(p)
		p.WriteString([]string{"\n", "\r\n", "\r", "\n\n", " # end\n  "}[r.IntN(5)])
	}
	return p.String()
}

// fixpoint computes for which rules a property holds, starting from none.
func fixpoint(rules []tree, holds func(tree, []bool) bool) []bool {
	known := make([]bool, len(rules))
	for range rules {
		for i, t := range rules {
			known[i] = holds(t, known)
		}
	}
	return known
}

// leftRecursive reports whether some rule begins with itself.
func leftRecursive(rules []tree) bool {
	empty := fixpoint(rules, tree.empty)
	n := len(rules)
	reach := make([][]bool, n)
	for i, t := range rules {
		reach[i] = make([]bool, n)
		t.first(empty, func(j int) { reach[i][j] = true })
	}
	for k := range n {
		for i := range n {
			for j := range n {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	for i := range n {
		if reach[i][i] {
			return true
		}
	}
	return false
}

// TestOracle reads random grammars. It compares what they match and which are refused with the oracle.
func TestOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	var tally struct{ grammars, noClass, leftRecursive, endless, matches, failures, finished, unfinished int }
	rounds := 1500
	const longest = 64 // bytes of a text
	if testing.Short() {
		rounds = 300
	}
	for round := range rounds {
		rules := make([]tree, 1+r.IntN(len(ruleNames)))
		for i := range rules {
			rules[i] = generate(r, len(rules), 3)
		}
		source := render(r, rules)
		g, err := Parse(source)
		switch {
		case err != nil && strings.Contains(err.Error(), "no character is in the class"):
			tally.noClass++
			continue
		case leftRecursive(rules):
			if err == nil || !strings.Contains(err.Error(), "begins with itself") {
				t.Fatalf("%s\nis left-recursive: %v", source, err)
			}
			tally.leftRecursive++
			continue
		case !fixpoint(rules, tree.finite)[0]:
			if err == nil || !strings.Contains(err.Error(), "no finite text") {
				t.Fatalf("%s\nhas no finite text: %v", source, err)
			}
			tally.endless++
			continue
		case err != nil:
			t.Fatalf("%s\n%v", source, err)
		}
		tally.grammars++
		s := expr.NewSet()
		root := g.Expr(s)
		oracle := func(text string) bool {
			return (&matcher{rules: rules, text: text, known: map[[2]int]positions{}}).matches()
		}
		compare := func(text string, must bool) {
			got, want := s.Match(root, text), oracle(text)
			if got != want || must && !want {
				t.Fatalf("round %d: %s\n%q: matches %v, the oracle says %v", round, source, text, got, want)
			}
			if want {
				tally.matches++
			} else {
				tally.failures++
			}
		}
		for range 12 {
			var b strings.Builder
			budget := 40
			if call(0).sample(r, rules, &b, &budget) && b.Len() <= longest {
				compare(b.String(), true)
				for range 3 {
					compare(mutate(r, b.String()), false)
				}
			}
			// A random text that the expression allows, byte by byte, and its end.
			walked, ok := walk(r, s, root, r.IntN(10))
			if !ok {
				tally.unfinished++
			} else if tally.finished++; len(walked) <= longest {
				compare(walked, true)
			}
		}
	}
	t.Logf("%+v", tally)
	if tally.grammars < rounds/10 || tally.leftRecursive < rounds/20 || tally.noClass > rounds/20 ||
		tally.endless < rounds/200 || tally.unfinished > tally.finished/100 {
		t.Error("the random grammars are of too few kinds")
	}
}

// mutate changes a text slightly. The result may be invalid UTF-8.
func mutate(r *rand.Rand, text string) string {
	runes := []rune(text)
	for range 1 + r.IntN(2) {
		i := r.IntN(len(runes) + 1)
		switch r.IntN(3) {
		case 0:
			runes = slices.Insert(runes, i, alphabet[r.IntN(len(alphabet))])
		case 1:
			if i < len(runes) {
				runes = slices.Delete(runes, i, i+1)
			}
		case 2:
			if i < len(runes) {
				runes[i] = alphabet[r.IntN(len(alphabet))]
			}
		}
	}
	out := string(runes)
	if r.IntN(4) == 0 && len(out) > 0 {
		b := []byte(out)
		b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
		out = string(b)
	}
	return out
}

// walk feeds n random allowed bytes, then looks for the nearest end. It returns false if it gave up the search. It
// panics if there is no end at all.
func walk(r *rand.Rand, s *expr.Set, at expr.ID, n int) (string, bool) {
	type step struct {
		id   expr.ID
		text string
	}
	next := func(from step) []step {
		var list []step
		for b := range 256 {
			if d := s.Derive(from.id, byte(b)); d != expr.Empty {
				list = append(list, step{d, from.text + string([]byte{byte(b)})})
			}
		}
		return list
	}
	here := step{at, ""}
	for range n {
		list := next(here)
		if len(list) == 0 {
			break
		}
		here = list[r.IntN(len(list))]
	}
	seen := map[expr.ID]bool{here.id: true}
	for queue := []step{here}; len(queue) > 0; queue = queue[1:] {
		if s.Nullable(queue[0].id) {
			return queue[0].text, true
		}
		if len(seen) > 3000 {
			return "", false
		}
		for _, st := range next(queue[0]) {
			if !seen[st.id] {
				seen[st.id] = true
				queue = append(queue, st)
			}
		}
	}
	panic(fmt.Sprintf("%q leads into a dead end", here.text))
}
