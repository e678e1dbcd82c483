// Package room adds Ollama's format to the command serve.
package room

import (
	"runner/cmd/runner/cli"
	"runner/server/ollama"
	"runner/server/wire"
)

func init() { cli.Register(cli.Room{Name: "ollama", Serve: serve}) }

func serve(h *cli.Host) cli.Serving {
	return cli.Serving{Formats: func() ([]wire.Format, error) {
		models, err := newLibrary(h)
		if err != nil {
			return nil, err
		}
		return []wire.Format{ollama.New(h, ollama.Config{Defaults: h.Defaults, Library: models})}, nil
	}}
}
