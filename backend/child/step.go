package child

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
)

// Step implements backend.Model.
func (m *Model) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	if err := m.check(inputs, outputs); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(inputs) == 0 {
		return nil
	}
	err := m.attempt(ctx, inputs, outputs)
	if isCrash(err) {
		err = m.alone(ctx, err, inputs, outputs)
	}
	if err != nil {
		return err
	}
	for i := range inputs {
		s := inputs[i].Sequence.(*sequence)
		s.tokens = append(s.tokens, inputs[i].Tokens...)
		for k := range outputs[i].More {
			s.tokens = append(s.tokens, inputs[i].Drafts[k].Token)
		}
		id := uint64(0)
		if !s.grows {
			m.pieces++
			id, s.grows = m.pieces, true
		}
		s.fed.grow(len(s.tokens), id)
		s.crashes = 0
	}
	return nil
}

// check returns the error of a bad step before anything changes.
func (m *Model) check(inputs []backend.Input, outputs []backend.Output) error {
	m.step++
	if err := backend.CheckSequences(m, inputs, m.step); err != nil {
		return err
	}
	return backend.CheckInputs(&m.info, m.caps, m.vocab, inputs, outputs)
}

// maxAlone is how often a sequence may crash the engine alone until it fails.
const maxAlone = 2

// blame counts a crash in a step of the sequence alone and returns how many there were.
func (s *sequence) blame(err error) int {
	if !errors.Is(err, errTextHang) {
		s.crashes++
	}
	return s.crashes
}

// alone repeats a step after a crash, one input at a time. A result is kept although a later input crashes the
// engine: the sequence is then fed again. If an input fails, none has been processed, as after any error.
func (m *Model) alone(ctx context.Context, first error, inputs []backend.Input, outputs []backend.Output) error {
	restore := sums(inputs)
	for i := range inputs {
		s := inputs[i].Sequence.(*sequence)
		if len(inputs) == 1 {
			s.blame(first) // it was alone before
		}
		err := m.attempt(ctx, inputs[i:i+1], outputs[i:i+1])
		for ; isCrash(err); err = m.attempt(ctx, inputs[i:i+1], outputs[i:i+1]) {
			if s.blame(err) >= maxAlone {
				m.failed.Add(1)
				err = &backend.InputError{Err: fmt.Errorf("%w: %w", backend.ErrCrashed, errors.Unwrap(err))}
				break
			}
		}
		if err == nil {
			s.crashes = 0
			continue
		}
		restore()
		var in *backend.InputError
		if errors.As(err, &in) {
			return &backend.InputError{Index: i, Err: in.Err}
		}
		return err
	}
	return nil
}

// attempt runs a step once. It starts a process if there is none, and gives it what it lacks of the sequences. The
// model's own record of the sequences does not change.
func (m *Model) attempt(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	c, err := m.live(ctx, m.conn.Load())
	if err != nil {
		return err
	}
	if err := m.meet(c); err != nil {
		return err
	}
	for i := range inputs {
		s := inputs[i].Sequence.(*sequence)
		if err := m.sync(ctx, c, s); err != nil {
			if errors.As(err, new(*crash)) || ctx.Err() != nil || errors.Is(err, backend.ErrCacheFull) {
				return err
			}
			return &backend.InputError{Index: i, Err: err}
		}
	}
	restore := sums(inputs)
	if err := m.feed(ctx, c, inputs, outputs); err != nil {
		return err
	}
	m.starts.Store(0)
	if err := m.choose(inputs, outputs); err != nil {
		restore()
		return err
	}
	return nil
}

// sums returns a function that gives the sums of hidden states the values that they have now. It costs nothing if
// there are none.
func sums(inputs []backend.Input) (restore func()) {
	if !slices.ContainsFunc(inputs, func(in backend.Input) bool { return in.Hidden != nil }) {
		return func() {}
	}
	var kept [][]float64
	for i := range inputs {
		kept = append(kept, slices.Clone(inputs[i].Hidden))
	}
	return func() {
		for i := range kept {
			copy(inputs[i].Hidden, kept[i])
		}
	}
}

// meet gets ready for a process: one that is new has no sequences.
func (m *Model) meet(c *conn) error {
	if m.seen == c {
		return nil
	}
	m.seen = c
	m.epoch++
	return m.rows.open(c, m)
}

// errUncalled is the error of an engine that cancels requests by itself.
var errUncalled = fmt.Errorf("%w: the engine cancels requests by itself", protocol.ErrFrame)

// feed sends a step. It repeats one that ended with a cancellation that was for the step before.
func (m *Model) feed(ctx context.Context, c *conn, inputs []backend.Input, outputs []backend.Output) error {
	for range 3 {
		err := m.send(ctx, c, inputs, outputs)
		switch {
		case !errors.Is(err, context.Canceled):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
	return m.refused(c, errUncalled, 0)
}

// send sends a step and reads its outputs.
func (m *Model) send(ctx context.Context, c *conn, inputs []backend.Input, outputs []backend.Output) error {
	total := 0
	m.head, m.raw = protocol.AppendCount(m.head[:0], len(inputs)), m.raw[:0]
	for i := range inputs {
		m.bind(&inputs[i])
		total += len(inputs[i].Tokens) + len(inputs[i].Drafts)
		m.head, m.raw = protocol.AppendInput(m.head, m.raw, &m.input)
	}
	began := time.Now()
	c.begin(m.pace.patience(total))
	if err := c.send(protocol.Frame{Kind: protocol.KindStep, Head: m.head, Raw: m.raw}); err != nil {
		return err
	}
	for i := range inputs {
		if err := m.sendMasks(c, i, &inputs[i]); err != nil {
			return err
		}
	}
	f, err := c.await(ctx)
	for ; err == nil && f.Kind == protocol.KindProgress; f, err = c.await(ctx) {
		c.more()
	}
	if err != nil {
		return err
	}
	if f.Kind == protocol.KindStepped {
		_, err = protocol.DecodeStepped(f, inputs, outputs, m.vocab.Len(), m.sampler != nil)
	} else {
		err = c.take(f, protocol.KindStepped, nil)
	}
	took := c.done()
	if err != nil {
		return m.refused(c, err, len(inputs))
	}
	m.pace.note(total, min(time.Since(began), took))
	for i := range inputs {
		inputs[i].Sequence.(*sequence).held += len(inputs[i].Tokens) + len(outputs[i].More)
	}
	return nil
}

// sendMasks sends the masks of input i: its own and those of its drafts.
func (m *Model) sendMasks(c *conn, i int, in *backend.Input) error {
	if !m.masked(in) {
		return nil
	}
	for k := range len(in.Drafts) + 1 {
		constraint := in.Constraint
		if k > 0 {
			constraint = in.Drafts[k-1].Constraint
		}
		if constraint != nil {
			constraint.Fill(m.mask)
		} else {
			for w := range m.mask {
				m.mask[w] = math.MaxUint64
			}
		}
		m.head, m.raw = protocol.AppendCount(m.head[:0], i), protocol.AppendMask(m.raw[:0], m.mask)
		if err := c.send(protocol.Frame{Kind: protocol.KindMasks, Head: m.head, Raw: m.raw}); err != nil {
			return err
		}
	}
	return nil
}

// refused returns the error of a request with some inputs that the engine refused. An engine that breaks the protocol,
// or that says that it is broken, is ended like one that crashed.
func (m *Model) refused(c *conn, err error, inputs int) error {
	var e *protocol.Error
	if errors.As(err, &e) && c.reason == nil {
		if i := e.Input; i != nil && (*i < 0 || *i >= inputs) {
			err = fmt.Errorf("%w: an error about input %d of %d", protocol.ErrFrame, *i, inputs)
		} else if err = e.Backend(m.path); !errors.Is(err, backend.ErrBroken) {
			return err
		}
	}
	return c.end(err)
}

// masked reports whether an input needs masks.
func (m *Model) masked(in *backend.Input) bool {
	return m.sampler == nil && in.Sampling != nil && (in.Constraint != nil ||
		slices.ContainsFunc(in.Drafts, func(d backend.Draft) bool { return d.Constraint != nil }))
}

// bind makes the protocol's input from one of backend.
func (m *Model) bind(in *backend.Input) {
	s := in.Sequence.(*sequence)
	p := &m.input
	*p = protocol.Input{Sequence: s.id, Length: s.held, Tokens: in.Tokens, Targets: in.Targets, TargetTop: in.TargetTop}
	m.drafts = m.drafts[:0]
	for _, d := range in.Drafts {
		m.drafts = append(m.drafts, d.Token)
	}
	p.Drafts = m.drafts
	if in.Sampling != nil {
		p.Flags |= protocol.FlagSample
		if m.sampler == nil {
			p.Sampling = *in.Sampling
		}
	}
	if m.masked(in) {
		p.Flags |= protocol.FlagMasked
	}
	if in.Logits != nil {
		p.Flags |= protocol.FlagLogits
	}
	if in.Hidden != nil {
		p.Flags |= protocol.FlagHidden
	}
}
