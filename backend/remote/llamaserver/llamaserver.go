// Package llamaserver speaks with llama-server, the HTTP server of llama.cpp.
//
// It uses the server's own routes, because those for other formats do not take token ids.
package llamaserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
	"runner/backend/remote/web"
)

// Kind is the name of this kind of engine.
const Kind = "llama-server"

const (
	route = "/completion"
	// lift is added to the logits of allowed tokens.
	lift = 1000
	// noAlias is what older servers without an alias call their model in the replies of the route.
	noAlias = "gpt-3.5-turbo"
)

// server is a llama-server.
type server struct {
	*dialect.Engine
	// parts are the tokens that are not whole characters.
	parts func() *parts
}

// New returns the engine that a client reaches. vocab is the vocabulary of its model. It may be nil for an engine that
// only describes itself.
func New(c *web.Client, vocab *backend.Vocab) *dialect.Engine {
	s := &server{parts: sync.OnceValue(func() *parts { return partsOf(vocab) })}
	s.Engine = dialect.New(c, vocab, dialect.Dialect{
		Kind: Kind, Name: Kind, Routes: dialect.Routes{Generate: route},
		Settings: []string{"temperature", "top_k", "top_p", "min_p", "typical_p"},
		Tokenize: func(text string, special bool) any {
			return map[string]any{"content": text, "parse_special": special, "add_special": false}
		},
		Describe: s.describe, Single: s.single, Request: s.request, Events: s.events,
	})
	return s.Engine
}

// props is the reply of /props.
type props struct {
	Defaults struct {
		Context int `json:"n_ctx"`
	} `json:"default_generation_settings"`
	Slots     int    `json:"total_slots"`
	Path      string `json:"model_path"`
	Alias     string `json:"model_alias"`
	Format    string `json:"model_ftype"`
	Template  string `json:"chat_template"`
	BuildInfo string `json:"build_info"`
}

func (s *server) describe(ctx context.Context) (f dialect.Found, err error) {
	var p props
	if err := s.Client.Get(ctx, "/props", &p); err != nil {
		return f, err
	}
	models, err := s.Models(ctx)
	if err != nil {
		return f, err
	}
	if len(models) != 1 || models[0].OwnedBy != "llamacpp" || p.Slots <= 0 || p.Defaults.Context <= 0 {
		return f, dialect.Malformed("its description is not that of a llama-server with one model")
	}
	m := &models[0]
	f.Description = remote.Description{
		Version: p.BuildInfo, Model: m.ID, Names: append(m.Aliases, p.Alias, p.Path, noAlias),
		Path: p.Path, ContextSize: p.Defaults.Context,
		TrainedContext: m.Meta.TrainedContext, Parallel: p.Slots, Vocabulary: m.Meta.Vocabulary,
		Parameters: m.Meta.Parameters, Bytes: m.Meta.Size, Quantization: p.Format, ChatTemplate: p.Template, Unsharing: true,
		Forms: []remote.FormKind{remote.FormJSONSchema, remote.FormChoices, remote.FormGBNF},
	}
	return f, nil
}

// request makes the request for a stream, or for one token.
func (s *server) request(r *remote.Request, _ *dialect.Found) any {
	p := &r.Sampling
	all := s.Sampling(r)
	maps.Copy(all, map[string]any{"prompt": r.Tokens, "n_predict": r.Most, "cache_prompt": !r.NoCache,
		"return_tokens": true, "seed": p.Seed & math.MaxInt32,
		"samplers": []string{"top_k", "typ_p", "top_p", "min_p", "temperature"}})
	if r.Most > 1 {
		// The progress says how much of the prompt was cached. The last event would repeat the prompt and all settings.
		all["stream"], all["return_progress"] = true, true
		all["response_fields"] = []string{"content", "tokens", "stop", "tokens_predicted", "model"}
	}
	if p.TopLogprobs >= 0 {
		all["n_probs"] = max(1, p.TopLogprobs)
	}
	var bias [][2]any
	forbidden := float32(math.Inf(-1))
	for t, x := range s.Bias(r, forbidden, lift) {
		if x == forbidden {
			bias = append(bias, [2]any{t, false})
		} else {
			bias = append(bias, [2]any{t, x})
		}
	}
	if len(bias) > 0 {
		all["logit_bias"] = bias
	}
	switch f := r.Form; {
	case f == nil:
	case f.Kind == remote.FormJSONSchema && json.Valid([]byte(f.Text)):
		all["json_schema"] = json.RawMessage(f.Text)
	case f.Kind == remote.FormChoices:
		all["grammar"] = choices(f.List)
	default:
		all["grammar"] = f.Text
	}
	return all
}

// choices returns a grammar of one of several texts.
func choices(list []string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = `"` + quote.Replace(text) + `"`
	}
	return "root ::= " + strings.Join(quoted, " | ")
}

// single answers a request for one token, which is not streamed: a stream leaves out tokens that end inside a
// character.
func (s *server) single(ctx context.Context, r *remote.Request) (*dialect.Event, error) {
	if r.Most > 1 {
		return nil, nil
	}
	var e event
	if err := s.Client.Post(ctx, route, s.request(r, nil), &e); err != nil {
		return nil, err
	}
	if len(e.Tokens) != 1 {
		return nil, dialect.Malformed(fmt.Sprintf("it sent %d tokens for one", len(e.Tokens)))
	}
	x, err := e.sample(r.Sampling.TopLogprobs)
	if err == nil && r.Sampling.TopLogprobs >= 0 && len(e.Probabilities) == 0 {
		err = s.score(ctx, r, r.Tokens, &x)
	}
	return &dialect.Event{Samples: []remote.Sample{x}, Model: e.Model}, err
}
