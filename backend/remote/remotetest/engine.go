// Package remotetest is an engine for tests of package remote. It computes with the fake backend, in this process and
// without a protocol, and it fails when a test wants it to.
package remotetest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/web"
)

// Engine implements remote.Engine.
type Engine struct {
	// Fault, when not nil, is called before token number token of request number request, both from 0. Its error becomes
	// that of the stream; for token 0 it becomes that of Open. It may wait.
	Fault func(ctx context.Context, request, token int) error
	// Refuse, when not nil, is Check.
	Refuse func(p *backend.Sampling) error
	// Careless ignores Request.Allowed.
	Careless bool
	// Forms are the kinds of form that it claims to enforce. It ignores them.
	Forms []remote.FormKind

	// Named makes its messages name the model.
	Named bool

	// Cached is how much of each prompt it says that it had; 0 means that it says nothing.
	Cached int

	vocab *backend.Vocab
	size  int

	mu       sync.Mutex
	model    *fake.Model
	name     string
	requests []remote.Request
	open     int
	asked    int
}

// New returns an engine that computes with the fake backend.
func New(cfg fake.Config) *Engine {
	if cfg.ContextSize == 0 {
		cfg.ContextSize = 8192
	}
	cfg.Sequences = 64
	m := fake.New(cfg)
	return &Engine{vocab: m.Vocab(), size: cfg.ContextSize, model: m, name: "fake"}
}

// Vocab returns the vocabulary, and Tokenize the tokens of a text.
func (e *Engine) Vocab() *backend.Vocab { return e.vocab }

// Tokenize appends the tokens of a text.
func (e *Engine) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	return e.model.Tokenize(dst, text)
}

// Rename makes it run another model from now on.
func (e *Engine) Rename(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.name = name
}

// Requests returns the requests so far. Their tokens are left out.
func (e *Engine) Requests() []remote.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]remote.Request(nil), e.requests...)
}

// Asked returns how often it was asked what it is.
func (e *Engine) Asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// OpenStreams returns how many streams are open.
func (e *Engine) OpenStreams() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

// Kind implements remote.Engine.
func (e *Engine) Kind() string { return "fake engine" }

// Describe implements remote.Engine.
func (e *Engine) Describe(ctx context.Context) (remote.Description, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	return remote.Description{Version: "1", Model: e.name, Names: []string{"alias"},
		ContextSize: e.size, TrainedContext: 8192, Parallel: 4,
		Vocabulary: e.vocab.Len(), Salted: true, Forms: e.Forms}, ctx.Err()
}

// Check implements remote.Engine.
func (e *Engine) Check(p *backend.Sampling) error {
	if e.Refuse != nil {
		return e.Refuse(p)
	}
	return nil
}

// Encode implements remote.Engine.
func (e *Engine) Encode(_ context.Context, text string, special bool) ([]backend.Token, error) {
	if special {
		return fake.Encode(e.vocab, text), nil
	}
	return e.model.Tokenize(nil, text)
}

// Decode implements remote.Engine.
func (e *Engine) Decode(_ context.Context, tokens []backend.Token) (string, error) {
	return fake.Decode(e.vocab, tokens), nil
}

// Close implements remote.Engine. The engine can still be used, also for another model.
func (e *Engine) Close() {}

// among allows some tokens.
type among struct {
	tokens []backend.Token
}

func (a among) Allows(t backend.Token) bool {
	for _, x := range a.tokens {
		if x == t {
			return true
		}
	}
	return false
}

func (a among) Fill(m backend.Mask) {
	m.Clear()
	for _, t := range a.tokens {
		m.Set(t)
	}
}

// Open implements remote.Engine.
func (e *Engine) Open(ctx context.Context, r *remote.Request) (remote.Stream, error) {
	e.mu.Lock()
	number := len(e.requests)
	noted := *r
	noted.Tokens = nil
	e.requests = append(e.requests, noted)
	e.mu.Unlock()
	if strings.Trim(r.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, errors.New("the name of the request has other letters")
	}
	s := &stream{engine: e, ctx: ctx, number: number, sampling: r.Sampling, left: r.Most, feed: r.Tokens}
	if len(r.Allowed) > 0 && !e.Careless {
		s.allowed = among{r.Allowed}
	}
	if err := s.fault(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.model.NewSequence()
	if err != nil {
		return nil, &web.Error{Kind: web.Busy}
	}
	s.sequence = q
	e.open++
	return s, nil
}

type stream struct {
	engine   *Engine
	ctx      context.Context
	number   int
	count    int
	left     int
	sampling backend.Sampling
	allowed  backend.Constraint
	sequence backend.Sequence
	feed     []backend.Token
}

// fault returns the error before the next token.
func (s *stream) fault() error {
	if s.engine.Fault == nil {
		return nil
	}
	err := s.engine.Fault(s.ctx, s.number, s.count)
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// Next implements remote.Stream.
func (s *stream) Next(to *remote.Sample) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if s.left == 0 {
		return io.EOF
	}
	if s.count > 0 {
		if err := s.fault(); err != nil {
			return err
		}
	}
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	var out [1]backend.Output
	in := []backend.Input{{Sequence: s.sequence, Tokens: s.feed, Sampling: &s.sampling, Constraint: s.allowed}}
	for len(in[0].Tokens) > 512 {
		part := []backend.Input{{Sequence: s.sequence, Tokens: in[0].Tokens[:512]}}
		if err := e.model.Step(context.Background(), part, out[:]); err != nil {
			return &web.Error{Kind: web.Broken}
		}
		in[0].Tokens = in[0].Tokens[512:]
	}
	if err := e.model.Step(context.Background(), in, out[:]); err != nil {
		return &web.Error{Kind: web.Refused, TooLong: errors.Is(err, backend.ErrContextFull)}
	}
	s.feed = []backend.Token{out[0].Token}
	s.count++
	s.left--
	if e.vocab.EndsGeneration(out[0].Token) {
		s.left = 0
	}
	to.Token, to.Logprob, to.Top = out[0].Token, out[0].Logprob, append(to.Top[:0], out[0].Top...)
	return nil
}

// Model implements remote.Stream.
func (s *stream) Model() string {
	e := s.engine
	if !e.Named {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.name
}

// Reused implements remote.Stream.
func (s *stream) Reused() (tokens int, ok bool) { return s.engine.Cached, s.engine.Cached > 0 }

// Close implements remote.Stream.
func (s *stream) Close() {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if s.sequence != nil {
		s.sequence.Close()
		s.sequence = nil
		s.engine.open--
	}
}
