package grammar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/grammar/expr"
)

func compile(t testing.TB, v *Vocabulary, src Source) *Grammar {
	t.Helper()
	g, err := Compile(context.Background(), src, v)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// small is a vocabulary of all bytes and a few words.
func small(t testing.TB) *Vocabulary {
	t.Helper()
	vocab := randomVocab(rand.New(rand.NewPCG(1, 1)))
	return NewVocabulary(vocab, greedy(vocab))
}

// feed accepts a text byte by byte.
func feed(m *Matcher, text string) bool {
	for i := range len(text) {
		if !m.Accept(backend.Token(text[i])) {
			return false
		}
	}
	return true
}

const maxGrammarBytes = 8 << 20

func TestMemoryStaysBounded(t *testing.T) {
	v := small(t)
	var words []string
	for i := range 10000 {
		words = append(words, fmt.Sprintf(`"value number %d"`, i*37))
	}
	for name, c := range map[string]struct{ schema, text string }{
		"long string": {`{"type":"string","minLength":10,"maxLength":200000}`,
			`"` + strings.Repeat("lorem ipsum ", 8000) + `"`},
		"large maxItems": {`{"type":"array","items":{"type":"string","maxLength":9},"maxItems":50000}`,
			"[" + strings.Repeat(`"abc",`, 20000) + `"x"]`},
		"deep": {`{"$ref":"#/$defs/n","$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"}}}}`,
			strings.Repeat("[", 20000) + strings.Repeat("]", 20000)},
		"many values": {`{"type":"array","items":{"enum":[` + strings.Join(words, ",") + `]}}`,
			"[" + strings.Join(words, ",") + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			g := compile(t, v, JSONSchema([]byte(c.schema)))
			m := g.Matcher()
			mask := backend.NewMask(v.Len())
			largest := 0
			for i := range len(c.text) {
				if i%97 == 0 {
					m.Fill(mask)
					if !mask.Has(backend.Token(c.text[i])) {
						t.Fatalf("byte %d is masked", i)
					}
					largest = max(largest, g.Bytes())
				}
				if !m.Accept(backend.Token(c.text[i])) {
					t.Fatalf("byte %d of %d is refused", i, len(c.text))
				}
			}
			if !m.Done() {
				t.Error("not done")
			}
			if largest > maxGrammarBytes {
				t.Errorf("%d bytes", largest)
			}
		})
	}
}

// TestAmbiguityStaysCheap descends level by level into forms whose beginnings do not decide between several
// alternatives.
func TestAmbiguityStaysCheap(t *testing.T) {
	v := small(t)
	pair := `{"anyOf":[{"type":"object","properties":{"left":{"$ref":"#"},"op":{"type":"string"}},"required":["left",` +
		`"op"],"additionalProperties":false},` +
		`{"type":"object","properties":{"left":{"$ref":"#"},"neg":{"type":"boolean"}},"required":["left","neg"],` +
		`"additionalProperties":false},{"type":"string"}]}`
	var ladder strings.Builder
	for i := range 60 {
		fmt.Fprintf(&ladder, "r%d ::= \"(\" r%d \")\" | \"(\" r%d \"]\"\n", i, i+1, i+1)
	}
	for name, c := range map[string]struct {
		src        Source
		step, rest string
	}{
		"schema": {JSONSchema([]byte(pair)), `{"left":`, `"x"`},
		"arrays": {JSONSchema(
			[]byte(
				`{"anyOf":[{"type":"array","items":{"$ref":"#"},"maxItems":3},{"type":"array","items":{"$ref":"#"},` +
					`"minItems":5},{"type":"string"}]}`)), "[", `"x"`},
		"gbnf":      {GBNF(`root ::= "a" root "b" | "a" root "c" | "x"`), "a", "x"},
		"growing":   {GBNF(`root ::= "b" | "b" root{1,3}`), "b", "b"},
		"optionals": {GBNF("root ::= " + strings.Repeat(`"a"? `, 150)), "a", "a"},
		"ladder":    {GBNF("root ::= r0\n" + ladder.String() + "r60 ::= [0-9]+"), "(", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := compile(t, v, c.src).Matcher()
			mask := backend.NewMask(v.Len())
			begin := time.Now()
			for range 50 {
				m.Fill(mask)
				m.Forced(nil)
				if !feed(m, c.step) {
					t.Fatal("refused")
				}
			}
			if !feed(m, c.rest) {
				t.Fatal("refused")
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("50 levels took %v", took)
			}
		})
	}
}

func TestLargeSchemasAreRefusedByLimit(t *testing.T) {
	v := small(t)
	large := `{"enum":["` + strings.Repeat("x", 1<<20) + `"]}`
	nested := strings.Repeat(`{"not":`, 100_000) + "true" + strings.Repeat("}", 100_000)
	for name, src := range map[string]Source{
		"schema": JSONSchema([]byte(large)), "nesting": JSONSchema([]byte(nested)),
		"choices": Choices(strings.Repeat("y", 5<<20)),
		"pattern": Regex(strings.Repeat("(a{1000}){1000}", 10)), "gbnf": GBNF("root ::= " + strings.Repeat("(", 100_000)),
	} {
		begin := time.Now()
		_, err := Compile(context.Background(), src, v)
		var c *CompileError
		if !errors.As(err, &c) || c.Hint() == "" {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: refused after %v", name, took)
		}
	}
}

// TestStaticSizesAreNotTooLow measures the memory of large sources.
func TestStaticSizesAreNotTooLow(t *testing.T) {
	for name, src := range map[string]Source{
		"groups":   GBNF("root ::= " + strings.Repeat(`("a"|"b")* `, 45_000)),
		"literals": GBNF("root ::= " + strings.Repeat(`"a" | `, 150_000) + `"b"`),
		"optional": Regex(strings.Repeat("a?", 20_000)), "classes": Regex(strings.Repeat("(a|[b-d]*)", 6000)),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		f, err := src.compile(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if took := int(after.HeapAlloc) - int(before.HeapAlloc); took > f.bytes*5/4 {
			t.Errorf("%s: %d bytes are kept, %d are counted", name, took, f.bytes)
		}
		runtime.KeepAlive(f)
	}
}

func TestCompileStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, src := range []Source{Regex("a"), GBNF(`root ::= "a"`), Choices("a"), AnyObject()} {
		if _, err := Compile(ctx, src, small(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", src, err)
		}
	}
	schema := JSONSchema([]byte(`{"allOf":[{"pattern":"a.*b"},{"pattern":"c.*d"}]}`))
	if _, err := Compile(ctx, schema, small(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestSourcesThatAreEmptyOrNot(t *testing.T) {
	v := small(t)
	for _, src := range []Source{{}, Choices(), Choices(""), Fields(), Fields(Field{Name: "a", Value: Regex("x")}),
		Fields(Field{Name: "a", Value: AnyObject(), Optional: true}), JSONSchema(nil), JSONSchema([]byte("false")),
		Regex("a(?=b)"), GBNF("")} {
		if _, err := Compile(context.Background(), src, v); err == nil {
			t.Errorf("%s was compiled", src)
		}
	}
	g := compile(t, v, Fields(Field{Name: "reasoning", Value: JSONSchema([]byte(`{"type":"string"}`))},
		Field{Name: "a", Value: Choices("1", "2")},
		Field{Name: "b", Value: AnyObject(), Optional: true}))
	for text, want := range map[string]bool{
		`{"reasoning":"x","a":1}`: true, `{"reasoning": "x", "a": 2, "b": {"c": [1]}}`: true, `{"a":1}`: false,
		`{"reasoning":"x","a":3}`:       false,
		`{"reasoning":"x","a":1,"b":1}`: false,
	} {
		if got := inBytes(g, text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	v := small(t)
	m := compile(t, v,
		JSONSchema([]byte(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`))).Matcher()
	if !feed(m, `{"a":"some text`) {
		t.Fatal("refused")
	}
	mask := backend.NewMask(v.Len())
	place := *m
	round := func() {
		*m = place
		m.Fill(mask)
		if !m.Allows('x') || !m.Accept('x') || m.Done() || m.Over() {
			t.Fatal("wrong")
		}
	}
	for range 10 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCacheKeepsByContent(t *testing.T) {
	v := small(t)
	c := NewCache(v, 0)
	src := func(i int) Source { return JSONSchema([]byte(fmt.Sprintf(`{"const":%d}`, i))) }
	a, err := c.Compile(context.Background(), src(1))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := c.Compile(context.Background(), src(1)); a != b {
		t.Error("compiled twice")
	}
	if b, _ := c.Compile(context.Background(), Regex(`{"const":1}`)); a == b {
		t.Error("two forms with one text are taken for the same")
	}
	if _, err := c.Compile(context.Background(), JSONSchema([]byte("false"))); err == nil || c.Len() != 2 {
		t.Errorf("an error is kept: %v, %d grammars", err, c.Len())
	}
	var wg sync.WaitGroup
	got := make([]*Grammar, 16)
	for i := range got {
		wg.Go(func() { got[i], _ = c.Compile(context.Background(), src(2)) })
	}
	wg.Wait()
	for _, g := range got {
		if g == nil || g != got[0] {
			t.Fatal("callers at once got different grammars")
		}
	}
	tiny := NewCache(v, 1)
	for i := range 10 {
		if _, err := tiny.Compile(context.Background(), src(i)); err != nil {
			t.Fatal(err)
		}
	}
	if tiny.Len() != 1 {
		t.Errorf("%d grammars kept in a byte", tiny.Len())
	}
}

// TestNobodyWaitsForAFormAfterLeaving checks that a caller whose context ends stops waiting for a form that another
// caller compiles. The other caller still gets the form.
func TestNobodyWaitsForAFormAfterLeaving(t *testing.T) {
	c := NewCache(small(t), 0)
	src := JSONSchema(
		[]byte(`{"type":"string","allOf":[{"pattern":"a.{0,200}b"},{"pattern":"c.{0,200}d"},{"pattern":"e.{0,200}f"}]}`))
	ctx, cancel := context.WithCancel(t.Context())
	compiled := make(chan error)
	go func() {
		_, err := c.Compile(ctx, src)
		compiled <- err
	}()
	for c.Len() == 0 {
		time.Sleep(time.Millisecond)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := c.Compile(gone, src); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left: %v", err)
	}
	select {
	case err := <-compiled:
		t.Fatalf("the form was compiled at once, which shows nothing: %v", err)
	default:
	}
	cancel()
	if err := <-compiled; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that compiled it: %v", err)
	}
}

// TestMatchersShareAGrammar runs many matchers of one grammar at once, while its arena is renewed under them.
func TestMatchersShareAGrammar(t *testing.T) {
	v := small(t)
	g := compile(t, v,
		JSONSchema(
			[]byte(
				`{"type":"object","properties":{"a":{"type":"string","maxLength":30},"b":{"type":"array",`+
					`"items":{"type":"integer"}}}}`)))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			mask := backend.NewMask(v.Len())
			rng := rand.New(rand.NewPCG(uint64(w), 0))
			for range 30 {
				m := g.Matcher()
				for i, b := range []byte(`{"a": "some text", "b": [1, 22, 333]}`) {
					if rng.IntN(40) == 0 {
						g.renew(g.arena())
					}
					if rng.IntN(4) == 0 {
						m.Fill(mask)
					}
					if !m.Accept(backend.Token(b)) {
						t.Errorf("byte %d refused", i)
						return
					}
				}
				if !m.Done() {
					t.Error("not done")
				}
			}
		})
	}
	wg.Wait()
}

func TestSamplesAreAdmitted(t *testing.T) {
	v := small(t)
	for _, src := range []Source{
		JSONSchema(
			[]byte(
				`{"type":"object","properties":{"n":{"type":"integer","minimum":5},"s":{"type":"string","format":"date"}},` +
					`"required":["n","s"]}`)),
		JSONSchema(
			[]byte(
				`{"$ref":"#/$defs/n","$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"},"minItems":1,"maxItems":2},` +
					`"m":{}}}`)),
		AnyObject(), Regex(`[a-z]+-\d{2,}`), Choices("a", "b"), GBNF(`root ::= "(" root ")" | "x"`),
	} {
		texts, err := Samples(context.Background(), src, 5, 1)
		if err != nil {
			var c *CompileError
			if errors.As(err, &c) {
				continue // the second has no finite text
			}
			t.Fatal(err)
		}
		if len(texts) == 0 {
			t.Errorf("%s: no samples", src)
		}
		g := compile(t, v, src)
		for _, text := range texts {
			if !inBytes(g, text) {
				t.Errorf("%s: %q is not admitted", src, text)
			}
		}
	}
}

// FuzzSources compiles what it is given, as every kind of source, and sees that what is compiled has no dead end
// along a random walk.
func FuzzSources(f *testing.F) {
	f.Add([]byte(`{"type":"object"}`), uint64(1))
	f.Add([]byte(`root ::= [a-z]+`), uint64(2))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		if len(text) > 2000 {
			return
		}
		for _, src := range []Source{JSONSchema(text), Regex(string(text)), GBNF(string(text)),
			Choices(ParseChoices(string(text))...)} {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			fr, a, err := src.prepare(ctx)
			cancel()
			if err != nil {
				continue
			}
			_ = fr
			rng := rand.New(rand.NewPCG(seed, 0))
			id := a.root
			for range 60 {
				b, ok := sampleByte(rng, a.set, id)
				if !ok {
					if !a.set.Nullable(id) {
						t.Fatalf("%s %q: a dead end", src, text)
					}
					break
				}
				id = a.set.Derive(id, b)
			}
			if id == expr.Empty {
				t.Fatal("walked off")
			}
		}
	})
}

func TestParseChoices(t *testing.T) {
	for text, want := range map[string]string{"a,b": "a|b", `a\,b,c`: "a,b|c", `\\,x`: `\|x`, "": "", "a,": "a|"} {
		if got := strings.Join(ParseChoices(text), "|"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A model that is stuck cannot write members, or the name of one, without end. The limits do not hold for names that
// the schema gives, and a form that only checks texts has none.
func TestFreeMembersAreLimited(t *testing.T) {
	v := small(t)
	object := func(members, key int, more string) string {
		var b strings.Builder
		b.WriteString("{" + more)
		for i := range members {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "%q:%d", strings.Repeat("a", key), i)
		}
		return b.String() + "}"
	}
	long := strings.Repeat("n", 200)
	for name, src := range map[string]Source{
		"any object": AnyObject(), "open schema": JSONSchema([]byte(`{"type":"object"}`)),
		"inside a list": JSONSchema([]byte(`{"type":"array","items":{},"minItems":1,"maxItems":1}`)),
		"after a named member": JSONSchema([]byte(`{"type":"object","properties":{"` + long + `":{}},"required":["` +
			long + `"]}`)),
	} {
		open, shut, more := "", "", ""
		switch name {
		case "inside a list":
			open, shut = "[", "]"
		case "after a named member":
			more = `"` + long + `":1,`
		}
		plain, err := NewCache(v, 0).Compile(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		free := compile(t, v, src)
		for _, c := range []struct {
			members, key int
			want         bool
		}{{64, 1, true}, {65, 1, false}, {1, 128, true}, {1, 129, false}} {
			text := open + object(c.members, c.key, more) + shut
			if inBytes(plain, text) != c.want || !inBytes(free, text) {
				t.Errorf("%s: %d members with names of %d characters: admitted %v, want %v; to check %v", name, c.members, c.key,
					inBytes(plain, text), c.want, inBytes(free, text))
			}
		}
	}
}

func TestCachedFormsHavePlainNumbers(t *testing.T) {
	v := small(t)
	src := Fields(Field{Name: "n", Value: JSONSchema([]byte(`{"type":"integer"}`))})
	plain, err := NewCache(v, 0).Compile(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	if !inBytes(plain, `{"n":7}`) || inBytes(plain, `{"n":7.0}`) || !inBytes(compile(t, v, src), `{"n":7.0}`) {
		t.Error("an integer has a fraction, or not where it may")
	}
	if src.digest() == src.Plain().digest() {
		t.Error("the two are taken for the same")
	}
	texts, err := Samples(t.Context(), src, 20, 1)
	if err != nil || len(texts) == 0 {
		t.Fatal(err)
	}
	for _, text := range texts {
		if strings.Contains(text, ".") {
			t.Errorf("sample %s", text)
		}
	}
}
