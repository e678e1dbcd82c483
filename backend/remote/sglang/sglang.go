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
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/abort"
	"runner/backend/remote/body"
	"runner/backend/remote/web"
)

// Kind is the name of this kind of engine.
const Kind = "sglang"

// Engine is an SGLang server.
type Engine struct {
	client *web.Client
	vocab  *backend.Vocab
	ends   []backend.Token
	aborts *abort.Queue
	// known is what was found out about the model; nil before.
	known atomic.Pointer[known]
}

// known is how many tokens a model has, or 0 if the server does not say so.
type known struct {
	version, path, name string
	vocabulary          int
}

// New returns the engine that a client reaches. vocab is the vocabulary of its model. It may be nil for an engine that
// only describes itself.
func New(c *web.Client, vocab *backend.Vocab) *Engine {
	e := &Engine{client: c, vocab: vocab, ends: body.Ends(vocab)}
	e.aborts = abort.New(func(ctx context.Context, ids []string) {
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() {
				_ = c.Post(ctx, "/abort_request", map[string]any{"rid": id}, nil) // the connection is dropped, too
			})
		}
		all.Wait()
	})
	return e
}

// Kind implements remote.Engine.
func (e *Engine) Kind() string { return Kind }

// serverInfo is what matters in the reply of /server_info. It also has the server's keys, which nobody needs.
type serverInfo struct {
	Version       string  `json:"version"`
	ModelPath     string  `json:"model_path"`
	Served        string  `json:"served_model_name"`
	Quantization  *string `json:"quantization"`
	Grammar       *string `json:"grammar_backend"`
	NoTokenizer   bool    `json:"skip_tokenizer_init"`
	Incremental   bool    `json:"incremental_streaming_output"`
	Deterministic bool    `json:"enable_deterministic_inference"`
	Requests      *int    `json:"max_running_requests"`
	DataParallel  int     `json:"dp_size"`
	Input         int     `json:"max_req_input_len"`
	NoPrefixes    bool    `json:"disable_radix_cache"`
}

// models is the reply of /v1/models.
type models struct {
	Data []struct {
		ID     string `json:"id"`
		Length int    `json:"max_model_len"`
	} `json:"data"`
}

// Describe implements remote.Engine.
func (e *Engine) Describe(ctx context.Context) (d remote.Description, err error) {
	var info serverInfo
	if err := e.info(ctx, &info); err != nil {
		return d, err
	}
	var m models
	if err := e.client.Get(ctx, "/v1/models", &m); err != nil {
		return d, err
	}
	if info.ModelPath == "" || len(m.Data) == 0 {
		return d, &web.Error{Kind: web.Malformed, Detail: "its description is not that of SGLang"}
	}
	if info.NoTokenizer {
		return d, &web.Error{Kind: web.Refused, Detail: "it has no tokenizer; start it without --skip-tokenizer-init"}
	}
	d = remote.Description{Version: info.Version, Model: info.Served, Path: info.ModelPath,
		TrainedContext: m.Data[0].Length, Salted: info.NoPrefixes || salted(info.Version)}
	d.Unsharing = d.Salted // both are done with a salt
	if d.Model == "" {
		d.Model = m.Data[0].ID
	}
	if d.Vocabulary, err = e.vocabulary(ctx, &d); err != nil {
		return d, err
	}
	// A sequence can be handed in again as long as it is a permitted input.
	d.ContextSize = m.Data[0].Length
	if info.Input > 0 && info.Input < d.ContextSize {
		d.ContextSize = info.Input
	}
	if d.ContextSize <= 1 {
		return d, &web.Error{Kind: web.Malformed, Detail: "it does not say how long a sequence may be"}
	}
	if info.Quantization != nil {
		d.Quantization = *info.Quantization
	}
	if info.Requests != nil && *info.Requests > 0 {
		d.Parallel = *info.Requests * max(1, info.DataParallel)
	}
	d.Usual = usual
	describeForms(&d, &info)
	return d, nil
}

// usual is how many requests a server that does not tell usually takes at a time.
const usual = 256

// describeForms sets the forms and the notes.
func describeForms(d *remote.Description, info *serverInfo) {
	switch {
	case info.Grammar == nil || *info.Grammar == "" || *info.Grammar == "none":
	case *info.Grammar == "xgrammar":
		d.Forms = []remote.FormKind{remote.FormJSONSchema, remote.FormRegex, remote.FormChoices, remote.FormGBNF}
	default:
		d.Forms = []remote.FormKind{remote.FormJSONSchema, remote.FormRegex, remote.FormChoices}
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
func (e *Engine) info(ctx context.Context, info *serverInfo) error {
	err := e.client.Get(ctx, "/server_info", info)
	var w *web.Error
	if errors.As(err, &w) && w.Kind == web.Missing {
		return e.client.Get(ctx, "/get_server_info", info)
	}
	return err
}

// noToken is no token of any model.
const noToken = math.MaxInt32

// vocabulary asks how many tokens the model has. The answer is 0 if the server does not say so. SGLang says it only
// where it refuses a bias for a token that the model does not have, so such a request is sent. Versions before 0.5.5
// are not asked, because some of them crash at it.
func (e *Engine) vocabulary(ctx context.Context, d *remote.Description) (int, error) {
	if !atLeast(d.Version, 0, 5, 5) {
		return 0, nil
	}
	if k := e.known.Load(); k != nil && k.version == d.Version && k.path == d.Path && k.name == d.Model {
		return k.vocabulary, nil
	}
	err := e.client.Post(ctx, "/generate", map[string]any{"input_ids": []int{0}, "sampling_params": map[string]any{
		"max_new_tokens": 1, "logit_bias": map[string]int{strconv.Itoa(noToken): 0}}}, nil)
	var w *web.Error
	n := 0
	if errors.As(err, &w) && w.Status != 0 && w.Kind != web.Busy && w.Kind != web.Denied {
		n = w.Vocabulary // other requests may be answered all the same
	} else if err != nil {
		return 0, err
	}
	e.known.Store(&known{d.Version, d.Path, d.Model, n})
	return n, nil
}

// salted reports whether a version keeps prefixes with different salts apart: 0.5.11 and later do. Versions from 0.5.5
// on take a salt, but their schedulers do not get it.
func salted(version string) bool { return atLeast(version, 0, 5, 11) }

// atLeast reports whether a version is one or a later one. A text that is no version is none.
func atLeast(version string, major, minor, patch int) bool {
	parts := strings.SplitN(version, ".", 3)
	for i, least := range []int{major, minor, patch} {
		if i >= len(parts) {
			return false
		}
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
			digits = digits[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < least {
			return false
		}
		if n > least {
			return true
		}
	}
	return true
}

// Check implements remote.Engine.
func (e *Engine) Check(p *backend.Sampling) error {
	switch plain := p.Plain(); {
	case plain.TypicalP != 1:
		return &backend.SettingError{Setting: "TypicalP", Detail: "SGLang has no typical-p"}
	case plain.RepetitionPenalty != 1:
		return &backend.SettingError{Setting: "RepetitionPenalty",
			Detail: "SGLang counts the prompt for the repetition penalty, so it has no equal"}
	}
	for _, b := range p.Bias {
		if b.Bias > maxBias {
			return &backend.SettingError{Setting: "Bias",
				Detail: fmt.Sprintf("a logit bias for SGLang can be at most %d, not %v", maxBias, b.Bias)}
		}
	}
	return nil
}

// Encode implements remote.Engine. SGLang reads names of control tokens in every text, so without special, the text
// must have none.
func (e *Engine) Encode(ctx context.Context, text string, special bool) ([]backend.Token, error) {
	if e.vocab != nil && !special {
		for name := range e.vocab.Specials {
			if strings.Contains(text, name) {
				return nil, errors.New("SGLang cannot tokenize the name of a control token as text")
			}
		}
	}
	var reply struct {
		Tokens []backend.Token `json:"tokens"`
	}
	err := e.client.Post(ctx, "/tokenize", map[string]any{"prompt": text, "add_special_tokens": false}, &reply)
	return reply.Tokens, err
}

// Decode implements remote.Engine.
func (e *Engine) Decode(ctx context.Context, tokens []backend.Token) (string, error) {
	var reply struct {
		Text string `json:"text"`
	}
	err := e.client.Post(ctx, "/detokenize", map[string]any{"tokens": tokens, "skip_special_tokens": false}, &reply)
	return reply.Text, err
}

// Open implements remote.Engine.
func (e *Engine) Open(ctx context.Context, r *remote.Request) (remote.Stream, error) {
	if r.Sampling.TopLogprobs >= 0 && differs(r) {
		return e.scored(ctx, r)
	}
	l := e.lease(ctx, r.ID)
	events, err := e.client.Stream(l.ctx, "/generate", e.body(r))
	if err != nil {
		l.end()
		return nil, err
	}
	return &stream{engine: e, events: events, lease: l, most: r.Most, top: r.Sampling.TopLogprobs}, nil
}

// abortTime is how long the connection of a generation that is to end waits for the abort.
const abortTime = time.Second

// lease is what keeps a generation open at the server.
type lease struct {
	// ctx is that of the request. It ends when the connection is to be dropped.
	ctx context.Context
	// leave asks the server to end the generation, and then drops the connection. It does not wait.
	leave func()
	// end says that the generation has ended.
	end func()
}

// lease returns the lease of a generation that ends when ctx does. A server that sees a dropped connection forgets the
// generation's name, and an abort that comes later may end nothing. So the abort goes first.
func (e *Engine) lease(ctx context.Context, id string) lease {
	open, drop := context.WithCancelCause(context.WithoutCancel(ctx))
	leave := sync.OnceFunc(func() {
		late := time.AfterFunc(abortTime, func() { drop(context.Cause(ctx)) })
		e.aborts.AddThen(id, func() {
			late.Stop()
			drop(context.Cause(ctx))
		})
	})
	stop := context.AfterFunc(ctx, leave)
	return lease{ctx: open, leave: leave, end: func() {
		if stop() {
			drop(nil)
		}
	}}
}

// differs reports whether the server's probabilities are not those of the model.
func differs(r *remote.Request) bool {
	p := r.Sampling.Plain()
	return p.Temperature != 0 && p.Temperature != 1 || len(p.Bias) > 0 || len(r.Allowed) > 0
}

// scored samples one token, and asks for its probability in a second request.
func (e *Engine) scored(ctx context.Context, r *remote.Request) (remote.Stream, error) {
	one := *r
	one.Most, one.Sampling.TopLogprobs = 1, -1
	s, err := e.Open(ctx, &one)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var x remote.Sample
	if err := s.Next(&x); err != nil {
		return nil, fmt.Errorf("sampling one token: %w", err)
	}
	err = e.score(ctx, r.Tokens, &x, r)
	return &single{sample: x}, err
}

var _ remote.Engine = (*Engine)(nil)
