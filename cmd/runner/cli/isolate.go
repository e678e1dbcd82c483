package cli

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/cmd/runner/flags"
	"runner/models"
)

// Isolation says which models get a process of their own, so that a crash of the engine does not end the program.
type Isolation struct {
	When   string
	memory int64
	// Folder is the folder of the engine; empty means the engine in this program. One from a folder always gets a process
	// of its own.
	Folder string
	// from is the size of the smallest file, in bytes, that gets one under auto; 0 means that none does.
	from int64
}

// The values of --isolate.
const (
	IsolateAuto = "auto"
	IsolateOn   = "on"
	IsolateOff  = "off"
)

// servedFrom is from for a server, on which many may depend. A step of a small model takes less time than the exchange
// with another process.
const servedFrom = 256<<20 + 1

// flags are the flags that say where an engine runs.
func (i *Isolation) flags() flags.Table {
	return flags.List(
		flags.Name("isolate", &i.When, []string{IsolateAuto, IsolateOn, IsolateOff},
			"run the engine in a process of its own, which is started again after a crash (auto: a server does so for models "+
				"of more than 256 MiB)"),
		flags.Text("engine", &i.Folder, "run GGUF files with the llama.cpp libraries in `DIR`, in a process of their "+
			"own (default: the engine in this program, or the newest of runner engines for a model that it does not know)"),
		flags.Size("engine-memory", &i.memory, 0, 0,
			"run the engine in a process of its own, which may take at most `BYTES`, as in 24GB (0: no limit)"))
}

// Isolate uses the flags from now on. It finds the folder and refuses one that cannot be used.
func (a *App) Isolate(i Isolation) error {
	if err := i.validate(a.engine.CheckFolder); err != nil {
		return err
	}
	a.isolation = i
	return nil
}

func (i *Isolation) validate(check func(path string) error) error {
	if i.memory > 0 && i.When == IsolateOff {
		return Usage("--isolate cannot be off with --engine-memory").Hint("only a process of its own can have a limit")
	}
	if i.Folder == "" {
		return nil
	}
	if i.When == IsolateOff {
		return Usage("--isolate cannot be off with --engine").Hint("an engine from a folder runs in a process of its own")
	}
	path, err := filepath.Abs(i.Folder)
	if err != nil {
		return err
	}
	i.Folder = path
	return check(path)
}

// applies reports whether a model gets a process of its own.
func (i *Isolation) applies(m models.Model) bool {
	switch {
	case i.Folder != "", i.memory > 0, i.When == IsolateOn:
		return true
	case i.When == IsolateAuto:
		return i.from > 0 && m.Files.Bytes() >= i.from
	}
	return false
}

// placed is a model with the engine that was chosen for it. A choice is for one opening, because the file may change.
type placed struct {
	models.Model
	// own is set if the engine gets a process of its own, which process describes.
	own     bool
	process Process
}

// place chooses the engine that opens a model. That of --engine is not asked before.
func (a *App) place(ctx context.Context, m models.Model) (p placed, err error) {
	folder := a.isolation.Folder
	if folder == "" && m.IsFile() {
		if folder, err = a.engine.Choose(ctx, m.Path, "", a.warnEngine); err != nil {
			return p, err
		}
	}
	return a.placeIn(m, folder)
}

// placeAgain is place for a model that was open before. The bundled one is written again if somebody has changed it.
func (a *App) placeAgain(ctx context.Context, m models.Model) (placed, error) {
	if m.Source == models.Demo {
		if _, err := a.engine.Demo(ctx); err != nil {
			return placed{}, err
		}
	}
	return a.place(ctx, m)
}

// placeIn returns a model with the engine in a folder, or for "" the one in this program. The folder is for files only.
func (a *App) placeIn(m models.Model, folder string) (placed, error) {
	switch {
	case m.Source == models.Folder:
		_, err := a.folderEngine(m.Path)
		return placed{Model: m, own: true}, err
	case m.IsFile() && folder != "" && a.isolation.When == IsolateOff:
		return placed{}, Usage("--isolate cannot be off for this model, which the engine in %s runs", folder).
			Hint("an engine from a folder runs in a process of its own")
	}
	return placed{m, folder != "" || a.isolation.applies(m), Process{Folder: folder, Memory: a.isolation.memory}}, nil
}

// warnEngine warns about an engine that cannot be used, once. Only one model is loaded at a time, so it needs no lock.
func (a *App) warnEngine(text string) {
	if a.warned[text] {
		return
	}
	a.warned[text] = true
	a.shown.Stop() // loading goes on, and shows it again
	a.Complain("warning: " + text)
}

// OpenModel loads a model, in a process of its own if that was asked for or if the engine for it is in a folder.
func (a *App) OpenModel(ctx context.Context, m models.Model, cfg backend.Config, log *slog.Logger) (backend.Model,
	error) {
	p, err := a.place(ctx, m)
	if err != nil {
		return nil, err
	}
	return a.openPlaced(ctx, p, cfg, log)
}

// openPlaced loads a model with the engine that was chosen for it.
func (a *App) openPlaced(ctx context.Context, p placed, cfg backend.Config, log *slog.Logger) (backend.Model, error) {
	switch {
	case p.Source == models.Address:
		return a.openRemote(ctx, p.Path, cfg, log)
	case p.Source == models.Folder:
		return a.folders.Open(ctx, p.Path, cfg, a.isolation.memory, log)
	case !p.own:
		return a.engine.Open(ctx, p.Path, cfg)
	case p.process.Folder != "" && log != nil:
		log.Info("an engine from a folder runs the model", "path", p.Path, "engine", p.process.Folder)
	}
	return a.engine.Isolated(ctx, p.Path, cfg, p.process, log)
}

// engineCommand is hidden: only the program itself starts it.
func (a *App) engineCommand() *cobra.Command {
	var p Process
	return Command(&cobra.Command{
		Use: "engine-process", Hidden: true, Args: NoArguments,
		Short: "Be an engine's own process",
		Long:  "Be an engine's own process. runner starts this command itself; docs/engine-protocol.md describes it.",
		RunE: func(*cobra.Command, []string) error {
			err := a.engine.Process(p)
			if errors.Is(err, ErrByHand) {
				return Usage("engine-process is internal: runner starts it").From(err).
					Hint("use runner run or runner serve, with --isolate on")
			}
			return err
		},
	}, flags.Size("memory", &p.Memory, 0, 0, "maximum memory in `BYTES` (0: no limit)"),
		flags.Text("engine", &p.Folder, "`DIR` with the engine's libraries (none: the engine in this program)"),
		flags.Switch("verbose", &p.Verbose, "write the engine's messages to standard error"))
}
