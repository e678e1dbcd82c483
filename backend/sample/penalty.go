package sample

import (
	"math"

	"runner/backend"
)

// change is the original value of a changed logit.
type change struct {
	id    backend.Token
	logit float32
}

// adjust applies penalties and bias to logits and records the original values.
func (s *Sampler) adjust(logits []float32, p *backend.Sampling) {
	s.undo = s.undo[:0]
	if p.Penalises() {
		s.penalise(logits, p)
	}
	for _, b := range p.Bias {
		s.undo = append(s.undo, change{b.Token, logits[b.Token]})
		if b.Forbids() {
			logits[b.Token] = float32(math.Inf(-1))
		} else {
			logits[b.Token] += b.Bias
		}
	}
}

func (s *Sampler) penalise(logits []float32, p *backend.Sampling) {
	seen := p.Seen
	if w := p.PenaltyWindow; w > 0 && w < len(seen) {
		seen = seen[len(seen)-w:]
	}
	if s.counts == nil {
		s.counts = make([]int32, s.n)
	}
	for _, t := range seen {
		if uint(t) < uint(len(s.counts)) {
			s.counts[t]++
		}
	}
	for _, t := range seen {
		if uint(t) >= uint(len(s.counts)) || s.counts[t] == 0 {
			continue
		}
		n := float32(s.counts[t])
		s.counts[t] = 0
		l := logits[t]
		s.undo = append(s.undo, change{t, l})
		if l > 0 {
			l = min(l/p.RepetitionPenalty, math.MaxFloat32)
		} else {
			l *= p.RepetitionPenalty
		}
		logits[t] = l - n*p.FrequencyPenalty - p.PresencePenalty
	}
}

// restore undoes adjust, the latest change first, because a token may have been changed twice.
func (s *Sampler) restore(logits []float32) {
	for i := len(s.undo) - 1; i >= 0; i-- {
		logits[s.undo[i].id] = s.undo[i].logit
	}
	s.undo = s.undo[:0]
}
