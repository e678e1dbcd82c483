package grammar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/grammar/expr"
	"runner/testenv"
)

// plainText is the expression of a character that stands for itself in a JSON string, or of the escape \".
func jsonCharacter(s *expr.Set) expr.ID {
	var ascii expr.ByteSet
	ascii.AddRange(0x20, 0x7F)
	ascii.Remove('"')
	ascii.Remove('\\')
	parts := []expr.ID{s.Byte(ascii), s.Literal(`\"`)}
	for _, ranges := range utf8Ranges {
		var seq []expr.ID
		for _, r := range ranges {
			seq = append(seq, s.Byte(expr.ByteRange(r[0], r[1])))
		}
		parts = append(parts, s.Concat(seq...))
	}
	return s.Union(parts...)
}

var pieces = []string{
	"a", "b", "ab", "é", "\xc3", "\xa9", "日", "\xe6", "\x97\xa5", `"`, `",`, `":`, `": "`, `\`, `\"`, "{", "}", `{"`, `"}`,
	",", " ", ":", "1", "12", "0",
	"[", "]", "-", ".", "\n", "aaaaaaaaaaaaa", "the quick brown fox jumps over the lazy dog", "abcabcabcabcabcabc", "true",
	"tr", "null", `a"`, `é"`,
}

// randomVocab returns a vocabulary of random pieces with twins, empty pieces, control and padding tokens.
func randomVocab(rng *rand.Rand) *backend.Vocab {
	c := backend.VocabConfig{BOS: backend.NoToken, EOS: backend.NoToken}
	add := func(p string, k backend.TokenKind) {
		c.Pieces, c.Kinds = append(c.Pieces, p), append(c.Kinds, k)
	}
	for b := range 256 {
		add(string([]byte{byte(b)}), []backend.TokenKind{backend.Normal, backend.Byte}[rng.IntN(2)])
	}
	for range 20 + rng.IntN(150) {
		var p strings.Builder
		for range 1 + rng.IntN(3) {
			p.WriteString(pieces[rng.IntN(len(pieces))])
		}
		add(p.String(), []backend.TokenKind{backend.Normal, backend.Normal, backend.Normal, backend.Control,
			backend.UserDefined, backend.Unused}[rng.IntN(6)])
	}
	add("", backend.Normal)
	v, err := backend.NewVocab(c)
	if err != nil {
		panic(err)
	}
	return v
}

// randomForm returns a random form of JSON-like text. Every part of it is productive.
func randomForm(rng *rand.Rand, depth int) func(*expr.Set) expr.ID {
	sub := func() func(*expr.Set) expr.ID { return randomForm(rng, depth-1) }
	str := func() func(*expr.Set) expr.ID {
		lo := rng.IntN(3)
		hi := []int{-1, -1, lo + rng.IntN(4), 20, 200, 5000}[rng.IntN(6)]
		excluded := expr.NewWords([]string{"a", "ab", "the quick"})
		exclude := rng.IntN(3) == 0
		return func(s *expr.Set) expr.ID {
			body := s.Repeat(jsonCharacter(s), lo, hi)
			if exclude && hi < 0 {
				body = s.And(body, s.Not(s.Words(excluded)))
			}
			return s.Concat(s.Literal(`"`), body, s.Literal(`"`))
		}
	}
	if depth == 0 {
		switch rng.IntN(3) {
		case 0:
			return str()
		case 1:
			w := expr.NewWords([]string{"true", "null", "12", "1", `"a"`, `"é"`}[:1+rng.IntN(6)])
			return func(s *expr.Set) expr.ID { return s.Words(w) }
		}
		return func(s *expr.Set) expr.ID {
			d := s.Byte(expr.ByteRange('0', '9'))
			return s.Concat(s.Optional(s.Literal("-")), s.Repeat(d, 1, 3),
				s.Optional(s.Concat(s.Literal("."), s.Repeat(d, 1, -1))))
		}
	}
	switch rng.IntN(5) {
	case 0:
		item := sub()
		return func(s *expr.Set) expr.ID {
			i := item(s)
			return s.Concat(s.Literal("["), s.Optional(s.Concat(i,
				s.Repeat(s.Concat(s.Literal(","), s.Optional(s.Literal(" ")), i), 0, 3))), s.Literal("]"))
		}
	case 1:
		key, value, more := []string{`"a":`, `"é":`, `"":`}[rng.IntN(3)], sub(), sub()
		return func(s *expr.Set) expr.ID {
			return s.Concat(s.Literal("{"+key), value(s), s.Optional(s.Concat(s.Literal(`,"b":`), more(s))), s.Literal("}"))
		}
	case 2:
		a, b := sub(), sub()
		return func(s *expr.Set) expr.ID { return s.Union(a(s), b(s)) }
	case 3:
		body := sub()
		rule := &expr.Rule{Name: "nested"}
		rule.Expand = func(s *expr.Set) expr.ID {
			return s.Union(s.Concat(s.Literal("["), s.Rule(rule), s.Literal("]")), body(s))
		}
		return func(s *expr.Set) expr.ID { return s.Rule(rule) }
	}
	return str()
}

func newGrammar(v *Vocabulary, build func(*expr.Set) expr.ID, static int) *Grammar {
	g := &Grammar{vocab: v, build: build, static: static, current: newArena(build)}
	g.current.set.SetHorizon(v.longest)
	return g
}

// checkMasks feeds random texts of a random form with a random vocabulary. It compares every mask, bit for bit, with
// the result of feeding the bytes of each token to an expression in a separate set.
func checkMasks(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	vocab := randomVocab(rng)
	build := randomForm(rng, 3)
	v := NewVocabulary(vocab, nil)
	g := newGrammar(v, build, 0)
	m := g.Matcher()
	slow := expr.NewSet()
	at := build(slow)
	type place struct {
		at expr.ID
		m  *Matcher
	}
	trail := []place{{at, m.Clone()}}
	mask := backend.NewMask(vocab.Len())
	for step := 0; step < 40; step++ {
		if rng.IntN(12) == 0 {
			g.renew(g.arena())
		}
		if rng.IntN(2) == 0 {
			prepareSlowly(t, rng, g, m)
		}
		m.Fill(mask)
		var allowed []backend.Token
		for tok := range backend.Token(vocab.Len()) {
			next, p := at, vocab.Piece(tok)
			for i := 0; i < len(p) && next != expr.Empty; i++ {
				next = slow.Derive(next, p[i])
			}
			k := vocab.Kind(tok)
			want := next != expr.Empty && p != "" && (k == backend.Normal || k == backend.Byte)
			if mask.Has(tok) != want || m.Allows(tok) != want {
				t.Fatalf("step %d, token %q: mask %v, Allows %v, want %v", step, p, mask.Has(tok), m.Allows(tok), want)
			}
			if want {
				allowed = append(allowed, tok)
			}
		}
		if m.Done() != slow.Nullable(at) || m.unfed == "" && m.Over() != (len(allowed) == 0) {
			t.Fatalf("step %d: Done %v, Over %v, %d allowed", step, m.Done(), m.Over(), len(allowed))
		}
		if len(allowed) == 0 {
			if !m.Done() {
				t.Fatalf("step %d: dead end", step)
			}
			break
		}
		if len(trail) > 1 && rng.IntN(10) == 0 {
			n := 1 + rng.IntN(len(trail)-1)
			trail = trail[:len(trail)-n]
			back := trail[len(trail)-1]
			at, m = back.at, back.m.Clone()
			continue
		}
		if rng.IntN(10) == 0 {
			m = m.Clone()
		}
		tok := allowed[rng.IntN(len(allowed))]
		if !m.Accept(tok) {
			t.Fatalf("step %d: %q is allowed and not accepted", step, vocab.Piece(tok))
		}
		for _, b := range []byte(vocab.Piece(tok)) {
			at = slow.Derive(at, b)
		}
		trail = append(trail, place{at, m.Clone()})
	}
}

// prepareSlowly prepares a mask in many small steps. Between them the arena may be renewed and another matcher may
// work.
func prepareSlowly(t *testing.T, rng *rand.Rand, g *Grammar, m *Matcher) {
	other := m.Clone()
	for range 1_000_000 {
		used, ready, err := m.Prepare(1 + rng.IntN(1+rng.IntN(60)))
		switch {
		case err != nil:
			t.Fatal(err)
		case ready:
			return
		case used == 0:
			t.Fatal("nothing was done")
		}
		switch rng.IntN(40) {
		case 0:
			if rng.IntN(20) == 0 {
				g.renew(g.arena())
			}
		case 1:
			if _, ready, _ := other.Prepare(1 + rng.IntN(30)); ready {
				for tok := range backend.Token(g.vocab.Len()) {
					if rng.IntN(10) == 0 && other.Accept(tok) {
						break
					}
				}
			}
		}
	}
	t.Fatal("no end of it")
}

func TestMasksEqualBruteForce(t *testing.T) {
	for seed := range testenv.Rounds(400) {
		checkMasks(t, uint64(seed))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzMasksEqualBruteForce(f *testing.F) {
	f.Add(uint64(3))
	f.Fuzz(checkMasks)
}

// greedy cuts text into the longest tokens. Like tokenizers it uses user-defined tokens, which forms do not allow.
func greedy(v *backend.Vocab) func([]backend.Token, string) ([]backend.Token, error) {
	return func(dst []backend.Token, text string) ([]backend.Token, error) {
		for text != "" {
			best := backend.NoToken
			for tok := range backend.Token(v.Len()) {
				p, usable := v.Piece(tok), isText(v, tok) || v.Kind(tok) == backend.UserDefined
				if usable && p != "" && strings.HasPrefix(text, p) &&
					(best == backend.NoToken || len(p) > len(v.Piece(best))) {
					best = tok
				}
			}
			if best == backend.NoToken {
				return dst, fmt.Errorf("no token")
			}
			dst, text = append(dst, best), text[len(v.Piece(best)):]
		}
		return dst, nil
	}
}

func TestForcedTokensAreTheOnlyOnes(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		vocab := randomVocab(rng)
		m := newGrammar(NewVocabulary(vocab, greedy(vocab)), randomForm(rng, 3), 0).Matcher()
		mask := backend.NewMask(vocab.Len())
		for range 30 {
			forced := m.Forced(nil)
			if len(forced) > 0 {
				c := m.Clone()
				text := ""
				for _, tok := range forced {
					if !c.Accept(tok) {
						t.Fatalf("seed %d: forced %q is not allowed", seed, vocab.Piece(tok))
					}
					text += vocab.Piece(tok)
				}
				// All other allowed tokens begin with the same bytes or are a beginning of them.
				m.Fill(mask)
				for tok := range backend.Token(vocab.Len()) {
					if p := vocab.Piece(tok); mask.Has(tok) && !strings.HasPrefix(p, text) && !strings.HasPrefix(text, p) {
						t.Fatalf("seed %d: %q is forced, but %q is allowed", seed, text, p)
					}
				}
				m = c
				continue
			}
			m.Fill(mask)
			var allowed []backend.Token
			for tok := range backend.Token(vocab.Len()) {
				if mask.Has(tok) {
					allowed = append(allowed, tok)
				}
			}
			if len(allowed) == 0 {
				break
			}
			m.Accept(allowed[rng.IntN(len(allowed))])
		}
	}
}

func TestTriesHoldEveryToken(t *testing.T) {
	vocab := randomVocab(rand.New(rand.NewPCG(5, 5)))
	v := NewVocabulary(vocab, nil)
	var got []backend.Token
	for i := range v.slices {
		s := &v.slices[i]
		path := make([]byte, maxDepth)
		for at, n := range s.nodes {
			path[n.depth] = n.b
			if n.token != backend.NoToken {
				got = append(got, n.token)
				if p := vocab.Piece(n.token); p != string(path[:n.depth+1]) {
					t.Fatalf("token %q lies at %q", p, path[:n.depth+1])
				}
			}
			if n.size < 1 || at+int(n.size) > len(s.nodes) {
				t.Fatalf("node %d has size %d", at, n.size)
			}
		}
	}
	slices.Sort(got)
	var want []backend.Token
	for tok := range backend.Token(vocab.Len()) {
		if isText(vocab, tok) {
			want = append(want, tok)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d tokens in the tries, want %d", len(got), len(want))
	}
}
