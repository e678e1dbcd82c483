package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/backend/remote/web"
)

// ahead is how many tokens a stream keeps that were not taken yet. Then it reads one more and stops.
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

	// suspect is a form that the engine may have refused, until it takes the request without it. blamed is one that it
	// may have crashed at, until then. They belong to the goroutine that reads.
	suspect, blamed *Form

	// samples are those that were read. It closes at the end, when err is set. next is the first one that was not taken,
	// if has is set.
	samples chan Sample
	err     error
	next    Sample
	has     bool
}

// start opens a stream that continues the sequence after an input's tokens. With allowed, it samples one of these.
func (m *Model) start(q *sequence, in *backend.Input, allowed []backend.Token) *stream {
	tokens := make([]backend.Token, 0, len(q.tokens)+len(in.Tokens)+ahead)
	tokens = append(append(tokens, q.tokens...), in.Tokens...)
	p := in.Sampling.Plain()
	s := &stream{model: m, sampling: p, seen: len(p.Seen), owner: in.Owner, allowed: allowed,
		agreed: len(tokens), given: backend.NoToken, changes: m.watch.changes.Load(),
		samples: make(chan Sample, ahead)}
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
	for len(s.samples) > 0 { // there must be room for the last token
		<-s.samples
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
	length := len(q.tokens) + len(in.Tokens)
	if s.changes != s.model.watch.changes.Load() {
		return nil, errOther
	}
	if s.agreed > length {
		return nil, io.EOF
	}
	for s.agreed < length {
		fed := in.Tokens[max(0, s.agreed-len(q.tokens)):][0]
		if s.agreed < len(q.tokens) {
			fed = q.tokens[s.agreed]
		}
		if s.given == backend.NoToken {
			x, err := s.peek()
			if x == nil {
				return nil, err // the engine may sample what is fed
			}
			s.give()
		}
		if fed != s.given {
			return nil, io.EOF
		}
		s.given = backend.NoToken
		s.agreed++
	}
	if s.given != backend.NoToken {
		return nil, io.EOF
	}
	return s.peek()
}

// peek returns the next sample, or nil if it has not come. The error says why no more samples come.
func (s *stream) peek() (*Sample, error) {
	if !s.has {
		select {
		case x, ok := <-s.samples:
			if !ok {
				return nil, s.err
			}
			s.next, s.has = x, true
		default:
			return nil, nil
		}
	}
	return &s.next, nil
}

// give takes the sample that peek returned.
func (s *stream) give() { s.given, s.has = s.next.Token, false }

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
	if s.err = err; err == nil {
		s.err = io.EOF
	}
	close(s.samples)
	s.tell()
}

// errTooSlow is the cause when the engine does not send a token in time.
var errTooSlow = &web.Error{Kind: web.Slow}

// run reads the generation until it ends. After a fault it opens it again, from the last token on.
func (s *stream) run(ctx context.Context, r *Request) error {
	m, seed := s.model, r.Sampling.Seed
	var retry retry
	retry.reset(m.patience.Faults)
	verified := m.verified
	for {
		before := len(r.Tokens)
		r.ID, r.Sampling.Seed = m.id(), hash(seed, uint64(before))
		err := m.breaker.allow()
		if err == nil {
			if err = verified(ctx); err == nil {
				err = s.read(ctx, r)
			}
			switch {
			case len(r.Tokens) > before: // noted at the first token
				retry.reset(m.patience.Faults)
			case ctx.Err() != nil:
				m.breaker.giveUp()
			default:
				m.breaker.note(err)
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && len(r.Tokens) > before, r.Most == 0:
			return nil
		case err == nil:
			err = &web.Error{Kind: web.Malformed, Detail: "it ended a generation without a token"}
		}
		var e *web.Error
		known := errors.As(err, &e)
		if known && e.Kind == web.Missing {
			// Another model may be served now, or nothing.
			if other := m.verify(ctx); other != nil {
				err = other
			}
		}
		if ctx.Err() != nil || changed(err) {
			return err
		}
		if s.formless(r, e, len(r.Tokens) > before) {
			continue
		}
		if !errors.Is(err, errOpen) { // nothing was asked
			m.counts.faults.Add(1)
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
		verified = m.verify // the engine may have been started again, with another model
	}
}

// formless takes the form from a request that failed, if the form may be the reason. e is the error of the engine, or
// nil. It reports whether the request is to be sent again at once.
func (s *stream) formless(r *Request, e *web.Error, began bool) (again bool) {
	switch {
	case r.Form == nil:
		return false
	case e != nil && e.Kind == web.Refused && !e.TooLong:
		s.suspect, again = s.form, true // if the engine takes the request without it, it was the reason
	case began: // no form begins in its middle
	case e != nil && (e.Kind == web.Broken || e.Cut):
		s.blamed = s.form // the engine may crash at it, and would crash again
	default:
		return false
	}
	r.Form = nil
	s.refuse()
	return again
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
	s.ending.Store(false)
	var x Sample
	for first := true; r.Most > 0; first = false {
		ending := s.ending.Load()
		switch {
		case ending:
			late.Reset(endTime)
		case !first:
			late.Reset(m.patience.NextToken)
		}
		x.Top = nil // the last one is not ours any more
		err := open.Next(&x)
		late.Stop()
		if name := open.Model(); name != s.named {
			s.named = name
			if other := m.named(name); other != nil {
				err = other
			}
		}
		s.ending.Store(false)
		switch {
		case ending && (err != nil || s.gone.Load()), errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !m.vocab.Valid(x.Token):
			return &web.Error{Kind: web.Malformed, Detail: fmt.Sprintf("it sent the token %d of %d", x.Token, m.vocab.Len())}
		}
		if first {
			m.breaker.note(nil) // the engine works, even if the stream breaks later
			if n, ok := open.Reused(); ok {
				s.reused.Store(int64(n))
			}
			s.learn(r)
		}
		m.saw()
		s.ending.Store(r.Most > 1 && m.vocab.EndsGeneration(x.Token))
		select {
		case s.samples <- x:
		case <-ctx.Done(): // it may have ended although the token came, which is then generated again
			return context.Cause(ctx)
		}
		r.Tokens = append(r.Tokens, x.Token)
		r.Most--
		s.tell()
	}
	return nil
}

// endTime is how long the end of a stream may take after a token that ends the generation.
const endTime = time.Second

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

// hash mixes a seed with a position: the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func hash(seed, position uint64) uint64 {
	x := seed + (position+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
