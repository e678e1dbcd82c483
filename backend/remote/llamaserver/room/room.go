// Package room adds llama.cpp's server to the kinds of engine on other machines.
package room

import (
	"runner/backend/remote/llamaserver"
	"runner/cmd/runner/cli"
)

func init() {
	cli.Register(cli.Room{Name: llamaserver.Kind, Kind: &cli.Kind{Name: llamaserver.Kind, Turn: 1, New: llamaserver.New}})
}
