package cli

import (
	"context"

	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/traces"
	"runner/server/web"
)

// mountFormats adds the wire formats to a server. The server keeps traces if kept is not nil. Until ctx ends, the
// sealing keys are reloaded whenever their file changes.
func mountFormats(ctx context.Context, h *Host, o *serveOptions, kept *keptTraces) error {
	path, err := sealKeysPath(o.sealKeys)
	if err != nil {
		return err
	}
	keyring, err := sealKeys(path)
	if err != nil {
		return err
	}
	go followSealKeys(ctx, path, keyring, sealReloadEvery, h.Logger)
	h.Seal, h.StrictSeal, h.Traces = keyring, o.sealed == sealedStrict, kept.recorder(o.record.on)
	served, s, recorded, strict := traces.Config{}, h.Server, h.Traces, h.StrictSeal
	if recorded != nil {
		served = traces.Config{Store: kept.store, Logger: kept.log}
	}
	s.Mount(openai.New(s, openai.Config{Defaults: o.defaults, Seal: keyring, StrictSeal: strict, Traces: recorded}))
	stored := responses.StoreLimits{Responses: o.responses, Bytes: int(o.responsesMemory / 4),
		Total: int(o.responsesMemory), Age: o.responsesAge}
	s.Mount(responses.New(s, responses.Config{
		Defaults: o.defaults, Seal: keyring, StrictSeal: strict, Traces: recorded, Calls: h.Calls, Store: stored,
		Background: o.background, Share: o.share(),
	}))
	s.Mount(traces.New(served))
	s.Mount(anthropic.New(s, anthropic.Config{Defaults: o.defaults, Seal: keyring, StrictSeal: strict}))
	s.Mount(agui.New(s, agui.Config{Defaults: o.defaults, Seal: keyring, StrictSeal: strict, Traces: recorded}))
	s.Mount(web.New(s, web.Config{Defaults: o.defaults, Seal: keyring, StrictSeal: strict, Traces: recorded,
		Figures: s.Figures}))
	for _, r := range o.rooms {
		if r.Mount == nil {
			continue
		}
		if err := r.Mount(ctx, h); err != nil {
			return err
		}
	}
	return nil
}
