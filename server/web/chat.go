package web

import (
	"net/http"

	"runner/reasoning"
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
	if t.trace {
		t.req.Trace = a.cfg.Traces.Tracer(who.ID, contract.FieldTrace, wire.NewID(a.cfg.Random, "web_"))
	}
	m, err := a.models.Use(r.Context(), in.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	scope := seal.Scope{
		Principal: who.ID, Model: contract.WeightsOf(m), Conversation: seal.ConversationID("web", in.Conversation),
	}
	restorer := contract.NewRestorer(a.cfg.Seal, scope, a.cfg.StrictSeal)
	if err := restorer.Conversation(t.req.Messages, t.values); err != nil {
		return err
	}
	t.warnings = append(t.warnings, restorer.Warnings()...)
	if t.req.Seed == nil {
		seed := wire.NewSeed(a.cfg.Random)
		t.req.Seed = &seed
	}
	t.req.Thread, t.req.Phases = in.Conversation, true
	sealing := contract.Begin(a.cfg.Seal, scope, t.req.Messages)
	if t.req.CallID = sealing.CallID; t.seal {
		t.req.Seal = contract.Sealer(sealing, true)
	}
	return a.stream(w, r, m, t)
}

// stream answers with the events of a run.
func (a *API) stream(w http.ResponseWriter, r *http.Request, m wire.Model, t *turn) error {
	var enc *Encoder
	for e, err := range m.Generate(r.Context(), t.req) {
		switch {
		case err != nil && enc == nil:
			return err
		case err != nil:
			_ = enc.Fail(wire.FromError(err, fields)) // the client may be gone; the run has ended anyway
			return nil
		case enc == nil:
			out := wire.NewEvents(w)
			defer out.End()
			enc = NewEncoder(EncoderConfig{Model: m.Card().Name, Schema: t.schema, Pace: a.cfg.Pace},
				func(event []byte) error { return out.Send("", event) })
			defer enc.Close() // before the stream ends
		}
		if err := enc.Push(&e); err != nil {
			return nil // the client has gone
		}
		if e.Kind == reasoning.Started {
			for _, w := range t.warnings {
				enc.warn(w.Code, w.Text)
			}
		}
	}
	return nil
}
