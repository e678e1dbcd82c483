package main

import (
	"context"
	"log/slog"
	"os"
	"strconv"

	"runner/backend"
	"runner/backend/child"
	"runner/backend/child/protocol"
	engineside "runner/backend/child/serve"
	"runner/backend/llamacpp"
)

// isolated loads a model in a process of its own, which runs this program's command engine-process.
func isolated(ctx context.Context, path string, cfg backend.Config, limit int64, log *slog.Logger) (backend.Model,
	error) {
	p, err := child.Self("engine-process", "--memory", strconv.FormatInt(limit, 10))
	if err != nil {
		return nil, err
	}
	m, err := child.Engine{Program: p, Version: version, Log: log}.Open(ctx, path, cfg)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// process serves the compiled-in engine to the program that started this process.
func process(limit int64) error {
	if err := limitMemory(limit); err != nil {
		return err
	}
	return engineside.Run(os.NewFile(protocol.FileIn, "in"), os.NewFile(protocol.FileOut, "out"), engineside.Engine{
		Name: "llama.cpp", Version: version, Open: llamacpp.Open, Progress: llamacpp.Computed})
}
