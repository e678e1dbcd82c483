package ollama

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Version is the version of Ollama whose API this is. GET /api/version returns it, and clients require a minimum.
const Version = "0.24.0"

// Config is the configuration of the format. The zero value is usable.
type Config struct {
	wire.Config
	// Library is the models on the machine's disk that clients may change; nil if there are none.
	Library Library
}

// API is the format. Its methods may be called by several goroutines at once.
type API struct {
	models wire.Models
	cfg    Config
}

var _ wire.Format = (*API)(nil)

// New returns the format over models.
func New(models wire.Models, cfg Config) *API {
	cfg.Fill()
	return &API{models: models, cfg: cfg}
}

//go:embed openapi
var description embed.FS

// OpenAPI returns the description of the format, see package openapi.
func (*API) OpenAPI() fs.FS { return description }

// Routes lists the endpoints. The route of the root takes only requests that do not come from a browser.
func (a *API) Routes() []wire.Route {
	routes := []wire.Route{
		{Method: http.MethodPost, Path: "/api/chat", Scope: wire.ScopeGenerate, Handle: prompted(a, a.decodeChat)},
		{Method: http.MethodPost, Path: "/api/generate", Scope: wire.ScopeGenerate, Handle: prompted(a, a.decodeGenerate)},
		{Method: http.MethodPost, Path: "/api/embed", Scope: wire.ScopeEmbed, Handle: a.embed},
		{Method: http.MethodPost, Path: "/api/embeddings", Scope: wire.ScopeEmbed, Handle: a.embeddings},
		{Method: http.MethodGet, Path: "/api/tags", Scope: wire.ScopeModels, Handle: a.tags},
		{Method: http.MethodGet, Path: "/api/ps", Scope: wire.ScopeModels, Handle: a.loaded},
		{Method: http.MethodPost, Path: "/api/show", Scope: wire.ScopeModels, Handle: a.show},
		{Method: http.MethodPost, Path: "/api/pull", Scope: wire.ScopeModels, Handle: a.pull},
		{Method: http.MethodPost, Path: "/api/copy", Scope: ScopeModelsWrite, Free: true, Handle: a.copy},
		{Method: http.MethodDelete, Path: "/api/delete", Scope: ScopeModelsWrite, Free: true, Handle: a.remove},
		{Method: http.MethodGet, Path: "/api/version", Handle: version},
		{Method: http.MethodGet, Path: "/{$}", Handle: running,
			When: func(r *http.Request) bool { return !wire.WantsPage(r) }},
	}
	for _, o := range []struct{ method, path, instead string }{
		{http.MethodPost, "/api/push", "this server publishes no models"},
		{http.MethodPost, "/api/create", "start the server with the model's file"},
		{http.MethodPost, "/api/blobs/{digest}", "start the server with the model's file"},
	} {
		routes = append(routes, wire.Route{Method: o.method, Path: o.path, Scope: wire.ScopeModels, Free: true,
			Handle: func(http.ResponseWriter, *http.Request) error { return unmanaged(o.instead) }})
	}
	return routes
}

// unmanaged returns the error for requests that this server does not support. instead says what to do instead.
func unmanaged(instead string) *wire.Error {
	e := wire.Errorf(wire.CodeUnsupported, "this server does not support that: %s", instead)
	e.Status = http.StatusNotImplemented
	return e
}

// running answers GET and HEAD / as Ollama does. Clients use it to find a server.
func running(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Add("Vary", "Accept")            // browsers get a page
	_, _ = w.Write([]byte("Ollama is running")) // the client may be gone
	return nil
}

func version(w http.ResponseWriter, _ *http.Request) error {
	return wire.Answer(w, VersionResponse{Version})
}

// ErrorResponse is the body of an answer that failed, and the last line of a stream that did.
//
//openapi:answer OllamaError
type ErrorResponse struct {
	// A message for people. If a field is wrong, it begins with the field's name.
	Error string `json:"error"`
	Code  string `json:"code,omitempty" api:"#ErrorCode"`
	// The field of the request that is wrong, such as `options.seed`.
	Param string `json:"param,omitempty"`
}

// fields are this format's names of the fields of [generation.Request].
var fields = wire.Names[Options]("options.", map[string]string{
	"Messages": "messages", "Continues": "messages", "Prompt": "prompt", "Tools": "tools", "Form": "format",
	"ResponseFormat": "format",
	"Visibility":     "think", "Effort": "think", "Sampling": "options",
})

// wireError converts an error of any kind. For a prompt that is too long it has Ollama's words.
func wireError(err error) *wire.Error { return wire.FromLong(err, fields, tooLong) }

// wireError converts an error of a run. In POST /api/generate the user's message is the field prompt.
func (p *prompt) wireError(err error) *wire.Error {
	if p.head.chat {
		return wireError(err)
	}
	names := maps.Clone(fields)
	names["Messages"] = names["Prompt"]
	return wire.FromLong(err, names, tooLong)
}

// tooLong returns Ollama's words for a text that is longer than the context, followed by both lengths.
func tooLong(long *generation.PromptTooLongError, _ string) string {
	return fmt.Sprintf("the input length exceeds the context length: %v", long)
}

// WriteError answers with an error in Ollama's shape.
func (a *API) WriteError(w http.ResponseWriter, err error) {
	e := wireError(err)
	wire.WriteError(w, e, errorResponse(e))
}

func errorResponse(e *wire.Error) ErrorResponse {
	return ErrorResponse{Error: e.Error(), Code: e.Code, Param: e.Param}
}

var errNoName = wire.Invalid("model", "it is required")

// use returns the model called name, with Ollama's errors.
func (a *API) use(ctx context.Context, name string) (wire.Model, error) {
	if name == "" {
		return nil, errNoName
	}
	m, err := a.models.Use(ctx, name)
	if err != nil {
		return nil, a.notFound(ctx, err, name)
	}
	return m, nil
}

// notFound puts an error about an unknown model into Ollama's words. Other errors stay as they are.
func (a *API) notFound(ctx context.Context, err error, name string) error {
	e := wire.FromError(err, fields)
	if e.Code == wire.CodeModel {
		e = missing(name)
		e.Err = err
		if c, ok := a.unserved(ctx, name); ok {
			e.Message = fmt.Sprintf("model '%.100s' is on this machine and is not served; %s", name, restart(c.Name))
		}
	}
	return e
}

// missing returns the error for a model that there is not.
func missing(name string) *wire.Error {
	return wire.Errorf(wire.CodeModel,
		"model '%.100s' not found; GET /api/tags lists the models", name)
}

// unload unloads the model called name as soon as no request holds it, with Ollama's errors.
func (a *API) unload(ctx context.Context, name string) error {
	if name == "" {
		return errNoName
	}
	if err := a.models.Unload(ctx, name); err != nil {
		return a.notFound(ctx, err, name)
	}
	return nil
}

// run runs a prompt and answers, as a stream or as one message.
func (a *API) run(w http.ResponseWriter, r *http.Request, m wire.Model, p *prompt) (err error) {
	reply := &reply{prompt: p}
	runs := []wire.Run{{Request: p.req, Observer: generation.Unobserved{}}}
	if p.stream {
		err = wire.Streamed(w, r, m, runs, wire.NewLines, func(to *wire.Stream) wire.Encoder {
			reply.send = to.Send
			return reply
		})
	} else if err = wire.Generate(r.Context(), m, runs, func() {}, reply.Push); err == nil {
		return wire.Answer(w, reply.answer())
	}
	if err != nil {
		return p.wireError(err)
	}
	return nil
}

// prompted answers requests that are decoded into a prompt.
func prompted[B any](a *API, decode func(*wire.Principal, *B) (*prompt, error)) wire.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		began := a.cfg.Clock()
		var body B
		if err := wire.ReadJSON(r, &body); err != nil {
			return err
		}
		p, err := decode(wire.PrincipalOf(r.Context()), &body)
		if err != nil {
			return err
		}
		return a.answer(w, r, p, began)
	}
}

// answer answers a decoded request. An empty prompt only loads or unloads its model.
func (a *API) answer(w http.ResponseWriter, r *http.Request, p *prompt, began time.Time) error {
	who := wire.PrincipalOf(r.Context())
	p.head.clock, p.head.began = a.cfg.Clock, began
	if p.empty && p.unload {
		if err := a.unload(r.Context(), p.head.model); err != nil {
			return err
		}
		return answerEmpty(w, p, finishUnload)
	}
	m, err := a.use(r.Context(), p.head.model)
	if err != nil {
		return err
	}
	defer m.Release()
	p.head.load = a.cfg.Clock().Sub(began)
	if p.empty {
		return answerEmpty(w, p, finishLoad)
	}
	if size := m.Info().ContextSize; p.context > size {
		p.head.warnings.Add("num_ctx", fmt.Sprintf("options.num_ctx asks for %d tokens, and the model was loaded "+
			"with a context of %d", p.context, size))
	}
	if p.gap != nil {
		if p.req.PromptTokens, err = p.gap.Tokens(r.Context(), m, "suffix"); err != nil {
			return err
		}
	}
	if p.truncate {
		dropped, err := contract.Shorten(r.Context(), m, who.ID, &p.req)
		if err != nil {
			return err
		}
		if dropped > 0 {
			p.head.warnings.Add("input_truncated",
				fmt.Sprintf("%d messages were left out so that the rest fits into the context", dropped))
		}
	}
	if p.unload {
		if who.May(wire.ScopeModels) {
			// this only marks the model: it is unloaded when no request holds it any more
			defer func() { _ = a.unload(context.WithoutCancel(r.Context()), p.head.model) }()
		} else {
			p.head.warnings.Add("keep_alive",
				"keep_alive was ignored: this API key lacks the permission models, which unloading takes")
		}
	}
	return a.run(w, r, m, p)
}

// answerEmpty answers a request that only loads or unloads its model.
func answerEmpty(w http.ResponseWriter, p *prompt, why reasoning.FinishReason) error {
	r := reply{prompt: p}
	r.Result = &reasoning.Result{Finish: why}
	r.end()
	return wire.Answer(w, r.answer())
}
