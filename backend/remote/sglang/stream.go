package sglang

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"runner/backend/remote"
	"runner/backend/remote/web"
)

// stream reads the tokens of a generation. An event can have several.
type stream struct {
	engine *Engine
	events *web.Events
	lease  lease
	most   int
	top    int

	event event
	// given counts the tokens that were returned, and come those that have come.
	given, come int
	ended       bool
}

// done ends the events.
var done = []byte("[DONE]")

// mostSkipped is how many events without a token may come in a row.
const mostSkipped = 1024

// Next implements remote.Stream.
func (s *stream) Next(to *remote.Sample) error {
	for skipped := 0; s.given >= s.come; skipped++ {
		switch {
		case s.ended, s.given == s.most:
			return io.EOF
		case skipped == mostSkipped:
			return &web.Error{Kind: web.Malformed, Detail: "it sends events without tokens"}
		}
		if err := s.read(); err != nil {
			return err
		}
	}
	e := &s.event
	back := s.come - s.given // how far from the end of the lists
	s.given++
	if s.ended && back == 1 {
		defer s.drain()
	}
	to.Token, to.Logprob, to.Top = e.tokens[len(e.tokens)-back], 0, to.Top[:0]
	if s.top < 0 {
		return nil
	}
	i := len(e.probs) - back
	to.Logprob = e.probs[i].Logprob
	for _, x := range e.alternatives(i) {
		if len(to.Top) < s.top {
			to.Top = append(to.Top, x)
		}
	}
	return nil
}

// Reused implements remote.Reporting.
func (s *stream) Reused() (tokens int, ok bool) { return s.event.cached, s.event.cached >= 0 }

// read reads the next event.
func (s *stream) read() error {
	data, err := s.events.Next()
	if errors.Is(err, io.EOF) || err == nil && bytes.Equal(data, done) {
		return &web.Error{Kind: web.Broken, Detail: "the stream ends before the generation"}
	} else if err != nil {
		return err
	}
	e := &s.event
	if err := e.read(data); err != nil {
		return err
	}
	if e.failed {
		if e.code == 0 {
			e.code = http.StatusBadRequest // SGLang sends an error without a code for a request that it does not take
		}
		return failure(e)
	}
	switch string(e.finish) {
	case "":
	case "abort":
		return failure(e)
	default:
		s.ended = true
	}
	if e.total < 0 { // not told: an event has all tokens that are new
		e.total = s.come + len(e.tokens)
	}
	return s.check()
}

// check counts the new tokens of an event, and reports one whose tokens cannot be used.
func (s *stream) check() error {
	e := &s.event
	fresh := e.total - s.come
	switch {
	case fresh < 0 || fresh > len(e.tokens):
		return &web.Error{Kind: web.Malformed, Detail: "the tokens of an event cannot be counted"}
	case e.total > s.most:
		return &web.Error{Kind: web.Malformed, Detail: "it sends more tokens than were asked for"}
	case s.top >= 0 && fresh > len(e.probs), s.top > 0 && fresh > 0 && len(e.tops) != len(e.probs):
		return &web.Error{Kind: web.Malformed, Detail: "it sent a token without its probability"}
	}
	s.come = e.total
	v := s.engine.vocab
	for back := 1; back <= fresh; back++ {
		t := e.tokens[len(e.tokens)-back]
		if v != nil && !v.Valid(t) {
			return &web.Error{Kind: web.Malformed, Detail: "it sent a token that is not in the vocabulary"}
		}
		if s.top < 0 {
			continue
		}
		i := len(e.probs) - back
		if e.probs[i].Token != t {
			return &web.Error{Kind: web.Malformed, Detail: "it sent a token with the probability of another one"}
		}
		for _, x := range e.alternatives(i) {
			if v != nil && !v.Valid(x.Token) {
				return &web.Error{Kind: web.Malformed, Detail: "it sent an alternative that is not in the vocabulary"}
			}
		}
	}
	return nil
}

// failure is the error of an event that is an error, or of a generation that the server gave up.
func failure(e *event) error {
	w := &web.Error{Kind: web.Broken, Status: int(max(0, min(e.code, 999))), Detail: "the engine gave the generation up"}
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

// Close implements remote.Stream. The connection of a generation that goes on is dropped after the abort.
func (s *stream) Close() {
	if !s.ended {
		s.lease.leave()
		return
	}
	s.events.Close()
	s.lease.end()
}

// single is a stream of one token.
type single struct {
	sample remote.Sample
	read   bool
}

// Next implements remote.Stream.
func (s *single) Next(to *remote.Sample) error {
	if s.read {
		return io.EOF
	}
	s.read = true
	to.Token, to.Logprob, to.Top = s.sample.Token, s.sample.Logprob, append(to.Top[:0], s.sample.Top...)
	return nil
}

// Close implements remote.Stream.
func (s *single) Close() {}
