package reasoning

// SummaryFirst passes on the events of a run so that the summary stands before the answer and the calls. The model
// writes them at the same time, so what it says waits until the summary is settled, and nothing waits if there is no
// summary to wait for. It is for one goroutine at a time.
type SummaryFirst struct {
	// To gets the events. Each is valid until To returns.
	To func(*Event)

	waits bool
	held  []Event
}

// Push takes the next event.
func (q *SummaryFirst) Push(e *Event) {
	switch e.Kind {
	case Started:
		q.waits = e.Info != nil && e.Info.Visibility == VisibilitySummary
	case SummarySettled, Done:
		q.Release()
	default:
		if q.waits && q.holds(e) {
			q.held = append(q.held, *e)
			return
		}
	}
	q.To(e)
}

// holds reports whether an event has to wait: what the model says, and after it also delegations and reasoning.
func (q *SummaryFirst) holds(e *Event) bool {
	switch e.Kind {
	case SegmentStart, SegmentDelta, SegmentEnd:
		return e.Segment != Summary && (e.Segment != Reasoning || len(q.held) > 0)
	case DelegationStart, DelegationEnd, Sealed:
		return len(q.held) > 0
	}
	return false
}

// Release passes on the events that wait. Call it if the run ends early.
func (q *SummaryFirst) Release() {
	held := q.held
	q.waits, q.held = false, nil
	for i := range held {
		q.To(&held[i])
	}
}

// Holds reports whether events wait.
func (q *SummaryFirst) Holds() bool { return len(q.held) > 0 }
