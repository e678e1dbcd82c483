package vllm

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"runner/backend"
	"runner/backend/remote/scan"
	"runner/backend/remote/web"
)

const (
	// mostTokens is how many tokens one event may have, and mostTop how many alternatives one token may have.
	mostTokens = 4096
	mostTop    = 64
)

// event is what one event of a stream says. Its memory is used again for the next event.
type event struct {
	reader scan.Reader
	// id is the server's name for the request.
	id []byte
	// model is the server's name for the model; empty if the event has none.
	model  []byte
	tokens []backend.Token
	probs  []probability
	// probed is how many entries of probs belong to this event.
	probed int
	// finish says why the generation ended; empty if it goes on.
	finish []byte
	// failed says that the event is an error, with the status code. long says that the prompt is too long.
	failed, long bool
	code         int64
	// named counts what the two lists of the route for text have told so far.
	named, valued, topped int
}

// probability is what the server says about a sampled token.
type probability struct {
	token   backend.Token
	known   bool // whether logprob is set
	logprob float32
	// rank is 1 for the most likely token, or 0 if it is not told.
	rank int64
	top  []backend.TokenLogprob
}

// read reads an event. The error is web.Malformed.
func (e *event) read(data []byte) error {
	e.id, e.tokens, e.probed, e.finish = e.id[:0], e.tokens[:0], 0, e.finish[:0]
	e.failed, e.long, e.code, e.named, e.valued, e.topped = false, false, 0, 0, 0, 0
	r := &e.reader
	r.Reset(data)
	e.model = e.model[:0]
	r.Object(func(name []byte) {
		switch string(name) {
		case "request_id":
			e.id = append(e.id, r.String()...)
		case "model":
			if !r.Null() {
				e.model = append(e.model, r.String()...)
			}
		case "choices":
			r.Array(func() { r.Object(e.choice) })
		case "error":
			if !r.Null() {
				e.failed = true
				e.failure()
			}
		default:
			r.Skip()
		}
	})
	if e.named != e.valued || e.topped > e.named {
		r.Fail()
	}
	if r.End() != nil {
		return &web.Error{Kind: web.Malformed, Detail: "an event is not the JSON that was expected"}
	}
	return nil
}

// failure reads an error. Some servers send its message alone.
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
			text := r.Raw() // the only way to know that a prompt is too long
			e.long = bytes.Contains(text, []byte("max_model_len")) || bytes.Contains(text, []byte("context length"))
		default:
			r.Skip()
		}
	})
}

// choice reads a member of a choice.
func (e *event) choice(name []byte) {
	r := &e.reader
	switch string(name) {
	case "index":
		if r.Int() != 0 { // only one was asked for
			r.Fail()
		}
	case "token_ids":
		if !r.Null() {
			r.Array(func() {
				e.tokens = append(e.tokens, token(r))
				if len(e.tokens) > mostTokens {
					r.Fail()
				}
			})
		}
	case "finish_reason":
		if !r.Null() {
			e.finish = append(e.finish, r.String()...)
		}
	case "logprobs":
		if !r.Null() {
			r.Object(e.logprobs)
		}
	default:
		r.Skip()
	}
}

// token reads a token id.
func token(r *scan.Reader) backend.Token {
	n := r.Int()
	if n < 0 || n > 1<<31-1 {
		r.Fail()
		return 0
	}
	return backend.Token(n)
}

// prefix comes before the id where a token is written as text.
var prefix = []byte("token_id:")

// tokenName reads a token that is written as text.
func tokenName(r *scan.Reader, text []byte) backend.Token {
	digits, ok := bytes.CutPrefix(text, prefix)
	n, err := strconv.ParseInt(string(digits), 10, 32)
	if !ok || err != nil || n < 0 {
		r.Fail()
		return 0
	}
	return backend.Token(n)
}

// probe returns the place for the probability of the token at an index.
func (e *event) probe(i int) *probability {
	if i >= mostTokens {
		e.reader.Fail()
		i = 0
	}
	for len(e.probs) <= i {
		e.probs = append(e.probs, probability{})
	}
	for e.probed <= i {
		p := &e.probs[e.probed]
		*p = probability{top: p.top[:0]}
		e.probed++
	}
	return &e.probs[i]
}

// logprobs reads a member of the probabilities. The route for tokens has a list of objects, and the route for text has
// a list for each of their fields.
func (e *event) logprobs(name []byte) {
	r := &e.reader
	if r.Null() {
		return
	}
	switch string(name) {
	case "content":
		r.Array(func() { e.content(e.probe(e.probed)) })
	case "tokens":
		r.Array(func() {
			e.probe(e.named).token = tokenName(r, r.String())
			e.named++
		})
	case "token_logprobs":
		r.Array(func() {
			if p := e.probe(e.valued); !r.Null() {
				p.logprob, p.known = logprob(r), true
			}
			e.valued++
		})
	case "top_logprobs":
		r.Array(func() {
			p := e.probe(e.topped)
			e.topped++
			if r.Null() {
				return
			}
			r.Object(func(name []byte) { e.alternative(p, tokenName(r, name), logprob(r)) })
		})
	default:
		r.Skip()
	}
}

// logprob reads the logarithm of a probability.
func logprob(r *scan.Reader) float32 { return float32(min(r.Float(), 0)) }

// alternative adds an alternative to a token.
func (e *event) alternative(p *probability, t backend.Token, logprob float32) {
	if p.top = append(p.top, backend.TokenLogprob{Token: t, Logprob: logprob}); len(p.top) > mostTop {
		e.reader.Fail()
	}
}

// content reads what the route for tokens says about one token.
func (e *event) content(p *probability) {
	r := &e.reader
	p.token = backend.NoToken
	r.Object(func(name []byte) {
		switch string(name) {
		case "top_logprobs":
			if !r.Null() {
				r.Array(func() {
					t, x := backend.NoToken, float32(0)
					r.Object(func(name []byte) { e.entry(name, &t, &x, nil) })
					e.alternative(p, t, x)
				})
			}
		default:
			if e.entry(name, &p.token, &p.logprob, &p.rank) {
				p.known = true
			}
		}
	})
	if p.token == backend.NoToken {
		r.Fail()
	}
}

// entry reads a member of a token with its probability. It reports whether it was the probability. Older servers write
// the id as text.
func (e *event) entry(name []byte, t *backend.Token, x *float32, rank *int64) bool {
	r := &e.reader
	switch string(name) {
	case "token_id":
		*t = token(r)
	case "token":
		if *t == backend.NoToken && r.Kind() == '"' {
			*t = tokenName(r, r.String())
			return false
		}
		r.Skip()
	case "logprob":
		*x = logprob(r)
		return true
	case "rank":
		if rank != nil && !r.Null() {
			*rank = r.Int()
			return false
		}
		r.Skip()
	default:
		r.Skip()
	}
	return false
}

// best sorts the alternatives, best first, and keeps the first ones. The sampled token is among them only if it is one
// of the best.
func (p *probability) best(top int) []backend.TokenLogprob {
	list := p.top
	if p.rank > int64(top) {
		list = slices.DeleteFunc(list, func(x backend.TokenLogprob) bool { return x.Token == p.token })
	}
	slices.SortFunc(list, func(a, b backend.TokenLogprob) int {
		return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.Token, b.Token))
	})
	return list[:min(top, len(list))]
}
