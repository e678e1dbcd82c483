package filter

import (
	"runner/reasoning"
	"runner/reasoning/patterns"
)

// StopFilter ends the answer at the first stop string. It stands between a reader and the rest of the pipeline. It
// holds back answer text that may be the beginning of a stop string. From a stop string on, it drops all answer text.
//
// The stop string that is complete first counts. If two are complete at the same byte, the longer one counts. Stop
// strings may span deltas, but not segments. Log probabilities stay with the text of their tokens. If part of a token
// is dropped, so are its log probabilities. Events of other segments pass unchanged.
type StopFilter struct {
	emit    func(reasoning.Event)
	in      [reasoning.Answer + 1]bool
	m       *patterns.Matcher
	state   int32
	held    heldText
	matched int
	cut     bool // the open answer segment was cut
}

// NewStopFilter returns a filter that looks for stops in the given segments and sends its events to emit. The segments
// must not interleave. Empty stops are ignored. Without any stops, all events pass at once.
func NewStopFilter(stops []string, emit func(reasoning.Event), in ...reasoning.Segment) *StopFilter {
	f := &StopFilter{emit: emit, m: patterns.NewMatcher(stops...), held: heldText{emit: emit}, matched: -1}
	for _, s := range in {
		f.in[s] = true
	}
	return f
}

// Matched returns the stop string that ended the answer, if one did.
func (f *StopFilter) Matched() (stop string, ok bool) {
	if f.matched < 0 {
		return "", false
	}
	return f.m.Patterns[f.matched], true
}

// Push handles the next event.
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

// Finish ends the stream and sends what is held back.
func (f *StopFilter) Finish() {
	f.held.release(f.held.size)
	f.state = 0
}

// text handles answer text that may contain a stop string.
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
