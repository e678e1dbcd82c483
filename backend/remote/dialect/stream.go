package dialect

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/web"
)

// Event is what an event of a stream says.
type Event struct {
	// Samples are the new tokens. Their alternatives are the best first, and may be more than were asked for.
	Samples []remote.Sample
	// Ended says that these are the last ones. Cut says so of a stream that is left although the engine goes on.
	Ended, Cut bool
	// Name is the engine's name for the request, and Model the one for the model; empty if the event has none.
	Name, Model string
	// Cached is how many tokens of the prompt the engine had; nil if the event does not say so.
	Cached *int
}

// Read decodes an event.
func Read(data []byte, into any) error {
	if json.Unmarshal(data, into) != nil { // its error would quote the event
		return Malformed("an event is not the JSON that was expected")
	}
	return nil
}

// Malformed is the error of an event that is not what the engine should send.
func Malformed(detail string) error { return &web.Error{Kind: web.Malformed, Detail: detail} }

// Errors of events.
var (
	ErrUncounted   = Malformed("the tokens of an event cannot be counted")
	ErrImprobable  = Malformed("it sent a token without its probability")
	ErrOtherToken  = Malformed("it sent a token with the probability of another one")
	ErrUnknown     = Malformed("it sent a token that is not in the vocabulary")
	errAlternative = Malformed("it sent an alternative that is not in the vocabulary")
)

// GaveUp is the error of a generation that the engine gave up. code is a status of HTTP, or 0. text is what it said.
func GaveUp(code int, text []byte) error {
	return failed(code, text, "the engine gave the generation up")
}

// Failed is the error in an event, or nil if there is none. Engines also refuse a request in this way, after status
// 200. usual is the status that an error without one has.
func Failed(text json.RawMessage, usual int) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	var e struct {
		Code any `json:"code"`
	}
	_ = json.Unmarshal(text, &e) // some servers send its message alone
	if code, ok := e.Code.(float64); ok {
		usual = int(code)
	}
	return failed(usual, text, "the engine failed during the generation")
}

func failed(code int, text []byte, detail string) error {
	e := web.Refusal(max(0, min(code, 999)), text)
	if e.Temporary() {
		e.Detail = detail
	}
	return e
}

// stream implements remote.Stream.
type stream struct {
	engine *Engine
	ctx    context.Context
	events *web.Events
	read   func(data []byte) (Event, error)
	most   int
	top    int

	fresh []remote.Sample
	// come counts the tokens that came.
	come int
	// over says that no more tokens come, and ended that the generation has ended.
	over, ended bool
	model       string
	cached      *int

	// leave asks the engine to end the generation and drops the connection. It may be called from any goroutine, once.
	// name is the engine's name for the request, if an event had it.
	leave func()
	name  atomic.Pointer[string]
	// rest frees the resources of a generation that has ended.
	rest func()
}

// begin sends a request for a stream.
func (e *Engine) begin(ctx context.Context, at *Found, r *remote.Request) (*stream, error) {
	s := &stream{engine: e, ctx: ctx, read: e.Events(ctx, r), most: r.Most, top: r.Sampling.TopLogprobs}
	// The connection outlives ctx until the engine was asked to end the generation.
	open, drop := context.WithCancelCause(context.WithoutCancel(ctx))
	s.leave = sync.OnceFunc(func() {
		e.end(at.Routes.Abort, s.names(r.ID), func() { drop(context.Cause(ctx)) })
	})
	stop := context.AfterFunc(ctx, s.leave)
	s.rest = func() {
		if stop() {
			drop(nil)
		} else {
			s.leave() // it has begun, and here it is waited for
		}
	}
	var err error
	if s.events, err = e.Client.Stream(open, at.Routes.Generate, e.Request(r, at)); err != nil {
		s.rest()
		return nil, err
	}
	return s, nil
}

// names are those by which the engine may know a request with an id.
func (s *stream) names(id string) []string {
	if name := s.name.Load(); name != nil {
		return []string{*name}
	}
	if s.engine.Names != nil {
		return s.engine.Names(id)
	}
	return []string{id}
}

// done ends the events.
const done = "[DONE]"

// mostSkipped is how many events without a token may come in a row, and mostAfter how many after the last token.
const (
	mostSkipped = 1024
	mostAfter   = 4
)

// Next implements remote.Stream.
func (s *stream) Next(to *remote.Sample) error {
	for skipped := 0; len(s.fresh) == 0; skipped++ {
		switch {
		case s.over:
			return io.EOF
		case skipped == mostSkipped:
			return Malformed("it sends events without tokens")
		}
		if err := s.next(); err != nil {
			if s.ctx.Err() != nil {
				return context.Cause(s.ctx)
			}
			return err
		}
	}
	x := &s.fresh[0]
	s.fresh = s.fresh[1:]
	to.Token, to.Logprob, to.Top = x.Token, x.Logprob, append(to.Top[:0], x.Top[:max(0, min(s.top, len(x.Top)))]...)
	return nil
}

// next reads an event.
func (s *stream) next() error {
	data, err := s.events.Next()
	switch {
	case errors.Is(err, io.EOF), err == nil && string(data) == done:
		return &web.Error{Kind: web.Broken, Detail: "the stream ends before the generation"}
	case err != nil:
		return err
	}
	e, err := s.read(data)
	if err != nil {
		var w *web.Error
		s.ended = errors.As(err, &w) && w.Kind != web.Malformed
		return err
	}
	return s.take(&e)
}

// take checks an event and takes its tokens.
func (s *stream) take(e *Event) error {
	if e.Model != "" {
		s.model = e.Model
	}
	if e.Name != "" && s.name.Load() == nil {
		s.name.Store(&e.Name)
	}
	if e.Cached != nil {
		s.cached = e.Cached
	}
	if s.come += len(e.Samples); s.come > s.most {
		return Malformed("it sends more tokens than were asked for")
	}
	for i := range e.Samples {
		if !s.engine.valid(e.Samples[i].Token) {
			return ErrUnknown
		}
		for _, x := range e.Samples[i].Top {
			if !s.engine.valid(x.Token) {
				return errAlternative
			}
		}
	}
	s.fresh, s.over, s.ended = e.Samples, e.Ended || e.Cut, e.Ended
	if e.Ended {
		s.drain()
	}
	return nil
}

// drain reads what follows the end, so that the connection can be used again.
func (s *stream) drain() {
	for range mostAfter {
		if _, err := s.events.Next(); err != nil {
			return
		}
	}
}

func (e *Engine) valid(t backend.Token) bool { return t >= 0 && (e.Vocab == nil || e.Vocab.Valid(t)) }

// Model implements remote.Stream.
func (s *stream) Model() string { return s.model }

// Reused implements remote.Stream.
func (s *stream) Reused() (tokens int, ok bool) {
	if s.cached == nil {
		return 0, false
	}
	return max(0, *s.cached), true
}

// Close implements remote.Stream.
func (s *stream) Close() {
	switch {
	case s.events == nil:
	case s.ended:
		s.events.Close()
		s.rest()
	default:
		s.leave()
	}
}
