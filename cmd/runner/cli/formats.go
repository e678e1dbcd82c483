package cli

import (
	"context"

	"runner/server/traces"
)

// mountFormats adds the wire formats to a server. The server keeps traces if kept is not nil. Until ctx ends, the
// sealing keys are reloaded whenever their file changes.
func mountFormats(ctx context.Context, o *serveOptions, kept *keptTraces) error {
	path, err := sealKeysPath(o.sealKeys)
	if err != nil {
		return err
	}
	if o.Seal, err = sealKeys(path); err != nil {
		return err
	}
	go followSealKeys(ctx, path, o.Seal, sealReloadEvery, o.Logger)
	o.StrictSeal, o.Traces = o.sealed == sealedStrict, kept.recorder(o.record.on)
	o.Recorder = kept.recorder(true)
	served := traces.Config{}
	if o.Traces != nil {
		served = traces.Config{Store: kept.store, Logger: kept.log}
	}
	o.Mount(traces.New(served))
	for _, r := range o.rooms {
		if r.Formats == nil {
			continue
		}
		formats, err := r.Formats()
		if err != nil {
			return err
		}
		for _, f := range formats {
			o.Mount(f)
		}
	}
	return nil
}
