// Command runner runs quantized reasoning models on the user's own machine and keeps their reasoning apart from their
// answers.
//
// This package only connects the command tree (package cli) with the engine. No other package of the command links an
// engine.
//
// docs/architecture.md is the map of the source.
package main

import (
	"os"

	"runner/backend/llamacpp"
	"runner/backend/llamacpp/enginefolder"
	"runner/backend/llamacpp/machine"
	"runner/cmd/runner/cli"
	_ "runner/cmd/runner/rooms"
	"runner/models/demo"
)

// version and commit are set by the linker.
var version, commit string

var engine = cli.Engine{
	Open:           open,
	Isolated:       isolated,
	CheckFolder:    enginefolder.Check,
	Process:        process,
	Remote:         new(addresses).open,
	DescribeRemote: describeRemote,
	Choose:         choose,

	Written: describeWriting,
	Engines: engines,
	Demo:    demo.Path,
	Name:    "llama.cpp",
	Module:  "github.com/ollama/ollama",
	System:  facts,
	Machine: machineFacts,
	Log:     llamacpp.SetLogger,
	Memory: func() (available, addresses int64) {
		m := machine.Now()
		return m.MemoryAvailable, m.Addresses
	},
}

func main() {
	os.Exit(cli.Main(engine, cli.Build{Version: version, Commit: commit}, os.Args[1:]))
}
