// Package room adds Ollama's format to the command serve.
package room

import (
	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/server/ollama"
	"runner/server/wire"
)

func init() { cli.Register(cli.Room{Name: "ollama", Serve: serve, Clients: "Ollama"}) }

func serve(h *cli.Host) cli.Serving {
	write := false
	return cli.Serving{
		Flags: flags.Topic("Access", flags.Switch("models-write", &write,
			"let clients pull, name and delete models; with --api-keys, name models:write for those who may")),
		Check: func(*cobra.Command) error {
			if write && h.KeyFile != "" {
				return cli.Usage("--models-write and --api-keys exclude each other").
					Hint("make keys with runner serve apikey new --permission models,models:write")
			}
			if write {
				h.Granted = append(h.Granted, ollama.ScopeModelsWrite)
			}
			return nil
		},
		Uses: []string{"base URL for clients of Ollama: $URL"},
		Formats: func() ([]wire.Format, error) {
			models, err := newLibrary(h)
			if err != nil {
				return nil, err
			}
			return []wire.Format{ollama.New(h, ollama.Config{Config: h.Config, Library: models})}, nil
		},
	}
}
