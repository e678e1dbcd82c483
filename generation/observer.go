package generation

import (
	"context"

	"runner/reasoning"
)

// Observer is the caller's side of one run: it is told how the run fares, and does what only the caller can. Embed
// [Unobserved], or another observer, for the methods that do not matter.
//
// Idle is called on the goroutine of the reader, the other methods on others. Trace may be called by several goroutines
// at once if runs share an observer. The methods must not block, except where they say that they may be slow.
type Observer interface {
	// Trace begins a trace of the whole run, whatever the visibility and however the run ends. It returns when the
	// starting point is durable, or with the reason why there will be no trace; the run then continues without one and
	// warns with CodeNotTraced. The caller of the run sees this error and those of the recorder, so they must contain
	// nothing but the reason. A nil recorder, without an error, means that the run is not traced. It may be slow.
	Trace(ctx context.Context, run *TracedRun) (Recorder, error)
	// CallID returns the id of a call, by the call's number in the run from 0. Empty lets the runner choose the id.
	CallID(number int) string
	// Seal returns the sealed value of reasoning that has ended, in a run whose request asks for it. A run may reason
	// several times, and its values belong together in their order. It may be called after Generate has returned, if the
	// reader left. It must not keep the text.
	Seal(thoughts string) (string, error)
	// Generated is called for each token that the run generates, those of the summary included.
	Generated()
	// Account gets the usage of a run that was begun, once, however the run ended, perhaps after Generate has returned.
	Account(used reasoning.Usage)
	// Paused is called with true when the run is paused, because its place or its room in the cache goes to another run,
	// and with false when it goes on.
	Paused(paused bool)
	// Idle is called between events whenever no further event is at hand. A reader that writes several events at once
	// writes them now.
	Idle()
}

// Unobserved is an [Observer] that does nothing.
type Unobserved struct{}

// Trace implements [Observer].
func (Unobserved) Trace(context.Context, *TracedRun) (Recorder, error) { return nil, nil }

// CallID implements [Observer].
func (Unobserved) CallID(int) string { return "" }

// Seal implements [Observer].
func (Unobserved) Seal(string) (string, error) { return "", nil }

// Generated implements [Observer].
func (Unobserved) Generated() {}

// Account implements [Observer].
func (Unobserved) Account(reasoning.Usage) {}

// Paused implements [Observer].
func (Unobserved) Paused(bool) {}

// Idle implements [Observer].
func (Unobserved) Idle() {}
