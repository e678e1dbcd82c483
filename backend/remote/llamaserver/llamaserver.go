// Package llamaserver speaks with llama-server, the HTTP server of llama.cpp.
//
// It uses the server's own routes, because those for other formats do not take token ids.
package llamaserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/web"
)

// Kind is the name of this kind of engine.
const Kind = "llama-server"

// Engine is a llama-server.
type Engine struct {
	client *web.Client
	vocab  *backend.Vocab

	// parts are the tokens that are not whole characters, and byBytes finds them.
	once    sync.Once
	parts   []backend.Token
	byBytes map[string]backend.Token
}

// New returns the engine that a client reaches. vocab is the vocabulary of its model. It may be nil for an engine that
// only describes itself.
func New(c *web.Client, vocab *backend.Vocab) *Engine { return &Engine{client: c, vocab: vocab} }

// Kind implements remote.Engine.
func (e *Engine) Kind() string { return Kind }

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

// models is the reply of /v1/models.
type models struct {
	Data []struct {
		ID      string   `json:"id"`
		Aliases []string `json:"aliases"`
		OwnedBy string   `json:"owned_by"`
		Meta    struct {
			Vocabulary     int   `json:"n_vocab"`
			TrainedContext int   `json:"n_ctx_train"`
			Parameters     int64 `json:"n_params"`
			Size           int64 `json:"size"`
		} `json:"meta"`
	} `json:"data"`
}

// noAlias is what older servers without an alias call their model in the replies of /completion.
const noAlias = "gpt-3.5-turbo"

// Describe implements remote.Engine.
func (e *Engine) Describe(ctx context.Context) (d remote.Description, err error) {
	var p props
	if err := e.client.Get(ctx, "/props", &p); err != nil {
		return d, err
	}
	var m models
	if err := e.client.Get(ctx, "/v1/models", &m); err != nil {
		return d, err
	}
	if len(m.Data) != 1 || m.Data[0].OwnedBy != "llamacpp" || p.Slots <= 0 || p.Defaults.Context <= 0 {
		return d, &web.Error{Kind: web.Malformed, Detail: "its description is not that of a llama-server with one model"}
	}
	meta := &m.Data[0].Meta
	return remote.Description{
		Version: p.BuildInfo, Model: m.Data[0].ID, Names: append(m.Data[0].Aliases, p.Alias, p.Path, noAlias),
		Path: p.Path, ContextSize: p.Defaults.Context,
		TrainedContext: meta.TrainedContext, Parallel: p.Slots, Vocabulary: meta.Vocabulary, Parameters: meta.Parameters,
		Bytes: meta.Size, Quantization: p.Format, ChatTemplate: p.Template, Unsharing: true,
		Forms: []remote.FormKind{remote.FormJSONSchema, remote.FormChoices, remote.FormGBNF},
	}, nil
}

// Check implements remote.Engine.
func (e *Engine) Check(*backend.Sampling) error { return nil }

// Encode implements remote.Engine.
func (e *Engine) Encode(ctx context.Context, text string, special bool) ([]backend.Token, error) {
	var reply struct {
		Tokens []backend.Token `json:"tokens"`
	}
	err := e.client.Post(ctx, "/tokenize", map[string]any{"content": text, "parse_special": special,
		"add_special": false}, &reply)
	return reply.Tokens, err
}

// Decode implements remote.Engine.
func (e *Engine) Decode(ctx context.Context, tokens []backend.Token) (string, error) {
	var reply struct {
		Content string `json:"content"`
	}
	err := e.client.Post(ctx, "/detokenize", map[string]any{"tokens": tokens}, &reply)
	return reply.Content, err
}

// Open implements remote.Engine.
//
// A request for one token is not streamed: a stream leaves out tokens that end inside a character.
func (e *Engine) Open(ctx context.Context, r *remote.Request) (remote.Stream, error) {
	body := e.body(r, r.Most > 1)
	if r.Most > 1 {
		events, err := e.client.Stream(ctx, "/completion", body)
		if err != nil {
			return nil, err
		}
		return &stream{engine: e, ctx: ctx, events: events, top: r.Sampling.TopLogprobs, sampling: r.Sampling,
			tokens: r.Tokens[:len(r.Tokens):len(r.Tokens)], salt: r.Salt, noCache: r.NoCache, reused: -1}, nil
	}
	var reply event
	if err := e.client.Post(ctx, "/completion", json.RawMessage(body), &reply); err != nil {
		return nil, err
	}
	if len(reply.Tokens) != 1 {
		return nil, &web.Error{Kind: web.Malformed, Detail: fmt.Sprintf("it sent %d tokens for one", len(reply.Tokens))}
	}
	s := &single{model: reply.Model}
	top := r.Sampling.TopLogprobs
	if err := s.sample.take(&reply, top, e.vocab); err != nil {
		return nil, err
	}
	if top >= 0 && len(reply.Probs) == 0 {
		return s, e.score(ctx, r.Tokens, &s.sample, top, r.NoCache)
	}
	return s, nil
}

// body is written by hand, because a long prompt has many tokens.
func (e *Engine) body(r *remote.Request, stream bool) []byte {
	p := r.Sampling.Plain()
	b := make([]byte, 0, 7*len(r.Tokens)+24*(len(p.Bias)+len(r.Allowed))+512)
	b = append(b, `{"prompt":[`...)
	for i, t := range r.Tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(t), 10)
	}
	b = append(b, `],"return_tokens":true,"samplers":["top_k","typ_p","top_p","min_p","temperature"]`...)
	b = fmt.Appendf(b, `,"cache_prompt":%t,"n_predict":%d,"stream":%t`, !r.NoCache, r.Most, stream)
	if stream {
		// The progress says how much of the prompt was cached. The last event would repeat the prompt and all settings.
		b = append(b, `,"return_progress":true,"response_fields":["content","tokens","stop","tokens_predicted","model"]`...)
	}
	b = fmt.Appendf(b, `,"temperature":%g,"top_k":%d,"top_p":%g,"min_p":%g,"typical_p":%g,"seed":%d`,
		p.Temperature, p.TopK, p.TopP, p.MinP, p.TypicalP, uint32(p.Seed)&0x7fffffff)
	if p.TopLogprobs >= 0 {
		b = fmt.Appendf(b, `,"n_probs":%d`, max(1, p.TopLogprobs))
	}
	b = e.bias(b, r)
	if r.Form != nil {
		b = form(b, r.Form)
	}
	return append(b, '}')
}

// form writes the form that the server is to follow.
func form(b []byte, f *remote.Form) []byte {
	if f.Kind == remote.FormJSONSchema && json.Valid([]byte(f.Text)) {
		return append(append(b, `,"json_schema":`...), f.Text...)
	}
	text := f.Text
	if f.Kind == remote.FormChoices {
		text = choices(f.List)
	}
	quoted, _ := json.Marshal(text) // strings have no errors
	return append(append(b, `,"grammar":`...), quoted...)
}

// choices returns a grammar of one of several texts.
func choices(list []string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	var b strings.Builder
	b.WriteString("root ::= ")
	for i, s := range list {
		if i > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(`"` + quote.Replace(s) + `"`)
	}
	return b.String()
}

// lift is added to the logits of allowed tokens. It is more than logits differ, and small enough that their differences
// keep five digits.
const lift = 1000

// bias writes the bias, and which tokens are allowed: the smaller of allowed and forbidden tokens is named.
func (e *Engine) bias(b []byte, r *remote.Request) []byte {
	bias, n := map[backend.Token]float32{}, e.vocab.Len()
	forbidden := map[backend.Token]bool{}
	for _, x := range r.Sampling.Plain().Bias {
		if x.Bias <= -100 {
			forbidden[x.Token] = true
		} else {
			bias[x.Token] += x.Bias
		}
	}
	if len(r.Allowed) > 0 && len(r.Allowed) <= n/2 {
		for _, t := range r.Allowed {
			bias[t] += lift
		}
	} else if len(r.Allowed) > 0 {
		at := 0
		for t := range backend.Token(n) {
			if at < len(r.Allowed) && r.Allowed[at] == t {
				at++
				continue
			}
			forbidden[t] = true
		}
	}
	if len(bias)+len(forbidden) == 0 {
		return b
	}
	b = append(b, `,"logit_bias":[`...)
	for t, x := range bias {
		if !forbidden[t] {
			b = fmt.Appendf(b, `[%d,%g],`, t, x)
		}
	}
	for t := range forbidden {
		b = fmt.Appendf(b, `[%d,false],`, t)
	}
	return append([]byte(strings.TrimSuffix(string(b), ",")), ']')
}
