// Package room adds SGLang to the kinds of engine on other machines.
package room

import (
	"runner/backend/remote/sglang"
	"runner/cmd/runner/cli"
)

func init() {
	cli.Register(cli.Room{Name: sglang.Kind, Kind: &cli.Kind{Name: sglang.Kind, Turn: 3, New: sglang.New}})
}
