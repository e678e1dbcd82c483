package runner

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/runner/drafts"
)

// widths returns the widths of the steps that a model took.
func widths(f fixture) (list []int) {
	for _, s := range f.model.Steps() {
		list = append(list, s.Inputs[0].Tokens+s.Inputs[0].Drafts)
	}
	return list
}

// TestMeasuredModelsNeedNoTrial measures a model on which guesses cost more than they give. Without a measurement, its
// first run tries some. The clock is synctest's, so a busy machine changes nothing.
func TestMeasuredModelsNeedNoTrial(t *testing.T) {
	text := strings.Repeat("la la so it is. ", 5)
	steep := func(n int) time.Duration {
		switch {
		case n == 1, n > drafts.Most+1: // the prompt
			return 5 * time.Millisecond
		}
		return time.Duration(n) * 25 * time.Millisecond
	}
	// Without a format no token is forced, so that no other steps are wide.
	raw := generation.Request{Prompt: "talk: " + text, MaxTokens: 200}
	for _, measure := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := start(t, fake.Config{Delay: steep}, Config{}, fake.Reply{After: raw.Prompt, Say: text + "<|return|>"})
			if measure {
				if err := f.sched.measure(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := f.model.OpenSequences(); n != 0 {
					t.Errorf("%d sequences are open after a measurement", n)
				}
				if got, want := len(widths(f)), measureRounds*len(drafts.Widths); got != want {
					t.Errorf("%d steps measured, want %d", got, want)
				}
			}
			g := f.must(t, raw)
			g.want(t, reasoning.Answer, text)
			if got := g.result.Timing.Drafted; measure != (got == 0) {
				t.Errorf("%d guesses, measured is %v", got, measure)
			}
		})
	}
}

// TestMeasuringIsAskedFor checks that New measures a model if it is told to.
func TestMeasuringIsAskedFor(t *testing.T) {
	still, f := start(t, fake.Config{}, Config{}), start(t, fake.Config{}, Config{MeasureCosts: true})
	for end := time.Now().Add(10 * time.Second); len(widths(f)) < measureRounds*len(drafts.Widths); {
		if time.Sleep(time.Millisecond); time.Now().After(end) {
			t.Fatalf("steps of %v tokens", widths(f))
		}
	}
	if got := widths(still); len(got) > 0 {
		t.Errorf("steps of %v tokens that nobody asked for", got)
	}
}

// slowModel returns a model whose steps take an hour until it is fast, and a function that waits for a slow step.
func slowModel(t *testing.T) (cfg fake.Config, fast *atomic.Bool, wait func()) {
	fast, stepped := new(atomic.Bool), make(chan struct{}, 1)
	cfg.Delay = func(int) time.Duration {
		if fast.Load() {
			return 0
		}
		stepped <- struct{}{}
		return time.Hour
	}
	return cfg, fast, func() {
		t.Helper()
		select {
		case <-stepped:
		case <-time.After(10 * time.Second):
			t.Fatal("the model was not stepped")
		}
	}
}

// TestMeasuringYieldsToRuns starts a run while a model is in a test step that takes an hour.
func TestMeasuringYieldsToRuns(t *testing.T) {
	cfg, fast, wait := slowModel(t)
	f := start(t, cfg, Config{MeasureCosts: true}, fake.Reply{After: ask("talk"), Say: think("", "la")})
	wait()
	fast.Store(true)
	f.must(t, user("talk")).want(t, reasoning.Answer, "la")
	if got := widths(f); got[0] <= drafts.Most+1 {
		t.Errorf("a test step came before the prompt: steps of %v tokens", got)
	}
	before := len(widths(f))
	if err := f.sched.measure(t.Context()); err != nil || len(widths(f)) != before {
		t.Errorf("a used model was measured: steps of %v tokens, %v", widths(f)[before:], err)
	}
}

// TestMeasuringEndsWithTheModel closes a model in a test step. Nothing went wrong, so nothing is logged.
func TestMeasuringEndsWithTheModel(t *testing.T) {
	var logged strings.Builder
	cfg, _, wait := slowModel(t)
	f := start(t, cfg, Config{MeasureCosts: true, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	wait()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if logged.Len() > 0 {
		t.Error(logged.String())
	}
	if err := f.sched.measure(t.Context()); !errors.Is(err, generation.ErrClosed) {
		t.Errorf("measuring a closed model: %v", err)
	}
}

// TestMeasuringIsForGuesses checks that a model is not stepped where guesses are always or never fed, and not by more
// tokens than it takes.
func TestMeasuringIsForGuesses(t *testing.T) {
	for _, d := range []Drafts{DraftsOff, DraftsOn} {
		f := start(t, fake.Config{}, Config{Drafts: d})
		if err := f.sched.measure(t.Context()); err != nil || len(widths(f)) != 0 {
			t.Errorf("%v: steps of %v tokens, %v", d, widths(f), err)
		}
	}
	f := start(t, fake.Config{BatchSize: 4}, Config{})
	if err := f.sched.measure(t.Context()); err != nil || len(widths(f)) != 3*measureRounds {
		t.Errorf("steps of %v tokens where four fit, %v", widths(f), err)
	}
}

// TestMeasuringFails checks the errors of a measurement.
func TestMeasuringFails(t *testing.T) {
	broken := start(t, fake.Config{Fail: func(step int, _ []backend.Input) error {
		if step == 2 {
			return backend.ErrBroken
		}
		return nil
	}}, Config{})
	if err := broken.sched.measure(t.Context()); !errors.Is(err, backend.ErrBroken) || !broken.Broken() {
		t.Errorf("measuring a model that breaks: %v, broken is %v", err, broken.Broken())
	}
	if err := broken.sched.measure(t.Context()); err != nil {
		t.Errorf("measuring a broken model: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := start(t, fake.Config{}, Config{}).sched.measure(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("measuring a model that is in use: %v", err)
	}
}
