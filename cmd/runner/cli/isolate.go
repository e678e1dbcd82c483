package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"runner/backend"
)

// isolation says which models get a process of their own, so that a crash of the engine does not end the program.
type isolation struct {
	when   string
	memory byteSize
	// folder is the folder of the engine; empty means the engine in this program. One from a folder always gets a process
	// of its own.
	folder string
	// from is the size of the smallest file, in bytes, that gets one under auto; 0 means that none does.
	from int64
}

const (
	isolateAuto = "auto"
	isolateOn   = "on"
	isolateOff  = "off"
)

// servedFrom is from for a server, on which many may depend. A step of a small model takes less time than the exchange
// with another process.
const servedFrom = 256<<20 + 1

// add adds the flags. auto says what auto means.
func (i *isolation) add(cmd *cobra.Command, auto string) {
	i.when = isolateAuto
	addNameChoice(cmd, &i.when, "isolate",
		"run the engine in a process of its own, which is started again after a crash ("+
			auto+")", isolateAuto, isolateOn, isolateOff)
	cmd.Flags().StringVar(&i.folder, "engine", "",
		"run models with the llama.cpp libraries in `DIR`, in a process of their own")
	cmd.Flags().Var(&i.memory, "engine-memory",
		"run the engine in a process of its own, which may take at most `BYTES`, as in 24GB (0: no limit)")
}

// engineVariable is the variable with the default of --engine.
const engineVariable = "RUNNER_ENGINE"

// validate finds the folder and refuses one that cannot be used.
func (i *isolation) validate(check func(path string) error) error {
	if i.memory > 0 && i.when == isolateOff {
		return &usageError{what: "--isolate cannot be off with --engine-memory",
			hint: "only a process of its own can have a limit"}
	}
	if i.folder == "" {
		return nil
	}
	if i.when == isolateOff {
		return &usageError{what: "--isolate cannot be off with --engine",
			hint: "an engine from a folder runs in a process of its own"}
	}
	path, err := filepath.Abs(i.folder)
	if err != nil {
		return err
	}
	i.folder = path
	return check(path)
}

// applies reports whether the model at path gets a process of its own.
func (i *isolation) applies(path string) bool {
	switch {
	case i.folder != "", i.memory > 0, i.when == isolateOn:
		return true
	case i.when == isolateAuto:
		info, err := os.Stat(path)
		return i.from > 0 && err == nil && info.Size() >= i.from
	}
	return false
}

// openModel loads a model, in a process of its own if that was asked for.
func (a *app) openModel(ctx context.Context, path string, cfg backend.Config, log *slog.Logger) (backend.Model, error) {
	if !a.isolation.applies(path) {
		return a.engine.Open(ctx, path, cfg)
	}
	return a.engine.Isolated(ctx, path, cfg, Process{a.isolation.folder, int64(a.isolation.memory)}, log)
}

// engineCommand is hidden: only the program itself starts it.
func (a *app) engineCommand() *cobra.Command {
	var p Process
	cmd := &cobra.Command{
		Use: "engine-process", Hidden: true, Args: noArguments,
		Short: "Be an engine's own process",
		Long:  "Be an engine's own process. runner starts this command itself; docs/engine-protocol.md describes it.",
		RunE:  func(*cobra.Command, []string) error { return a.engine.Process(p) },
	}
	cmd.Flags().Int64Var(&p.Memory, "memory", 0, "maximum memory in `bytes` (0: no limit)")
	cmd.Flags().StringVar(&p.Folder, "engine", "", "`DIR` with the engine's libraries (none: the engine in this program)")
	return cmd
}
