package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/testenv"
)

// costlyForm has to remember each letter of a word, because it is decided only later which one counts.
const costlyForm = `[a-z]*a[a-z]{30}0|[a-z]*k[a-z]{30}1|[a-z]*l[a-z]{30}2|[a-z]*m[a-z]{30}3|[a-z]*z[a-z]{30}4`

// wide returns the Harmony vocabulary with 20,000 more words, so that masks take longer.
func wide(t *testing.T) *backend.Vocab {
	t.Helper()
	v := fake.Harmony()
	c := backend.VocabConfig{BOS: v.BOS(), EOS: v.EOS()}
	for tok := range backend.Token(v.Len()) {
		c.Pieces, c.Kinds = append(c.Pieces, v.Piece(tok)), append(c.Kinds, v.Kind(tok))
		if v.EndsGeneration(tok) {
			c.EOG = append(c.EOG, tok)
		}
	}
	for i := range 20_000 {
		word := []byte("qqqqqqqq")
		for j, n := 0, i*7919+1; j < len(word); j, n = j+1, n/5 {
			word[j] = "aklmz"[n%5]
		}
		c.Pieces, c.Kinds = append(c.Pieces, fmt.Sprintf("%s%c%c%c", word, 'a'+i%26, 'a'+i/26%26, 'a'+i/676)),
			append(c.Kinds, backend.Normal)
	}
	out, err := backend.NewVocab(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCostlyFormsDoNotStallOthers runs a request whose first mask takes many slices together with one without a form.
// The latter must finish first.
func TestCostlyFormsDoNotStallOthers(t *testing.T) {
	v := wide(t)
	f := start(t, fake.Config{Vocab: v}, Config{},
		fake.Reply{After: ask("costly"), Say: think("", strings.Repeat("za", 100))},
		fake.Reply{After: ask("plain"), Say: think("", strings.Repeat("la ", 3))})
	req := user("costly")
	req.Form, req.MaxTokens = grammar.Regex(costlyForm), 10
	began, done := make(chan struct{}), make(chan time.Time)
	go func() {
		for e, err := range f.Generate(t.Context(), req, generation.Unobserved{}) {
			if err != nil {
				t.Error(err)
			} else if e.Kind == reasoning.Started {
				close(began)
			}
		}
		done <- time.Now()
	}()
	<-began
	f.must(t, user("plain")).want(t, reasoning.Answer, strings.Repeat("la ", 3))
	through := time.Now()
	if at := <-done; at.Before(through) {
		t.Error("the costly request was through first: it is not costly, or the other waited for it")
	}
}

func TestCostlyFormsCanBeCancelled(t *testing.T) {
	v := wide(t)
	f := start(t, fake.Config{Vocab: v}, Config{},
		fake.Reply{After: ask("costly"), Say: think("", strings.Repeat("za", 100))})
	req := user("costly")
	req.Form = grammar.Regex(costlyForm)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e, err := range f.Generate(ctx, req, generation.Unobserved{}) {
		if e.Kind == reasoning.SegmentStart && e.Segment == reasoning.Answer || e.Kind == reasoning.Started {
			cancel()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	f.must(t, user("plain"))
}

// tooCostly has 60,000 alternatives after its first letter.
func tooCostly() string {
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, "\"a%x\"? ", i)
	}
	return "root ::= " + b.String()
}

func TestTooCostlyFormsEndTheirRequestOnly(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("costly"), Say: think("", "a0a1")},
		fake.Reply{After: ask("plain"), Say: think("", "ok")})
	req := user("costly")
	req.Form = grammar.GBNF(tooCostly())
	var field *generation.RequestError
	g := collect(t.Context(), f.Runner, req)
	if !errors.Is(g.err, grammar.ErrTooCostly) || !errors.As(g.err, &field) || field.Field != "Form" ||
		field.Hint() == "" {
		t.Errorf("err = %v", g.err)
	}
	f.must(t, user("plain")).want(t, reasoning.Answer, "ok")
}

// TestPatternsOfArgumentsAreForStrict checks that parameters that are not strict fail no request and cost little.
func TestPatternsOfArgumentsAreForStrict(t *testing.T) {
	testenv.SkipRaced(t)
	for _, strict := range []bool{false, true} {
		var pattern strings.Builder
		for i := range 8_000 {
			fmt.Fprintf(&pattern, "(a%x)?", i)
		}
		schema := fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"string","pattern":"^%s$"}},"required":["a"]}`,
			pattern.String())
		const arguments = `{"a":"a0a1"}`
		f := start(t, fake.Config{ContextSize: 200_000}, Config{},
			fake.Reply{After: ask("costly"), Say: "<|channel|>commentary to=functions.f<|message|>" + arguments + "<|call|>"})
		req := user("costly")
		req.Tools = []chattemplate.Tool{{Name: "f", Parameters: []byte(schema), Strict: strict}}
		g := collect(t.Context(), f.Runner, req)
		if strict != errors.Is(g.err, grammar.ErrTooCostly) ||
			!strict && (g.err != nil || g.text[reasoning.ToolCall] != arguments || len(g.calls) != 1) {
			t.Errorf("strict %t: %v, %v", strict, g.err, g.text)
		}
	}
}

// stubborn is a constraint that needs work and allows everything.
type stubborn struct{ needs, spent, calls int }

func (c *stubborn) Allows(backend.Token) bool { return c.spent >= c.needs }
func (c *stubborn) Fill(m backend.Mask) {
	for i := range m {
		m[i] = ^uint64(0)
	}
}

func (c *stubborn) Prepare(work int) (int, bool, error) {
	used := min(work, c.needs-c.spent)
	c.spent += used
	c.calls++
	return used, c.spent == c.needs, nil
}

// TestPreparingIsShared checks how much work each constraint may do between two steps.
func TestPreparingIsShared(t *testing.T) {
	s := newScheduler(t.Context(), fake.New(fake.Config{}), &Config{PrefillChunk: 64})
	needs := []int{100 * prepareWork, 100, 90 * prepareWork, 300, 0}
	for _, n := range needs {
		s.active = append(s.active, &lane{tokens: make([]backend.Token, 3), fed: 2, constraint: &stubborn{needs: n}})
	}
	s.active = append(s.active, &lane{tokens: make([]backend.Token, 1000), constraint: &stubborn{needs: 1}},
		&lane{tokens: make([]backend.Token, 1)})
	for round := 1; round <= 20; round++ {
		before := 0
		for _, l := range s.active[:5] {
			before += l.constraint.(*stubborn).spent
		}
		s.prepare()
		total := -before
		for i, l := range s.active[:5] {
			c := l.constraint.(*stubborn)
			total += c.spent
			if want := needs[i] > prepareWork; l.unready != want {
				t.Fatalf("round %d: lane %d is unready: %v", round, i, l.unready)
			}
			if !l.unready {
				c.spent = 0 // the next mask
			}
		}
		if total > prepareWork+prepareWork/4 {
			t.Fatalf("round %d: %d units of work", round, total)
		}
		for _, i := range []int{0, 2} {
			if c := s.active[i].constraint.(*stubborn); c.spent < round*prepareWork/8 {
				t.Fatalf("round %d: lane %d has come to %d only", round, i, c.spent)
			}
		}
	}
	if c := s.active[5].constraint.(*stubborn); c.calls != 0 {
		t.Error("a lane that cannot be sampled yet was prepared")
	}
	s.fill()
	for i, l := range s.inStep {
		if l.unready && s.inputs[i].Sampling != nil {
			t.Error("a lane that is not ready is sampled")
		}
	}
	if len(s.inStep) != 5 {
		t.Errorf("%d lanes in the step", len(s.inStep))
	}
}

// TestFirstMasksAreWarmedInTheBackground checks that the answer's first mask is ready before the whole prompt was
// read.
func TestFirstMasksAreWarmedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		f := start(t, fake.Config{Fail: func(step int, _ []backend.Input) error {
			if step == 0 {
				<-hold
			}
			return nil
		}}, Config{}, fake.Reply{After: ask("q"), Say: think("", `{"a":1}`)})
		req := user("q")
		req.Form = grammar.JSONSchema(
			[]byte(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`))
		req.Tools = []chattemplate.Tool{{Name: "x",
			Parameters: []byte(`{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}`), Strict: true}}
		finished := make(chan got)
		go func() { finished <- collect(t.Context(), f.Runner, req) }()
		synctest.Wait() // the step does not go on, and what works in the background has finished
		for _, src := range []grammar.Source{req.Form, grammar.JSONSchema(req.Tools[0].Parameters)} {
			g, err := f.grammars().Compile(t.Context(), src)
			if err != nil {
				t.Fatal(err)
			}
			if used, ok, err := g.Matcher().Prepare(1); err != nil || !ok || used > 0 {
				t.Errorf("the first mask of %s was not prepared: %v", src, err)
			}
		}
		close(hold)
		if g := <-finished; g.err != nil {
			t.Fatal(g.err)
		}
	})
}
