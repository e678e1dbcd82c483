package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"runner/backend"
	"runner/backend/remote/web"
)

// plan is what a step found out about one input.
type plan struct {
	// pending means that there is no result yet.
	pending bool
	// sample is the result, or nil if nothing is sampled. It stays in its stream until the step is certain.
	sample *Sample
	stream *stream
	// forced is the only token that the constraint allows, or NoToken.
	forced backend.Token
}

// Step implements backend.Model. First it looks for the results of all inputs, which changes no sequence. Then it
// applies those that there are.
func (m *Model) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	if m.closed.Load() {
		return backend.ErrClosed
	}
	m.steps++
	if err := backend.CheckSequences(m, inputs, m.steps); err != nil {
		return err
	}
	if err := backend.CheckInputs(&m.info, m.Capabilities(), m.vocab, inputs, outputs); err != nil {
		return err
	}
	if lost := m.lost.Load(); lost != nil {
		return *lost
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.plans = slices.Grow(m.plans[:0], len(inputs))
	for i := range inputs {
		p, err := m.plan(&inputs[i])
		if err != nil {
			if errors.Is(err, errSmaller) {
				return *m.lost.Load()
			}
			return &backend.InputError{Index: i, Err: err}
		}
		m.plans = append(m.plans, p)
	}
	for i := range inputs {
		m.apply(&inputs[i], &m.plans[i], &outputs[i])
	}
	return nil
}

// plan looks for the result of an input. It opens a stream if there is none that fits.
func (m *Model) plan(in *backend.Input) (plan, error) {
	q := in.Sequence.(*sequence)
	p := plan{forced: backend.NoToken}
	if in.Logits != nil || in.Hidden != nil {
		return p, errors.New("an engine on another machine gives no logits and no hidden states")
	}
	if in.Sampling == nil {
		return p, nil
	}
	if q.stream != nil && (!q.stream.fits(in) || m.wantsForm(q, in)) {
		q.stray(q.stream.agreed)
		q.Pause()
	}
	if q.stream == nil {
		if err := m.CheckSampling(in.Sampling); err != nil {
			return p, fmt.Errorf("%w: %w", backend.ErrRefused, err)
		}
		q.stream = m.start(q, in, nil)
	}
	s, err := q.stream.at(q, in)
	switch {
	case errors.Is(err, io.EOF): // the stream is over or went another way
		q.stray(q.stream.agreed)
		q.Pause()
		q.stream = m.start(q, in, nil)
		p.pending = true
	case err != nil:
		q.Pause()
		return p, m.inputError(err)
	case s == nil:
		p.pending = true
		follow(in, q.stream)
	case in.Constraint == nil || in.Constraint.Allows(s.Token):
		p.sample, p.stream = s, q.stream
		follow(in, q.stream)
	case q.stream.allowed != nil:
		q.Pause()
		return p, fmt.Errorf("%w: it sampled a token that was not among those allowed", backend.ErrUnavailable)
	default:
		return p, m.replace(q, in, &p)
	}
	return p, nil
}

// replace asks for another token in place of one that the constraint does not allow.
func (m *Model) replace(q *sequence, in *backend.Input, p *plan) error {
	in.Constraint.Fill(m.mask)
	for _, b := range in.Sampling.Bias {
		if b.Forbids() && b.Token >= 0 && int(b.Token) < m.vocab.Len() {
			m.mask.Unset(b.Token)
		}
	}
	var allowed []backend.Token
	for t := range backend.Token(m.vocab.Len()) {
		if m.mask.Has(t) {
			allowed = append(allowed, t)
		}
	}
	q.stray(len(q.tokens) + len(in.Tokens))
	q.Pause()
	follow(in, nil)
	switch {
	case len(allowed) == 0:
		return backend.ErrNothingAllowed
	case len(allowed) == 1 && in.Sampling.TopLogprobs < 0:
		p.forced = allowed[0]
		return nil
	}
	m.counts.replaced.Add(1)
	q.stream = m.start(q, in, allowed)
	p.pending = true
	return nil
}

// apply applies the result of an input.
func (m *Model) apply(in *backend.Input, p *plan, out *backend.Output) {
	out.Reset()
	if p.pending {
		out.Pending = true
		return
	}
	q := in.Sequence.(*sequence)
	q.tokens = append(q.tokens, in.Tokens...)
	switch {
	case p.sample != nil:
		out.Token, out.Logprob = p.sample.Token, p.sample.Logprob
		out.Top = append(out.Top, p.sample.Top[:min(len(p.sample.Top), max(in.Sampling.TopLogprobs, 0))]...)
		p.stream.give()
	case p.forced != backend.NoToken:
		out.Token = p.forced
	}
}

// inputError returns the error of an input whose stream was given up.
func (m *Model) inputError(err error) error {
	var e *web.Error
	switch {
	case changed(err):
		return err
	case !errors.As(err, &e):
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	case e.TooLong:
		return fmt.Errorf("%w: %w", backend.ErrContextFull, err)
	case e.Kind == web.Refused:
		return fmt.Errorf("%w: %w", backend.ErrRefused, err)
	}
	return &backend.UnavailableError{After: e.RetryAfter, Err: err}
}
