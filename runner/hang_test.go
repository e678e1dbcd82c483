package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
)

// TestHangingStep checks that Cancel and Close return even if the step hangs, for runs in the step and for waiting
// runs, traced or not. The usage so far is reported once.
func TestHangingStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		hangs, release := make(chan struct{}), make(chan struct{})
		cfg := fake.Config{Vocab: fake.Harmony(), Delay: func(int) time.Duration { return time.Millisecond },
			Fail: func(int, []backend.Input) error {
				if hang.CompareAndSwap(true, false) {
					close(hangs)
					<-release
				}
				return nil
			}}
		cfg.Script = fake.Replies(cfg.Vocab, fake.Reply{After: ask("q"), Say: think("x", strings.Repeat("a b ", 500))})
		model := fake.New(cfg)
		r, err := New(model, Config{Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.grace = 200 * time.Millisecond
		left := errors.New("the client has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		started := make(chan struct{}, 2)
		var told atomic.Int64
		var cancelled atomic.Int64
		var wg sync.WaitGroup
		for i := range 2 { // one is under way, the other waits
			wg.Go(func() {
				req := user("q")
				by := &observes{traced: forgetful{}, account: func(u reasoning.Usage) {
					if told.Add(1); u.Prompt == 0 {
						t.Errorf("run %d is said to have used %+v", i, u)
					}
				}}
				var err error
				for e, e2 := range r.Generate(ctx, req, by) {
					if err = e2; e.Kind == reasoning.Started {
						started <- struct{}{}
					}
				}
				if !errors.Is(err, left) {
					t.Errorf("run %d ends with %v", i, err)
				}
				if took := time.Since(time.Unix(0, cancelled.Load())); took < r.grace {
					t.Errorf("run %d ends %s after it was cancelled, by itself", i, took)
				}
			})
		}
		<-started
		<-started
		hang.Store(true)
		<-hangs
		synctest.Wait() // all events so far have been read
		cancelled.Store(time.Now().UnixNano())
		cancel(left)
		wg.Wait()
		if n := told.Load(); n != 2 {
			t.Errorf("%d runs are said to have used something", n)
		}
		if err := r.Close(); !errors.Is(err, ErrHangs) {
			t.Errorf("close: %v", err)
		}
		close(release)
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := model.NewSequence(); errors.Is(err, backend.ErrClosed) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the model is not freed when the step has ended")
			}
		}
		if n := told.Load(); n != 2 {
			t.Errorf("usage was reported %d times", n)
		}
	})
}

// TestHangingTurn checks that a run of several turns ends although a step of its second turn hangs. The usage of both
// turns is reported once, and the trace and the delegation end.
func TestHangingTurn(t *testing.T) {
	var hang atomic.Bool
	hangs, release := make(chan struct{}), make(chan struct{})
	f := start(t, fake.Config{ContextSize: 4096, Fail: func(int, []backend.Input) error {
		if hang.CompareAndSwap(true, false) {
			close(hangs)
			<-release
		}
		return nil
	}}, Config{}, delegates()...)
	f.grace = 50 * time.Millisecond
	left := errors.New("the client has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-hangs
		cancel(left)
	}()
	var told []reasoning.Usage
	var tape notebook
	req := byModel("2+2?")
	by := &observes{traced: &tape, account: func(u reasoning.Usage) { told = append(told, u) }}
	var events []reasoning.Event
	var err error
	first := 0 // tokens of the first turn
	for e, failed := range f.Generate(ctx, req, by) {
		if err = failed; err != nil {
			break
		}
		if events = append(events, e); e.Kind == reasoning.DelegationStart {
			first = int(by.tokens.Load())
			hang.Store(true)
		}
	}
	if list := outcomes(t, events); !errors.Is(err, left) || len(list) != 1 || list[0] != reasoning.DelegationFailed {
		t.Errorf("the run ends with %v, the delegations with %v", err, list)
	}
	if len(tape.ends) != 1 || !errors.Is(tape.ends[0], left) {
		t.Errorf("the trace ends with %v", tape.ends)
	}
	if len(told) != 1 || told[0].Completion < first || first == 0 || told[0].Prompt <= events[0].Info.Prompt {
		t.Errorf("reported usage %+v, and the first turn has %d tokens", told, first)
	}
	close(release)
}

// TestBrokenEngineIsReported checks that this holds even if the only run in the step was cancelled. The engine is not
// used again.
func TestBrokenEngineIsReported(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := New(fake.New(fake.Config{Vocab: fake.Harmony(), Fail: func(int, []backend.Input) error {
			if leaves {
				cancel()
			}
			return backend.ErrBroken
		}}), Config{})
		if err != nil {
			t.Fatal(err)
		}
		if g := collect(ctx, r, user("q")); g.err == nil {
			t.Errorf("leaves %v: the run ends well", leaves)
		}
		if err := r.Probe(t.Context()); !errors.Is(err, backend.ErrBroken) || !r.Broken() {
			t.Errorf("leaves %v: %v, broken %v", leaves, err, r.Broken())
		}
		if _, err := r.Embed(t.Context(), "", []backend.Token{1}); !errors.Is(err, backend.ErrBroken) {
			t.Errorf("leaves %v: embedding after it: %v", leaves, err)
		}
		cancel()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEmbeddingTakesTurns checks that a principal with many texts delays another's text by at most one text.
func TestEmbeddingTakesTurns(t *testing.T) {
	var order []backend.Token // the first token of each text, in reading order
	r, err := New(fake.New(fake.Config{Vocab: fake.Harmony(), Fail: func(_ int, in []backend.Input) error {
		order = append(order, in[0].Tokens[0])
		return nil
	}}), Config{Queue: 1, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text := func(principal string, token backend.Token) *embedding {
		e := &embedding{done: make(chan struct{})}
		r.sched.add(&lane{ctx: t.Context(), owner: e, tokens: []backend.Token{token}, principal: principal,
			hidden: make([]float64, r.info.EmbeddingLength)}, false)
		return e
	}
	var last *embedding
	if err := r.sched.do(t.Context(), func() {
		for range 20 {
			last = text("many", 1)
		}
		text("one", 2)
	}); err != nil {
		t.Fatal(err)
	}
	<-last.done
	if at := slices.Index(order, 2); at < 0 || at > 1 {
		t.Errorf("the order is %v", order)
	}
	// The queue is short, and another principal still gets a place.
	for i, want := range []error{nil, nil, generation.ErrQueueFull} {
		if leave, err := r.Enter("many"); !errors.Is(err, want) || (leave == nil) != (want != nil) {
			t.Errorf("place %d: %v", i, err)
		}
	}
	leave, err := r.Enter("one")
	if err != nil {
		t.Fatal(err)
	}
	leave()
	leave()
}

// TestUnusableLogitsBreakTheModel checks that several such runs in a row do, of any kind. A good run in between resets
// the count.
func TestUnusableLogitsBreakTheModel(t *testing.T) {
	var bad atomic.Bool
	r, err := New(fake.New(fake.Config{Vocab: fake.Harmony(), Fail: func(_ int, in []backend.Input) error {
		for i := range in {
			if bad.Load() && in[i].Hidden != nil {
				in[i].Hidden[0] = math.NaN()
			} else if bad.Load() && in[i].Sampling != nil {
				return &backend.InputError{Index: i, Err: fmt.Errorf("sample: %w", backend.ErrBadLogits)}
			}
		}
		return nil
	}}), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run := func() error {
		req := user("q")
		req.MaxTokens = 3
		return collect(t.Context(), r, req).err
	}
	embed := func() error {
		_, err := r.Embed(t.Context(), "", []backend.Token{1})
		return err
	}
	probe := func() error { return r.Probe(t.Context()) }
	for i, f := range []func() error{run, embed, nil, probe, run, nil, embed, embed, nil, run, embed, probe} {
		if f == nil {
			bad.Store(false)
			if err := run(); err != nil || r.Broken() {
				t.Fatalf("a good run after %d: %v, broken %v", i, err, r.Broken())
			}
			continue
		}
		bad.Store(true)
		if err := f(); !errors.Is(err, generation.ErrBadLogits) {
			t.Errorf("run %d: %v", i, err)
		}
	}
	if !r.Broken() || !errors.Is(r.Failure(), generation.ErrBadLogits) || !errors.Is(r.Failure(), backend.ErrBroken) {
		t.Errorf("after three in a row: %v", r.Failure())
	}
	bad.Store(false)
	if err := run(); !errors.Is(err, backend.ErrBroken) {
		t.Errorf("a broken model runs: %v", err)
	}
}

// TestFailEndsAllRuns checks that Fail ends the runs of a model.
func TestFailEndsAllRuns(t *testing.T) {
	f := start(t, fake.Config{Delay: func(int) time.Duration { return time.Millisecond }}, Config{})
	ended := make(chan error)
	began := make(chan struct{}, 1)
	go func() {
		for e, err := range f.Generate(t.Context(), user("q"), generation.Unobserved{}) {
			if err != nil {
				ended <- err
				return
			}
			if e.Kind == reasoning.Started {
				began <- struct{}{}
			}
		}
		ended <- nil
	}()
	<-began
	if err := f.Fail(t.Context(), generation.ErrChanged); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, generation.ErrChanged) || !f.Broken() {
		t.Errorf("%v, broken %v", err, f.Broken())
	}
}
