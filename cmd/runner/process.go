package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"strconv"
	"syscall"

	"runner/backend"
	"runner/backend/child"
	"runner/backend/child/protocol"
	engineside "runner/backend/child/serve"
	"runner/backend/llamacpp"
	"runner/cmd/runner/cli"
	"runner/hint"
)

// isolated loads a model in a process of its own, which runs this program's command engine-process.
func isolated(ctx context.Context, path string, cfg backend.Config, p cli.Process, log *slog.Logger) (backend.Model,
	error) {
	p.Verbose = log != nil && log.Enabled(ctx, slog.LevelDebug)
	program, err := engineProgram(p)
	if err != nil {
		return nil, err
	}
	m, err := child.Engine{Program: program, Version: version, Memory: p.Memory, Log: log}.Open(ctx, path, cfg)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// engineProgram returns the program that is an engine's own process.
func engineProgram(p cli.Process) (child.Program, error) {
	return child.Self("engine-process", "--memory", strconv.FormatInt(p.Memory, 10), "--engine", p.Folder,
		"--verbose="+strconv.FormatBool(p.Verbose))
}

// process serves an engine to the program that started this process.
func process(p cli.Process) error {
	if !isPipe(protocol.FileIn) || !isPipe(protocol.FileOut) {
		return cli.ErrByHand
	}
	if p.Verbose {
		log.SetFlags(0) // the runner's log has the time
		slog.SetLogLoggerLevel(slog.LevelDebug)
		llamacpp.SetLogger(slog.Default())
	}
	return serveEngine(p.Memory, func() engineside.Engine { return offered(p.Folder) })
}

// offered is the engine in a folder, or the one in this program.
func offered(folder string) engineside.Engine {
	e := engineside.Engine{Name: llama, Version: version, Progress: llamacpp.Computed}
	var engine *llamacpp.Engine
	var err error
	if folder == "" {
		engine, err = llamacpp.BuiltIn()
	} else {
		engine, err = llamacpp.OpenFolder(folder)
	}
	if err != nil {
		e.About.Problem = err.Error()
	} else {
		e.Version, e.About = engine.Version(), aboutOf(engine)
	}
	e.Open = func(ctx context.Context, path string, cfg backend.Config) (backend.Model, error) {
		if err != nil {
			return nil, &backend.LoadError{Path: path, Detail: err.Error(), Err: err}
		}
		return engine.Open(ctx, path, cfg)
	}
	return e
}

// isPipe reports whether a descriptor is that of a pipe.
func isPipe(descriptor int) bool {
	var stat syscall.Stat_t
	err := syscall.Fstat(descriptor, &stat)
	return err == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// serveEngine serves the engine that offer returns, with a limit of this process's memory. With one that is too small
// even for the process itself, no model can be loaded.
func serveEngine(memory int64, offer func() engineside.Engine) error {
	err := limitMemory(memory)
	if err != nil && !errors.Is(err, backend.ErrMemory) {
		return err
	}
	e := offer() // within the limit
	if err != nil {
		e.Open = func(_ context.Context, path string, _ backend.Config) (backend.Model, error) {
			return nil, &backend.LoadError{Path: path, Reason: backend.LoadTooBig, Detail: err.Error(), Err: err,
				Advice: hint.Of(err)}
		}
	}
	return engineside.Run(os.NewFile(protocol.FileIn, "in"), os.NewFile(protocol.FileOut, "out"), e)
}
