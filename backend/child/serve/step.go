package serve

import (
	"context"
	"fmt"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
)

// mask is a constraint whose mask comes from the runner while the step computes.
type mask struct {
	bits backend.Mask
	come chan struct{}
	gone <-chan struct{}
	has  bool // the worker has seen that the mask has come
}

func newMasks(n, vocab int, gone <-chan struct{}) (list []mask, bits []backend.Mask) {
	for range n {
		m := mask{bits: backend.NewMask(vocab), come: make(chan struct{}, 1), gone: gone}
		list, bits = append(list, m), append(bits, m.bits)
	}
	return list, bits
}

// wait waits for the mask, or until the runner is gone.
func (m *mask) wait() {
	if m.has {
		return
	}
	select {
	case <-m.come:
	case <-m.gone:
	}
	m.has = true
}

// Allows implements backend.Constraint.
func (m *mask) Allows(t backend.Token) bool {
	m.wait()
	return m.bits.Has(t)
}

// Fill implements backend.Constraint.
func (m *mask) Fill(to backend.Mask) {
	m.wait()
	copy(to, m.bits)
}

// prepareMasks gets ready for the masks of a step. The reader calls it before the worker begins.
func (s *server) prepareMasks() {
	s.owners, s.awaited = s.owners[:0], 0
	for i := range s.step.Inputs {
		in := &s.step.Inputs[i]
		if in.Flags&protocol.FlagMasked == 0 {
			continue
		}
		for range len(in.Drafts) + 1 {
			s.masked[len(s.owners)].has = false
			s.owners = append(s.owners, i)
		}
	}
}

// takeMask takes the next mask of the step under way.
func (s *server) takeMask(f protocol.Frame) error {
	if s.awaited >= len(s.owners) {
		return misplaced(f.Kind)
	}
	i := s.awaited
	if err := protocol.DecodeMask(f, s.owners[i], s.masks[i]); err != nil {
		return err
	}
	s.awaited++
	s.masked[i].come <- struct{}{} // each mask comes once in a step, so there is room
	return nil
}

func (s *server) context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx
}

// renew makes the context, and replaces it after a cancellation.
func (s *server) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.ctx.Err() != nil {
		s.ctx, s.cancel = context.WithCancel(s.life)
	}
}

// carryOutStep runs the decoded step.
func (s *server) carryOutStep() (protocol.Frame, error) {
	began := time.Now()
	err := s.bind()
	if err == nil {
		err = s.model.Step(s.context(), s.inputs, s.outputs)
	}
	for i := range s.owners { // the rest of the masks is on its way in any case
		s.masked[i].wait()
	}
	if err != nil {
		return protocol.Frame{}, err
	}
	s.head = protocol.AppendCount(s.head[:0], len(s.inputs))
	s.head = protocol.AppendCount(s.head, int(time.Since(began).Microseconds()))
	s.raw = s.raw[:0]
	for i := range s.inputs {
		s.head, s.raw = protocol.AppendOutput(s.head, s.raw, &s.outputs[i], s.inputs[i].Logits)
	}
	for i := range s.inputs {
		s.raw = protocol.AppendHidden(s.raw, s.inputs[i].Hidden)
	}
	return protocol.Frame{Kind: protocol.KindStepped, Head: s.head, Raw: s.raw}, nil
}

// bind makes backend's inputs from the step.
func (s *server) bind() error {
	s.inputs, s.drafts = s.inputs[:0], s.drafts[:0]
	masks := s.masked
	for i := range s.step.Inputs {
		from := &s.step.Inputs[i]
		in := backend.Input{Tokens: from.Tokens, Targets: from.Targets, TargetTop: from.TargetTop}
		if from.Sequence >= len(s.sequences) || s.sequences[from.Sequence] == nil {
			return &backend.InputError{Index: i, Err: backend.ErrClosed}
		}
		in.Sequence = s.sequences[from.Sequence]
		if n := len(in.Sequence.Tokens()); n != from.Length {
			return &backend.InputError{Index: i, Err: fmt.Errorf("the sequence has %d tokens, not %d", n, from.Length)}
		}
		if from.Flags&protocol.FlagSample != 0 {
			in.Sampling = &from.Sampling
		}
		masked := from.Flags&protocol.FlagMasked != 0
		if masked {
			in.Constraint, masks = &masks[0], masks[1:]
		}
		first := len(s.drafts)
		for _, t := range from.Drafts {
			d := backend.Draft{Token: t}
			if masked {
				d.Constraint, masks = &masks[0], masks[1:]
			}
			s.drafts = append(s.drafts, d)
		}
		in.Drafts = s.drafts[first:len(s.drafts):len(s.drafts)]
		if from.Flags&protocol.FlagLogits != 0 {
			if s.logits[i] == nil {
				s.logits[i] = make([]float32, s.model.Vocab().Len())
			}
			in.Logits = s.logits[i]
		}
		if from.Flags&protocol.FlagHidden != 0 {
			if s.hidden[i] == nil {
				s.hidden[i] = make([]float64, s.model.Info().EmbeddingLength)
			}
			in.Hidden = s.hidden[i]
			clear(in.Hidden)
		}
		s.inputs = append(s.inputs, in)
	}
	return nil
}
