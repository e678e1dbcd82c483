//go:build peer

package llamacpp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"runner/backend"
	"runner/grammar"
	"runner/grammar/gbnf"
	"runner/models/random"
	"runner/testenv"
)

// pair is one grammar in both engines, at the same place.
type pair struct {
	t      testing.TB
	vocab  *backend.Vocab
	ours   *grammar.Matcher
	theirs *PeerGrammar
	a, b   backend.Mask
	text   string // what was accepted
	// compared and excused count tokens whose bits were compared, and those among them that differ by design.
	compared, excused int
}

func newPair(t testing.TB, m *Model, v *grammar.Vocabulary, text string) *pair {
	t.Helper()
	g, err := grammar.Compile(context.Background(), grammar.GBNF(text), v)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := NewPeerGrammar(m, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	n := m.Vocab().Len()
	return &pair{t: t, vocab: m.Vocab(), ours: g.Matcher(), theirs: peer, a: backend.NewMask(n), b: backend.NewMask(n)}
}

// compare fills both masks and reports differences.
func (p *pair) compare() {
	p.t.Helper()
	p.ours.Fill(p.a)
	if err := p.theirs.Fill(p.b); err != nil {
		p.t.Fatal(err)
	}
	if eos := p.vocab.EOS(); p.ours.Done() != p.b.Has(eos) {
		p.t.Fatalf("after %q: the text may end: %v, for llama.cpp %v", p.text, p.ours.Done(), p.b.Has(eos))
	}
	pending := p.text[len(p.text)-incomplete(p.text):]
	for i := range p.vocab.Len() {
		id := backend.Token(i)
		if k := p.vocab.Kind(id); k != backend.Normal && k != backend.Byte {
			continue
		}
		p.compared++
		if p.a.Has(id) == p.b.Has(id) {
			continue
		}
		text := pending + p.vocab.Piece(id)
		tail := incomplete(text)
		switch {
		case strings.Contains(text, "\x00"): // ends the text for llama.cpp
		case p.b.Has(id) && !utf8.ValidString(text[:len(text)-tail]): // llama.cpp does not look closely
		case p.b.Has(id) && tail > 0 && !possible(text[len(text)-tail:]):
		// for llama.cpp a negated class has no character whose beginning is also another's that is in the class
		case p.a.Has(id) && tail > 0:
		default:
			p.t.Fatalf("after %q: token %d %q: allowed %v, by llama.cpp %v", p.text, id, p.vocab.Piece(id), p.a.Has(id),
				p.b.Has(id))
		}
		p.excused++
	}
}

// accept moves both on.
func (p *pair) accept(id backend.Token) {
	p.t.Helper()
	if ok := p.ours.Accept(id); !ok {
		p.t.Fatalf("after %q: %q is refused", p.text, p.vocab.Piece(id))
	}
	if err := p.theirs.Accept(id); err != nil {
		p.t.Fatalf("after %q: %q: %v", p.text, p.vocab.Piece(id), err)
	}
	p.text += p.vocab.Piece(id)
}

// step accepts a random token that both allow and returns false when there is none.
func (p *pair) step(r *rand.Rand) bool {
	n := p.vocab.Len()
	for i, start := 0, r.IntN(n); i < n; i++ {
		id := backend.Token((start + i) % n)
		if p.a.Has(id) && p.b.Has(id) && !strings.Contains(p.vocab.Piece(id), "\x00") {
			p.accept(id)
			return true
		}
	}
	return false
}

// incomplete returns the length of the unfinished character at the end of a text, by its first byte.
func incomplete(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		switch b := text[len(text)-n]; {
		case b >= 0xf0 && n < 4, b >= 0xe0 && b < 0xf0 && n < 3, b >= 0xc0 && b < 0xe0 && n < 2:
			return n
		case b < 0x80 || b >= 0xc0:
			return 0
		}
	}
	return 0
}

// possible reports whether some character begins with bytes.
func possible(bytes string) bool {
	for _, more := range []string{"\x80", "\xbf", "\x80\x80", "\xbf\xbf", "\x80\x80\x80", "\x90\x80\x80", "\x8f\xbf\xbf",
		"\xa0\x80", "\x9f\xbf"} {
		if r, size := utf8.DecodeRuneInString(bytes + more); r != utf8.RuneError && size == len(bytes)+len(more) {
			return true
		}
	}
	return false
}

// gbnfTests returns the grammars that package gbnf is tested with.
func gbnfTests(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "grammar", "gbnf", "testdata", "*.gbnf"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d grammars, %v", len(files), err)
	}
	list := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		list[strings.TrimSuffix(filepath.Base(f), ".gbnf")] = string(text)
	}
	return list
}

// TestMasksAgree compares every mask of random walks, over the real vocabulary of gpt-oss, with llama.cpp's engine.
func TestMasksAgree(t *testing.T) {
	m := openModel(t, writeO200k(t, "gpt-4o"), backend.Config{ContextSize: 256, Sequences: 1})
	v := grammar.NewVocabulary(m.Vocab(), nil)
	for name, text := range gbnfTests(t) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(len(name))))
			compared, excused := 0, 0
			for range 2 {
				p := newPair(t, m, v, text)
				for range 10 {
					if p.compare(); !p.step(r) {
						break
					}
				}
				compared, excused = compared+p.compared, excused+p.excused
			}
			t.Logf("%d bits agree, %d differ by design", compared-excused, excused)
			if excused > compared/50 {
				t.Error("too many differ by design")
			}
		})
	}
}

// TestRandomMasksAgree does the same for random grammars, over a small vocabulary.
func TestRandomMasksAgree(t *testing.T) {
	m := openModel(t, writeModel(t, random.Config{Layers: 1, Vocabulary: 2000}),
		backend.Config{ContextSize: 256, Sequences: 1})
	v := grammar.NewVocabulary(m.Vocab(), nil)
	r := rand.New(rand.NewPCG(3, 5))
	masks, allowed := 0, 0
	for range 400 {
		text := randomGrammar(r)
		if _, err := gbnf.Parse(text); err != nil { // no text is finite
			continue
		}
		p := newPair(t, m, v, text)
		for range 10 {
			p.compare()
			masks++
			if !p.step(r) {
				break
			}
			allowed++
		}
		if t.Failed() {
			t.Fatal(text)
		}
	}
	t.Logf("%d masks, %d steps", masks, allowed)
	if allowed < 1000 {
		t.Error("the random grammars allow too little")
	}
}

// randomGrammar makes a grammar that llama.cpp survives: only characters and words are repeated, and a rule refers
// to itself and to those before it only after a character.
func randomGrammar(r *rand.Rand) string {
	names := []string{"root", "a", "b", "c"}[:1+r.IntN(4)]
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	// part makes an expression; guarded says that a character was read before it.
	var part func(rule, depth int, guarded bool) string
	part = func(rule, depth int, guarded bool) string {
		kinds := 8
		if depth == 0 {
			kinds = 3
		}
		switch r.IntN(kinds) {
		case 0:
			return pick(`"e"`, `"ta"`, `"in"`, `" o"`, `"."`, `"é"`) + pick("", "", "?", "+", "*", "{2}")
		case 1:
			return pick("[a-n]", "[^a-e]", "[o-z ]", "[é中]", ".", `[^\x00-\x7F]`) + pick("", "", "?", "+", "{2,3}", "{1,20}")
		case 2:
			if guarded {
				return pick(names...)
			}
			if rule+1 < len(names) {
				return pick(names[rule+1:]...)
			}
			return `"n"`
		case 3, 4:
			return "(" + part(rule, depth-1, guarded) + " | " + part(rule, depth-1, guarded) + ")"
		default:
			return pick(`"a"`, `"r"`, "[st]") + " " + part(rule, depth-1, true) + " " + part(rule, depth-1, true)
		}
	}
	var b strings.Builder
	for i, name := range names {
		fmt.Fprintf(&b, "%s ::= %s", name, part(i, 3, false))
		if i > 0 || r.IntN(3) > 0 {
			fmt.Fprintf(&b, " | %q", name) // ends the recursion
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestRefusalsAgree lists what both engines read and what both refuse.
func TestRefusalsAgree(t *testing.T) {
	m := openModel(t, writeModel(t, random.Config{Layers: 1}), backend.Config{ContextSize: 256, Sequences: 1})
	v := grammar.NewVocabulary(m.Vocab(), nil)
	good := []string{
		`root ::= "a"`, "root ::= (\n\"a\" # x\n| \"b\")", "a ::= \"x\"\r\nroot ::= a\r\n", "root ::=\n\n  \"a\" |\n \"b\"",
		`root ::= [^\]\\-]`,
		`root ::= "\x41\u00e9\U0001F600\[\]\"\\\n\r\t"`, `root ::= "a"{2} "b"{2,} "c"{2,3} "d"{0,1} "e"{ 1 , 2 }`,
		`root ::= . "a"*?`,
		"root ::= \"a\nb\"", `root ::= "a" |`, `root ::= [a-]`, `root ::= [a-c-e]`,
	}
	bad := []string{
		``, `a ::= "x"`, `root ::= a`, `root = "a"`, "root ::= \"a\"\n| \"b\"", `root ::= ("a"`, `root ::= "a")`,
		`root ::= "a`, `root ::= [a`,
		`root ::= *`, `root ::= "a"{,3}`, `root ::= "a"{3;`, `root ::= "\d"`, `root ::= "\x4"`, `root ::= [\-]`,
		`root ::= root "a" | "b"`,
		"root ::= a\na ::= \"x\"? b\nb ::= a", `my_root ::= "a"`, `root ::= &`, "root ::= \"a\"\nb ::= c",
	}
	for i, text := range slices.Concat(good, bad) {
		_, err := grammar.Compile(context.Background(), grammar.GBNF(text), v)
		peer, peerErr := NewPeerGrammar(m, text)
		if peerErr == nil {
			if text == "" { // no constraint
				peerErr = errPeer
			}
			peer.Close()
		}
		if want := i < len(good); (err == nil) != want || (peerErr == nil) != want {
			t.Errorf("%q: %v, llama.cpp: %v", text, err, peerErr)
		}
	}
}

// engine is one of two that constrain a text.
type engine struct {
	fill   func(backend.Mask) error
	allows func(backend.Token) (bool, error)
	accept func(backend.Token) error
}

// BenchmarkMaskLlama follows a text token by token in both engines in turn: json is the grammar of any JSON text,
// person that of a small schema. "mask" asks about all tokens before each, "token" about the next one only, as
// samplers do first. What our engine keeps is new at the start of every text. Times are the thread's processor time
// where the system tells it.
func BenchmarkMaskLlama(b *testing.B) {
	const text = `{"name": "Zoë \"Zo\" Ångström", "age": 31, "active": true, "role": "editor", "tags": ["night owl", ` +
		`"日本語"], ` +
		`"address": {"city": "São Paulo, near the old market", "zip": "01234"}}`
	m := openModel(b, writeO200k(b, "gpt-4o"), backend.Config{ContextSize: 256, Sequences: 1})
	v := grammar.NewVocabulary(m.Vocab(), nil)
	tokens, err := m.Tokenize(nil, text)
	if err != nil {
		b.Fatal(err)
	}
	mask := backend.NewMask(m.Vocab().Len())
	all := gbnfTests(b)
	engines := []struct {
		name string
		open func(text string) (engine, error)
	}{
		{"ours", func(text string) (engine, error) {
			g, err := grammar.Compile(context.Background(), grammar.GBNF(text), v)
			if err != nil {
				return engine{}, err
			}
			c := g.Matcher()
			return engine{
				fill:   func(m backend.Mask) error { c.Fill(m); return nil },
				allows: func(t backend.Token) (bool, error) { return c.Allows(t), nil },
				accept: func(t backend.Token) error { c.Accept(t); return nil },
			}, nil
		}},
		{"llama.cpp", func(text string) (engine, error) {
			g, err := NewPeerGrammar(m, text)
			if err != nil {
				return engine{}, err
			}
			b.Cleanup(g.Close)
			return engine{g.Fill, g.Allows, g.Accept}, nil
		}},
	}
	for _, name := range []string{"json", "person"} {
		for _, e := range engines {
			open := func() engine {
				opened, err := e.open(all[name])
				if err != nil {
					b.Fatal(err)
				}
				return opened
			}
			b.Run(name+"/mask/"+e.name, func(b *testing.B) {
				timeAsks(b, tokens, open, func(e engine, t backend.Token) (bool, error) {
					err := e.fill(mask)
					return mask.Has(t), err
				})
			})
			b.Run(name+"/token/"+e.name, func(b *testing.B) {
				timeAsks(b, tokens, open, func(e engine, t backend.Token) (bool, error) { return e.allows(t) })
			})
		}
	}
}

// timeAsks asks before every token, again and again, and reports the times of that alone.
func timeAsks(b *testing.B, tokens []backend.Token, open func() engine, ask func(engine, backend.Token) (bool, error)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var times []time.Duration
	for b.Loop() {
		e := open()
		for _, t := range tokens {
			start := testenv.ThreadTime()
			ok, err := ask(e, t)
			times = append(times, testenv.ThreadTime()-start)
			if err == nil {
				err = e.accept(t)
			}
			if !ok || err != nil {
				b.Fatalf("token %d is refused: %v", t, err)
			}
		}
	}
	slices.Sort(times)
	total := time.Duration(0)
	for _, d := range times {
		total += d
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	b.ReportMetric(us(total)/float64(len(times)), "mean-µs")
	b.ReportMetric(us(times[len(times)/2]), "p50-µs")
	b.ReportMetric(us(times[len(times)*99/100]), "p99-µs")
	b.ReportMetric(0, "ns/op")
}
