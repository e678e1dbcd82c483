package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"

	"runner/backend"
	"runner/backend/child"
	"runner/backend/child/protocol"
	engineside "runner/backend/child/serve"
	"runner/backend/llamacpp"
	"runner/backend/mlx"
	"runner/cmd/runner/cli"
)

// isolated loads a model in a process of its own, which runs this program's command engine-process.
func isolated(ctx context.Context, path string, cfg backend.Config, p cli.Process, log *slog.Logger) (backend.Model,
	error) {
	if mlx.IsFolder(path) && p.Folder != "" {
		return nil, &backend.LoadError{Path: path, Reason: backend.LoadNotModel, Detail: "is a folder with safetensors",
			Advice: "leave out --engine, which is for GGUF files"}
	}
	if mlx.IsFolder(path) { // MLX has a process of its own in any case
		return openMLX(ctx, path, cfg, p.Memory, log)
	}
	program, err := child.Self("engine-process", "--memory", strconv.FormatInt(p.Memory, 10), "--engine", p.Folder)
	if err != nil {
		return nil, err
	}
	m, err := child.Engine{Program: program, Version: version, Memory: p.Memory, Log: log}.Open(ctx, path, cfg)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// process serves an engine to the program that started this process.
func process(p cli.Process) error {
	return serveEngine("llama.cpp", p.Memory, func(ctx context.Context, path string, cfg backend.Config) (backend.Model,
		error) {
		if p.Folder == "" {
			return llamacpp.Open(ctx, path, cfg)
		}
		engine, err := llamacpp.OpenFolder(p.Folder)
		if err != nil {
			return nil, &backend.LoadError{Path: path, Detail: err.Error(), Err: err}
		}
		return engine.Open(ctx, path, cfg)
	})
}

// serveEngine serves an engine with a limit of this process's memory. With one that is too small even for the process
// itself, no model can be loaded.
func serveEngine(name string, memory int64, open func(context.Context, string, backend.Config) (backend.Model,
	error)) error {
	err := limitMemory(memory)
	if small := (*child.MemoryError)(nil); errors.As(err, &small) {
		open = func(_ context.Context, path string, _ backend.Config) (backend.Model, error) {
			return nil, &backend.LoadError{Path: path, Reason: backend.LoadTooBig, Detail: small.Error(), Err: err,
				Advice: small.Hint()}
		}
	} else if err != nil {
		return err
	}
	return engineside.Run(os.NewFile(protocol.FileIn, "in"), os.NewFile(protocol.FileOut, "out"), engineside.Engine{
		Name: name, Version: version, Open: open, Progress: llamacpp.Computed})
}
