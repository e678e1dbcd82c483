// Package room adds vLLM to the kinds of engine on other machines.
package room

import (
	"runner/backend/remote/vllm"
	"runner/cmd/runner/cli"
)

func init() {
	cli.Register(cli.Room{Name: vllm.Kind, Kind: &cli.Kind{Name: vllm.Kind, Turn: 2, New: vllm.New}})
}
