package runner

import (
	"math"
	"slices"
	"time"
)

// This file shares the reading of prompts between principals.
//
// The room of a step is shared equally: a principal with less to read than its share leaves the rest to the others.
// Beside other principals that decode, the prompts of one may take as much time as everything else. If they took more,
// they are left out of the next steps until that is made up.

const (
	// readWeight is the weight of a new measurement.
	readWeight = .1
	// readSteps is how many steps of the others one piece of a prompt may take.
	readSteps = 8
	// readLeast is the minimum length of such a piece, in tokens. Shorter ones would be read slowly in large models.
	readLeast = 32
)

// readers tracks the principals that read prompts. It belongs to the scheduler's goroutine.
type readers struct {
	// plain is the time of a step in which all lanes decode, and each the time of one token of a prompt; 0 is unknown.
	plain, each float64
	// debts is the time by which each principal overran its share.
	debts map[string]float64
	// list is reused between steps.
	list []promptReader
}

// promptReader is a principal that has prompts to read.
type promptReader struct {
	principal string
	// want is how many tokens it could read in a step, may how many of them it is given, and read how many it read.
	want, may, read int
}

// of returns a principal's entry in the list.
func (r *readers) of(principal string) *promptReader {
	for i := range r.list {
		if r.list[i].principal == principal {
			return &r.list[i]
		}
	}
	r.list = append(r.list, promptReader{principal: principal})
	return &r.list[len(r.list)-1]
}

// readPrompts fills the room of the next step with tokens of prompts.
func (s *scheduler) readPrompts(room int) {
	r := &s.readers
	r.list = r.list[:0]
	for _, l := range s.active {
		if l.reads() {
			r.of(l.principal).want += l.pending()
		}
	}
	for i := range r.list {
		if p := &r.list[i]; s.othersDecode(p.principal) {
			p.want = min(p.want, r.piece())
			if r.debts[p.principal] > 0 {
				p.want = 0
			}
		}
	}
	slices.SortStableFunc(r.list, func(a, b promptReader) int { return a.want - b.want })
	for i := range r.list {
		p, share := &r.list[i], len(r.list)-i
		p.may = min(p.want, (room+share-1)/share)
		room -= p.may
	}
	s.turn++
	for i := range s.active {
		l := s.active[(i+s.turn)%len(s.active)]
		if p := r.of(l.principal); p.may > 0 && l.reads() {
			p.may -= s.put(l, p.may)
		}
	}
}

// reads reports whether a lane has tokens of a prompt that can go into the next step.
func (l *lane) reads() bool { return l.pending() > 0 && !l.embeds() && !l.placed }

// piece is the maximum length of a piece of a prompt in a step with lanes of others that decode.
func (r *readers) piece() int {
	if r.plain == 0 || r.each == 0 {
		return math.MaxInt
	}
	return max(readLeast, int(readSteps*r.plain/r.each))
}

// othersDecode reports whether lanes of other principals decode in the step that is being filled.
func (s *scheduler) othersDecode(principal string) bool {
	for i := range s.inputs {
		if s.inputs[i].Owner != principal && decodes(&s.inputs[i]) {
			return true
		}
	}
	return false
}

// blend adds a measurement to an average; 0 is unknown.
func blend(average, measured float64) float64 {
	if average == 0 {
		return measured
	}
	return average + readWeight*(measured-average)
}

// noteReading learns from a step that was computed.
func (s *scheduler) noteReading(took time.Duration) {
	r, all := &s.readers, 0
	r.list = r.list[:0]
	for i := range s.inputs {
		switch in := &s.inputs[i]; {
		case in.Hidden != nil:
			return // texts to embed have their own pace
		case !decodes(in):
			r.of(in.Owner).read += len(in.Tokens)
			all += len(in.Tokens)
		}
	}
	time := float64(took)
	if all == 0 {
		r.plain = blend(r.plain, time)
	}
	extra := max(0, time-r.plain)
	if all > readLeast {
		r.each = blend(r.each, extra/float64(all))
	}
	for principal, debt := range r.debts {
		if debt -= time; debt <= 0 {
			delete(r.debts, principal)
		} else {
			r.debts[principal] = debt
		}
	}
	for i := range r.list {
		p := &r.list[i]
		own := extra * float64(p.read) / float64(all)
		if debt := 2*own - time; debt > 0 && s.othersDecode(p.principal) {
			r.debts[p.principal] += debt
		}
	}
}
