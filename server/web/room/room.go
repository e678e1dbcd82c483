// Package room adds the page for people to the command serve.
package room

import (
	"runner/cmd/runner/cli"
	"runner/server/web"
	"runner/server/wire"
)

func init() { cli.Register(cli.Room{Name: "web", Serve: serve}) }

func serve(h *cli.Host) cli.Serving {
	return cli.Serving{
		Uses: []string{"for a browser, with a page to chat on: $URL"},
		Formats: func() ([]wire.Format, error) {
			return []wire.Format{web.New(h, web.Config{Config: h.Config, Figures: h.Figures})}, nil
		},
	}
}
