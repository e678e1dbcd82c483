// Package room adds Ollama's format to the command serve.
package room

import (
	"context"

	"runner/cmd/runner/cli"
	"runner/server/ollama"
)

func init() {
	cli.Register(cli.Room{Name: "ollama", Serve: func(a *cli.App) cli.Serving {
		return cli.Serving{Mount: func(_ context.Context, h *cli.Host) error {
			models, err := newLibrary(a, h)
			if err != nil {
				return err
			}
			h.Mount(ollama.New(h.Server, ollama.Config{Defaults: h.Defaults, Library: models}))
			return nil
		}}
	}})
}
