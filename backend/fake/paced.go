package fake

import (
	"errors"
	"time"

	"runner/backend"
)

// This file plays a model whose sequences go at their own pace.

// Ready implements backend.Paced.
func (m *Model) Ready() <-chan struct{} { return m.ready }

func (m *Model) wake() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// Pause implements backend.Pausing.
func (s *sequence) Pause() { s.dueFor = 0 }

// Arrived implements backend.Arriving.
func (s *sequence) Arrived() bool { return s.dueFor == 0 || !time.Now().Before(s.dueAt) }

// due reports whether the result of an input has come. For a new one it starts the clock.
func (m *Model) due(in *backend.Input) bool {
	s := in.Sequence.(*sequence)
	if in.Sampling == nil {
		return true
	}
	if n := len(s.tokens) + len(in.Tokens); s.dueFor != n {
		wait := m.cfg.Pace(s.id, n)
		s.dueFor, s.dueAt = n, time.Now().Add(wait)
		if wait > 0 {
			time.AfterFunc(wait, m.wake)
		}
	}
	return !time.Now().Before(s.dueAt)
}

// runPaced runs the inputs whose results have come. The others are pending.
func (m *Model) runPaced(inputs []backend.Input, outputs []backend.Output) error {
	var due []backend.Input
	var at []int
	for i := range inputs {
		outputs[i].Reset()
		if outputs[i].Pending = !m.due(&inputs[i]); !outputs[i].Pending {
			due, at = append(due, inputs[i]), append(at, i)
		}
	}
	results := make([]backend.Output, len(due))
	err := m.run(due, results)
	var e *backend.InputError
	if errors.As(err, &e) {
		return &backend.InputError{Index: at[e.Index], Err: e.Err}
	} else if err != nil {
		return err
	}
	for i := range due {
		outputs[at[i]] = results[i]
		due[i].Sequence.(*sequence).dueFor = 0
	}
	return nil
}
