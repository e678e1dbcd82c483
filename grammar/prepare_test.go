package grammar

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/grammar/expr"
	"runner/hint"
)

// costly is a form whose masks take long, because it stays open which of the letters so far was the one that counts.
var costly = Regex(`[a-z]*[a-m][a-z]{120}`)

// prepare prepares a mask in slices and returns the number of slices.
func prepare(t testing.TB, m *Matcher, work int) (slices int) {
	t.Helper()
	for {
		used, ready, err := m.Prepare(work)
		if err != nil {
			t.Fatal(err)
		}
		if used > work+work/2+2_000 {
			t.Fatalf("%d units of work instead of %d", used, work)
		}
		if slices++; ready {
			return slices
		}
	}
}

func TestPreparedMasksTakeNoWork(t *testing.T) {
	v := small(t)
	m := compile(t, v, costly).Matcher()
	mask := backend.NewMask(v.Len())
	for i := range 200 {
		if n := prepare(t, m, 500); i == 0 && n < 2 {
			t.Fatal("it is not costly")
		}
		before := m.arena.set.Len()
		m.Fill(mask)
		for tok := range backend.Token(v.Len()) {
			if m.Allows(tok) != mask.Has(tok) {
				t.Fatalf("token %d: Allows says %v", tok, m.Allows(tok))
			}
		}
		if m.arena.set.Len() != before {
			t.Fatal("looking up has derived")
		}
		if m.Accept('"') || !m.Accept(backend.Token('a'+i%26)) {
			t.Fatal("wrong")
		}
	}
}

func TestPreparedStatesDoNotAllocate(t *testing.T) {
	v := small(t)
	m := compile(t, v, JSONSchema([]byte(`{"type":"array","items":{"type":"string"}}`))).Matcher()
	if !feed(m, `["`) {
		t.Fatal("refused")
	}
	mask := backend.NewMask(v.Len())
	round := func() {
		if _, ready, err := m.Prepare(1_000_000); !ready || err != nil {
			t.Fatal("not ready")
		}
		m.Fill(mask)
		if !m.Allows('x') || !m.Accept('x') || m.Over() {
			t.Fatal("wrong")
		}
	}
	for range 768 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTooCostlyForms(t *testing.T) {
	v := small(t)
	t.Run("work", func(t *testing.T) {
		m := compile(t, v, costly).Matcher()
		for m.spent = maxWork - 200; ; {
			_, ready, err := m.Prepare(50)
			if ready {
				t.Fatal("it went over the limit")
			}
			if err != nil {
				checkCostError(t, err, 0)
				return
			}
		}
	})
	t.Run("memory", func(t *testing.T) {
		// After the first letter 60,000 alternatives remain, more than an arena holds.
		var b strings.Builder
		for i := range 60_000 {
			fmt.Fprintf(&b, "\"a%x\"? ", i)
		}
		g := compile(t, v, GBNF("root ::= "+b.String()))
		m := g.Matcher()
		for {
			_, ready, err := m.Prepare(10_000)
			if ready {
				t.Fatal("it went over the limit")
			}
			if g.Bytes() > g.static+m.arena.base+maxArena+maxArena/4 {
				t.Fatalf("%d bytes", g.Bytes())
			}
			if err != nil {
				checkCostError(t, err, 0)
				return
			}
		}
	})
}

func checkCostError(t *testing.T, err error, accepted int) {
	t.Helper()
	if want := fmt.Sprintf("after %d tokens", accepted); !errors.Is(err, ErrTooCostly) || hint.Of(err) == "" ||
		!strings.HasSuffix(err.Error(), want) {
		t.Fatalf("err = %v", err)
	}
}

// TestLettersThatMayBeLeftOut feeds rows of optional parts. A state in a row is one stack, and a byte costs no more
// than one step along the row.
func TestLettersThatMayBeLeftOut(t *testing.T) {
	v := small(t)
	const parts = 2000
	var numbered strings.Builder
	for i := range parts {
		fmt.Fprintf(&numbered, "\"%c%d\"? ", 'a'+i%2, i)
	}
	for name, c := range map[string]struct{ text, walk string }{
		"alike": {strings.Repeat(`"a"? `, parts), "aaaa"}, "classes": {strings.Repeat(`[a-m]? [g-z]? `, parts/2), "hgazm"},
		"different": {numbered.String(), "a12b1033"},
	} {
		m := compile(t, v, GBNF("root ::= "+c.text)).Matcher()
		for i := range len(c.walk) {
			m.settled().mu.Unlock()
			used, end := m.arena.set.Within(1<<30, 1<<30, func() { m.arena.set.Derive(m.at, c.walk[i]) })
			if end != expr.Finished || used > 8*parts {
				t.Errorf("%s: byte %d took %d units of work", name, i, used)
			}
			if !m.Accept(backend.Token(c.walk[i])) {
				t.Fatalf("%s: byte %d is refused", name, i)
			}
		}
	}
}

// TestRenewedArenasAreLetGo checks that a matcher keeps no arena but its own, however often its grammar renews it.
func TestRenewedArenasAreLetGo(t *testing.T) {
	v := small(t)
	g := compile(t, v, JSONSchema([]byte(`{"type":"array","items":{"type":"string"}}`)))
	m := g.Matcher()
	freed := make(chan int, 1000)
	text := "[" + strings.Repeat(`"ab",`, 120)
	for i := range len(text) {
		if i%10 == 9 {
			runtime.AddCleanup(g.arena(), func(i int) { freed <- i }, i)
			g.renew(g.arena())
		}
		if !m.Accept(backend.Token(text[i])) {
			t.Fatalf("byte %d is refused", i)
		}
	}
	renewed := len(text) / 10
	for range 100 {
		runtime.GC()
		if len(freed) >= renewed-1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(freed) < renewed-1 {
		t.Errorf("%d of %d arenas are let go", len(freed), renewed)
	}
}

func TestWarmEndsWithItsContext(t *testing.T) {
	v := small(t)
	g := compile(t, v, costly)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g.Warm(ctx)
	if _, ready, _ := g.Matcher().Prepare(1); ready {
		t.Error("it went on")
	}
	g.Warm(context.Background())
	if used, ready, err := g.Matcher().Prepare(1); !ready || used != 0 || err != nil {
		t.Errorf("the first mask is not ready: %d, %v", used, err)
	}
}
