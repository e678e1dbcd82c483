// Package vllm speaks with vLLM.
//
// Two of its routes generate. /inference/v1/generate takes and gives token ids alone; a server has it with
// --enable-scale-out. Without it, /v1/completions serves, which also takes and gives token ids, and spells them too.
// That costs the server more. The package uses the first one that the server has.
//
// A server with --tokens-only cannot be used: it has no tokenizer, so nobody can tell whether its model has the
// vocabulary that the runner expects.
//
// vLLM divides by the temperature before it applies min-p, top-k and top-p. With other temperatures than 1, top-p and
// min-p therefore keep other tokens than package sample does. It takes temperatures from 0.01 to 2, and 0.
package vllm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/abort"
	"runner/backend/remote/body"
	"runner/backend/remote/web"
)

// Kind is the name of this kind of engine.
const Kind = "vllm"

// The routes that generate.
const (
	tokensRoute = "/inference/v1/generate"
	textRoute   = "/v1/completions"
	abortRoute  = "/inference/v1/abort_requests"
)

// Engine is a vLLM server.
type Engine struct {
	client *web.Client
	vocab  *backend.Vocab
	ends   []backend.Token
	aborts *abort.Queue
	// about is what Describe found last; nil before.
	about atomic.Pointer[about]
}

// about is what a request depends on.
type about struct {
	model, version string
	// tokens says that the server has the route for tokens alone.
	tokens bool
	// vocabulary is how many tokens the model has, or 0 if the server does not say so.
	vocabulary int
}

// New returns the engine that a client reaches. vocab is the vocabulary of its model. It may be nil for an engine that
// only describes itself.
func New(c *web.Client, vocab *backend.Vocab) *Engine {
	e := &Engine{client: c, vocab: vocab, ends: body.Ends(vocab)}
	e.aborts = abort.New(func(ctx context.Context, ids []string) {
		_ = c.Post(ctx, abortRoute, map[string]any{"request_ids": ids}, nil) // the connection has been dropped, too
	})
	return e
}

// Kind implements remote.Engine.
func (e *Engine) Kind() string { return Kind }

// models is the reply of /v1/models.
type models struct {
	Data []struct {
		ID      string  `json:"id"`
		OwnedBy string  `json:"owned_by"`
		Root    string  `json:"root"`
		Parent  *string `json:"parent"`
		Length  int     `json:"max_model_len"`
	} `json:"data"`
}

// Describe implements remote.Engine.
func (e *Engine) Describe(ctx context.Context) (d remote.Description, err error) {
	var m models
	if err := e.client.Get(ctx, "/v1/models", &m); err != nil {
		return d, err
	}
	found := false
	for _, x := range m.Data {
		// Names with a parent are adapters. Further names without one are of the same model.
		if x.Parent == nil && strings.HasPrefix(x.OwnedBy, "vllm") {
			d.Model, d.Path, d.ContextSize, found = x.ID, x.Root, x.Length, true
			break
		}
	}
	if !found || d.Model == "" {
		return d, &web.Error{Kind: web.Malformed, Detail: "its description is not that of vLLM"}
	}
	if d.ContextSize <= 0 { // some servers tell it only here
		reply, err := e.tokenize(ctx, "a")
		if err != nil {
			return d, err
		}
		d.ContextSize = reply.Length
	}
	if d.ContextSize <= 1 {
		return d, &web.Error{Kind: web.Malformed, Detail: "it does not say how long a sequence may be"}
	}
	d.TrainedContext = d.ContextSize
	if d.Version, err = e.version(ctx); err != nil {
		return d, err
	}
	a := about{model: d.Model, version: d.Version}
	old := e.about.Load()
	same := old != nil && old.model == d.Model && old.version == d.Version
	if same && old.tokens {
		a.tokens = true // if it is not so any more, Open notices
	} else if a.tokens, err = e.hasTokensRoute(ctx); err != nil {
		return d, err
	}
	if same {
		a.vocabulary = old.vocabulary
	} else if a.vocabulary, err = e.vocabulary(ctx, &a); err != nil {
		return d, err
	}
	e.about.Store(&a)
	d.Vocabulary = a.vocabulary
	d.Salted, d.Unsharing, d.Usual = true, true, usual
	d.Forms = []remote.FormKind{remote.FormJSONSchema, remote.FormRegex, remote.FormChoices, remote.FormGBNF}
	d.Notes = append(d.Notes, "top-p and min-p apply after the temperature")
	if !a.tokens {
		d.Notes = append(d.Notes, "it spells all tokens; start it with --enable-scale-out to save that")
	}
	return d, nil
}

// usual is the usual --max-num-seqs, which the server does not tell.
const usual = 256

// version asks for the version. Not every server tells it.
func (e *Engine) version(ctx context.Context) (string, error) {
	var reply struct {
		Version string `json:"version"`
	}
	err := e.client.Get(ctx, "/version", &reply)
	var w *web.Error
	if errors.As(err, &w) && w.Kind == web.Missing {
		return "", nil
	}
	return reply.Version, err
}

// hasTokensRoute reports whether the route for tokens alone can be used. Without --enable-scale-out, vLLM has the route
// and refuses every request to it with 403, so a request is sent that lacks everything.
func (e *Engine) hasTokensRoute(ctx context.Context) (bool, error) {
	err := e.client.Post(ctx, tokensRoute, struct{}{}, nil)
	var w *web.Error
	switch {
	case err == nil:
		return false, nil // a page for everything, which is no route of vLLM
	case !errors.As(err, &w) || w.Temporary() || w.Status == http.StatusUnauthorized:
		return false, err
	}
	return w.Kind == web.Refused, nil
}

// noToken is no token of any model.
const noToken = math.MaxInt32

// vocabulary asks how many tokens the model has. The answer is 0 if the server does not say so. vLLM says it only where
// it refuses a bias for a token that the model does not have, so such a request is sent. Every version that has token
// ids in its replies refuses it; some older ones crashed at it. One that took the bias would refuse the allowed token.
func (e *Engine) vocabulary(ctx context.Context, a *about) (int, error) {
	settings := map[string]any{"max_tokens": 1, "logit_bias": map[string]int{strconv.Itoa(noToken): 0},
		"allowed_token_ids": []int{noToken}}
	route := textRoute
	request := map[string]any{"model": a.model, "prompt": []int{0}}
	if a.tokens {
		route, request = tokensRoute, map[string]any{"model": a.model, "token_ids": []int{0}, "sampling_params": settings}
	} else {
		maps.Copy(request, settings)
	}
	err := e.client.Post(ctx, route, request, nil)
	var w *web.Error
	if errors.As(err, &w) && w.Status != 0 && w.Kind != web.Busy && w.Kind != web.Denied {
		return w.Vocabulary, nil // other requests may be answered all the same
	}
	return 0, err
}

// Check implements remote.Engine.
func (e *Engine) Check(p *backend.Sampling) error {
	switch plain := p.Plain(); {
	case plain.TypicalP != 1:
		return &backend.SettingError{Setting: "TypicalP", Detail: "vLLM has no typical-p"}
	case plain.RepetitionPenalty != 1:
		return &backend.SettingError{Setting: "RepetitionPenalty",
			Detail: "vLLM counts the prompt for the repetition penalty, so it has no equal"}
	case p.Temperature > 2:
		return &backend.SettingError{Setting: "Temperature",
			Detail: fmt.Sprintf("vLLM takes temperatures up to 2, not %v", p.Temperature)}
	}
	for _, b := range p.Bias {
		if b.Bias > maxBias {
			return &backend.SettingError{Setting: "Bias",
				Detail: fmt.Sprintf("vLLM takes a logit bias up to %d, not %v", maxBias, b.Bias)}
		}
	}
	return nil
}

// tokenized is the reply of /tokenize.
type tokenized struct {
	Tokens []backend.Token `json:"tokens"`
	Length int             `json:"max_model_len"`
}

func (e *Engine) tokenize(ctx context.Context, text string) (reply tokenized, err error) {
	err = e.client.Post(ctx, "/tokenize", map[string]any{"prompt": text, "add_special_tokens": false}, &reply)
	var w *web.Error
	if errors.As(err, &w) && w.Kind == web.Missing {
		return reply, &web.Error{Kind: web.Missing, Status: w.Status,
			Detail: "it has no tokenizer; start it without --tokens-only and with --enable-scale-out"}
	}
	return reply, err
}

// Encode implements remote.Engine. vLLM reads names of control tokens in every text, so without special, the text must
// have none.
func (e *Engine) Encode(ctx context.Context, text string, special bool) ([]backend.Token, error) {
	if e.vocab != nil && !special {
		for name := range e.vocab.Specials {
			if strings.Contains(text, name) {
				return nil, errors.New("vLLM cannot tokenize the name of a control token as text")
			}
		}
	}
	reply, err := e.tokenize(ctx, text)
	return reply.Tokens, err
}

// Decode implements remote.Engine.
func (e *Engine) Decode(ctx context.Context, tokens []backend.Token) (string, error) {
	var reply struct {
		Prompt string `json:"prompt"`
	}
	err := e.client.Post(ctx, "/detokenize", map[string]any{"tokens": tokens}, &reply)
	return reply.Prompt, err
}

// Open implements remote.Engine.
func (e *Engine) Open(ctx context.Context, r *remote.Request) (remote.Stream, error) {
	a := e.about.Load()
	if a == nil {
		if _, err := e.Describe(ctx); err != nil {
			return nil, err
		}
		a = e.about.Load()
	}
	events, err := e.stream(ctx, r, a)
	var w *web.Error
	if a.tokens && errors.As(err, &w) && w.Status == http.StatusForbidden {
		// The server may have been started again without its route for tokens.
		e.about.Store(nil)
		if _, err := e.Describe(ctx); err != nil {
			return nil, err
		}
		if b := e.about.Load(); b != nil && !b.tokens {
			a = b
			events, err = e.stream(ctx, r, a)
		}
	}
	if err != nil {
		return nil, err
	}
	return &stream{engine: e, events: events, id: r.ID, abort: a.tokens, most: r.Most, top: r.Sampling.TopLogprobs}, nil
}

// stream sends a request to the route that the server has.
func (e *Engine) stream(ctx context.Context, r *remote.Request, a *about) (*web.Events, error) {
	if a.tokens {
		return e.client.Stream(ctx, tokensRoute, e.tokensBody(r, a.model))
	}
	return e.client.Stream(ctx, textRoute, e.textBody(r, a.model))
}

var _ remote.Engine = (*Engine)(nil)
