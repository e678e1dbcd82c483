package runner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/runner/drafts"
)

// measured returns the widths of the steps that a model took.
func measured(f fixture) (widths []int) {
	for _, s := range f.model.Steps() {
		widths = append(widths, s.Inputs[0].Tokens+s.Inputs[0].Drafts)
	}
	return widths
}

// TestMeasuredModelsNeedNoTrial measures a model on which guesses cost more than they give. Without a measurement, its
// first run tries some.
func TestMeasuredModelsNeedNoTrial(t *testing.T) {
	text := strings.Repeat("la la so it is. ", 10)
	steep := func(n int) time.Duration {
		if n > drafts.Most+1 {
			return time.Millisecond // prefill
		}
		return time.Duration(n*n) * 2 * time.Millisecond
	}
	// Without a format no token is forced, so that no other steps are wide.
	raw := generation.Request{Prompt: "talk: " + text, MaxTokens: 400}
	for _, measure := range []bool{false, true} {
		f := start(t, fake.Config{Delay: steep}, Config{}, fake.Reply{After: raw.Prompt, Say: text + "<|return|>"})
		if measure {
			if err := f.sched.measure(); err != nil {
				t.Fatal(err)
			}
			if n := f.model.OpenSequences(); n != 0 {
				t.Errorf("%d sequences are open after a measurement", n)
			}
			if got, want := len(measured(f)), measureRounds*len(drafts.Widths); got != want {
				t.Errorf("%d steps measured, want %d", got, want)
			}
		}
		g := f.must(t, raw)
		g.want(t, reasoning.Answer, text)
		if got := g.result.Timing.Drafted; measure != (got == 0) {
			t.Errorf("%d guesses, measured is %v", got, measure)
		}
	}
}

// TestMeasuringIsAskedFor checks that New measures a model if it is told to.
func TestMeasuringIsAskedFor(t *testing.T) {
	still, f := start(t, fake.Config{}, Config{}), start(t, fake.Config{}, Config{MeasureCosts: true})
	for end := time.Now().Add(10 * time.Second); len(measured(f)) < measureRounds*len(drafts.Widths); {
		if time.Sleep(time.Millisecond); time.Now().After(end) {
			t.Fatalf("steps of %v tokens", measured(f))
		}
	}
	if got := measured(still); len(got) > 0 {
		t.Errorf("steps of %v tokens that nobody asked for", got)
	}
}

// TestMeasuringYieldsToRuns starts a run while a slow model is measured.
func TestMeasuringYieldsToRuns(t *testing.T) {
	f := start(t, fake.Config{Delay: func(int) time.Duration { return 50 * time.Millisecond }}, Config{},
		fake.Reply{After: ask("talk"), Say: think("", "la")})
	done := make(chan error)
	go func() { done <- f.sched.measure() }()
	for len(measured(f)) == 0 {
		time.Sleep(time.Millisecond)
	}
	f.must(t, user("talk")).want(t, reasoning.Answer, "la")
	if err := <-done; err != nil {
		t.Error(err)
	}
	before := 0
	for _, n := range measured(f) {
		if n > drafts.Most+1 { // the prompt
			break
		}
		before++
	}
	if before > 3 {
		t.Errorf("the run waited for %d steps", before)
	}
	before = len(measured(f))
	if err := f.sched.measure(); err != nil || len(measured(f)) != before {
		t.Errorf("a used model was measured: steps of %v tokens, %v", measured(f)[before:], err)
	}
}

// TestMeasuringIsForGuesses checks that a model is not stepped where guesses are always or never fed.
func TestMeasuringIsForGuesses(t *testing.T) {
	for _, d := range []Drafts{DraftsOff, DraftsOn} {
		f := start(t, fake.Config{}, Config{Drafts: d})
		if err := f.sched.measure(); err != nil || len(measured(f)) != 0 {
			t.Errorf("%v: steps of %v tokens, %v", d, measured(f), err)
		}
	}
	f := start(t, fake.Config{BatchSize: 4}, Config{})
	if err := f.sched.measure(); err != nil || len(measured(f)) != 3 {
		t.Errorf("steps of %v tokens where four fit, %v", measured(f), err)
	}
}

// TestMeasuringEnds checks the errors of a measurement.
func TestMeasuringEnds(t *testing.T) {
	broken := start(t, fake.Config{Fail: func(step int, _ []backend.Input) error {
		if step == 2 {
			return backend.ErrBroken
		}
		return nil
	}}, Config{})
	if err := broken.sched.measure(); !errors.Is(err, backend.ErrBroken) || !broken.Broken() {
		t.Errorf("measuring a model that breaks: %v, broken is %v", err, broken.Broken())
	}
	f := start(t, fake.Config{}, Config{})
	f.Close()
	if err := f.sched.measure(); !errors.Is(err, generation.ErrClosed) {
		t.Errorf("measuring a closed model: %v", err)
	}
}
