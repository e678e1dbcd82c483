// Package room adds the command bench, which measures models and engines.
package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/bench"
	"runner/bench/machine"
	"runner/bench/results"
	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/models"
	"runner/models/random"
)

func init() {
	cli.Register(cli.Room{Name: "bench", Arguments: spellPG, Commands: func(a *cli.App) []*cobra.Command {
		return []*cobra.Command{newBencher(a).command(), memoryCommand(a)}
	}})
}

// bencher is one invocation of bench.
type bencher struct {
	*cli.App
	// note is App.Note, free is App.FreeMemory, settle is machine.Settle and shapeOf is random.Shape; in tests they are
	// other functions.
	note    func(line string)
	free    func() int64
	settle  func(ctx context.Context, processes []int, limit time.Duration) bool
	shapeOf func(name string) (random.Config, bool)
}

func newBencher(a *cli.App) *bencher {
	return &bencher{a, a.Note, a.FreeMemory, machine.Settle, random.Shape}
}

// options are the flags of bench.
type options struct {
	prompts, generates, depths, threads []int
	both                                []pair
	engines                             []string
	repeat                              int
	noWarmUp                            bool
	shape                               string
	layers                              int
	inMemory                            bool
	output                              string
	compare                             bool
	model                               backend.Config
	remote                              cli.RemoteFlags
	answer                              answerOptions
}

// Names of engines in --engine.
const (
	engineHere  = "builtin"
	engineChild = "isolated"
)

// ofFolders is the name in --engine of the engine for models in folders, or empty if the program has none.
func (a *bencher) ofFolders() string { return strings.ToLower(a.Folders().Name) }

func (a *bencher) command() *cobra.Command {
	o := &options{}
	folders, engine := "", ""
	if name := a.Folders().Name; name != "" {
		folders = " " + name + "\ncomputes a model that is a folder with safetensors."
		engine = a.ofFolders() + " for a MODEL in safetensors, "
	}
	return cli.Command(&cobra.Command{
		GroupID: "more",
		Use:     "bench [MODEL...]",
		Short:   "Measure how fast models read prompts and generate",
		Long: `Measure how fast models read prompts (pp) and generate tokens (tg). Tests have the names of llama-bench, and
-o json and csv its keys: pp512 reads a prompt of 512 tokens, tg128 generates 128, and @ d4096 begins after 4,096.

Without MODEL the bundled model is measured; --shape measures a model with random weights in the shape of a known one.
Several models, and several --engine, take turns, and a second table says which differences are significant.` +
			folders + `

The table has the mean and deviation, and the median with its 95% interval. TTFT is the time to the first token, and
gaps are the times between tokens. The roofline is the share of the speed that the processor's memory allows. Leave the
machine alone meanwhile: the table marks runs in which it changed.`,
		Example: `  runner bench
  runner bench gpt-oss-20b -p 512,2048 -n 128 -d 0,4096
  runner bench --shape gpt-oss-20b --layers 4 --engine builtin --engine isolated
  runner bench --schema schema.json --summary --trace --serve --clients 1,4
  runner bench -o json > before.json
  runner bench --compare before.json after.json`,
		ValidArgsFunction: cli.CompleteModels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.compare {
				return a.compare(cmd, args)
			}
			return a.bench(cmd, args, o)
		},
	}, o.flags(engine))
}

// flags returns the flags. ofFolders is what --engine says of the engine for models in folders.
func (o *options) flags(ofFolders string) flags.Table {
	return flags.List(
		flags.Topic("Tests",
			flags.Ints("prompt", &o.prompts, []int{512}, 0, maxTestTokens,
				"read prompts of `N` tokens (0: none); N,M are two tests", flags.Short("p"), flags.Common),
			flags.Ints("generate", &o.generates, []int{128}, 0, maxTestTokens, "generate `N` tokens (0: none)",
				flags.Short("n"), flags.Common),
			flags.Each("pg", &o.both, parsePair, pair.String,
				"read a prompt of P tokens and generate N, as `P,N`; may be repeated", flags.Common),
			flags.Ints("depth", &o.depths, []int{0}, 0, maxTestTokens, "begin after `N` tokens, which do not count",
				flags.Short("d"), flags.Common),
			flags.Int("repeat", &o.repeat, 5, 1, 1000, "measure each test `N` times", flags.Short("r"), flags.Common),
			flags.Switch("no-warmup", &o.noWarmUp, "leave out the run before each test that is not measured")),
		flags.Topic("Answers", o.answer.flags()),
		flags.Topic("Models and engines",
			flags.Ints("threads", &o.threads, nil, 0, backend.MaxThreads,
				"compute with `N` threads (default: one per physical core)", flags.Short("t"), flags.Common),
			flags.Texts("engine", &o.engines, "measure an `ENGINE`: builtin, isolated (builtin in a process of its own), a "+
				"folder with llama.cpp libraries, "+ofFolders+"or the address of an engine that serves MODEL; may be repeated",
				flags.Common),
			flags.Text("shape", &o.shape, "measure random weights in the `SHAPE` of a model: "+
				strings.Join(random.Shapes(), ", "), flags.Common, flags.Completions(random.Shapes()...)),
			flags.Int("layers", &o.layers, 0, 0, 1000, "give the shape only `N` layers, for less memory and time (0: all)",
				flags.Needs("shape"), flags.Common),
			flags.Switch("in-memory", &o.inMemory, "make the shape in memory, without a file in the cache folder (Linux)",
				flags.Needs("shape")),
			flags.Int("batch-size", &o.model.BatchSize, 0, 0, 1<<14,
				"read prompts in batches of `N` tokens (0: as many as the engine chooses)", flags.Short("b")),
			cli.ComputeFlags(&o.model)),
		flags.Topic("Engine at an address", o.remote.ReachFlags()),
		flags.Topic("Output",
			flags.Name("output", &o.output, results.Formats, "format of the results", flags.Short("o"), flags.Common),
			flags.Switch("compare", &o.compare, "compare two files that -o json or jsonl, or llama-bench, wrote",
				flags.Common)))
}

// spellPG replaces llama-bench's spelling -pg, which a parser of flags takes for -p g.
func spellPG(args []string) []string {
	if len(args) == 0 || args[0] != "bench" {
		return args
	}
	args = slices.Clone(args)
	for i, arg := range args {
		rest, ok := strings.CutPrefix(arg, "-pg")
		if ok && (rest == "" || rest[0] == '=' || rest[0] >= '0' && rest[0] <= '9') {
			args[i] = "--pg"
			if rest != "" {
				args[i] += "=" + strings.TrimPrefix(rest, "=")
			}
		}
	}
	return args
}

// maxTestTokens limits the numbers of tokens of a test.
const maxTestTokens = 1 << 20

// pair is a value of --pg.
type pair struct{ prompt, generate int }

func (p pair) String() string { return fmt.Sprintf("%d,%d", p.prompt, p.generate) }

func parsePair(text string) (p pair, err error) {
	left, right, ok := strings.Cut(text, ",")
	var err1, err2 error
	p.prompt, err1 = strconv.Atoi(left)
	p.generate, err2 = strconv.Atoi(right)
	if !ok || err1 != nil || err2 != nil || min(p.prompt, p.generate) < 0 || max(p.prompt, p.generate) > maxTestTokens {
		err = errors.New("use P,N, as in 512,128")
	}
	return p, err
}

// tests returns the tests that the flags ask for.
func (o *options) tests() (tests []bench.Test, err error) {
	for _, depth := range cli.Unique(o.depths) {
		for _, n := range cli.Unique(o.prompts) {
			tests = append(tests, bench.Test{Prompt: n, Depth: depth})
		}
		for _, n := range cli.Unique(o.generates) {
			tests = append(tests, bench.Test{Generate: n, Depth: depth})
		}
		for _, p := range cli.Unique(o.both) {
			tests = append(tests, bench.Test{Prompt: p.prompt, Generate: p.generate, Depth: depth})
		}
	}
	tests = slices.DeleteFunc(tests, func(t bench.Test) bool { return t.Tokens() == 0 })
	if len(tests) == 0 && (!o.answer.on() || slices.ContainsFunc(o.depths, func(n int) bool { return n > 0 })) {
		err = cli.Usage("there is nothing to measure").Hint("use -p, -n or --pg with more than 0")
	}
	return tests, err
}

// validate refuses flags that no benchmark can be run with.
func (o *options) validate(args []string, changed func(flag string) bool) error {
	switch {
	case o.shape != "" && len(args) > 0:
		return cli.Usage("--shape and a model exclude each other").Hint("leave one of them out")
	case o.answer.on() && changed("depth") && !o.tokens(changed):
		return cli.Usage("--depth is for tests of prompts and tokens").Hint("add -p, -n or --pg")
	case o.answer.serve && changed("batch-size"):
		return cli.Usage("--batch-size is not for the server of --serve, which has its own").
			Hint("measure batches in another run, without --serve")
	}
	return nil
}

// tokens reports whether prompts and tokens are measured. Flags for answers replace the default tests.
func (o *options) tokens(changed func(flag string) bool) bool {
	return !o.answer.on() || changed("prompt") || changed("generate") || changed("pg")
}

// misplaced refuses flags of the command line that do nothing.
func (a *bencher) misplaced(o *options) error {
	given := func(names []string) (string, bool) {
		at := slices.IndexFunc(names, func(name string) bool { return a.Given(name) })
		if at < 0 {
			return "", false
		}
		return "--" + names[at], true
	}
	if flag, ok := given(cli.AddressFlags); ok && !slices.ContainsFunc(o.engines, models.IsAddress) {
		return cli.Usage("%s is for an engine at an address, and no --engine is at one", flag).
			Hint("leave it out, or name an address, as in --engine http://127.0.0.1:8080")
	}
	if flag, ok := given([]string{"question", "max-tokens"}); ok && !o.answer.on() {
		return cli.Usage("%s is for answers, and none are measured", flag).Hint("add --answers")
	}
	return nil
}

// bench measures models.
func (a *bencher) bench(cmd *cobra.Command, args []string, o *options) error {
	var tests []bench.Test
	changed := cmd.Flags().Changed
	if o.tokens(changed) {
		var err error
		if tests, err = o.tests(); err != nil {
			return err
		}
	}
	if err := o.validate(args, changed); err != nil {
		return err
	}
	a.UseRemote(o.remote)
	if err := a.misplaced(o); err != nil {
		return err
	}
	ctx, stop := cli.UntilStopped(cmd.Context())
	defer stop()
	spinner := a.Spinner()
	defer spinner.Stop()
	models, err := a.findModels(ctx, args, o, spinner.Set)
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range models {
			m.memory.Close()
		}
	}()
	for _, t := range tests {
		o.model.ContextSize = max(o.model.ContextSize, t.Context())
	}
	o.model.Sequences = 1
	if o.answer.on() {
		o.model.ContextSize = max(o.model.ContextSize, o.answer.context())
		o.model.Sequences = 2 * o.answer.most() // each has a summary
	}
	subjects, err := a.load(ctx, models, o, spinner.Set)
	defer func() {
		for _, s := range subjects {
			_ = s.Model.Close()
		}
	}()
	if err != nil {
		return err
	}
	rows, err := a.measure(ctx, cmd, subjects, tests, o, spinner.Set)
	spinner.Stop()
	if ctx.Err() != nil {
		err = cli.ErrInterrupted
	}
	if err != nil {
		if len(rows) > 0 { // what was measured before is not lost
			_ = results.Write(a.Stdout(), o.output, rows, a.Width())
			a.note("warning: these results are incomplete")
		}
		return err
	}
	if err := results.Write(a.Stdout(), o.output, rows, a.Width()); err != nil {
		return err
	}
	if differences := results.Within(rows); len(differences) > 0 && o.output == "md" {
		fmt.Fprintln(a.Stdout())
		return results.WriteDifferences(a.Stdout(), differences, a.Width())
	}
	return nil
}

// measure runs the tests and describes what was measured, also with an error.
func (a *bencher) measure(ctx context.Context, cmd *cobra.Command, subjects []subject, tests []bench.Test,
	o *options, say func(string)) ([]bench.Row, error) {
	list := make([]bench.Subject, len(subjects))
	facts, before := machine.Read(), machine.Now()
	for i, s := range subjects {
		list[i] = s.Subject
		r := &list[i].Row
		r.CPU, r.Machine, r.Before = facts.Processor, facts, before
	}
	bench.NameFiles(list)
	began := time.Now()
	how := bench.Options{Repeat: o.repeat, NoWarmUp: o.noWarmUp,
		Before: machine.BeforeWork, After: machine.AfterWork,
		Progress: func(done, all int, test, subject string) {
			say(fmt.Sprintf("%d of %d runs: %s, %s", done+1, all, test, subject))
		},
		Settle: a.settling(func() []int { return processesOf(subjects) })}
	if len(tests) > 0 && slices.ContainsFunc(subjects, subject.readsMemory) {
		meter, err := startMemoryMeter()
		if err != nil {
			return nil, err
		}
		defer meter.stop()
		warn := sync.OnceFunc(func() {
			a.note("warning: the speed of the memory cannot be measured, so shares of the roofline are missing")
		})
		how.Bandwidth = func() float64 {
			rate := meter.rate()
			if rate == 0 {
				warn()
			}
			return rate
		}
	}
	rows, err := bench.Run(ctx, list, tests, how)
	notePeaks(subjects)
	if err == nil && o.answer.on() {
		var more []bench.Row
		more, err = a.measureAnswers(ctx, cmd, subjects, list, o, how)
		rows = append(rows, more...)
	}
	after, took := machine.Now(), time.Since(began)
	noteMemory(subjects, list)
	return bench.Finish(rows, list, after, took), err
}

// settleTime is how long the engines' threads may go on after a run. Those of llama.cpp take a third of a second.
const settleTime = 3 * time.Second

// settling returns a function that waits until processes compute nothing. It reports whether that is so, and gives one
// note if it is not.
func (a *bencher) settling(processes func() []int) func(ctx context.Context) bool {
	warn := sync.OnceFunc(func() {
		a.note(fmt.Sprintf("warning: an engine computed for %v after a run; it slows down what comes next, and shares of "+
			"the roofline beside it are missing", settleTime))
	})
	return func(ctx context.Context) bool {
		idle := a.settle(ctx, processes(), settleTime)
		if !idle && ctx.Err() == nil {
			warn()
		}
		return idle
	}
}

// processesOf returns the numbers of the processes of models that can be looked at.
func processesOf(subjects []subject) []int {
	var list []int
	for _, s := range subjects {
		if p := processOf(s.Model); !s.remote && !slices.Contains(list, p) { // an engine that crashed has another
			list = append(list, p)
		}
	}
	return list
}
