// Package sglang speaks with SGLang by its own route, /generate.
//
// SGLang's probabilities come after the temperature and the bias, while those of package backend come before. For a
// request where that differs, each token is a request of its own, and its probability is asked for in a second one.
//
// SGLang divides by the temperature before it applies top-p and min-p. With other temperatures than 1, they therefore
// keep other tokens than package sample does. Seeds have an effect only if the server runs with
// --enable-deterministic-inference.
//
// Unless it runs with --incremental-streaming-output, each event of a stream repeats all tokens before.
package sglang

import (
	"context"
	"fmt"
	"slices"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
	"runner/backend/remote/web"
)

// Kind is the name of this kind of engine.
const Kind = "sglang"

const (
	route = "/generate"
	// lift and forbid are the bias of allowed and of forbidden tokens. maxBias is the largest of others, far below lift.
	lift, forbid, maxBias = 500, -1000, 100
	// usual is how many requests a server that does not tell usually takes at a time.
	usual = 256
)

// server is an SGLang server.
type server struct{ *dialect.Engine }

// New returns the engine that a client reaches. vocab is the vocabulary of its model. It may be nil for an engine that
// only describes itself.
func New(c *web.Client, vocab *backend.Vocab) *dialect.Engine {
	s := &server{}
	s.Engine = dialect.New(c, vocab, dialect.Dialect{
		Kind: Kind, Name: "SGLang", MaxBias: maxBias,
		Routes:     dialect.Routes{Generate: route, Abort: "/abort_request"},
		Detokenize: map[string]any{"skip_special_tokens": false},
		Describe:   s.describe, Single: s.single, Request: s.request, Events: events,
		Abort: func(names []string) any { return map[string]any{"rid": names[0]} },
	})
	return s.Engine
}

// serverInfo is what matters in the reply of /server_info. It also has the server's keys, which nobody needs.
type serverInfo struct {
	Version       string `json:"version"`
	ModelPath     string `json:"model_path"`
	Served        string `json:"served_model_name"`
	Quantization  string `json:"quantization"`
	Grammar       string `json:"grammar_backend"`
	NoTokenizer   bool   `json:"skip_tokenizer_init"`
	Incremental   bool   `json:"incremental_streaming_output"`
	Deterministic bool   `json:"enable_deterministic_inference"`
	Requests      int    `json:"max_running_requests"`
	DataParallel  int    `json:"dp_size"`
	Input         int    `json:"max_req_input_len"`
	NoPrefixes    bool   `json:"disable_radix_cache"`
}

func (s *server) describe(ctx context.Context) (f dialect.Found, err error) {
	var info serverInfo
	if err := s.info(ctx, &info); err != nil {
		return f, err
	}
	models, err := s.Models(ctx)
	if err != nil {
		return f, err
	}
	if info.ModelPath == "" || len(models) == 0 {
		return f, dialect.Malformed("its description is not that of SGLang")
	}
	if info.NoTokenizer {
		return f, &web.Error{Kind: web.Refused, Detail: "it has no tokenizer; start it without --skip-tokenizer-init"}
	}
	salted := info.NoPrefixes || salted(info.Version) // a salt also keeps a prefix from being shared
	f.Description = remote.Description{Version: info.Version, Model: info.Served, Path: info.ModelPath,
		ContextSize: models[0].Length, TrainedContext: models[0].Length, Parallel: info.Requests * max(1, info.DataParallel),
		Usual: usual, Quantization: info.Quantization, Salted: salted, Unsharing: salted}
	d := &f.Description
	if d.Model == "" {
		d.Model = models[0].ID
	}
	// A sequence can be handed in again as long as it is a permitted input.
	if info.Input > 0 {
		d.ContextSize = min(d.ContextSize, info.Input)
	}
	if d.ContextSize <= 1 {
		return f, dialect.Malformed("it does not say how long a sequence may be")
	}
	describeForms(d, &info)
	if atLeast(d.Version, 0, 5, 5) { // some versions before crash at this question
		d.Vocabulary, err = s.Vocabulary(ctx, d, route, map[string]any{"input_ids": []int{0},
			"sampling_params": map[string]any{"max_new_tokens": 1, "logit_bias": map[backend.Token]int{dialect.NoToken: 0}}})
	}
	return f, err
}

// describeForms sets the forms and the notes.
func describeForms(d *remote.Description, info *serverInfo) {
	if info.Grammar != "" && info.Grammar != "none" {
		d.Forms = []remote.FormKind{remote.FormJSONSchema, remote.FormRegex, remote.FormChoices}
	}
	if info.Grammar == "xgrammar" {
		d.Forms = append(d.Forms, remote.FormGBNF)
	}
	d.Notes = []string{"top-p and min-p apply after the temperature"}
	if !info.Deterministic {
		d.Notes = append(d.Notes, "seeds have no effect; start it with --enable-deterministic-inference to change that")
	}
	if !info.Incremental {
		d.Notes = append(d.Notes,
			"its events repeat all tokens before; start it with --incremental-streaming-output to save that")
	}
	if !d.Salted {
		d.Notes = append(d.Notes, "it does not keep the prefixes of callers apart; SGLang 0.5.11 and later do, and "+
			"--disable-radix-cache turns them off")
	}
}

// info asks for the server's description. Older servers have another name for it.
func (s *server) info(ctx context.Context, info *serverInfo) error {
	err := s.Client.Get(ctx, "/server_info", info)
	if web.Is(err, web.Missing) {
		return s.Client.Get(ctx, "/get_server_info", info)
	}
	return err
}

// salted reports whether a version keeps prefixes with different salts apart: 0.5.11 and later do. Versions from 0.5.5
// on take a salt, but their schedulers do not get it.
func salted(version string) bool { return atLeast(version, 0, 5, 11) }

// atLeast reports whether a version is one or a later one. A text that is no version is 0.0.0.
func atLeast(version string, least ...int) bool {
	var v [3]int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]) // what is missing is 0
	return slices.Compare(v[:], least) >= 0
}
