package cli

import "context"

// mountFormats adds the wire formats to a server. Until ctx ends, the sealing keys are reloaded whenever their file
// changes.
func mountFormats(ctx context.Context, o *serveOptions) error {
	path, err := sealKeysPath(o.sealKeys)
	if err != nil {
		return err
	}
	if o.Seal, err = sealKeys(path); err != nil {
		return err
	}
	go followSealKeys(ctx, path, o.Seal, sealReloadEvery, o.Logger)
	if o.StrictSeal = o.sealed == sealedStrict; o.Recorder.On() {
		o.Traces = o.Recorder
	}
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
