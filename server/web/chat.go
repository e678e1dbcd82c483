package web

import (
	"net/http"

	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// chat answers POST /web/chat. Nothing is written until the run has started, so that WriteError can answer an error in
// the request.
func (a *API) chat(w http.ResponseWriter, r *http.Request) error {
	who := wire.PrincipalOf(r.Context())
	var in Request
	if err := wire.ReadJSON(r, &in); err != nil {
		return err
	}
	t, err := a.decode(who, &in)
	if err != nil {
		return err
	}
	m, err := a.models.Use(r.Context(), in.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	scope := seal.Scope{
		Principal: who.ID, Model: contract.WeightsOf(m), Conversation: seal.ConversationID("web", in.Conversation),
	}
	turn, warnings, err := contract.Bind(a.cfg.Seal, scope, a.cfg.StrictSeal, &t.req, t.values)
	if err != nil {
		return err
	}
	if t.req.Seed == nil {
		t.req.Seed = new(wire.NewSeed(a.cfg.Random))
	}
	t.req.Thread, t.req.Phases = in.Conversation, true
	run := wire.Run{Request: t.req,
		Observer: contract.Reply(turn, contract.Tracer(t.trace, a.cfg.Traces, who, a.cfg.NewID("web_")))}
	return wire.Streamed(w, r, m, []wire.Run{run}, wire.NewEvents, func(to *wire.Stream) wire.Encoder {
		return NewEncoder(EncoderConfig{Model: m.Card().Name, Schema: t.schema, Pace: a.cfg.Pace,
			Warnings: append(t.warnings, warnings...), Flush: to.Flush},
			func(event any) error { return to.Send("", event) })
	})
}
