// Package cli is the command tree of runner: flags in, runner calls, rendering out.
//
// It names no engine: main gives it an [Engine], so that everything here but main is built and tested without one. It
// holds no model logic.
//
// Rules: what can be refused before a model is loaded is refused then; an error is one line that says what was
// wrong and what to do, and nothing is written to standard output before it; exit codes are 0, 1 failed, 2 usage,
// 130 interrupted.
package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"golang.org/x/term"

	"runner/backend"
	"runner/chattemplate"
	"runner/reasoning"
	"runner/runner"
)

// Engine is what the commands need of a backend.
type Engine struct {
	// Open loads the model at path.
	Open func(ctx context.Context, path string, cfg backend.Config) (backend.Model, error)
	// Check says whether the engine runs the model at path, from its headers alone.
	Check func(path string) error
	// Demo returns the path of the bundled model, unpacking it where that is needed.
	Demo func(ctx context.Context) (string, error)
	// Name is what people call the engine and Module the Go module whose version is reported for it.
	Name, Module string
	// System lists what the engine sees of the machine.
	System func() []Fact
	// Memory returns how much more memory the process can get now, and how much of its address space resource
	// limits leave; 0 is unknown, or no limit. Nil is unknown.
	Memory func() (available, addresses int64)
	// Clock gives the time that models are shown; nil means time.Now.
	Clock func() time.Time
}

// Fact is one thing that the engine sees of the machine.
type Fact struct {
	Name, Value string
	// Problem says why this would make a run fail, and what to do; empty when all is well.
	Problem string
}

// Build is what the linker was told of the program. Both may be empty; the commit is then read from the build info,
// where Go noted one.
type Build struct{ Version, Commit string }

// generator is the part of a [runner.Runner] that the commands use.
type generator interface {
	Generate(ctx context.Context, req runner.Request) iter.Seq2[reasoning.Event, error]
	Info() backend.Info
	Format() chattemplate.Format
	Close() error
}

// app is one invocation.
type app struct {
	engine Engine
	build  Build
	// load opens the model at path and makes it generate.
	load func(ctx context.Context, path string, model backend.Config, cfg runner.Config) (generator, error)

	in       *os.File
	out, err *os.File
	// inTerminal, outTerminal and errTerminal say which of them are terminals.
	inTerminal, outTerminal, errTerminal bool
	// inTaken says that standard input was read: it is read once.
	inTaken bool
}

// Main runs the command line args and returns the exit code.
func Main(engine Engine, build Build, args []string) int {
	a := newApp(engine, build)
	return a.execute(args)
}

func newApp(engine Engine, build Build) *app {
	a := &app{engine: engine, build: build, in: os.Stdin, out: os.Stdout, err: os.Stderr}
	a.load = a.loadModel
	a.inTerminal = term.IsTerminal(int(a.in.Fd()))
	a.outTerminal = term.IsTerminal(int(a.out.Fd()))
	a.errTerminal = term.IsTerminal(int(a.err.Fd()))
	return a
}

func (a *app) execute(args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(context.Background())
	if line := errorLine(err); line != "" {
		a.complain(line)
	}
	return exitCode(err)
}

func (a *app) loadModel(ctx context.Context, path string, model backend.Config, cfg runner.Config) (generator, error) {
	m, err := a.engine.Open(ctx, path, model)
	if err != nil {
		return nil, err
	}
	cfg.Clock = a.engine.Clock
	r, err := runner.New(m, cfg)
	if err != nil {
		m.Close()
		return nil, err
	}
	return r, nil
}

// note writes one line for people to standard error.
func (a *app) note(line string) { fmt.Fprintln(a.stderr(), line) }

// complain writes an error line to standard error.
func (a *app) complain(line string) { a.note("runner: " + line) }

// stderr is standard error, cleaned where it is a terminal: file names and models' names are not to be trusted.
func (a *app) stderr() io.Writer { return cleaned(a.err, a.errTerminal) }
