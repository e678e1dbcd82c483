package ollama

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Version is what GET /api/version says: the version of Ollama whose API this is. Clients ask for a least one.
const Version = "0.24.0"

// Config says how the format works. The zero value is usable.
type Config struct {
	// Defaults is what a request starts from: sampling, strategy and the like.
	Defaults generation.Request
	// Clock gives the time of answers; nil means time.Now.
	Clock func() time.Time
}

// API is the format. Its methods may be called by several goroutines at once.
type API struct {
	models wire.Models
	cfg    Config
}

var _ wire.Format = (*API)(nil)

// New returns the format over models.
func New(models wire.Models, cfg Config) *API {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &API{models: models, cfg: cfg}
}

// Routes lists the endpoints. At the root are those requests that are not a browser's.
func (a *API) Routes() []wire.Route {
	routes := []wire.Route{
		{Method: http.MethodPost, Path: "/api/chat", Scope: wire.ScopeGenerate, Handle: a.chat},
		{Method: http.MethodPost, Path: "/api/generate", Scope: wire.ScopeGenerate, Handle: a.generate},
		{Method: http.MethodPost, Path: "/api/embed", Scope: wire.ScopeEmbed, Handle: a.embed},
		{Method: http.MethodPost, Path: "/api/embeddings", Scope: wire.ScopeEmbed, Handle: a.embeddings},
		{Method: http.MethodGet, Path: "/api/tags", Scope: wire.ScopeModels, Handle: a.tags},
		{Method: http.MethodGet, Path: "/api/ps", Scope: wire.ScopeModels, Handle: a.loaded},
		{Method: http.MethodPost, Path: "/api/show", Scope: wire.ScopeModels, Handle: a.show},
		{Method: http.MethodPost, Path: "/api/pull", Scope: wire.ScopeModels, Free: true, Handle: a.pull},
		{Method: http.MethodGet, Path: "/api/version", Handle: version},
		{Method: http.MethodGet, Path: "/{$}", Handle: running, When: func(r *http.Request) bool {
			return !strings.Contains(r.Header.Get("Accept"), "text/html")
		}},
	}
	for _, o := range []struct{ method, path, instead string }{
		{http.MethodPost, "/api/push", "this server publishes no models"},
		{http.MethodPost, "/api/create", "start the server with the model's file"},
		{http.MethodPost, "/api/copy", "models have the names that the server was started with"},
		{http.MethodDelete, "/api/delete", "remove the file yourself, and start the server without it"},
		{http.MethodPost, "/api/blobs/{digest}", "start the server with the model's file"},
	} {
		routes = append(routes, wire.Route{Method: o.method, Path: o.path, Scope: wire.ScopeModels, Free: true,
			Handle: func(w http.ResponseWriter, r *http.Request) {
				a.WriteError(w, r, unmanaged(o.instead))
			}})
	}
	return routes
}

// unmanaged says that the server's models are not the format's to change, and what to do instead.
func unmanaged(instead string) *wire.Error {
	return wire.Errorf(http.StatusNotImplemented, wire.CodeUnsupported, "this server does not manage models: %s", instead)
}

// running answers GET and HEAD / as Ollama does, which is how clients look for it.
func running(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("Ollama is running"))
}

func version(w http.ResponseWriter, _ *http.Request) {
	wire.WriteJSON(w, http.StatusOK, VersionResponse{Version})
}

// ErrorResponse is the body of an answer that failed, and the last line of a stream that did.
//
// Why a request was not answered, or, as the last line, why a stream ends.
//
//openapi:answer OllamaError
type ErrorResponse struct {
	// For people. It begins with the field that is wrong, if there is one.
	Error string `json:"error"`
	Code  string `json:"code,omitempty" api:"#ErrorCode"`
	// The field that is wrong, as in `options.seed`.
	Param string `json:"param,omitempty"`
}

// fields are the fields of [generation.Request] as requests call them.
var fields = map[string]string{
	"Messages": "messages", "Prompt": "prompt", "Tools": "tools", "Form": "format", "ResponseFormat": "format",
	"Visibility": "think",
	"Effort":     "think", "MaxTokens": "options.num_predict", "Stop": "options.stop", "Sampling": "options",
}

// fail answers with an error of any kind.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.WriteError(w, r, wireError(err))
}

// wireError says what an error amounts to. Of a prompt that is too long it speaks in Ollama's words.
func wireError(err error) *wire.Error { return namedError(err, fields) }

// namedError is wireError with other names of fields.
func namedError(err error, fields map[string]string) *wire.Error {
	e := wire.FromError(err, fields)
	var long *generation.PromptTooLongError
	if !errors.As(err, &long) {
		return e
	}
	told := *e
	told.Message = tooLong(long)
	return &told
}

// wireError says what an error of a run amounts to. POST /api/generate has one field for what the user says.
func (p *prompt) wireError(err error) *wire.Error {
	if p.head.chat {
		return wireError(err)
	}
	names := maps.Clone(fields)
	names["Messages"] = names["Prompt"]
	return namedError(err, names)
}

// tooLong is what Ollama says of a prompt or a text that is longer than the context, with what there is and what fits.
func tooLong(long *generation.PromptTooLongError) string {
	return fmt.Sprintf("the input length exceeds the context length: %v", long)
}

// WriteError answers with an error in Ollama's shape.
func (a *API) WriteError(w http.ResponseWriter, _ *http.Request, e *wire.Error) {
	wire.BeginError(w, e)
	wire.WriteJSON(w, e.Status, errorResponse(e))
}

func errorResponse(e *wire.Error) ErrorResponse {
	return ErrorResponse{Error: e.Error(), Code: e.Code, Param: e.Param}
}

// use returns the model that a request calls name.
func (a *API) use(ctx context.Context, name string) (wire.Model, error) {
	if name == "" {
		return nil, wire.Invalid("model", "it is required")
	}
	m, err := a.models.Use(ctx, name)
	if err != nil {
		return nil, notFound(err, name)
	}
	return m, nil
}

// notFound says of an error as Ollama does that there is no model called name, where it is that.
func notFound(err error, name string) error {
	e := wire.FromError(err, fields)
	if e.Code == wire.CodeModel {
		e = &wire.Error{Status: e.Status, Code: e.Code, Err: err,
			Message: fmt.Sprintf("model '%.100s' not found; GET /api/tags lists those that there are", name)}
	}
	return e
}

// unload unloads the model that a request calls name, once nobody uses it.
func (a *API) unload(ctx context.Context, name string) error {
	if name == "" {
		return wire.Invalid("model", "it is required")
	}
	if err := a.models.Unload(ctx, name); err != nil {
		return notFound(err, name)
	}
	return nil
}

// run generates and answers, as a stream or as one message.
func (a *API) run(w http.ResponseWriter, r *http.Request, m wire.Model, p *prompt) {
	if !p.stream {
		c := &collector{head: p.head}
		t := turn{out: c, raw: p.req.Prompt != ""}
		for e, err := range m.Generate(r.Context(), p.req) {
			if err != nil {
				a.WriteError(w, r, p.wireError(err))
				return
			}
			t.push(&e)
		}
		wire.WriteJSON(w, http.StatusOK, c.response())
		return
	}
	var out *wire.Stream
	var enc *encoder
	t := turn{raw: p.req.Prompt != ""}
	for e, err := range m.Generate(r.Context(), p.req) {
		switch {
		case err != nil && out == nil:
			a.WriteError(w, r, p.wireError(err))
			return
		case err != nil:
			enc.fail(p.wireError(err))
			return
		case out == nil: // the run has started, so nothing is wrong with the request
			out = wire.NewLines(w)
			defer out.End()
			enc = newEncoder(out, p.head)
			t.out = enc
		}
		if t.push(&e); enc.err != nil {
			return // nobody reads it any more
		}
	}
}

// chat answers POST /api/chat.
func (a *API) chat(w http.ResponseWriter, r *http.Request) {
	began := a.cfg.Clock()
	var body ChatRequest
	err := wire.ReadJSON(r, &body)
	var p *prompt
	if err == nil {
		p, err = a.decodeChat(wire.PrincipalOf(r.Context()), &body)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, body.Model, p, began)
}

// generate answers POST /api/generate.
func (a *API) generate(w http.ResponseWriter, r *http.Request) {
	began := a.cfg.Clock()
	var body GenerateRequest
	err := wire.ReadJSON(r, &body)
	var p *prompt
	if err == nil {
		p, err = a.decodeGenerate(wire.PrincipalOf(r.Context()), &body)
	}
	if err == nil && body.Raw {
		err = wire.PrincipalOf(r.Context()).MayPromptRaw("raw")
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.answer(w, r, body.Model, p, began)
}

// answer runs a prompt. An empty one only loads its model, or unloads it.
func (a *API) answer(w http.ResponseWriter, r *http.Request, model string, p *prompt, began time.Time) {
	p.head.model, p.head.clock, p.head.began = model, a.cfg.Clock, began
	if p.empty && p.unload {
		if err := a.unload(r.Context(), model); err != nil {
			a.fail(w, r, err)
			return
		}
		a.answerEmpty(w, p, "unload")
		return
	}
	m, err := a.use(r.Context(), model)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	defer m.Release()
	p.head.load = a.cfg.Clock().Sub(began)
	if p.empty {
		a.answerEmpty(w, p, "load")
		return
	}
	if size := m.Runner().Info().ContextSize; p.context > size {
		p.head.warnings = append(p.head.warnings,
			Warning{Code: "num_ctx", Message: fmt.Sprintf("options.num_ctx asks for %d tokens, and the model was loaded "+
				"with a context of %d", p.context, size)})
	}
	if p.truncate {
		dropped, err := contract.Shorten(r.Context(), m, wire.PrincipalOf(r.Context()).ID, &p.req)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if dropped > 0 {
			p.head.warnings = append(p.head.warnings, Warning{
				Code:    "input_truncated",
				Message: fmt.Sprintf("%d messages were left out so that the rest fits into the context", dropped),
			})
		}
	}
	if p.unload {
		if wire.PrincipalOf(r.Context()).May(wire.ScopeModels) {
			// when the model is given back, and others have given it back
			defer func() { _ = a.unload(context.WithoutCancel(r.Context()), model) }()
		} else {
			p.head.warnings = append(p.head.warnings,
				Warning{Code: "keep_alive", Message: "keep_alive was ignored: this API key lacks the permission models, which " +
					"unloading takes"})
		}
	}
	a.run(w, r, m, p)
}

// answerEmpty answers a request that generates nothing.
func (a *API) answerEmpty(w http.ResponseWriter, p *prompt, why reasoning.FinishReason) {
	c := &collector{head: p.head}
	c.finish(nil, &reasoning.Result{Finish: why}, nil)
	wire.WriteJSON(w, http.StatusOK, c.response())
}
