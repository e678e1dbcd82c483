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

	cancel context.CancelFunc
	// room receives a value when a token was taken from a full ring.
	room chan struct{}

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
	s := &stream{model: m, sampling: *in.Sampling, seen: counted(in.Sampling), owner: in.Owner, allowed: allowed,
		agreed: len(tokens), given: backend.NoToken, room: make(chan struct{}, 1)}
	if allowed == nil {
		s.form, s.formAt = m.formOf(in), len(tokens)
	}
	s.sampling.Bias = slices.Clone(in.Sampling.Bias)
	s.sampling.Seen = nil
	r := &Request{Tokens: tokens, Most: max(1, m.about.ContextSize-len(tokens)), Sampling: s.sampling, Allowed: allowed,
		Form: s.form, Salt: m.salt(in.Owner), NoCache: m.noCache}
	r.Sampling.Bias = withPenalties(in.Sampling, m.vocab.Len())
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
func (s *stream) end() { s.cancel() }

// counted returns how many tokens the penalties count, or 0 without penalties.
func counted(p *backend.Sampling) int {
	if p.PresencePenalty == 0 && p.FrequencyPenalty == 0 {
		return 0
	}
	return len(p.Seen)
}

// withPenalties returns the bias with what the penalties subtract. size is that of the vocabulary.
func withPenalties(p *backend.Sampling, size int) []backend.TokenBias {
	if counted(p) == 0 {
		return slices.Clone(p.Bias)
	}
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
	return s.owner == in.Owner && s.seen == counted(in.Sampling) &&
		s.sampling.TopLogprobs >= in.Sampling.TopLogprobs && s.sampling.Same(in.Sampling)
}

// at returns the sample that follows the sequence with an input's tokens, or nil if it has not come. It returns io.EOF
// if the stream does not lead there.
func (s *stream) at(q *sequence, in *backend.Input) (*Sample, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	length := len(q.tokens) + len(in.Tokens)
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
		if s.held < ahead {
			defer s.mu.Unlock()
			return &s.ring[(s.first+s.held)%ahead]
		}
		s.mu.Unlock()
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
	s.model.wake()
}

// finish says that no more samples come. nil is a proper end.
func (s *stream) finish(err error) {
	if err == nil {
		err = io.EOF
	}
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.model.wake()
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
			if err = m.verifyUnseen(ctx); err == nil {
				err = s.read(ctx, r)
			}
			if len(r.Tokens) > before {
				m.breaker.note(nil) // the engine works, even if the stream broke later
			} else {
				m.breaker.note(err)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errOther) {
			return err
		}
		if err == nil && len(r.Tokens) > before || r.Most == 0 {
			return nil
		}
		if err == nil {
			err = &web.Error{Kind: web.Malformed, Detail: "it ended a generation without a token"}
		}
		var e *web.Error
		if r.Form != nil && (errors.As(err, &e) && e.Kind == web.Refused || len(r.Tokens) > before) {
			// The engine cannot follow the form, or not from its middle on.
			s.refused.Store(true)
			if r.Form = nil; len(r.Tokens) == before {
				m.noForms.add(s.form)
				continue
			}
		}
		m.counts.faults.Add(1)
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
		// The engine may have been started again, with another model.
		if err := m.verify(ctx); errors.Is(err, errOther) {
			return err
		}
	}
}

// read opens the generation once and reads it to its end. It appends the tokens to the request.
func (s *stream) read(ctx context.Context, r *Request) error {
	m := s.model
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(m.patience.FirstToken, func() { cancel(errTooSlow) })
	defer watch.Stop()
	m.counts.opened.Add(1)
	open, err := m.engine.Open(ctx, r)
	if err != nil {
		return err
	}
	defer open.Close()
	for first := true; r.Most > 0; first = false {
		to := s.free(ctx)
		if to == nil {
			return context.Cause(ctx)
		}
		if !first {
			watch.Reset(m.patience.NextToken)
		}
		err := open.Next(to)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		watch.Stop()
		if !m.vocab.Valid(to.Token) {
			return &web.Error{Kind: web.Malformed, Detail: fmt.Sprintf("it sent the token %d of %d", to.Token, m.vocab.Len())}
		}
		r.Tokens = append(r.Tokens, to.Token)
		r.Most--
		m.seen.Store(time.Now().UnixNano())
		s.push()
	}
	return nil
}

// hash mixes a seed with a position: the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func hash(seed, position uint64) uint64 {
	x := seed + (position+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
