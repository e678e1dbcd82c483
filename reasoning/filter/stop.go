package filter

import (
	"runner/reasoning"
	"runner/reasoning/patterns"
)

// StopFilter ends the answer at the first stop string. It stands between a splitter and the rest: answer text that
// may be the beginning of a stop string is held back until it cannot be, and from a stop string on all answer text
// is dropped.
//
// The stop string that is complete first counts, and of two that are complete at the same byte the longer. Stop
// strings are found across deltas, not across segments. Log probabilities travel with the text of their tokens:
// those of a token of which a part is dropped are dropped. Events of other segments pass unchanged.
type StopFilter struct {
	emit    func(reasoning.Event)
	in      [reasoning.Answer + 1]bool
	m       *patterns.Matcher
	state   int32
	held    heldText
	matched int
	cut     bool // the answer segment that is open was cut
}

// NewStopFilter returns a filter for stops that sends its events to emit. Empty stops are ignored; without any, all
// events pass at once. It looks for them in the segments named, which must not interleave.
func NewStopFilter(stops []string, emit func(reasoning.Event), in ...reasoning.Segment) *StopFilter {
	f := &StopFilter{emit: emit, m: patterns.NewMatcher(stops...), held: heldText{emit: emit}, matched: -1}
	for _, s := range in {
		f.in[s] = true
	}
	return f
}

// Matched returns the stop string that ended the answer, and whether one has.
func (f *StopFilter) Matched() (stop string, ok bool) {
	if f.matched < 0 {
		return "", false
	}
	return f.m.Patterns[f.matched], true
}

// Push takes the next event.
func (f *StopFilter) Push(e reasoning.Event) {
	if !f.in[e.Segment] || e.Kind == reasoning.SegmentDelta && f.matched < 0 && f.held.size == 0 && f.m.Idle(e.Text) {
		f.emit(e)
		return
	}
	switch e.Kind {
	case reasoning.SegmentDelta:
		f.text(&e)
	case reasoning.SegmentStart:
		if f.matched < 0 {
			f.emit(e)
		}
	case reasoning.SegmentEnd:
		f.Finish()
		if f.matched < 0 || f.cut {
			f.cut = false
			f.emit(e)
		}
	default:
		f.emit(e)
	}
}

// Finish sends what is held back, because nothing more can come.
func (f *StopFilter) Finish() {
	f.held.release(f.held.size)
	f.state = 0
}

// text takes answer text that may hold a stop string.
func (f *StopFilter) text(e *reasoning.Event) {
	if f.matched >= 0 {
		return
	}
	base := f.held.size
	f.held.add(e)
	for i := range len(e.Text) {
		f.state = f.m.Step(f.state, e.Text[i])
		if p := f.m.Found(f.state); p >= 0 {
			f.held.release(base + i + 1 - len(f.m.Patterns[p]))
			f.held.drop(f.held.size)
			f.state, f.matched, f.cut = 0, p, true
			return
		}
	}
	f.held.release(f.held.size - f.m.Held(f.state))
}
