package vllm

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/web"
)

// stream reads the tokens of a generation. An event can have several.
type stream struct {
	engine *Engine
	events *web.Events
	id     string
	// abort says that the server has a route to end the generation.
	abort bool
	most  int
	top   int

	event event
	// model is the name of the model in the last event that had one.
	model string
	// next is the next token of the event. given counts all tokens.
	next, given int
	ended       bool
	closed      bool
}

// done ends the events of both routes.
var done = []byte("[DONE]")

// mostSkipped is how many events without a token may come in a row.
const mostSkipped = 1024

// Next implements remote.Stream.
func (s *stream) Next(to *remote.Sample) error {
	for skipped := 0; s.next >= len(s.event.tokens); skipped++ {
		switch {
		case s.ended && s.given == 0:
			return &web.Error{Kind: web.Malformed, Detail: "it sends no token ids, which vLLM 0.10.2 and later do"}
		case s.ended, s.given == s.most:
			return io.EOF
		}
		if skipped == mostSkipped {
			return &web.Error{Kind: web.Malformed, Detail: "it sends events without tokens"}
		}
		if err := s.read(); err != nil {
			return err
		}
	}
	if s.given == s.most {
		return &web.Error{Kind: web.Malformed, Detail: "it sends more tokens than were asked for"}
	}
	i := s.next
	s.next++
	s.given++
	if s.ended && s.next == len(s.event.tokens) {
		defer s.drain()
	}
	to.Token, to.Logprob, to.Top = s.event.tokens[i], 0, to.Top[:0]
	if s.top < 0 {
		return nil
	}
	p := &s.event.probs[i]
	to.Logprob = p.logprob
	to.Top = append(to.Top, p.best(s.top)...)
	return nil
}

// Model implements remote.Naming.
func (s *stream) Model() string { return s.model }

// read reads the next event.
func (s *stream) read() error {
	data, err := s.events.Next()
	if errors.Is(err, io.EOF) || err == nil && bytes.Equal(data, done) {
		return &web.Error{Kind: web.Broken, Detail: "the stream ends before the generation"}
	} else if err != nil {
		return err
	}
	s.next = 0
	e := &s.event
	if err := e.read(data); err != nil {
		return err
	}
	if len(e.model) > 0 && string(e.model) != s.model {
		s.model = string(e.model)
	}
	if e.failed {
		s.abort = false // it has ended
		return failure(e)
	}
	switch string(e.finish) {
	case "":
	case "abort", "error":
		return &web.Error{Kind: web.Broken, Detail: "the engine gave the generation up"}
	default:
		s.ended = true
	}
	return s.check()
}

// check reports an event whose tokens cannot be used.
func (s *stream) check() error {
	e := &s.event
	for i, t := range e.tokens {
		if v := s.engine.vocab; v != nil && !v.Valid(t) {
			return &web.Error{Kind: web.Malformed, Detail: "it sent a token that is not in the vocabulary"}
		}
		if s.top < 0 {
			continue
		}
		if i >= e.probed || !e.probs[i].known || e.probs[i].token != t {
			return &web.Error{Kind: web.Malformed, Detail: "it sent a token without its probability"}
		}
		for _, x := range e.probs[i].top {
			if v := s.engine.vocab; x.Token == backend.NoToken || v != nil && !v.Valid(x.Token) {
				return &web.Error{Kind: web.Malformed, Detail: "it sent an alternative that is not in the vocabulary"}
			}
		}
	}
	return nil
}

// failure is the error of an event that is an error. vLLM also refuses a request with such an event, after status 200.
func failure(e *event) error {
	w := &web.Error{Kind: web.Broken, Status: int(max(0, min(e.code, 999))),
		Detail: "the engine failed during the generation"}
	switch {
	case e.code == http.StatusTooManyRequests || e.code == http.StatusServiceUnavailable:
		w.Kind = web.Busy
	case e.code >= 400 && e.code < 500:
		w.Kind, w.TooLong, w.Detail = web.Refused, e.long, ""
	}
	return w
}

// drain reads the end of the stream, so that the connection can be used again.
func (s *stream) drain() {
	for range 4 {
		if _, err := s.events.Next(); err != nil {
			return
		}
	}
}

// Close implements remote.Stream.
func (s *stream) Close() {
	s.events.Close()
	if s.closed {
		return
	}
	s.closed = true
	if !s.abort || s.ended {
		return
	}
	// The server tells its own name for the request with the first event. Until then, it can be one of two.
	if len(s.event.id) > 0 {
		s.engine.aborts.Add(string(s.event.id))
		return
	}
	s.engine.aborts.Add("generate-tokens-" + s.id)
	s.engine.aborts.Add(s.id)
}
