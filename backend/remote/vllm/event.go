package vllm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
)

// event is one event of a stream.
type event struct {
	// Request is the server's name for the request.
	Request string `json:"request_id"`
	Model   string `json:"model"`
	Choices []struct {
		Index  int             `json:"index"`
		Tokens []backend.Token `json:"token_ids"`
		Finish string          `json:"finish_reason"`
		// The route for tokens has a list of objects, and the route for text has a list for each of their fields.
		Probabilities struct {
			Content []probability       `json:"content"`
			Names   []name              `json:"tokens"`
			Values  []*float64          `json:"token_logprobs"`
			Top     []map[name]*float64 `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	Error json.RawMessage `json:"error"`
}

// probability is what the server says about a token.
type probability struct {
	ID *backend.Token `json:"token_id"`
	// Text is the id as text in older servers.
	Text    string   `json:"token"`
	Logprob *float64 `json:"logprob"`
	// Rank is 1 for the most likely token, or 0 if it is not told.
	Rank int           `json:"rank"`
	Top  []probability `json:"top_logprobs"`
}

// name is a token that is written as text.
type name backend.Token

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *name) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "token_id:")
	id, err := strconv.ParseInt(digits, 10, 32)
	if *n = name(id); !ok || err != nil {
		return fmt.Errorf("%.40q is not the name of a token", text)
	}
	return nil
}

// events reads the events of a stream.
func events(_ context.Context, r *remote.Request) func(data []byte) (dialect.Event, error) {
	came := false
	return func(data []byte) (out dialect.Event, err error) {
		var e event
		if err := dialect.Read(data, &e); err != nil {
			return out, err
		}
		if err := dialect.Failed(e.Error, 0); err != nil {
			return out, err
		}
		out.Name, out.Model = e.Request, e.Model
		if len(e.Choices) == 0 {
			return out, nil
		}
		c := &e.Choices[0]
		if c.Finish == "abort" || c.Finish == "error" {
			return out, dialect.GaveUp(0, nil)
		}
		if len(e.Choices) > 1 || c.Index != 0 { // only one was asked for
			return out, dialect.ErrUncounted
		}
		came = came || len(c.Tokens) > 0
		if out.Ended = c.Finish != ""; out.Ended && !came {
			return out, dialect.Malformed("it sends no token ids, which vLLM 0.10.2 and later do")
		}
		out.Samples, err = e.samples(r.Sampling.TopLogprobs)
		return out, err
	}
}

// samples returns the tokens of an event. top is as in backend.Sampling.
func (e *event) samples(top int) ([]remote.Sample, error) {
	c := &e.Choices[0]
	list := make([]remote.Sample, len(c.Tokens))
	for i, t := range c.Tokens {
		list[i].Token = t
	}
	if top < 0 {
		return list, nil
	}
	p := &c.Probabilities
	all := p.Content
	for i, n := range p.Names {
		x := probability{ID: (*backend.Token)(&n)}
		if i < len(p.Values) {
			x.Logprob = p.Values[i]
		}
		if i < len(p.Top) {
			for t, logprob := range p.Top[i] {
				x.Top = append(x.Top, probability{ID: (*backend.Token)(&t), Logprob: logprob})
			}
		}
		all = append(all, x)
	}
	if len(all) < len(list) {
		return nil, dialect.ErrImprobable
	}
	for i := range list {
		one, ok := all[i].pair()
		if !ok || one.Token != list[i].Token {
			return nil, dialect.ErrImprobable
		}
		list[i].Logprob = one.Logprob
		var err error
		if list[i].Top, err = all[i].best(one.Token, top); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// pair returns the token and its probability.
func (p *probability) pair() (x backend.TokenLogprob, ok bool) {
	var n name
	switch {
	case p.Logprob == nil:
		return x, false
	case p.ID != nil:
		x.Token = *p.ID
	case n.UnmarshalText([]byte(p.Text)) != nil:
		return x, false
	default:
		x.Token = backend.Token(n)
	}
	x.Logprob = float32(min(*p.Logprob, 0))
	return x, true
}

// best returns the alternatives of a token, best first. The token is among them only if it is one of the best.
func (p *probability) best(t backend.Token, top int) (list []backend.TokenLogprob, err error) {
	for i := range p.Top {
		x, ok := p.Top[i].pair()
		if !ok {
			return nil, dialect.ErrImprobable
		}
		if x.Token != t || p.Rank <= top {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b backend.TokenLogprob) int {
		return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.Token, b.Token))
	})
	return list, nil
}
