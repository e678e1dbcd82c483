package cli

import (
	"context"
	"log/slog"

	"runner/runner"
	"runner/server"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/traces"
	"runner/server/web"
)

// mountFormats adds the wire formats to a server. The server keeps traces if kept is not nil. calls remembers the
// reasoning before tool calls. Clients may change the models of lib. Until ctx ends, the sealing keys are reloaded
// whenever their file changes.
func mountFormats(ctx context.Context, s *server.Server, o *serveOptions, kept *keptTraces, calls *runner.CallMemory,
	lib ollama.Library, log *slog.Logger) error {
	path, err := sealKeysPath(o.sealKeys)
	if err != nil {
		return err
	}
	keyring, err := sealKeys(path)
	if err != nil {
		return err
	}
	go followSealKeys(ctx, path, keyring, sealReloadEvery, log)
	recorded, served := kept.recorder(o.record.on), traces.Config{}
	if recorded != nil {
		served = traces.Config{Store: kept.store, Logger: kept.log}
	}
	strict := o.sealed == sealedStrict
	s.Mount(openai.New(s, openai.Config{Defaults: o.defaults, Seal: keyring, StrictSeal: strict, Traces: recorded}))
	stored := responses.StoreLimits{Responses: o.responses, Bytes: int(o.responsesMemory / 4),
		Total: int(o.responsesMemory), Age: o.responsesAge}
	s.Mount(responses.New(s, responses.Config{
		Defaults: o.defaults, Seal: keyring, StrictSeal: strict, Traces: recorded, Calls: calls, Store: stored,
		Background: o.background, Share: o.share(),
	}))
	s.Mount(traces.New(served))
	s.Mount(anthropic.New(s, anthropic.Config{Defaults: o.defaults, Seal: keyring, StrictSeal: strict}))
	s.Mount(ollama.New(s, ollama.Config{Defaults: o.defaults, Library: lib}))
	s.Mount(agui.New(s, agui.Config{Defaults: o.defaults, Seal: keyring, StrictSeal: strict, Traces: recorded}))
	s.Mount(web.New(s, web.Config{Defaults: o.defaults, Seal: keyring, StrictSeal: strict, Traces: recorded,
		Figures: s.Figures}))
	return nil
}
