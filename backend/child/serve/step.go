package serve

import (
	"context"
	"encoding/binary"
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
	for i := range s.step.Inputs {
		s.masked[i].has = false
	}
	s.awaited = 0
	s.skipUnmasked()
}

func (s *server) skipUnmasked() {
	for s.awaited < len(s.step.Inputs) && s.step.Inputs[s.awaited].Flags&protocol.FlagMasked == 0 {
		s.awaited++
	}
}

// takeMask takes the next mask of the step under way.
func (s *server) takeMask(f protocol.Frame) error {
	if s.awaited >= len(s.step.Inputs) || len(f.Head) != 4 || binary.LittleEndian.Uint32(f.Head) != uint32(s.awaited) {
		return misplaced(f.Kind)
	}
	if _, err := protocol.DecodeMask(f, s.masks); err != nil {
		return err
	}
	i := s.awaited
	s.awaited++
	s.skipUnmasked()
	s.masked[i].come <- struct{}{} // one mask comes in each step, so there is room
	return nil
}

func (s *server) context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx
}

// renew replaces the context after a cancellation.
func (s *server) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		s.ctx, s.cancel = context.WithCancel(context.Background())
	}
}

// carryOutStep runs the decoded step.
func (s *server) carryOutStep() (protocol.Frame, error) {
	began := time.Now()
	err := s.bind()
	if err == nil {
		err = s.model.Step(s.context(), s.inputs, s.outputs)
	}
	for i := range s.step.Inputs { // the rest of the masks is on its way in any case
		if s.step.Inputs[i].Flags&protocol.FlagMasked != 0 {
			s.masked[i].wait()
		}
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
	s.inputs = s.inputs[:0]
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
		if from.Flags&protocol.FlagMasked != 0 {
			in.Constraint = &s.masked[i]
		}
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
