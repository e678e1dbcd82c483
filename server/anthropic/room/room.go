// Package room adds Anthropic's format to the command serve.
package room

import (
	"runner/cmd/runner/cli"
	"runner/server/anthropic"
	"runner/server/wire"
)

func init() { cli.Register(cli.Room{Name: "anthropic", Serve: serve, Clients: "Anthropic"}) }

func serve(h *cli.Host) cli.Serving {
	return cli.Serving{Uses: []string{"base URL for clients of Anthropic: $URL"}, Formats: func() ([]wire.Format, error) {
		return []wire.Format{anthropic.New(h, h.Config)}, nil
	}}
}
