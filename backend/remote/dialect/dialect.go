// Package dialect is the runner's end of the protocols of engines at addresses. What the kinds of engine have in common
// is here: asking what runs, tokenizing, opening a stream, reading its events, checking their tokens, and ending a
// generation. A [Dialect] has the rest: the routes and the fields of one kind.
package dialect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/web"
)

// Dialect is how one kind of engine speaks.
type Dialect struct {
	// Kind is the name of the kind in addresses, and Name the one for people.
	Kind, Name string
	// Settings are the names of the settings that the engine has. Nil stands for those of vLLM and SGLang. MaxTemperature
	// and MaxBias are the largest values that it takes; 0 means any.
	Settings                []string
	MaxTemperature, MaxBias float32
	// Routes are fixed. Without them, Describe finds them.
	Routes Routes
	// Describe asks the engine what it is and which model it runs.
	Describe func(ctx context.Context) (Found, error)
	// Tokenize returns the request for the tokens of a text. Nil stands for that of vLLM and SGLang, which read names of
	// control tokens in every text. NoTokenizer says what to do if the route is missing.
	Tokenize    func(text string, special bool) any
	NoTokenizer string
	// Detokenize has the fields of the request for the text of tokens, without the tokens.
	Detokenize map[string]any
	// Single, when not nil, answers a request that needs more than a stream. It returns nil for the others.
	Single func(ctx context.Context, r *remote.Request) (*Event, error)
	// Request returns the request for a stream. The sampling of r is in its plain form. at has the routes.
	Request func(r *remote.Request, at *Found) any
	// Events returns the decoder of the events that answer a request.
	Events func(ctx context.Context, r *remote.Request) func(data []byte) (Event, error)
	// Names are those by which the engine may know a request until an event says its name; nil means its id. Abort
	// returns the message that ends the request with some of these names.
	Names func(id string) []string
	Abort func(names []string) any
}

// Routes are where an engine generates and where it is asked to end a generation. Without the second, a dropped
// connection has to do.
type Routes struct{ Generate, Abort string }

// Found is what an engine says about itself.
type Found struct {
	remote.Description
	Routes Routes
}

// Engine implements remote.Engine.
type Engine struct {
	Dialect
	Client *web.Client
	// Vocab is that of the engine's model. It is nil for an engine that only describes itself. Ends are the tokens that
	// end a generation.
	Vocab *backend.Vocab
	Ends  []backend.Token

	found atomic.Pointer[Found]

	// work waits for what ends generations, ctx is its context, and aborts has a place for each message under way.
	work   sync.WaitGroup
	ctx    context.Context
	stop   context.CancelFunc
	aborts chan struct{}
}

// New returns the engine that a client reaches. Close closes the client, too.
func New(c *web.Client, v *backend.Vocab, d Dialect) *Engine {
	if d.Settings == nil {
		d.Settings = []string{"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
			"frequency_penalty"}
	}
	e := &Engine{Dialect: d, Client: c, Vocab: v, aborts: make(chan struct{}, mostAborts)}
	e.ctx, e.stop = context.WithCancel(context.Background())
	if v != nil {
		e.Ends = v.Ends()
	}
	return e
}

// Kind implements remote.Engine.
func (e *Engine) Kind() string { return e.Dialect.Kind }

// Describe implements remote.Engine.
func (e *Engine) Describe(ctx context.Context) (remote.Description, error) {
	f, err := e.Dialect.Describe(ctx)
	if err != nil {
		return f.Description, err
	}
	e.found.Store(&f)
	return f.Description, nil
}

// Last returns what the last description of the same model said, or nil if the engine ran another model or version
// then.
func (e *Engine) Last(d *remote.Description) *Found {
	if f := e.found.Load(); f != nil && f.Version == d.Version && f.Path == d.Path && f.Model == d.Model {
		return f
	}
	return nil
}

// Model is a model in the reply of /v1/models. What a server does not say is zero.
type Model struct {
	ID      string   `json:"id"`
	Aliases []string `json:"aliases"`
	OwnedBy string   `json:"owned_by"`
	Root    string   `json:"root"`
	Parent  *string  `json:"parent"`
	Length  int      `json:"max_model_len"`
	Meta    struct {
		Vocabulary     int   `json:"n_vocab"`
		TrainedContext int   `json:"n_ctx_train"`
		Parameters     int64 `json:"n_params"`
		Size           int64 `json:"size"`
	} `json:"meta"`
}

// Models asks for the models.
func (e *Engine) Models(ctx context.Context) ([]Model, error) {
	var reply struct {
		Data []Model `json:"data"`
	}
	err := e.Client.Get(ctx, "/v1/models", &reply)
	return reply.Data, err
}

// Vocabulary asks how many tokens a model has. The answer is 0 if the engine does not say so. It says so only where it
// refuses a token that the model does not have, so request has one. Each model is asked about once.
func (e *Engine) Vocabulary(ctx context.Context, d *remote.Description, route string, request any) (int, error) {
	if last := e.Last(d); last != nil {
		return last.Vocabulary, nil
	}
	err := e.Client.Post(ctx, route, request, nil)
	var w *web.Error
	if errors.As(err, &w) && w.Status != 0 && w.Kind != web.Busy && w.Kind != web.Denied {
		return w.Vocabulary, nil // other requests may be answered all the same
	}
	return 0, err
}

// Check implements remote.Engine.
func (e *Engine) Check(p *backend.Sampling) error {
	refuse := func(setting, format string, args ...any) error {
		return &backend.SettingError{Setting: setting, Detail: e.Name + " " + fmt.Sprintf(format, args...)}
	}
	plain := p.Plain()
	for _, x := range plain.Settings() {
		switch {
		case x.Effect == backend.Penalty, x.Effect == backend.Detail: // package remote has them
		case x.On() && !slices.Contains(e.Settings, x.Name):
			return refuse(x.Field, "has no %s", x.Name)
		case x.Effect == backend.Heat && e.MaxTemperature > 0 && *x.Float > e.MaxTemperature:
			return refuse(x.Field, "takes temperatures up to %v, not %v", e.MaxTemperature, *x.Float)
		}
	}
	for _, b := range p.Bias {
		if e.MaxBias > 0 && b.Bias > e.MaxBias {
			return refuse("Bias", "takes a logit bias up to %v, not %v", e.MaxBias, b.Bias)
		}
	}
	return nil
}

// Tokenized is the reply of the route that tokenizes. Some servers say there how long a sequence may be.
type Tokenized struct {
	Tokens []backend.Token `json:"tokens"`
	Length int             `json:"max_model_len"`
}

// Tokenized asks for the tokens of a text.
func (e *Engine) Tokenized(ctx context.Context, text string, special bool) (reply Tokenized, err error) {
	var request any = map[string]any{"prompt": text, "add_special_tokens": false}
	if e.Tokenize != nil {
		request = e.Tokenize(text, special)
	}
	err = e.Client.Post(ctx, "/tokenize", request, &reply)
	if web.Is(err, web.Missing) && e.NoTokenizer != "" {
		err = &web.Error{Kind: web.Missing, Detail: "it has no tokenizer; " + e.NoTokenizer}
	}
	return reply, err
}

// Encode implements remote.Engine.
func (e *Engine) Encode(ctx context.Context, text string, special bool) ([]backend.Token, error) {
	if e.Tokenize == nil && e.Vocab != nil && !special {
		for name := range e.Vocab.Specials {
			if strings.Contains(text, name) {
				return nil, errors.New(e.Name + " cannot tokenize the name of a control token as text")
			}
		}
	}
	reply, err := e.Tokenized(ctx, text, special)
	return reply.Tokens, err
}

// Decode implements remote.Engine.
func (e *Engine) Decode(ctx context.Context, tokens []backend.Token) (string, error) {
	request := map[string]any{"tokens": tokens}
	maps.Copy(request, e.Detokenize)
	var reply struct{ Content, Prompt, Text string } // each kind has one of them
	err := e.Client.Post(ctx, "/detokenize", request, &reply)
	return reply.Content + reply.Prompt + reply.Text, err
}

// Open implements remote.Engine.
func (e *Engine) Open(ctx context.Context, r *remote.Request) (remote.Stream, error) {
	plain := *r
	plain.Sampling = r.Sampling.Plain()
	if e.Single != nil {
		one, err := e.Single(ctx, &plain)
		if err != nil {
			return nil, err
		}
		if one != nil {
			s := &stream{engine: e, ctx: ctx, most: r.Most, top: r.Sampling.TopLogprobs}
			one.Cut = true
			return s, s.take(one)
		}
	}
	at, err := e.where(ctx)
	if err != nil {
		return nil, err
	}
	s, err := e.begin(ctx, at, &plain)
	var w *web.Error
	if errors.As(err, &w) && w.Status == http.StatusForbidden && e.Routes.Generate == "" {
		// The server may have been started again without the route.
		e.found.Store(nil)
		before := at.Routes
		if at, err = e.where(ctx); err == nil && at.Routes != before {
			s, err = e.begin(ctx, at, &plain)
		} else if err == nil {
			err = w
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// where returns what is known of the engine. It asks the engine if its routes are not known.
func (e *Engine) where(ctx context.Context) (*Found, error) {
	if e.Routes.Generate != "" {
		return &Found{Routes: e.Routes}, nil
	}
	if f := e.found.Load(); f != nil {
		return f, nil
	}
	f, err := e.Dialect.Describe(ctx)
	if err == nil {
		e.found.Store(&f)
	}
	return &f, err
}

const (
	// dropTime is how long the connection of a generation that is to end waits for the abort, and abortTime how long the
	// abort may take.
	dropTime  = time.Second
	abortTime = 5 * time.Second
	// mostAborts is how many aborts are sent at a time.
	mostAborts = 64
)

// end asks the engine to end a generation, and then drops its connection. It does not wait. An engine that sees a
// dropped connection may forget the generation's name, so that an abort that comes later ends nothing. Without an
// abort, a proxy between could hide that the connection is dropped. That an abort fails is not reported.
func (e *Engine) end(route string, names []string, drop func()) {
	if route == "" {
		drop()
		return
	}
	e.work.Go(func() {
		defer drop()
		defer time.AfterFunc(dropTime, drop).Stop()
		ctx, cancel := context.WithTimeout(e.ctx, abortTime)
		defer cancel()
		select {
		case e.aborts <- struct{}{}:
			_ = e.Client.Post(ctx, route, e.Abort(names), nil)
			<-e.aborts
		case <-ctx.Done():
		}
	})
}

// Close implements remote.Engine.
func (e *Engine) Close() {
	defer time.AfterFunc(dropTime, e.stop).Stop()
	e.work.Wait()
	e.stop()
	e.Client.Close()
}

var _ remote.Engine = (*Engine)(nil)
