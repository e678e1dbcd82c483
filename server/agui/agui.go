package agui

import (
	"embed"
	"errors"
	"io/fs"
	"net/http"

	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// Config is the configuration of the format.
type Config = wire.Config

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

// Routes lists the endpoint.
func (a *API) Routes() []wire.Route {
	return []wire.Route{{Method: http.MethodPost, Path: "/agui", Scope: wire.ScopeGenerate, Handle: a.run}}
}

// run answers POST /agui. Nothing is written until the run has started, so that WriteError can answer an error in the
// request.
func (a *API) run(w http.ResponseWriter, r *http.Request) error {
	who := wire.PrincipalOf(r.Context())
	var input RunAgentInput
	if err := wire.ReadJSON(r, &input); err != nil {
		return err
	}
	p, err := a.decode(who, &input)
	if err != nil {
		return err
	}
	m, err := a.models.Use(r.Context(), input.ForwardedProps.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	scope := seal.Scope{
		Principal: who.ID, Model: contract.WeightsOf(m),
		Conversation: seal.ConversationID("thread", input.ThreadID),
	}
	turn, warnings, err := contract.Bind(a.cfg.Seal, scope, a.cfg.StrictSeal, &p.req, p.values)
	if err != nil {
		return err
	}
	if p.req.Seed == nil {
		p.req.Seed = new(wire.NewSeed(a.cfg.Random))
	}
	p.req.Thread, p.req.Phases = input.ThreadID, true
	run := wire.Run{Request: p.req,
		Observer: contract.Reply(turn, contract.Tracer(p.trace, a.cfg.Traces, who, input.RunID))}
	return wire.Streamed(w, r, m, []wire.Run{run}, wire.NewEvents, func(to *wire.Stream) wire.Encoder {
		return NewEncoder(EncoderConfig{
			ThreadID: input.ThreadID, RunID: input.RunID, ParentRunID: input.ParentRunID, ProtocolVersion: input.ProtocolVersion,
			Model: m.Card().Name, Form: p.form, Warnings: append(p.warnings, warnings...), Clock: a.cfg.Clock,
			NewID: a.cfg.NewID, Interrupts: input.ForwardedProps.Interrupts,
		}, func(event any) error { return to.Send("", event) })
	})
}

// fields are this format's names of the fields of [generation.Request].
var fields = wire.Names[ForwardedProps](at(""), map[string]string{
	"Messages": "messages", "Tools": "tools", "Sampling": at("temperature"),
})

// WriteError answers with an error, as a [wire.PlainError]. If a sealed value is refused, the answer is a run that has
// only a RUN_ERROR.
func (a *API) WriteError(w http.ResponseWriter, err error) {
	e := wire.FromError(err, fields)
	if sealed := (*seal.Error)(nil); !errors.As(err, &sealed) {
		wire.WritePlain(w, e)
		return
	}
	wire.CountRefusal(w, e)
	out := wire.NewEvents(w)
	defer out.End()
	enc := NewEncoder(EncoderConfig{Clock: a.cfg.Clock}, func(event any) error { return out.Send("", event) })
	_ = enc.Fail(e) // the client may be gone
}
