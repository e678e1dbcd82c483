package runner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
)

// A reader learns when no further event is at hand. It has all events that came before.
func TestIdle(t *testing.T) {
	slow := fake.Config{Delay: func(int) time.Duration { return 3 * time.Millisecond }}
	f := start(t, slow, Config{}, fake.Reply{After: ask("q"), Say: finalTag + "one two three<|return|>"})
	req := user("q")
	idle, since, longest := 0, 0, 0
	by := &observes{idle: func() {
		idle++
		longest, since = max(longest, since), 0
	}}
	text := ""
	for e, err := range f.Generate(t.Context(), req, by) {
		if err != nil {
			t.Fatal(err)
		}
		since++
		if e.Kind == reasoning.SegmentDelta {
			text += e.Text
		}
	}
	if text != "one two three" || idle == 0 || longest == 0 {
		t.Errorf("%q; idle %d times, after up to %d events", text, idle, longest)
	}
}

// idleReader reads a run. idle is closed when the reader was idle after an event.
type idleReader struct {
	after func(reasoning.Event) bool
	got   atomic.Bool
	idle  chan struct{}
	once  sync.Once
	late  atomic.Bool
}

func (i *idleReader) read(ctx context.Context, r *Runner, req generation.Request, traced generation.Observer) error {
	by := &observes{traced: traced, idle: func() {
		if i.got.Load() {
			i.once.Do(func() { close(i.idle) })
		}
	}}
	for e, err := range r.Generate(ctx, req, by) {
		if err != nil {
			return err
		}
		if i.after(e) {
			i.got.Store(true)
		}
	}
	return nil
}

// wait returns when the reader was idle, or notes that it was too late.
func (i *idleReader) wait() {
	select {
	case <-i.idle:
	case <-time.After(5 * time.Second):
		i.late.Store(true)
	}
}

func (i *idleReader) check(t *testing.T) {
	t.Helper()
	if !i.got.Load() || i.late.Load() {
		t.Errorf("the event came: %t; the reader was idle after it: %t", i.got.Load(), !i.late.Load())
	}
}

func starts(e reasoning.Event) bool { return e.Kind == reasoning.DelegationStart }

// A turn that follows another may be slow. The reader writes what came before it.
func TestIdleBeforeAFurtherTurn(t *testing.T) {
	reader := &idleReader{after: starts, idle: make(chan struct{})}
	slow := fake.Config{ContextSize: 4096, Delay: func(int) time.Duration {
		if reader.got.Load() { // the turn of the specialist
			reader.wait()
		}
		return 0
	}}
	f := start(t, slow, Config{}, delegates()...)
	if err := reader.read(t.Context(), f.Runner, byModel("2+2?"), nil); err != nil {
		t.Error(err)
	}
	reader.check(t)
}

// slowTrace is a recorder whose End waits until the reader was idle.
type slowTrace struct {
	notebook
	reader *idleReader
}

func (s *slowTrace) Trace(context.Context, *generation.TracedRun) (generation.Recorder, error) {
	return s, nil
}

func (s *slowTrace) End(why error) (string, error) {
	s.reader.wait()
	return s.notebook.End(why)
}

// A trace may take long to be stored. The reader writes what came before, however the run ends.
func TestIdleBeforeTheEndOfATrace(t *testing.T) {
	answered := func(e reasoning.Event) bool {
		return e.Kind == reasoning.SegmentEnd && e.Segment == reasoning.Answer
	}
	ends := func(e reasoning.Event) bool { return e.Kind == reasoning.DelegationEnd }
	for name, c := range map[string]struct {
		req   generation.Request
		after func(reasoning.Event) bool
		fails bool // the step of the specialist fails
	}{
		"one turn":                 {req: user("2+2?"), after: answered},
		"several turns":            {req: byModel("2+2?"), after: answered},
		"a second turn that fails": {req: byModel("2+2?"), after: ends, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			reader := &idleReader{after: c.after, idle: make(chan struct{})}
			var second atomic.Bool
			cfg := fake.Config{ContextSize: 4096, Fail: func(int, []backend.Input) error {
				if c.fails && second.Load() {
					return errors.New("the engine fails")
				}
				return nil
			}}
			script := delegates()
			if !c.req.Delegation.Model {
				script = []fake.Reply{{After: ask("2+2?"), Say: think("hm", "It is 4.")}}
			}
			f := start(t, cfg, Config{}, script...)
			reader.after = func(e reasoning.Event) bool {
				if starts(e) {
					second.Store(true)
				}
				return c.after(e)
			}
			if err := reader.read(t.Context(), f.Runner, c.req, &slowTrace{reader: reader}); (err != nil) != c.fails {
				t.Errorf("the run ends with %v", err)
			}
			reader.check(t)
		})
	}
}

// Each reader is woken once for all of its events.
func TestReadersAreWokenTogether(t *testing.T) {
	s := &scheduler{}
	a, b := newStream(), newStream()
	for range 2 {
		for _, of := range []*stream{a, b, a} {
			of.add(reasoning.Event{})
			s.toWake(of)
		}
		if len(a.wake)+len(b.wake) > 0 || len(s.toSignal) != 2 {
			t.Fatalf("%d streams to wake, and %d are awake", len(s.toSignal), len(a.wake)+len(b.wake))
		}
		s.wakeReaders()
		if len(a.wake) != 1 || len(b.wake) != 1 || len(s.toSignal) != 0 {
			t.Fatal("the readers are not woken")
		}
		<-a.wake
		<-b.wake
	}
}
