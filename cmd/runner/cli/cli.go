// Package cli is the command tree of runner. Each command reads its flags, calls package runner and renders the result.
//
// The package names no engine: main passes an [Engine]. So it can be built and tested without one. It has no model
// logic.
//
// The commands follow these rules:
//
//   - Mistakes that can be found before a model is loaded are reported before it is loaded.
//   - An error is one line that says what is wrong and what to do. Nothing is written to standard output before it.
//   - The exit code is 0 for success, 1 for a failure, 2 for a usage error, 4 for an answer that was cut off before it
//     matched its form, and 130 for an interrupt.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/lmittmann/tint"
	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"runner/backend"
	"runner/chattemplate/family"
	"runner/cmd/runner/help"
	"runner/cmd/runner/render"
	"runner/cmd/runner/settings"
	"runner/generation"
	"runner/models"
	"runner/models/roofline"
	"runner/reasoning"
	"runner/runner"
)

// Engine is what the commands need from a backend.
type Engine struct {
	// Open loads the model at path.
	Open func(ctx context.Context, path string, cfg backend.Config) (backend.Model, error)
	// Isolated is Open with the engine in a process of its own. Crashes are reported to log.
	Isolated func(ctx context.Context, path string, cfg backend.Config, p Process, log *slog.Logger) (backend.Model, error)
	// Remote opens the model that an engine on another machine runs, and says what the engine is. An address that had
	// another model when it was opened before is refused. log may be nil.
	Remote func(ctx context.Context, at Remote, cfg backend.Config, log *slog.Logger) (backend.Model, RemoteFact, error)
	// DescribeRemote asks such an engine what it is.
	DescribeRemote func(ctx context.Context, at Remote) (RemoteFact, error)
	// Process is the work of that process. It returns when the program that started it is gone. The error is ErrByHand if
	// a person started it.
	Process func(p Process) error
	// Choose returns the folder of the engine that runs the GGUF file at path, or "" for the one in this program. given is
	// the folder of --engine, or "". It reads only the headers of the model's files. warn gets a line for each folder that
	// cannot be used.
	Choose func(ctx context.Context, path, given string, warn func(string)) (string, error)
	// Engines lists the engines for GGUF files that there are. folder is the one of --engine, or "".
	Engines func(ctx context.Context, folder string) []EngineFact
	// CheckFolder returns an error if a folder has no engine that may be used. It opens none.
	CheckFolder func(path string) error
	// Demo returns the path of the bundled model. It unpacks the model if necessary.
	Demo func(ctx context.Context) (string, error)
	// Written reads how a model on this machine writes its turns, without its weights.
	Written func(m *models.Model) (Written, error)
	// Name is the name of the engine. Module is the Go module whose version is reported for it.
	Name, Module string
	// System lists what the engine for GGUF files in a folder, or for "" the one in this program, finds on the machine.
	System func(ctx context.Context, folder string) []Fact
	// Machine says which processor and how much memory there is.
	Machine func() []Fact
	// Memory returns, in bytes, how much more memory the process can get now, and how much address space its resource
	// limits leave. 0 means unknown or no limit. Memory may be nil if nothing is known.
	Memory func() (available, addresses int64)
	// Log sends the engine's messages to a logger. It may be nil for an engine that has none.
	Log func(*slog.Logger)
	// Clock returns the time that is shown to models; nil means time.Now.
	Clock func() time.Time
}

// Process says what an engine's own process does.
type Process struct {
	// Folder is the folder with the engine's libraries; empty means the engine in this program.
	Folder string
	// Memory is the most memory, in bytes, that the process may take, without mapped files; 0 sets no limit.
	Memory int64
	// Verbose also writes the engine's messages to standard error.
	Verbose bool
}

// ErrByHand says that a person started an engine's own process.
var ErrByHand = errors.New("this process has no pipes from the program that should start it")

// EngineFact describes an engine.
type EngineFact struct {
	// Name and Version name it, and Where says where it is.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Where   string `json:"where,omitempty"`
	// Devices are what it computes on, and Kernels what it computes with on the CPU.
	Devices []string `json:"devices,omitempty"`
	Kernels string   `json:"kernels,omitempty"`
	// Models says which models it runs. Architectures lists those of GGUF files.
	Models        string   `json:"models,omitempty"`
	Architectures []string `json:"architectures,omitempty"`
	// Missing has a line for each part of it that cannot be used.
	Missing []string `json:"missing,omitempty"`
	// Problem says why it cannot be used, and what to do. It is empty if there is no problem.
	Problem string `json:"problem,omitempty"`
}

// Fact is one thing that the engine finds on the machine.
type Fact struct {
	Name, Value string
	// Problem says why this would make a run fail, and what to do. It is empty if there is no problem.
	Problem string
}

// Build is what the linker recorded about the program. Both fields may be empty. An empty Commit is read from Go's
// build info, if that has one.
type Build struct{ Version, Commit string }

// generator is the part of a [runner.Runner] that the commands use.
type generator interface {
	Generate(ctx context.Context, req generation.Request, o generation.Observer) iter.Seq2[reasoning.Event, error]
	// Fits returns an error if a text is so long that it cannot fit into the context.
	Fits(text string) error
	Tokenize(ctx context.Context, principal, text string, special bool) ([]backend.Token, error)
	Info() backend.Info
	About() family.About
	Close() error
}

// App is one invocation of the program.
type App struct {
	engine Engine
	build  Build
	// load opens a model for generation.
	load func(ctx context.Context, m placed, model backend.Config, cfg runner.Config) (generator, error)

	// isolation says which models get a process of their own.
	isolation Isolation
	// folders is the engine for models in folders; nil if there is none.
	folders *Folders
	// remotes has the flags for engines on other machines.
	remotes Remote
	// tokenizers are the values of --tokenizer, and tokenizerAt has those for single addresses.
	tokenizers  []string
	tokenizerAt map[string]string
	// warned has the warnings about engines that were given.
	warned map[string]bool
	// traced is set if the command records traces.
	traced bool
	// memorySpeed keeps the bandwidth of this machine's memory; nil until it is needed.
	memorySpeed *roofline.Store
	// shown is the spinner; nil if there is none.
	shown *render.Spinner

	in       *os.File
	out, err *os.File
	// inTerminal, outTerminal and errTerminal report whether in, out and err are terminals.
	inTerminal, outTerminal, errTerminal bool
	// origins says where the values of the command's flags come from, by the name of the flag.
	origins map[string]string

	// inTaken is set when standard input was read. It can be read only once.
	inTaken bool
}

// Main runs the command line args and returns the exit code.
func Main(engine Engine, build Build, args []string) int {
	a := newApp(engine, build)
	return a.execute(args)
}

// Commands returns the tree of commands, for documents about them. A command of it cannot be run.
func Commands() *cobra.Command { return newApp(Engine{}, Build{}).rootCommand() }

func newApp(engine Engine, build Build) *App {
	a := &App{engine: engine, build: build, in: os.Stdin, out: os.Stdout, err: os.Stderr, warned: map[string]bool{}}
	a.load = func(ctx context.Context, m placed, model backend.Config, cfg runner.Config) (generator, error) {
		r, err := a.newOwnRunner(ctx, m, model, cfg)
		if err != nil {
			return nil, err // not a nil *runner.Runner in an interface
		}
		return r, nil
	}
	a.inTerminal = term.IsTerminal(int(a.in.Fd()))
	a.outTerminal = term.IsTerminal(int(a.out.Fd()))
	a.errTerminal = term.IsTerminal(int(a.err.Fd()))
	for _, r := range registered {
		if r.Folders != nil {
			a.folders = r.Folders(a)
		}
	}
	return a
}

func (a *App) execute(args []string) int {
	root := a.rootCommand()
	for _, r := range registered {
		if r.Arguments != nil {
			args = r.Arguments(args)
		}
	}
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		plainUsage(root)
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(context.Background())
	if line := errorLine(err); line != "" {
		a.Complain(line + a.origin(line))
	}
	return exitCode(err)
}

// newOwnRunner is newRunner for a model that this command alone uses. Only a command that records traces reads all of
// the model's files for their digest.
func (a *App) newOwnRunner(ctx context.Context, m placed, model backend.Config, cfg runner.Config) (*runner.Runner,
	error) {
	if m.Source != models.Address {
		from, err := takeFiles(m.Path, m.Model)
		if err != nil {
			return nil, err
		}
		own := &ownWeights{Snapshot: from, stop: func() {}}
		model.Files, cfg.Weights = own, own
		if a.traced {
			var open context.Context
			open, own.stop = context.WithCancel(context.WithoutCancel(ctx)) // ctx may end with the loading
			warnings := slog.NewTextHandler(a.Stderr(), &slog.HandlerOptions{Level: slog.LevelWarn})
			hash(open, &own.hashing, m.Path, from, slog.New(warnings))
		}
	}
	return a.newRunner(ctx, m, model, cfg)
}

// newRunner loads a model and returns its runner, which closes cfg.Weights.
func (a *App) newRunner(ctx context.Context, m placed, model backend.Config, cfg runner.Config) (r *runner.Runner,
	err error) {
	defer func() {
		if err != nil && cfg.Weights != nil {
			err = errors.Join(err, cfg.Weights.Close())
		}
	}()
	loaded, err := a.openPlaced(ctx, m, model, cfg.Logger)
	if err != nil {
		return nil, err
	}
	cfg.Clock, cfg.Loops = a.engine.Clock, loops()
	if cfg.Parallel <= 0 && m.Source == models.Address {
		cfg.Parallel = max(1, loaded.Info().Sequences/2)
	}
	if r, err = runner.New(loaded, cfg); err != nil {
		return nil, errors.Join(err, loaded.Close())
	}
	return r, nil
}

// Build is what the linker recorded about the program.
func (a *App) Build() Build { return a.build }

// Note writes one line for the user to standard error. A terminal gets it broken between words.
func (a *App) Note(line string) {
	if a.errTerminal {
		line = broken(line, a.noteWidth())
	}
	fmt.Fprintln(a.Stderr(), line)
}

// broken breaks a line that is wider than width columns between words, but not what is to be copied: an indented line,
// and a command at the end, which gets a line of its own.
func broken(line string, width int) string {
	if uniseg.StringWidth(line) <= width || strings.HasPrefix(line, " ") {
		return line
	}
	const command = ": runner "
	if at := strings.LastIndex(line, command); at >= 0 {
		return render.Wrap(line[:at+1], width) + "\n  " + line[at+len(": "):]
	}
	return render.Wrap(line, width)
}

// noteWidth is the width of the terminal on standard error, in columns.
func (a *App) noteWidth() int { return widthOf(a.err) }

// helpWidth returns the width for help, in columns.
func (a *App) helpWidth() int { return widthOf(a.out) }

// widthOf returns the width of a terminal, or that of text that goes elsewhere.
func widthOf(f *os.File) int {
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return max(width, 40)
	}
	return help.PlainWidth
}

// Width returns how many columns a table may have: as many as the terminal has, or 0 for any number.
func (a *App) Width() int {
	if !a.outTerminal {
		return 0
	}
	return a.helpWidth()
}

// Given reports whether a flag was given on the command line.
func (a *App) Given(flag string) bool { return a.origins[flag] == settings.CommandLine }

// Complain writes an error line to standard error.
func (a *App) Complain(line string) { a.Note("runner: " + line) }

// Stderr is standard error. If it is a terminal, the text is cleaned, because names of files and models are not
// trusted.
func (a *App) Stderr() io.Writer { return cleaned(a.err, a.errTerminal) }

// Stdout is standard output, cleaned like stderr.
func (a *App) Stdout() io.Writer { return cleaned(a.out, a.outTerminal) }

// Logger returns a logger that writes to standard error, as text or as JSON. Text on a terminal has short times and
// one row for a request. A verbose one also writes debug messages and those of the engine.
func (a *App) Logger(format string, verbose bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		options.Level = slog.LevelDebug
	}
	var handler slog.Handler = slog.NewTextHandler(a.Stderr(), options)
	switch {
	case format == logJSON:
		handler = slog.NewJSONHandler(a.Stderr(), options)
	case a.errTerminal:
		// Without colors, because stderr takes out all that could control the terminal.
		handler = &requestRows{to: a.Stderr(), width: a.noteWidth, Handler: tint.NewTextHandler(a.Stderr(),
			&tint.Options{Level: options.Level, TimeFormat: time.TimeOnly, NoColor: true})}
	}
	log := slog.New(handler)
	if verbose && a.engine.Log != nil {
		a.engine.Log(log)
	}
	return log
}

// Table returns a writer that aligns columns, which tabs separate. Flush it at the end.
func Table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// row writes a row of a [Table]. Cells that come from models can neither end the line nor steer a terminal.
func row(w io.Writer, cells ...string) {
	for i, c := range cells {
		cells[i] = render.CleanLine(c)
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// UntilStopped returns a context that ends when the user interrupts the program or the system stops it, with the cause
// ErrInterrupted. A second signal ends the process at once. stop ends the context too. A signal that came before that
// is the cause all the same.
func UntilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	caught, quit, over := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(over)
		select {
		case <-caught:
			cancel(ErrInterrupted)
		case <-ctx.Done():
		case <-quit:
		}
		signal.Stop(caught)
		select {
		case <-caught: // it came before the end
			cancel(ErrInterrupted)
		default:
			cancel(nil)
		}
	}()
	return ctx, sync.OnceFunc(func() {
		close(quit)
		<-over
	})
}
