package child

import (
	"testing"
	"time"
)

// TestSleepIsNoSilence: however long this process or the machine sleeps between two ticks, at most two ticks count, for
// a request as for a text, and for how long a step has taken.
func TestSleepIsNoSilence(t *testing.T) {
	w := watch{of: &conn{}}
	w.begin(5 * time.Second)
	text := w.beginText(5 * time.Second)
	defer w.stop()
	for range 10 {
		if !w.look(time.Hour) {
			t.Fatal("an hour of sleep is a hang")
		}
	}
	if w.request.silent != 20*tick || text.silent != 20*tick {
		t.Errorf("after ten sleeps, %v and %v count", w.request.silent, text.silent)
	}
	if took := w.end(); took != 22*tick {
		t.Errorf("the request has taken at most %v", took)
	}
	w.endText(text)
}

// TestProgressEndsSilence: a request that makes progress may take any time, and a text may not, because nothing tells
// how far it is.
func TestProgressEndsSilence(t *testing.T) {
	w := watch{of: &conn{}}
	w.begin(time.Second)
	defer w.stop()
	for range 100 {
		w.of.moves.Add(1)
		if !w.look(tick) {
			t.Fatal("a request with progress was ended")
		}
	}
	if w.request.silent > tick {
		t.Errorf("%v of silence", w.request.silent)
	}
}

// TestPatienceFollowsTheStep: a step may be silent for 8 times as long as such steps take, and for 5 seconds at least.
func TestPatienceFollowsTheStep(t *testing.T) {
	p := pace{times: usualTimes}
	if got := p.patience(8); got != time.Minute {
		t.Errorf("%v for a step that cannot be expected", got)
	}
	p.note(8, 10*time.Millisecond)
	if got := p.patience(8); got != 5*time.Second {
		t.Errorf("%v for a short step", got)
	}
	p.note(512, 3*time.Second)
	if got := p.patience(512); got != 24*time.Second {
		t.Errorf("%v for a step of 3 seconds", got)
	}
	if got := p.patience(1024); got != 48*time.Second {
		t.Errorf("%v for a step with twice as many tokens", got)
	}
	if got := p.patience(1); got != 5*time.Second {
		t.Errorf("%v for a step with fewer tokens than any before", got)
	}
	cold := pace{times: usualTimes, parts: 24, weights: 12e9}
	if got := cold.patience(1); got != 40*time.Second {
		t.Errorf("%v for the first step of 24 parts, with 12 GB of weights", got)
	}
	if got := cold.patience(512); got != time.Minute {
		t.Errorf("%v for a first step of 512 tokens", got)
	}
	cold.weights = 4e6
	if got := cold.patience(512); got != 5*time.Second {
		t.Errorf("%v for the first step of a small model", got)
	}
	p.parts = 24
	if got := p.patience(1 << 15); got != 8*3*64*time.Second/24 {
		t.Errorf("%v for a step with 64 times as many tokens, of which each of 24 parts is progress", got)
	}
	if got := p.patience(512); got != 5*time.Second {
		t.Errorf("%v for a step of 3 seconds, of which each of 24 parts is progress", got)
	}
	if short, long := usualTimes.forText(0), usualTimes.forText(30<<20); short != 5*time.Second || long < 25*time.Minute {
		t.Errorf("%v for a short text, %v for a long one", short, long)
	}
}
