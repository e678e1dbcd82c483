package remote_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/remotetest"
	"runner/backend/remote/web"
)

// Settings without an effect differ between the parts of an answer. They do not open another stream.
func TestSettingsWithoutEffectKeepTheStream(t *testing.T) {
	e := remotetest.New(fake.Config{})
	m := open(t, e, remote.Config{})
	q, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	feed, out := prompt, make([]backend.Output, 1)
	for i := range 12 {
		p := backend.Sampling{TopLogprobs: -1, TypicalP: float32(i % 2), Seed: uint64(i), TopK: i}
		in := []backend.Input{{Sequence: q, Tokens: feed, Sampling: &p}}
		if err := backend.StepAll(t.Context(), m, in, out); err != nil {
			t.Fatal(err)
		}
		feed = []backend.Token{out[0].Token}
	}
	if n := len(e.Requests()); n != 1 {
		t.Errorf("%d streams were opened, want 1", n)
	}
}

// TestSettingsThatAreOffAreNotSent writes in each way that settings are off. They are not refused, and they change
// neither the request nor the stream.
func TestSettingsThatAreOffAreNotSent(t *testing.T) {
	e := remotetest.New(fake.Config{})
	m := open(t, e, remote.Config{})
	one, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	feed, out := prompt, make([]backend.Output, 1)
	for i, off := range backendtest.Off {
		p := backend.Sampling{Temperature: 1, Seed: 7, TopLogprobs: -1}
		off.Write(&p)
		if err := m.CheckSampling(&p); err != nil {
			t.Errorf("%s: %v", off.Name, err)
		}
		fresh, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		step := func(q backend.Sequence, tokens []backend.Token) {
			in := []backend.Input{{Sequence: q, Tokens: tokens, Sampling: &p}}
			if err := backend.StepAll(t.Context(), m, in, out); err != nil {
				t.Fatal(err)
			}
		}
		step(fresh, prompt)
		fresh.Close()
		step(one, feed)
		feed = []backend.Token{out[0].Token}
		requests := e.Requests()
		if len(requests) != i+2 {
			t.Fatalf("%s: %d streams were opened, want %d", off.Name, len(requests), i+2)
		}
		for _, r := range requests {
			if got := r.Sampling; got.TopP != 1 || got.TypicalP != 1 || got.RepetitionPenalty != 1 || len(got.Bias) > 0 {
				t.Errorf("%s: the request has %+v", off.Name, got)
			}
		}
	}
}

// formed is a constraint that allows everything and has a form.
type formed struct{ followed *[]bool }

func (formed) Allows(backend.Token) bool { return true }

func (formed) Fill(m backend.Mask) {
	for t := range backend.Token(fake.Harmony().Len()) {
		m.Set(t)
	}
}

func (f formed) Form() (backend.Form, bool) {
	return backend.Form{Kind: backend.FormGBNF, Text: "root ::= [a-z]*"}, len(*f.followed) == 0
}

func (f formed) Follow(on bool) { *f.followed = append(*f.followed, on) }

// A form that an engine refuses is left out, once it is clear that the form was the reason.
func TestRefusedForms(t *testing.T) {
	for _, c := range []struct {
		name    string
		always  bool // whether it refuses requests without a form, too
		refused int64
		first   int // requests for the first sequence
		second  int // and for the second one
	}{{"the form", false, 1, 2, 1}, {"the request", true, 0, 2, 2}} {
		e := remotetest.New(fake.Config{})
		e.Forms = []remote.FormKind{remote.FormGBNF}
		e.Fault = func(_ context.Context, request, _ int) error {
			if c.always || e.Requests()[request].Form != nil {
				return &web.Error{Kind: web.Refused, Status: 400}
			}
			return nil
		}
		m := open(t, e, remote.Config{})
		for i, want := range []int{c.first, c.second} {
			before := len(e.Requests())
			var followed []bool
			_, err := write(t.Context(), m, prompt, 5, backend.Sampling{},
				func(int) backend.Constraint { return formed{&followed} })
			if (err != nil) != c.always || c.always && !errors.Is(err, backend.ErrRefused) {
				t.Errorf("%s is refused: %v", c.name, err)
			}
			if n := len(e.Requests()) - before; n != want {
				t.Errorf("%s is refused: %d requests for sequence %d, want %d", c.name, n, i, want)
			}
			if n := len(followed); !c.always && followed[n-1] {
				t.Errorf("%s is refused, and the constraint believes that the engine follows it", c.name)
			}
		}
		if n := m.FormsRefused(); n != c.refused {
			t.Errorf("%s is refused: %d forms are counted, want %d", c.name, n, c.refused)
		}
	}
}

// An engine that does not know the model any more is asked what it runs.
func TestModelThatIsNotServedAnyMore(t *testing.T) {
	for _, renamed := range []bool{true, false} {
		e := remotetest.New(fake.Config{})
		var missing atomic.Bool
		e.Fault = func(context.Context, int, int) error {
			if missing.Load() {
				return &web.Error{Kind: web.Missing, Status: 404}
			}
			return nil
		}
		m := open(t, e, remote.Config{Patience: quick})
		if _, err := write(t.Context(), m, prompt, 3, backend.Sampling{}, nil); err != nil {
			t.Fatal(err)
		}
		missing.Store(true)
		want := backend.ErrUnavailable
		if renamed {
			e.Rename("another")
			want = backend.ErrOtherModel
		}
		if _, err := write(t.Context(), m, prompt, 3, backend.Sampling{}, nil); !errors.Is(err, want) {
			t.Errorf("another model %v: %v, want %v", renamed, err, want)
		}
		if m.Other() != renamed {
			t.Errorf("another model %v: the model reports %v", renamed, m.Other())
		}
	}
}

// What the engine says about its cache is passed on.
func TestReusedTokens(t *testing.T) {
	for _, cached := range []int{0, 4} {
		e := remotetest.New(fake.Config{})
		e.Cached = cached
		m := open(t, e, remote.Config{})
		q, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		in := []backend.Input{{Sequence: q, Tokens: prompt, Sampling: &backend.Sampling{}}}
		if err := backend.StepAll(t.Context(), m, in, make([]backend.Output, 1)); err != nil {
			t.Fatal(err)
		}
		if n, ok := q.(backend.Reusing).Reused(); ok != (cached > 0) || ok && n != cached {
			t.Errorf("%d tokens were reused, %v, want %d", n, ok, cached)
		}
	}
}

// steady is an engine whose streams each give a token whenever their turn comes.
type steady struct {
	*remotetest.Engine
	opened atomic.Int64
	turns  [4]chan struct{}
}

func (e *steady) Open(ctx context.Context, _ *remote.Request) (remote.Stream, error) {
	return steadyStream{e.turns[e.opened.Add(1)-1], ctx.Done()}, nil
}

type steadyStream struct {
	turn chan struct{}
	done <-chan struct{}
}

func (s steadyStream) Next(to *remote.Sample) error {
	select {
	case <-s.turn:
		to.Token, to.Top = 7, to.Top[:0]
		return nil
	case <-s.done:
		return io.EOF
	}
}

func (steadyStream) Reused() (int, bool) { return 0, false }

func (steadyStream) Model() string { return "" }

func (steadyStream) Close() {}

// Taking a token from each of several streams allocates nothing, on any goroutine.
func TestStepsDoNotAllocate(t *testing.T) {
	e := &steady{Engine: remotetest.New(fake.Config{})}
	m, err := remote.Open(t.Context(), remote.Config{Engine: e, Vocab: e.Vocab(), Tokenize: e.Tokenize})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	all := make([]backend.Input, len(e.turns))
	p := &backend.Sampling{TopLogprobs: -1}
	for i := range all {
		e.turns[i] = make(chan struct{})
		q, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		all[i] = backend.Input{Sequence: q, Tokens: []backend.Token{7}, Sampling: p}
	}
	left, out := make([]backend.Input, 0, len(all)), make([]backend.Output, len(all))
	var failed error
	round := func() {
		for left = append(left[:0], all...); len(left) > 0 && failed == nil; {
			if failed = m.Step(t.Context(), left, out); failed != nil {
				return
			}
			kept := 0
			for i := range left {
				if out[i].Pending {
					left[kept] = left[i]
					kept++
				}
			}
			if left = left[:kept]; kept > 0 {
				<-m.Ready()
			}
		}
	}
	give := func() {
		for _, turn := range e.turns {
			turn <- struct{}{}
		}
	}
	done := make(chan struct{})
	go func() { // the first step opens the streams
		give()
		close(done)
	}()
	round()
	<-done
	for range 20 { // until nothing grows
		give()
		round()
	}
	if n := testing.AllocsPerRun(200, func() { give(); round() }); failed != nil || n != 0 {
		t.Errorf("%v allocations for %d tokens, %v", n, len(all), failed)
	}
}
