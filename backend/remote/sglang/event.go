package sglang

import (
	"bytes"

	"runner/backend"
	"runner/backend/remote/scan"
	"runner/backend/remote/web"
)

const (
	// mostTokens is how many tokens one event may have. An event can repeat all tokens of a generation.
	mostTokens = 1 << 22
	// mostTop is how many alternatives one token may have.
	mostTop = 64
)

// event is what one event of a stream says. Its memory is used again for the next event.
//
// An event tells how many tokens the generation has. It has the last of them, or all of them. The same holds for their
// probabilities. So the lists are read from their end: before the count is known, all of a list is kept.
type event struct {
	reader scan.Reader
	tokens []backend.Token
	total  int
	// cached is how many tokens of the prompt the engine had, or -1 if it does not say.
	cached int
	// probs has an entry for each probability. The alternatives of entry i are tops[i-1 to i] of top.
	probs []backend.TokenLogprob
	top   []backend.TokenLogprob
	tops  []int
	// finish says why the generation ended; empty if it goes on. code is a status code that comes with it.
	finish []byte
	failed bool
	code   int64
	// long says that an error is about a prompt that is too long.
	long bool
}

// read reads an event. The error is web.Malformed.
func (e *event) read(data []byte) error {
	e.tokens, e.total, e.probs, e.top, e.tops = e.tokens[:0], -1, e.probs[:0], e.top[:0], e.tops[:0]
	e.finish, e.failed, e.code, e.long, e.cached = e.finish[:0], false, 0, false, -1
	r := &e.reader
	r.Reset(data)
	r.Object(func(name []byte) {
		switch string(name) {
		case "output_ids":
			if !r.Null() {
				r.Array(func() { e.tokens = append(e.tokens, e.token()) })
			}
		case "meta_info":
			r.Object(e.meta)
		case "error":
			if !r.Null() {
				e.failed = true
				e.failure()
			}
		default:
			r.Skip()
		}
	})
	if r.End() != nil {
		return &web.Error{Kind: web.Malformed, Detail: "an event is not the JSON that was expected"}
	}
	return nil
}

// token reads a token id.
func (e *event) token() backend.Token {
	r := &e.reader
	n := r.Int()
	if n < 0 || n > 1<<31-1 || len(e.tokens) >= mostTokens {
		r.Fail()
		return 0
	}
	return backend.Token(n)
}

// meta reads a member of what an event says about the generation.
func (e *event) meta(name []byte) {
	r := &e.reader
	switch string(name) {
	case "completion_tokens":
		n := r.Int()
		if n < 0 || n > mostTokens {
			r.Fail()
		}
		e.total = int(n)
	case "cached_tokens":
		if !r.Null() {
			e.cached = int(max(0, min(r.Int(), mostTokens)))
		}
	case "finish_reason":
		if !r.Null() {
			r.Object(e.reason)
		}
	case "output_token_logprobs":
		if !r.Null() {
			r.Array(func() {
				if len(e.probs) >= mostTokens {
					r.Fail()
				}
				e.probs = append(e.probs, e.pair())
			})
		}
	case "output_top_logprobs":
		if !r.Null() {
			r.Array(func() {
				before := len(e.top)
				if !r.Null() {
					r.Array(func() { e.top = append(e.top, e.pair()) })
				}
				if len(e.top)-before > mostTop {
					r.Fail()
				}
				e.tops = append(e.tops, len(e.top))
			})
		}
	default:
		r.Skip()
	}
}

// reason reads a member of the reason why a generation ended.
func (e *event) reason(name []byte) {
	r := &e.reader
	switch string(name) {
	case "type":
		e.finish = append(e.finish, r.String()...)
	case "status_code":
		if !r.Null() {
			e.code = r.Int()
		}
	case "message":
		e.message()
	default:
		r.Skip()
	}
}

// failure reads an error.
func (e *event) failure() {
	r := &e.reader
	if r.Kind() != '{' {
		r.Skip()
		return
	}
	r.Object(func(name []byte) {
		switch {
		case string(name) == "code" && r.Kind() >= '0' && r.Kind() <= '9':
			e.code = r.Int()
		case string(name) == "message":
			e.message()
		default:
			r.Skip()
		}
	})
}

// message reads what an error says, which is the only way to know that a prompt is too long.
func (e *event) message() {
	text := e.reader.Raw()
	e.long = bytes.Contains(text, []byte("context length")) || bytes.Contains(text, []byte("maximum allowed length"))
}

// pair reads a probability with its token: a list whose third entry is the token's text or null.
func (e *event) pair() backend.TokenLogprob {
	r := &e.reader
	x := backend.TokenLogprob{Token: backend.NoToken}
	at := 0
	r.Array(func() {
		switch at++; at {
		case 1:
			x.Logprob = float32(min(r.Float(), 0))
		case 2:
			x.Token = e.token()
		default:
			r.Skip()
		}
	})
	if x.Token == backend.NoToken {
		r.Fail()
	}
	return x
}

// alternatives returns the alternatives of an entry of probs.
func (e *event) alternatives(i int) []backend.TokenLogprob {
	if i >= len(e.tops) {
		return nil
	}
	begin := 0
	if i > 0 {
		begin = e.tops[i-1]
	}
	return e.top[begin:e.tops[i]]
}
