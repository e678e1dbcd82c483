package cli

// mountFormats adds the wire formats to a server, which reads the sealing keys again whenever their file changes.
func mountFormats(o *serveOptions) error {
	path, err := sealKeysPath(o.sealKeys)
	if err != nil {
		return err
	}
	if o.Seal, err = sealKeys(path); err != nil {
		return err
	}
	o.Follow(followSealKeys(path, o.Seal))
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
