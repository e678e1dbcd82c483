package remote_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/remotetest"
	"runner/backend/remote/web"
)

// write feeds a prompt and then each token that is sampled, n times.
func write(ctx context.Context, m backend.Model, prompt []backend.Token, n int, p backend.Sampling,
	constraint func(i int) backend.Constraint) (tokens []backend.Token, err error) {
	q, err := m.NewSequence()
	if err != nil {
		return nil, err
	}
	defer q.Close()
	out := make([]backend.Output, 1)
	feed := prompt
	for i := range n {
		in := backend.Input{Sequence: q, Tokens: feed, Sampling: &p}
		if constraint != nil {
			in.Constraint = constraint(i)
		}
		if err := backend.StepAll(ctx, m, []backend.Input{in}, out); err != nil {
			return tokens, err
		}
		tokens = append(tokens, out[0].Token)
		feed = []backend.Token{out[0].Token}
		p.Seen = append(p.Seen, out[0].Token)
	}
	return tokens, nil
}

func faults(m *remote.Model) int64 {
	_, _, n, _ := m.StreamCounts()
	return n
}

func replaced(m *remote.Model) int64 {
	_, n, _, _ := m.StreamCounts()
	return n
}

var prompt = []backend.Token{5, 80, 90, 100, 110, 120}

// direct returns what the fake backend writes without an engine between.
func direct(t *testing.T, n int, p backend.Sampling, constraint func(i int) backend.Constraint) []backend.Token {
	t.Helper()
	m := fake.New(fake.Config{})
	defer m.Close()
	tokens, err := write(t.Context(), m, prompt, n, p, constraint)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// quick is a patience for tests.
var quick = remote.Patience{FirstToken: 200 * time.Millisecond, NextToken: 200 * time.Millisecond,
	Faults: 20 * time.Second}

// A generation is the same whatever fails in between, as long as the engine comes back.
func TestFaultsChangeNothing(t *testing.T) {
	want := direct(t, 60, backend.Sampling{}, nil)
	for _, kind := range []web.Kind{web.Broken, web.Malformed, web.Unreachable, web.Busy, web.Slow} {
		r := rand.New(rand.NewPCG(uint64(kind), 3))
		var failed atomic.Int64
		e := remotetest.New(fake.Config{})
		e.Fault = func(ctx context.Context, request, _ int) error {
			if r.IntN(12) > 0 { // one goroutine at a time calls this, since there is one sequence
				return nil
			}
			failed.Add(1)
			if kind == web.Slow {
				<-ctx.Done()
				return ctx.Err()
			}
			return &web.Error{Kind: kind}
		}
		patience := quick
		if kind == web.Slow {
			patience.FirstToken, patience.NextToken = 20*time.Millisecond, 20*time.Millisecond
		}
		m := open(t, e, remote.Config{Patience: patience})
		got, err := write(t.Context(), m, prompt, len(want), backend.Sampling{}, nil)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("with faults of kind %d: %v, %v, want %v", kind, err, got, want)
		}
		if failed.Load() == 0 || faults(m) == 0 {
			t.Errorf("kind %d: nothing failed", kind)
		}
	}
}

// What cannot succeed a second time is not tried again, and what does not end is given up.
func TestFaultsThatLast(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault web.Error
		want  error
		tries int
	}{
		{"refused", web.Error{Kind: web.Refused, Status: 400}, backend.ErrRefused, 1},
		{"too long", web.Error{Kind: web.Refused, Status: 400, TooLong: true}, backend.ErrContextFull, 1},
		{"denied", web.Error{Kind: web.Denied, Status: 401}, backend.ErrUnavailable, 1},
		{"untrusted", web.Error{Kind: web.Untrusted}, backend.ErrUnavailable, 1},
		{"asks to wait too long", web.Error{Kind: web.Busy, Status: 503, RetryAfter: time.Minute}, backend.ErrUnavailable,
			1},
		{"unreachable", web.Error{Kind: web.Unreachable}, backend.ErrUnavailable, 3},
		{"busy", web.Error{Kind: web.Busy, Status: 429}, backend.ErrUnavailable, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := remotetest.New(fake.Config{})
			e.Fault = func(context.Context, int, int) error { return &c.fault }
			patience := quick
			patience.Faults = 400 * time.Millisecond
			m := open(t, e, remote.Config{Patience: patience})
			q, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			in := []backend.Input{{Sequence: q, Tokens: prompt, Sampling: &backend.Sampling{}}}
			err = backend.StepAll(t.Context(), m, in, make([]backend.Output, 1))
			var input *backend.InputError
			if !errors.Is(err, c.want) || !errors.As(err, &input) || len(q.Tokens()) != 0 {
				t.Errorf("error %v and %d tokens, want %v of one input and none", err, len(q.Tokens()), c.want)
			}
			if n := len(e.Requests()); n < c.tries || c.tries == 1 && n > 1 {
				t.Errorf("%d requests, want %d", n, c.tries)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("giving up took %v", took)
			}
			e.Fault = nil
			for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) { // the breaker may still be open
				if _, err = write(t.Context(), m, prompt, 3, backend.Sampling{}, nil); err == nil {
					break
				} else if time.Since(begin) > 10*time.Second {
					t.Fatalf("the model does not work again: %v", err)
				}
			}
		})
	}
}

// An engine that comes back with another model is refused until the old one is back.
func TestAnotherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := remotetest.New(fake.Config{})
		var cut atomic.Bool
		e.Fault = func(_ context.Context, _, token int) error {
			if token == 5 && !cut.Swap(true) {
				e.Rename("another")
				return &web.Error{Kind: web.Broken}
			}
			return nil
		}
		m := open(t, e, remote.Config{Patience: quick})
		tokens, err := write(t.Context(), m, prompt, 40, backend.Sampling{}, nil)
		if !errors.Is(err, backend.ErrOtherModel) || !errors.Is(err, backend.ErrUnavailable) ||
			errors.Is(err, backend.ErrBroken) {
			t.Errorf("error %v after %d tokens, want %v", err, len(tokens), backend.ErrOtherModel)
		}
		if len(tokens) > 5 {
			t.Errorf("%d tokens, of which at most 5 are of the model", len(tokens))
		}
		if _, err := write(t.Context(), m, prompt, 1, backend.Sampling{}, nil); !errors.Is(err, backend.ErrOtherModel) {
			t.Errorf("another request: %v", err)
		}
		if !m.Other() {
			t.Error("the model does not report it")
		}
		e.Rename("fake")
		time.Sleep(1100 * time.Millisecond) // until it is asked again
		if _, err := write(t.Context(), m, prompt, 1, backend.Sampling{}, nil); err != nil || m.Other() {
			t.Errorf("with the old model back: %v", err)
		}
	})
}

// While an engine fails again and again, almost nothing is sent to it. After a while one request tries it.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := remotetest.New(fake.Config{})
		e.Fault = func(context.Context, int, int) error { return &web.Error{Kind: web.Unreachable} }
		patience := quick
		patience.Faults = 60 * time.Millisecond
		m := open(t, e, remote.Config{Patience: patience})
		for range 12 {
			if _, err := write(t.Context(), m, prompt, 1, backend.Sampling{}, nil); !errors.Is(err, backend.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if n := len(e.Requests()); n > 12 {
			t.Errorf("the engine got %d requests while it failed", n)
		}
		e.Fault = nil
		time.Sleep(2100 * time.Millisecond)
		if _, err := write(t.Context(), m, prompt, 1, backend.Sampling{}, nil); err != nil {
			t.Errorf("after the engine came back: %v", err)
		}
	})
}

// A sequence that is given up, paused or closed ends its stream at the engine at once.
func TestStreamsEnd(t *testing.T) {
	e := remotetest.New(fake.Config{})
	hold := make(chan struct{})
	e.Fault = func(ctx context.Context, _, token int) error {
		if token == 3 {
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		return nil
	}
	m := open(t, e, remote.Config{})
	for name, end := range map[string]func(q backend.Sequence){
		"Pause":    func(q backend.Sequence) { q.(backend.Pausing).Pause() },
		"Close":    func(q backend.Sequence) { q.Close() },
		"Truncate": func(q backend.Sequence) { _, _ = q.Truncate(2) },
	} {
		q, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		in := []backend.Input{{Sequence: q, Tokens: prompt, Sampling: &backend.Sampling{}}}
		if err := backend.StepAll(t.Context(), m, in, make([]backend.Output, 1)); err != nil {
			t.Fatal(err)
		}
		if e.OpenStreams() != 1 {
			t.Fatalf("%s: %d streams are open", name, e.OpenStreams())
		}
		end(q)
		for begin := time.Now(); e.OpenStreams() > 0; time.Sleep(time.Millisecond) {
			if time.Since(begin) > time.Second {
				t.Fatalf("%s: the stream is still open", name)
			}
		}
		q.Close()
	}
	close(hold)
}

// multiples allows the multiples of a number.
type multiples struct {
	of   backend.Token
	size int
}

func (c multiples) Allows(t backend.Token) bool { return t%c.of == 0 }

func (c multiples) Fill(m backend.Mask) {
	m.Clear()
	for t := range backend.Token(c.size) {
		if c.Allows(t) {
			m.Set(t)
		}
	}
}

// Tokens that a constraint does not allow are replaced by the most likely ones that it does.
func TestConstraintsHold(t *testing.T) {
	for _, forms := range [][]remote.FormKind{nil, {remote.FormGBNF}} {
		e := remotetest.New(fake.Config{})
		e.Forms = forms
		constraint := func(i int) backend.Constraint { return multiples{backend.Token(1 + i%4), e.Vocab().Len()} }
		want := direct(t, 80, backend.Sampling{}, constraint)
		m := open(t, e, remote.Config{})
		got, err := write(t.Context(), m, prompt, 80, backend.Sampling{}, constraint)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", err, got, want)
		}
		if replaced(m) == 0 {
			t.Error("nothing was replaced")
		}
	}
}

// An engine that does not keep to the allowed tokens fails the input. Nothing that is not allowed gets through.
func TestCarelessEngine(t *testing.T) {
	e := remotetest.New(fake.Config{})
	e.Careless = true
	m := open(t, e, remote.Config{})
	constraint := func(int) backend.Constraint { return multiples{7, e.Vocab().Len()} }
	for seed := range uint64(20) {
		tokens, err := write(t.Context(), m, prompt, 30, backend.Sampling{Temperature: 2, Seed: seed}, constraint)
		if !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		for _, x := range tokens {
			if x%7 != 0 {
				t.Fatalf("the token %d got through", x)
			}
		}
	}
}

// Presence and frequency penalties count the tokens that the runner lists, as in process.
func TestPenalties(t *testing.T) {
	for _, p := range []backend.Sampling{
		{PresencePenalty: 1.5}, {FrequencyPenalty: 0.7}, {PresencePenalty: -1, FrequencyPenalty: 2, PenaltyWindow: 5},
		{PresencePenalty: 2, Bias: []backend.TokenBias{{Token: 40, Bias: 3}, {Token: 41, Bias: -100}}},
	} {
		want := direct(t, 40, p, nil)
		m := open(t, remotetest.New(fake.Config{}), remote.Config{})
		got, err := write(t.Context(), m, prompt, 40, p, nil)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %v, %v, want %v", p, err, got, want)
		}
	}
}

// Text that is fed where the engine would have sampled it does not open another stream.
func TestForcedTextThatTheEngineSamples(t *testing.T) {
	want := direct(t, 30, backend.Sampling{}, nil)
	e := remotetest.New(fake.Config{})
	m := open(t, e, remote.Config{})
	q, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]backend.Output, 1)
	feed := prompt
	for at := 0; at+4 < len(want); {
		in := []backend.Input{{Sequence: q, Tokens: feed, Sampling: &backend.Sampling{}}}
		if err := backend.StepAll(t.Context(), m, in, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Token != want[at] {
			t.Fatalf("token %d is %d, want %d", at, out[0].Token, want[at])
		}
		feed = want[at : at+4] // the sampled token, and three that the engine goes on with
		at += 4
	}
	if n := len(e.Requests()); n != 1 {
		t.Errorf("%d streams were opened for text that the engine samples itself", n)
	}
}

// A sequence tells where the engine had gone on with other tokens: where other tokens were fed, and where a constraint
// did not allow what it sampled. It tells nothing where the engine samples what is fed.
func TestStrayedStreamsAreTold(t *testing.T) {
	want := direct(t, 12, backend.Sampling{}, nil)
	m := open(t, remotetest.New(fake.Config{}), remote.Config{})
	q, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	out := make([]backend.Output, 1)
	step := func(feed []backend.Token, c backend.Constraint) {
		t.Helper()
		in := []backend.Input{{Sequence: q, Tokens: feed, Sampling: &backend.Sampling{}, Constraint: c}}
		if err := backend.StepAll(t.Context(), m, in, out); err != nil {
			t.Fatal(err)
		}
	}
	told := func(want ...int) {
		t.Helper()
		if got := q.(backend.Straying).Strayed(); !slices.Equal(got, want) {
			t.Errorf("strayed at %v, want %v", got, want)
		}
	}
	step(prompt, nil)
	told()
	step(want[:4], nil)
	told()
	step([]backend.Token{want[4], want[5] ^ 1, want[6]}, nil)
	told(len(prompt) + 5)
	step([]backend.Token{out[0].Token}, only{out[0].Token ^ 1})
	told(len(prompt) + 8)
}

// only allows one token.
type only struct{ token backend.Token }

func (c only) Allows(t backend.Token) bool { return t == c.token }

func (c only) Fill(m backend.Mask) {
	m.Clear()
	m.Set(c.token)
}

// Each caller has a salt of its own, which says nothing about the caller.
func TestSalts(t *testing.T) {
	e := remotetest.New(fake.Config{})
	m := open(t, e, remote.Config{})
	for _, owner := range []string{"alice", "bob", "alice"} {
		q, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		in := []backend.Input{{Sequence: q, Tokens: prompt, Sampling: &backend.Sampling{}, Owner: owner}}
		if err := backend.StepAll(t.Context(), m, in, make([]backend.Output, 1)); err != nil {
			t.Fatal(err)
		}
		q.Close()
	}
	r := e.Requests()
	if r[0].Salt == "" || r[0].Salt == r[1].Salt || r[0].Salt != r[2].Salt || r[0].Salt == "alice" {
		t.Errorf("the salts are %q, %q and %q", r[0].Salt, r[1].Salt, r[2].Salt)
	}
}

// Once the engine works again, all streams go on at once. They do not wait for the end of the first one.
func TestAllStreamsGoOnAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 10
		e := remotetest.New(fake.Config{})
		var up atomic.Bool
		var begun atomic.Int64
		all := make(chan struct{})
		e.Fault = func(ctx context.Context, _, token int) error {
			switch {
			case !up.Load():
				return &web.Error{Kind: web.Unreachable}
			case token == 0:
				if begun.Add(1) == streams {
					close(all)
				}
				return nil
			}
			select { // no stream ends before all have begun
			case <-all:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		patience := quick
		patience.Faults, patience.NextToken = 20*time.Second, time.Minute
		m := open(t, e, remote.Config{Patience: patience, Load: backend.Config{Sequences: streams}})
		go func() {
			for !m.Down() {
				time.Sleep(time.Millisecond)
			}
			up.Store(true)
		}()
		inputs, outputs := make([]backend.Input, streams), make([]backend.Output, streams)
		for i := range inputs {
			q, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			inputs[i] = backend.Input{Sequence: q, Tokens: prompt, Sampling: &backend.Sampling{}}
		}
		for range 3 {
			if err := backend.StepAll(t.Context(), m, inputs, outputs); err != nil {
				t.Fatalf("%d of %d streams have begun: %v", begun.Load(), streams, err)
			}
			for i := range inputs {
				inputs[i].Tokens = []backend.Token{outputs[i].Token}
			}
		}
		if m.Down() {
			t.Error("the engine still counts as down")
		}
	})
}

// A request that waited for long before its first token is tried again when it breaks, like any other.
func TestRetriesAreCountedFromTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := remotetest.New(fake.Config{})
		e.Fault = func(_ context.Context, request, _ int) error {
			if request == 0 {
				time.Sleep(300 * time.Millisecond)
				return &web.Error{Kind: web.Broken}
			}
			return nil
		}
		patience := quick
		patience.FirstToken, patience.Faults = time.Minute, 200*time.Millisecond
		m := open(t, e, remote.Config{Patience: patience})
		if _, err := write(t.Context(), m, prompt, 3, backend.Sampling{}, nil); err != nil {
			t.Error(err)
		}
	})
}

// A stream that is opened again goes on with another seed, which depends on the seed and the position alone.
func TestSeedsDependOnThePosition(t *testing.T) {
	seeds := func(seed uint64, broken int) (list []uint64) {
		e := remotetest.New(fake.Config{})
		e.Fault = func(_ context.Context, request, token int) error {
			if request == 0 && token == broken {
				return &web.Error{Kind: web.Broken}
			}
			return nil
		}
		m := open(t, e, remote.Config{Patience: quick})
		if _, err := write(t.Context(), m, prompt, 8, backend.Sampling{Temperature: 1, Seed: seed}, nil); err != nil {
			t.Fatal(err)
		}
		for _, r := range e.Requests() {
			list = append(list, r.Sampling.Seed)
		}
		return list
	}
	early, again, late, other := seeds(7, 2), seeds(7, 2), seeds(7, 5), seeds(8, 2)
	if len(early) != 2 || len(late) != 2 || !slices.Equal(early, again) {
		t.Fatalf("seeds %v, again %v, and %v when it breaks later", early, again, late)
	}
	if early[0] == early[1] || early[0] != late[0] || early[1] == late[1] || early[0] == other[0] || early[1] == other[1] {
		t.Errorf("seeds %v, %v when it breaks later, and %v with another seed", early, late, other)
	}
}
