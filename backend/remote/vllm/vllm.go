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
	"maps"
	"net/http"
	"strings"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
	"runner/backend/remote/web"
)

// Kind is the name of this kind of engine.
const Kind = "vllm"

// The routes.
const (
	tokensRoute = "/inference/v1/generate"
	textRoute   = "/v1/completions"
	abortRoute  = "/inference/v1/abort_requests"
)

const (
	// maxBias is the largest bias of a token. The same bias below zero forbids a token: vLLM has no stronger one.
	maxBias = 100
	// maxTop is the largest number of alternatives that a server allows unless it is told otherwise.
	maxTop = 20
	// usual is the usual --max-num-seqs, which the server does not tell.
	usual = 256
)

// server is a vLLM server.
type server struct{ *dialect.Engine }

// New returns the engine that a client reaches. vocab is the vocabulary of its model. It may be nil for an engine that
// only describes itself.
func New(c *web.Client, vocab *backend.Vocab) *dialect.Engine {
	s := &server{}
	s.Engine = dialect.New(c, vocab, dialect.Dialect{
		Kind: Kind, Name: "vLLM", MaxTemperature: 2, MaxBias: maxBias,
		NoTokenizer: "start it without --tokens-only and with --enable-scale-out",
		Describe:    s.describe, Request: s.request, Events: events,
		Names: func(id string) []string { return []string{"generate-tokens-" + id, id} },
		Abort: func(names []string) any { return map[string]any{"request_ids": names} },
	})
	return s.Engine
}

func (s *server) describe(ctx context.Context) (f dialect.Found, err error) {
	models, err := s.Models(ctx)
	if err != nil {
		return f, err
	}
	d := &f.Description
	for _, x := range models {
		// Names with a parent are adapters. Further names without one are of the same model.
		if x.Parent == nil && strings.HasPrefix(x.OwnedBy, "vllm") {
			d.Model, d.Path, d.ContextSize = x.ID, x.Root, x.Length
			break
		}
	}
	if d.Model == "" {
		return f, dialect.Malformed("its description is not that of vLLM")
	}
	if d.ContextSize <= 0 { // some servers tell it only here
		reply, err := s.Tokenized(ctx, "a", false)
		if err != nil {
			return f, err
		}
		d.ContextSize = reply.Length
	}
	if d.ContextSize <= 1 {
		return f, dialect.Malformed("it does not say how long a sequence may be")
	}
	d.TrainedContext = d.ContextSize
	if d.Version, err = s.version(ctx); err != nil {
		return f, err
	}
	// If a server that had the route for tokens does not have it any more, the next request notices.
	f.Routes = dialect.Routes{Generate: tokensRoute, Abort: abortRoute}
	if last := s.Last(d); last == nil || last.Routes != f.Routes {
		has, err := s.hasTokensRoute(ctx)
		if err != nil {
			return f, err
		}
		if !has {
			f.Routes = dialect.Routes{Generate: textRoute}
		}
	}
	if d.Vocabulary, err = s.vocabulary(ctx, &f); err != nil {
		return f, err
	}
	d.Salted, d.Unsharing, d.Usual = true, true, usual
	d.Forms = []remote.FormKind{remote.FormJSONSchema, remote.FormRegex, remote.FormChoices, remote.FormGBNF}
	d.Notes = append(d.Notes, "top-p and min-p apply after the temperature")
	if f.Routes.Generate == textRoute {
		d.Notes = append(d.Notes, "it spells all tokens; start it with --enable-scale-out to save that")
	}
	return f, nil
}

// version asks for the version. Not every server tells it.
func (s *server) version(ctx context.Context) (string, error) {
	var reply struct {
		Version string `json:"version"`
	}
	err := s.Client.Get(ctx, "/version", &reply)
	if web.Is(err, web.Missing) {
		return "", nil
	}
	return reply.Version, err
}

// hasTokensRoute reports whether the route for tokens alone can be used. Without --enable-scale-out, vLLM has the route
// and refuses every request to it with 403, so a request is sent that lacks everything.
func (s *server) hasTokensRoute(ctx context.Context) (bool, error) {
	err := s.Client.Post(ctx, tokensRoute, struct{}{}, nil)
	var w *web.Error
	switch {
	case err == nil:
		return false, nil // a page for everything, which is no route of vLLM
	case !errors.As(err, &w) || w.Temporary() || w.Status == http.StatusUnauthorized:
		return false, err
	}
	return w.Kind == web.Refused, nil
}

// vocabulary asks how many tokens the model has. vLLM refuses a bias for a token that the model does not have. Every
// version that has token ids in its replies refuses it; some older ones crashed at it. A version that
// accepted the bias would still refuse the allowed token.
func (s *server) vocabulary(ctx context.Context, f *dialect.Found) (int, error) {
	settings := map[string]any{"max_tokens": 1, "logit_bias": map[backend.Token]int{dialect.NoToken: 0},
		"allowed_token_ids": []backend.Token{dialect.NoToken}}
	request := map[string]any{"model": f.Model, "token_ids": []int{0}, "sampling_params": settings}
	if f.Routes.Generate == textRoute {
		request = map[string]any{"model": f.Model, "prompt": []int{0}}
		maps.Copy(request, settings)
	}
	return s.Vocabulary(ctx, &f.Description, f.Routes.Generate, request)
}

// request makes the request for a route. The route for text has the settings among the other fields.
func (s *server) request(r *remote.Request, found *dialect.Found) any {
	p := &r.Sampling
	settings := s.Sampling(r)
	settings["max_tokens"], settings["seed"] = r.Most, p.Seed&(1<<63-1)
	if len(s.Ends) > 0 {
		settings["stop_token_ids"] = s.Ends
	}
	if s.Few(r) {
		settings["allowed_token_ids"] = r.Allowed
	}
	if bias := s.Bias(r, -maxBias, 0); len(bias) > 0 {
		for t, x := range bias {
			bias[t] = max(-maxBias, min(x, maxBias))
		}
		settings["logit_bias"] = bias
	}
	if r.Form != nil {
		settings["structured_outputs"] = form(r.Form)
	}
	all := map[string]any{"request_id": r.ID, "model": found.Model, "stream": true}
	if salt := dialect.Salt(r); salt != "" {
		all["cache_salt"] = salt
	}
	if found.Routes.Generate == textRoute {
		all["prompt"], all["return_token_ids"] = r.Tokens, true
		all["add_special_tokens"], all["skip_special_tokens"] = false, false
		if p.TopLogprobs >= 0 {
			all["logprobs"], all["return_tokens_as_token_ids"] = min(p.TopLogprobs, maxTop), true
		}
		maps.Copy(all, settings)
		return all
	}
	settings["detokenize"] = false
	if p.TopLogprobs >= 0 {
		settings["logprobs"] = 0
	}
	if p.TopLogprobs > 0 { // the sampled token takes one of the places, even if it is among the best
		settings["logprobs"] = min(p.TopLogprobs+1, maxTop)
	}
	if r.NoCache {
		settings["skip_reading_prefix_cache"] = true
	}
	if r.Form != nil { // a server with a reasoning parser would wait for the end of the reasoning
		all["reasoning_ended"] = true
	}
	all["token_ids"], all["sampling_params"] = r.Tokens, settings
	return all
}

func form(f *remote.Form) map[string]any {
	switch f.Kind {
	case remote.FormRegex:
		return map[string]any{"regex": f.Text}
	case remote.FormGBNF:
		return map[string]any{"grammar": f.Text}
	case remote.FormChoices:
		return map[string]any{"choice": f.List}
	}
	return map[string]any{"json": f.Text}
}
