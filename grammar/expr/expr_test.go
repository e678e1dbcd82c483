package expr

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pattern is an expression that can be built in any set, and also matched slowly without a set.
type pattern interface {
	build(s *Set) ID
	// ends returns where matches of text[from:] can end.
	ends(text string, from int) map[int]bool
	String() string
}

type (
	bytesOf  struct{ set string }
	words    struct{ w *Words }
	sequence struct{ parts []pattern }
	choice   struct{ parts []pattern }
	times    struct {
		p      pattern
		lo, hi int
	}
	both    struct{ a, b pattern }
	butNot  struct{ a, b pattern } // matches of a that do not match b
	call    struct{ r *callee }
	counted struct {
		p      pattern
		a      *Automaton
		lo, hi int
	}
)

type callee struct {
	rule *Rule
	body pattern
}

const alphabet = "abc"

func (p bytesOf) build(s *Set) ID {
	var b ByteSet
	for i := range len(p.set) {
		b.Add(p.set[i])
	}
	return s.Byte(b)
}

func (p bytesOf) ends(text string, from int) map[int]bool {
	if from < len(text) && strings.IndexByte(p.set, text[from]) >= 0 {
		return map[int]bool{from + 1: true}
	}
	return nil
}
func (p bytesOf) String() string { return "[" + p.set + "]" }

func (p words) build(s *Set) ID { return s.Words(p.w) }
func (p words) ends(text string, from int) map[int]bool {
	out := map[int]bool{}
	for _, w := range p.w.list {
		if strings.HasPrefix(text[from:], w) {
			out[from+len(w)] = true
		}
	}
	return out
}
func (p words) String() string { return fmt.Sprintf("%q", p.w.list) }

func (p sequence) build(s *Set) ID {
	var ids []ID
	for _, q := range p.parts {
		ids = append(ids, q.build(s))
	}
	return s.Concat(ids...)
}

func (p sequence) ends(text string, from int) map[int]bool {
	now := map[int]bool{from: true}
	for _, q := range p.parts {
		later := map[int]bool{}
		for at := range now {
			for end := range q.ends(text, at) {
				later[end] = true
			}
		}
		now = later
	}
	return now
}
func (p sequence) String() string { return fmt.Sprint("seq", p.parts) }

func (p choice) build(s *Set) ID {
	var ids []ID
	for _, q := range p.parts {
		ids = append(ids, q.build(s))
	}
	return s.Union(ids...)
}

func (p choice) ends(text string, from int) map[int]bool {
	out := map[int]bool{}
	for _, q := range p.parts {
		for end := range q.ends(text, from) {
			out[end] = true
		}
	}
	return out
}
func (p choice) String() string { return fmt.Sprint("any", p.parts) }

func (p times) build(s *Set) ID { return s.Repeat(p.p.build(s), p.lo, p.hi) }
func (p times) ends(text string, from int) map[int]bool {
	out, now, seen := map[int]bool{}, map[int]bool{from: true}, map[string]bool{}
	for n := 0; (p.hi < 0 || n <= p.hi) && len(now) > 0; n++ {
		if n >= p.lo {
			for at := range now {
				out[at] = true
			}
			if key := fmt.Sprint(now); p.hi < 0 && seen[key] {
				break
			} else {
				seen[key] = true
			}
		}
		later := map[int]bool{}
		for at := range now {
			for end := range p.p.ends(text, at) {
				later[end] = true
			}
		}
		now = later
	}
	return out
}
func (p times) String() string { return fmt.Sprintf("%v{%d,%d}", p.p, p.lo, p.hi) }

func (p both) build(s *Set) ID { return s.And(p.a.build(s), p.b.build(s)) }
func (p both) ends(text string, from int) map[int]bool {
	out := p.a.ends(text, from)
	b := p.b.ends(text, from)
	for end := range out {
		if !b[end] {
			delete(out, end)
		}
	}
	return out
}
func (p both) String() string { return fmt.Sprintf("(%v & %v)", p.a, p.b) }

func (p butNot) build(s *Set) ID { return s.And(p.a.build(s), s.Not(p.b.build(s))) }
func (p butNot) ends(text string, from int) map[int]bool {
	out := p.a.ends(text, from)
	for end := range p.b.ends(text, from) {
		delete(out, end)
	}
	return out
}
func (p butNot) String() string { return fmt.Sprintf("(%v but not %v)", p.a, p.b) }

func (p call) build(s *Set) ID                         { return s.Rule(p.r.rule) }
func (p call) ends(text string, from int) map[int]bool { return p.r.body.ends(text, from) }
func (p call) String() string                          { return "<" + p.r.rule.Name + ">" }

func (p counted) build(s *Set) ID { return s.Counted(p.a, p.lo, p.hi) }
func (p counted) ends(text string, from int) map[int]bool {
	out := map[int]bool{}
	for end := range p.p.ends(text, from) {
		// A character is "a", "b", or "c" followed by one more byte.
		n, at := 0, from
		for at < end {
			if text[at] == 'c' {
				at++
			}
			at++
			n++
		}
		if at == end && n >= p.lo && (p.hi < 0 || n <= p.hi) {
			out[end] = true
		}
	}
	return out
}
func (p counted) String() string { return fmt.Sprintf("%v counted {%d,%d}", p.p, p.lo, p.hi) }

func character(s *Set) ID {
	return s.Union(s.Byte(ByteRange('a', 'b')), s.Concat(s.Literal("c"), s.Byte(ByteRange('a', 'c'))))
}

type generator struct {
	rng   *rand.Rand
	rules []*callee
}

// regular returns a random pattern without rules. And and Not occur only at its top, and only if asked for.
func (g *generator) regular(depth int, boolean bool) pattern {
	if depth == 0 || g.rng.IntN(5) == 0 {
		if g.rng.IntN(2) == 0 {
			return bytesOf{[]string{"a", "b", "c", "ab", "bc", "abc"}[g.rng.IntN(6)]}
		}
		var list []string
		for range 1 + g.rng.IntN(3) {
			w := make([]byte, g.rng.IntN(4))
			for i := range w {
				w[i] = alphabet[g.rng.IntN(3)]
			}
			list = append(list, string(w))
		}
		return words{NewWords(list)}
	}
	sub := func() pattern { return g.regular(depth-1, boolean) }
	switch n := g.rng.IntN(8); {
	case n < 3:
		return sequence{[]pattern{sub(), sub()}}
	case n < 5:
		return choice{[]pattern{sub(), sub()}}
	case n < 6 || !boolean:
		lo := g.rng.IntN(3)
		return times{sub(), lo, []int{-1, lo, lo + 1, lo + 3}[g.rng.IntN(4)]}
	case n < 7:
		return both{sub(), sub()}
	}
	return butNot{sub(), sub()}
}

// grammar returns a random pattern with calls of rules. Each rule consumes a byte before it calls another.
func (g *generator) grammar(depth int) pattern {
	if depth == 0 || g.rng.IntN(6) == 0 {
		return g.regular(1, false)
	}
	switch g.rng.IntN(4) {
	case 0:
		return choice{[]pattern{g.grammar(depth - 1), g.grammar(depth - 1)}}
	case 1:
		if len(g.rules) > 0 {
			return sequence{[]pattern{bytesOf{"a"}, call{g.rules[g.rng.IntN(len(g.rules))]}, bytesOf{"bc"}}}
		}
	case 2:
		return times{g.grammar(depth - 1), 0, 1 + g.rng.IntN(3)}
	}
	return sequence{[]pattern{g.grammar(depth - 1), g.grammar(depth - 1)}}
}

func (g *generator) withRules() pattern {
	for i := range 2 {
		c := &callee{rule: &Rule{Name: fmt.Sprint("r", i)}}
		c.rule.Expand = func(s *Set) ID { return c.body.build(s) }
		g.rules = append(g.rules, c)
	}
	for _, c := range g.rules {
		c.body = choice{[]pattern{g.regular(1, false), sequence{[]pattern{bytesOf{"b"}, g.grammar(2)}}}}
	}
	return g.grammar(3)
}

func (g *generator) text() string {
	b := make([]byte, g.rng.IntN(9))
	for i := range b {
		b[i] = alphabet[g.rng.IntN(3)]
	}
	return string(b)
}

func checkAgainst(t *testing.T, g *generator, p pattern) {
	s := NewSet()
	s.SetHorizon(4)
	id := p.build(s)
	other := NewSet()
	for range 30 {
		text := g.text()
		want := p.ends(text, 0)[len(text)]
		if got := s.Match(id, text); got != want {
			t.Fatalf("%v on %q: %v, want %v", p, text, got, want)
		}
		at := id
		for i := range len(text) {
			at = s.Derive(at, text[i])
			rest := text[i+1:]
			if i == len(text)/2 {
				at2 := at
				other.Import(s, &at2)
				if other.Match(at2, rest) != s.Match(at, rest) {
					t.Fatalf("%v after %q: the imported expression differs on %q", p, text[:i+1], rest)
				}
			}
			if c := s.Clamp(at); len(rest) <= 4 && s.Match(c, rest) != s.Match(at, rest) {
				t.Fatalf("%v after %q: the clamped expression differs on %q", p, text[:i+1], rest)
			}
			b, forced := s.Forced(at)
			count := 0
			for _, c := range []byte(alphabet) {
				if s.Derive(at, c) != Empty {
					count++
				}
			}
			if forced != (count == 1 && !s.Nullable(at)) || forced && s.Derive(at, b) == Empty {
				t.Fatalf("%v after %q: forced %v %q of %d", p, text[:i+1], forced, b, count)
			}
		}
	}
}

// checkInPieces derives in very small portions of work and checks that the result is the same.
func checkInPieces(t *testing.T, g *generator, p pattern) {
	s := NewSet()
	id := p.build(s)
	for range 10 {
		text := g.text()
		at, done := id, 0
		for {
			used, end := s.Within(1+g.rng.IntN(3), math.MaxInt, func() {
				for ; done < len(text); done++ {
					at = s.Derive(at, text[done])
				}
			})
			if end == Finished {
				break
			}
			if end != OutOfWork || used < 1 {
				t.Fatalf("%v on %q: stopped by %d after %d units", p, text, end, used)
			}
			if g.rng.IntN(4) == 0 {
				s.Match(id, g.text()) // overwrites some of what was kept last
			}
		}
		if got, want := s.Nullable(at), p.ends(text, 0)[len(text)]; got != want {
			t.Fatalf("%v on %q in pieces: %v, want %v", p, text, got, want)
		}
	}
}

func check(t *testing.T, seed uint64) {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 1))}
	checkAgainst(t, g, g.regular(3, true))
	checkAgainst(t, g, g.withRules())
	checkInPieces(t, g, g.regular(3, true))
	checkInPieces(t, g, g.withRules())

	p := g.regular(3, true)
	a, err := Determinize(context.Background(), p.build, 2000)
	if errors.Is(err, ErrTooComplex) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s := NewSet()
	checkProductive(t, p, s, s.Automaton(a))
	for range 30 {
		text := g.text()
		if got, want := s.Match(s.Automaton(a), text), p.ends(text, 0)[len(text)]; got != want {
			t.Fatalf("automaton of %v on %q: %v, want %v", p, text, got, want)
		}
	}
	a, err = DeterminizeText(context.Background(), p.build, character, 2000)
	if err != nil {
		return
	}
	lo := g.rng.IntN(4)
	c := counted{p, a, lo, []int{-1, lo, lo + 2}[g.rng.IntN(3)]}
	checkAgainst(t, g, c)
	checkProductive(t, c, s, c.build(s))
	checkLengths(t, c)
}

// checkProductive checks that no reached state is a dead end, by looking for a way out of each.
func checkProductive(t *testing.T, p pattern, s *Set, id ID) {
	seen, queue := map[ID]bool{id: true}, []ID{id}
	back := map[ID][]ID{}
	for len(queue) > 0 && len(seen) < 3000 {
		at := queue[0]
		queue = queue[1:]
		for _, b := range []byte(alphabet) {
			if d := s.Derive(at, b); d != Empty {
				back[d] = append(back[d], at)
				if !seen[d] {
					seen[d] = true
					queue = append(queue, d)
				}
			}
		}
	}
	if len(queue) > 0 || id == Empty {
		return
	}
	good := map[ID]bool{}
	var mark func(ID)
	mark = func(at ID) {
		if !good[at] {
			good[at] = true
			for _, q := range back[at] {
				mark(q)
			}
		}
	}
	for at := range seen {
		if s.Nullable(at) {
			mark(at)
		}
	}
	if len(good) != len(seen) {
		t.Fatalf("%v: %d of %d states are dead ends", p, len(seen)-len(good), len(seen))
	}
}

func checkLengths(t *testing.T, c counted) {
	least, most := c.a.LengthRange()
	s := NewSet()
	for k := range 6 {
		inside := !c.a.IsEmpty() && k >= least && (most < 0 || k <= most)
		if s.Counted(c.a, k, k) != Empty && !inside {
			t.Fatalf("%v has a text of %d characters, but its range is %d to %d", c.p, k, least, most)
		}
	}
	if !c.a.IsEmpty() && (s.Counted(c.a, least, least) == Empty || most >= 0 && s.Counted(c.a, most, most) == Empty) {
		t.Fatalf("%v has no text at the ends of its range, %d to %d", c.p, least, most)
	}
}

func TestAgainstSlowMatcher(t *testing.T) {
	n := uint64(600)
	if testing.Short() {
		n = 100
	}
	for seed := range n {
		check(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzAgainstSlowMatcher(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(check)
}

func TestLargeCountersAreOneNode(t *testing.T) {
	s := NewSet()
	id := s.Concat(s.Repeat(s.Byte(ByteRange('a', 'z')), 3, 100000), s.Literal("."))
	before := s.Len()
	text := strings.Repeat("x", 1000)
	at := id
	for i := range len(text) {
		at = s.Derive(at, text[i])
		s.Clamp(at)
	}
	if grown := s.Len() - before; grown > 3000 {
		t.Errorf("1,000 bytes made %d expressions", grown)
	}
	if s.Match(id, "ab.") || !s.Match(id, text+".") {
		t.Error("bounds are wrong")
	}
	a := s.Derive(id, 'a')
	b := s.Derive(a, 'b')
	c := s.Derive(b, 'c')
	if s.Clamp(c) != s.Clamp(s.Derive(c, 'd')) || a == b {
		t.Error("distant bounds are told apart")
	}
}

func TestTooComplex(t *testing.T) {
	_, err := Determinize(context.Background(), func(s *Set) ID {
		any := s.Byte(ByteRange('a', 'b'))
		return s.Concat(s.Star(any), s.Literal("a"), s.Repeat(any, 15, 15))
	}, 1000)
	if !errors.Is(err, ErrTooComplex) {
		t.Fatalf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Determinize(ctx, func(s *Set) ID { return s.Literal("a") }, 10); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
}

func TestManyWords(t *testing.T) {
	var list []string
	for i := range 10000 {
		list = append(list, fmt.Sprintf("word-%d", i*7))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	s := NewSet()
	id := s.Concat(s.Words(NewWords(list)), s.Literal("!"))
	for i := range 1000 {
		text := fmt.Sprintf("word-%d", i)
		if got, want := s.Match(id, text+"!"), slices.Contains(list, text); got != want {
			t.Fatalf("%q: %v", text, got)
		}
	}
}

// BenchmarkDerive measures a byte of a state whose derivatives are known.
func BenchmarkDerive(b *testing.B) {
	s := NewSet()
	id := s.Concat(s.Star(s.Byte(ByteRange('a', 'z'))), s.Literal("!"))
	for b.Loop() {
		id = s.Derive(id, 'x')
	}
}

func TestWithinStopsForRoomAndPassesPanicsOn(t *testing.T) {
	s := NewSet()
	id := s.Literal("abcdef")
	if _, end := s.Within(100, s.Bytes()-1, func() { s.Match(id, "abcdef") }); end != OutOfRoom {
		t.Errorf("end = %d without room", end)
	}
	if used, end := s.Within(100, math.MaxInt, func() { s.Spend(100); s.Spend(1) }); end != OutOfWork || used != 100 {
		t.Errorf("end = %d after %d units", end, used)
	}
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v", r)
		}
		if !s.Match(id, "abcdef") {
			t.Error("the limits stayed")
		}
	}()
	s.Within(1, math.MaxInt, func() { panic("mine") })
}

// TestDeterminizeStopsWithItsContext checks that the context also stops the expansion of rules, before the first state
// is explored.
func TestDeterminizeStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	expanded := 0
	var chain func(n int) *Rule
	chain = func(n int) *Rule {
		return &Rule{Name: "chain", Expand: func(s *Set) ID {
			if expanded++; expanded == 100 {
				cancel()
			}
			return s.Concat(s.Literal("a"), s.Rule(chain(n-1)))
		}}
	}
	_, err := Determinize(ctx, func(s *Set) ID { return s.Rule(chain(100_000)) }, 1000)
	if !errors.Is(err, context.Canceled) || expanded > 300 {
		t.Errorf("after %d rules: %v", expanded, err)
	}
}
