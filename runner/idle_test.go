package runner

import (
	"testing"
	"time"

	"runner/backend/fake"
	"runner/reasoning"
)

// A reader learns when no further event is at hand. It has all events that came before.
func TestIdle(t *testing.T) {
	slow := fake.Config{Delay: func(int) time.Duration { return 3 * time.Millisecond }}
	f := start(t, slow, Config{}, fake.Reply{After: ask("q"), Say: finalTag + "one two three<|return|>"})
	req := user("q")
	idle, since, longest := 0, 0, 0
	req.Idle = func() {
		idle++
		longest, since = max(longest, since), 0
	}
	text := ""
	for e, err := range f.Generate(t.Context(), req) {
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
