// Package room adds sealed traces to the program: recording runs, the routes of a server for what it recorded, and the
// command trace.
package room

import (
	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/server/traces"
	"runner/server/wire"
)

func init() {
	cli.Register(cli.Room{Name: "traces", Record: newRecorder, Serve: serve, Commands: func(a *cli.App) []*cobra.Command {
		return []*cobra.Command{(&commands{a}).trace()}
	}})
}

// serve serves the traces that requests ask for.
func serve(h *cli.Host) cli.Serving {
	return cli.Serving{Formats: func() ([]wire.Format, error) {
		cfg := traces.Config{}
		if r, ok := h.Recorder.(*recorder); ok && r.on {
			cfg = traces.Config{Store: r.store, Logger: r.log}
		}
		return []wire.Format{traces.New(cfg)}, nil
	}}
}
