package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/backend/remote/web"
)

// ahead is how many tokens a stream keeps that were not taken yet. Then it stops to read.
const ahead = 64

// stream is a generation that is open at the engine for one sequence. Its goroutine reads ahead. Everything else
// belongs to the goroutine that steps the model.
type stream struct {
	model *Model
	// sampling is what it was opened with. seen is how many tokens the penalties counted. owner is whose it is.
	sampling backend.Sampling
	seen     int
	owner    string
	// allowed are the only tokens that it may sample, or nil.
	allowed []backend.Token
	// form is what the engine follows from formAt on, or nil. refused says that it does not take the form.
	form    *Form
	formAt  int
	refused atomic.Bool

	// agreed is how many tokens of the sequence, with those that are being fed, are known to be those of the stream.
	agreed int
	// given is the last token that was taken, before it is known to be fed; NoToken if there is none.
	given backend.Token

	// changes is how often the engine had come to run another model when the stream was opened. named is the last name of
	// the model in its messages.
	changes int64
	named   string

	// reused is how many tokens the engine had computed before, or -1 if it does not say.
	reused atomic.Int64

	cancel context.CancelFunc
	// gone says that nobody takes from the stream any more. ending says that its last token ends the generation, so that
	// the engine is about to end the stream. Then it is read to its end, and the connection serves the next stream.
	gone, ending atomic.Bool
	// news says that something came since at was last called.
	news atomic.Bool
	// room receives a value when a token was taken from a full ring.
	room chan struct{}

	// kept is a token that came after one that ends the generation. It belongs to the goroutine that reads, as do
	// suspect and blamed.
	kept    Sample
	hasKept bool
	// suspect is a form that the engine may have refused, until it takes the request without it. blamed is one that it
	// may have crashed at, until then.
	suspect, blamed *Form

	mu    sync.Mutex
	ring  [ahead]Sample
	first int // the place of the oldest sample
	held  int // how many samples there are
	err   error
}

// start opens a stream that continues the sequence after an input's tokens. With allowed, it samples one of these.
func (m *Model) start(q *sequence, in *backend.Input, allowed []backend.Token) *stream {
	tokens := make([]backend.Token, 0, len(q.tokens)+len(in.Tokens)+ahead)
	tokens = append(append(tokens, q.tokens...), in.Tokens...)
	p := in.Sampling.Plain()
	s := &stream{model: m, sampling: p, seen: len(p.Seen), owner: in.Owner, allowed: allowed,
		agreed: len(tokens), given: backend.NoToken, changes: m.watch.changes.Load(),
		room: make(chan struct{}, 1)}
	s.reused.Store(-1)
	if allowed == nil {
		s.form, s.formAt = m.formOf(in), len(tokens)
	}
	s.sampling.Bias = slices.Clone(p.Bias)
	s.sampling.Seen = nil
	r := &Request{Tokens: tokens, Most: max(1, m.about.ContextSize-len(tokens)), Sampling: s.sampling, Allowed: allowed,
		Form: s.form, Salt: m.salt(in.Owner), NoCache: m.noCache || in.Apart}
	r.Sampling.Bias = withPenalties(&p, m.vocab.Len())
	r.Sampling.PresencePenalty, r.Sampling.FrequencyPenalty, r.Sampling.PenaltyWindow = 0, 0, 0
	if allowed != nil || s.seen > 0 {
		r.Most = 1
	}
	ctx, cancel := context.WithCancel(m.ctx)
	s.cancel = cancel
	m.streams.Go(func() {
		defer cancel()
		s.finish(s.run(ctx, r))
	})
	return s
}

// end gives the stream up. It does not wait.
func (s *stream) end() {
	if s.gone.Store(true); !s.ending.Load() {
		s.cancel()
	}
}

// withPenalties returns the bias with what the penalties subtract. size is that of the vocabulary. p is in its plain
// form.
func withPenalties(p *backend.Sampling, size int) []backend.TokenBias {
	seen := p.Seen
	if p.PenaltyWindow > 0 && len(seen) > p.PenaltyWindow {
		seen = seen[len(seen)-p.PenaltyWindow:]
	}
	times := map[backend.Token]int{}
	for _, t := range seen {
		times[t]++
	}
	all := slices.Clone(p.Bias)
	for t, n := range times {
		if t < 0 || int(t) >= size {
			continue
		}
		all = append(all, backend.TokenBias{Token: t, Bias: -p.PresencePenalty - float32(n)*p.FrequencyPenalty})
	}
	return all
}

// fits reports whether the stream samples as an input asks. Penalties need a new stream for each token that they count.
func (s *stream) fits(in *backend.Input) bool {
	p := in.Sampling.Plain()
	return s.owner == in.Owner && s.seen == len(p.Seen) &&
		s.sampling.TopLogprobs >= in.Sampling.TopLogprobs && s.sampling.Same(in.Sampling)
}

// at returns the sample that follows the sequence with an input's tokens, or nil if it has not come. It returns io.EOF
// if the stream does not lead there, and errOther if the engine has come to run another model since.
func (s *stream) at(q *sequence, in *backend.Input) (*Sample, error) {
	s.news.Store(false) // before looking, so that nothing is missed
	s.mu.Lock()
	defer s.mu.Unlock()
	length := len(q.tokens) + len(in.Tokens)
	if s.changes != s.model.watch.changes.Load() {
		return nil, errOther
	}
	if s.agreed > length {
		return nil, io.EOF
	}
	for s.agreed < length {
		next := in.Tokens[max(0, s.agreed-len(q.tokens)):][0]
		if s.agreed < len(q.tokens) {
			next = q.tokens[s.agreed]
		}
		switch {
		case s.given != backend.NoToken:
			if next != s.given {
				return nil, io.EOF
			}
			s.given = backend.NoToken
		case s.held == 0:
			return nil, s.err // the engine may sample what is fed
		case s.ring[s.first].Token != next:
			return nil, io.EOF
		default:
			s.drop()
		}
		s.agreed++
	}
	switch {
	case s.given != backend.NoToken:
		return nil, io.EOF
	case s.held == 0:
		return nil, s.err
	}
	return &s.ring[s.first], nil
}

// give takes the sample that at returned.
func (s *stream) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = s.ring[s.first].Token
	s.drop()
}

// drop removes the oldest sample.
func (s *stream) drop() {
	s.first, s.held = (s.first+1)%ahead, s.held-1
	if s.held == ahead-1 {
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
}

// free waits for a place in the ring.
func (s *stream) free(ctx context.Context) *Sample {
	for {
		s.mu.Lock()
		full, place := s.held == ahead, (s.first+s.held)%ahead
		s.mu.Unlock()
		if !full {
			return &s.ring[place]
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return nil
		}
	}
}

// push publishes the sample that free returned.
func (s *stream) push() {
	s.mu.Lock()
	s.held++
	s.mu.Unlock()
	s.tell()
}

// tell says that something came.
func (s *stream) tell() {
	s.news.Store(true)
	s.model.wake()
}

// refuse says that the engine follows no form any more.
func (s *stream) refuse() {
	s.refused.Store(true)
	s.tell()
}

// finish says that no more samples come. nil is a proper end.
func (s *stream) finish(err error) {
	if err == nil {
		err = io.EOF
	}
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.tell()
}

// errTooSlow is the cause when the engine does not send a token in time.
var errTooSlow = &web.Error{Kind: web.Slow}

// run reads the generation until it ends. After a fault it opens it again, from the last token on.
func (s *stream) run(ctx context.Context, r *Request) error {
	m, seed := s.model, r.Sampling.Seed
	var retry retry
	retry.reset(m.patience.Faults)
	for {
		before := len(r.Tokens)
		r.ID, r.Sampling.Seed = m.id(), hash(seed, uint64(before))
		err := m.breaker.allow()
		if err == nil {
			if err = m.verified(ctx); err == nil {
				err = s.read(ctx, r)
			}
			switch {
			case len(r.Tokens) > before: // noted at the first token
			case ctx.Err() != nil:
				m.breaker.giveUp()
			default:
				m.breaker.note(err)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errOther) || errors.Is(err, errSmaller) {
			return err
		}
		if err == nil && len(r.Tokens) > before || r.Most == 0 {
			return nil
		}
		if err == nil {
			err = &web.Error{Kind: web.Malformed, Detail: "it ended a generation without a token"}
		}
		var e *web.Error
		switch known := errors.As(err, &e); {
		case r.Form != nil && known && e.Kind == web.Refused && !e.TooLong:
			// The form may be the reason. If the engine takes the same request without it, it was.
			r.Form, s.suspect = nil, s.form
			s.refuse()
			continue
		case r.Form != nil && len(r.Tokens) > before:
			r.Form = nil // no form begins in its middle
			s.refuse()
		case r.Form != nil && known && (e.Kind == web.Broken || e.Cut):
			// The engine may crash at the form, and would crash again.
			r.Form, s.blamed = nil, s.form
			s.refuse()
		case known && e.Kind == web.Missing:
			// Another model may be served now, or nothing.
			if other := m.verify(ctx); other != nil {
				err = other
			}
			if ctx.Err() != nil || errors.Is(err, errOther) || errors.Is(err, errSmaller) {
				return err
			}
		}
		if !errors.Is(err, errOpen) { // nothing was asked
			m.counts.faults.Add(1)
		}
		if len(r.Tokens) > before {
			retry.reset(m.patience.Faults)
		}
		wait, ok := retry.after(err)
		if !ok || m.breaker.downFor() > m.patience.Faults {
			m.counts.gaveUp.Add(1)
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		// The engine may have been started again, with another model. While the breaker is open, nothing is asked.
		if m.breaker.allow() == nil {
			err := m.verify(ctx)
			if ctx.Err() != nil {
				m.breaker.giveUp()
				return ctx.Err()
			}
			switch {
			case errors.Is(err, errOther), errors.Is(err, errSmaller):
				return err
			case err != nil:
				m.breaker.note(err)
			default:
				m.breaker.giveUp() // that it answers does not say that it generates
			}
		}
	}
}

// read opens the generation once and reads it to its end. It appends the tokens to the request.
func (s *stream) read(ctx context.Context, r *Request) error {
	m := s.model
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(m.patience.FirstToken, func() { cancel(errTooSlow) })
	defer late.Stop()
	m.counts.opened.Add(1)
	open, err := m.engine.Open(ctx, r)
	if err != nil {
		return err
	}
	defer open.Close()
	for first := true; r.Most > 0; first = false {
		if s.ending.Load() && s.over(open, late) {
			return nil
		}
		to := s.free(ctx)
		if to == nil {
			return context.Cause(ctx)
		}
		if !first {
			late.Reset(m.patience.NextToken)
		}
		err := s.next(open, to)
		if other := s.checkName(ctx, open); other != nil {
			return other
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		late.Stop()
		if first {
			m.breaker.note(nil) // the engine works, even if the stream breaks later
			s.report(open)
			s.learn(r)
		}
		if !m.vocab.Valid(to.Token) {
			return &web.Error{Kind: web.Malformed, Detail: fmt.Sprintf("it sent the token %d of %d", to.Token, m.vocab.Len())}
		}
		r.Tokens = append(r.Tokens, to.Token)
		r.Most--
		m.saw()
		s.ending.Store(r.Most > 0 && m.vocab.EndsGeneration(to.Token))
		s.push()
	}
	return nil
}

// checkName returns errOther if the messages of a stream name another model.
func (s *stream) checkName(ctx context.Context, open Stream) error {
	o, ok := open.(Naming)
	if !ok {
		return nil
	}
	name := o.Model()
	if name == s.named {
		return nil
	}
	s.named = name
	return s.model.named(ctx, name)
}

// learn draws conclusions about forms from the first token of a request.
func (s *stream) learn(r *Request) {
	m := s.model
	if s.suspect != nil {
		m.noForms.add(s.suspect)
		m.counts.unformed.Add(1)
		s.suspect = nil
	}
	if s.blamed != nil {
		if m.blame.add(s.blamed) {
			m.noForms.add(s.blamed)
			m.counts.unformed.Add(1)
		}
		m.blameOnce.Do(func() {
			m.warn("the engine at an address failed at a request with a form and answered it without; such forms are " +
				"checked here alone, which is not said again")
		})
		s.blamed = nil
	}
	if r.Form != nil {
		m.blame.remove(r.Form)
	}
}

// report notes how much of the prompt the engine had.
func (s *stream) report(open Stream) {
	if o, ok := open.(Reporting); ok {
		if n, ok := o.Reused(); ok {
			s.reused.Store(int64(n))
		}
	}
}

// endTime is how long the end of a stream may take after a token that ends the generation.
const endTime = time.Second

// over reports whether the stream ends after a token that ends the generation. If the engine goes on, the token that it
// sends is kept for next.
func (s *stream) over(open Stream, late *time.Timer) bool {
	late.Reset(endTime)
	err := open.Next(&s.kept)
	late.Stop()
	if s.checkName(s.model.ctx, open) != nil {
		err = errOther
	}
	s.ending.Store(false)
	s.hasKept = err == nil
	return err != nil || s.gone.Load()
}

// next is the next token of an open generation.
func (s *stream) next(open Stream, to *Sample) error {
	if !s.hasKept {
		return open.Next(to)
	}
	s.hasKept = false
	to.Token, to.Logprob, to.Top = s.kept.Token, s.kept.Logprob, append(to.Top[:0], s.kept.Top...)
	return nil
}

// hash mixes a seed with a position: the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func hash(seed, position uint64) uint64 {
	x := seed + (position+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
