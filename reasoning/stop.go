package reasoning

// StopFilter ends the answer at the first stop string. It stands between a splitter and the rest: answer text that may be the
// beginning of a stop string is held back until it cannot be, and from a stop string on all answer text is dropped.
//
// The stop string that is complete first counts, and of two that are complete at the same byte the longer. Stop strings are
// found across deltas, not across segments. Log probabilities travel with the text of their tokens: those of a token of which a
// part is dropped are dropped. Events of other segments pass unchanged.
type StopFilter struct {
	emit    func(Event)
	m       *matcher
	state   int32
	held    []Event
	nheld   int
	matched int
	cut     bool // the answer segment that is open was cut
}

// NewStopFilter returns a filter for stops that sends its events to emit. Empty stops are ignored; without any, all
// events pass at once.
func NewStopFilter(stops []string, emit func(Event)) *StopFilter {
	return &StopFilter{emit: emit, m: newMatcher(stops...), matched: -1}
}

// Matched returns the stop string that ended the answer, and whether one has.
func (f *StopFilter) Matched() (stop string, ok bool) {
	if f.matched < 0 {
		return "", false
	}
	return f.m.patterns[f.matched], true
}

// Push takes the next event.
func (f *StopFilter) Push(e Event) {
	if e.Segment != Answer || e.Kind == SegmentDelta && f.matched < 0 && f.nheld == 0 && f.m.idle(e.Text) {
		f.emit(e)
		return
	}
	switch e.Kind {
	case SegmentDelta:
		f.text(&e)
	case SegmentStart:
		if f.matched < 0 {
			f.emit(e)
		}
	case SegmentEnd:
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
	f.release(f.nheld)
	f.state = 0
}

// text takes answer text that may hold a stop string.
func (f *StopFilter) text(e *Event) {
	if f.matched >= 0 {
		return
	}
	base := f.nheld
	f.held = append(f.held, *e)
	f.nheld += len(e.Text)
	for i := range len(e.Text) {
		f.state = f.m.step(f.state, e.Text[i])
		if p := f.m.found(f.state); p >= 0 {
			f.release(base + i + 1 - len(f.m.patterns[p]))
			clear(f.held)
			f.held, f.nheld, f.state = f.held[:0], 0, 0
			f.matched, f.cut = p, true
			return
		}
	}
	f.release(f.nheld - f.m.held(f.state))
}

// release sends the first n held bytes.
func (f *StopFilter) release(n int) {
	for n > 0 {
		e := &f.held[0]
		if len(e.Text) > n {
			first := *e
			first.Text, e.Text = e.Text[:n], e.Text[n:]
			first.Logprobs, e.Logprobs = cutLogprobs(e.Logprobs, first.Text, e.Text)
			f.nheld -= n
			f.emit(first)
			return
		}
		n -= len(e.Text)
		f.nheld -= len(e.Text)
		f.emit(*e)
		copy(f.held, f.held[1:])
		f.held[len(f.held)-1] = Event{}
		f.held = f.held[:len(f.held)-1]
	}
}

// cutLogprobs divides the tokens of a text that is cut in two. A token goes with its last byte; where the tokens do not
// cover the text exactly, all go with the second part.
func cutLogprobs(lps []TokenLogprobs, first, second string) (a, b []TokenLogprobs) {
	size := 0
	for i := range lps {
		size += len(lps[i].Text)
	}
	if size != len(first)+len(second) {
		return nil, lps
	}
	n := 0
	for i := range lps {
		if n += len(lps[i].Text); n > len(first) {
			return lps[:i:i], lps[i:]
		}
	}
	return lps, nil
}
