package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/chattemplate"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/models"
	"runner/models/catalog"
	"runner/models/installed"
	"runner/reasoning"
	"runner/runner"
)

func (a *App) doctorCommand() *cobra.Command {
	var cfg backend.Config
	var i Isolation
	var at RemoteFlags
	return Command(&cobra.Command{
		Use:   "doctor [MODEL]",
		Short: "Check this machine and test a model",
		Long: `Print what the engine finds on this machine, how fast its memory is, and how many models there are. Then load
MODEL, or the bundled model, and generate a few tokens with it. --engine asks the engine in a folder, and a MODEL that
is a folder with safetensors asks the engine for those.

The exit code is 1 when something would make a run fail.`,
		Args:              AtMost(1, "models", "name one"),
		ValidArgsFunction: CompleteModels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkModelFlags(&cfg); err != nil {
				return err
			}
			if err := a.Isolate(i); err != nil {
				return err
			}
			a.UseRemote(at)
			name := models.DemoName
			if len(args) == 1 {
				name = args[0]
			}
			return a.doctor(cmd.Context(), name, cfg)
		},
	}, flags.Topic("Loading the model", modelFlags(&cfg), i.flags()).Showing("engine"),
		flags.Topic("Engine at an address", at.flags()).Showing("tokenizer", "engine-key"))
}

func (a *App) doctor(ctx context.Context, name string, cfg backend.Config) error {
	ctx, stop := UntilStopped(ctx)
	defer stop()
	v := a.versions()
	r := &report{}
	if v.commit != "" {
		v.runner += ", commit " + v.commit
	}
	r.ok("runner", "%s, %s %s/%s", v.runner, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	model, err := a.resolve(ctx, name)
	if err := a.address(served{placed: placed{Model: model}}); err != nil {
		return err
	}
	if model.Source == models.Address {
		if a.checkRemote(ctx, r, name) {
			a.checkModel(ctx, r, model, cfg)
		}
		return a.finishReport(ctx, r)
	}
	if a.isolation.Folder == "" && model.Source != models.Folder {
		r.ok("engine", "%s", v.engine)
	}
	for _, f := range a.system(ctx, model) {
		if f.Problem != "" {
			r.fail(f.Name, "%s", f.Problem)
			continue
		}
		r.ok(f.Name, "%s", f.Value)
	}
	if rate, ok := a.bandwidth().Refresh(); ok {
		r.ok("bandwidth", "%.1f GB/s, reading from memory", rate/1e9)
	}
	countModels(r)
	if err != nil {
		r.fail("model", "%s", errorLine(err))
	} else {
		a.checkModel(ctx, r, model, cfg)
	}
	return a.finishReport(ctx, r)
}

// finishReport prints the report. The error says whether something in it failed.
func (a *App) finishReport(ctx context.Context, r *report) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	if err := r.print(a.Stdout()); err != nil {
		return err
	}
	if r.failed {
		return ErrReported
	}
	return nil
}

// countModels reports how many models each program's folders have. Folders of programs that are not installed are left
// out.
func countModels(r *report) {
	found, partials := installed.List()
	for _, place := range installed.Places() {
		folders := installed.Folders(place)
		if place != catalog.HuggingFace { // runner pull makes that
			folders = slices.DeleteFunc(folders, func(folder string) bool {
				info, err := os.Stat(folder)
				return err != nil || !info.IsDir()
			})
		}
		n := 0
		for _, m := range found {
			if m.Place == place {
				n++
			}
		}
		if len(folders) > 0 {
			r.ok("models", "%d in %s: %s", n, place, strings.Join(folders, ", "))
		}
	}
	if n := len(unfinished(partials)); n > 0 {
		r.ok("unfinished", "%s; runner list shows how to go on", Count(n, "download", "downloads"))
	}
}

// checkModel loads a model and generates a few tokens.
func (a *App) checkModel(ctx context.Context, r *report, model models.Model, cfg backend.Config) {
	spinner := a.Spinner()
	defer spinner.Stop()
	at, err := a.place(ctx, model)
	if err != nil {
		r.fail("model", "%s", errorLine(err))
		return
	}
	gen, loaded, err := a.open(ctx, at, cfg, runner.Config{}, spinner)
	if err != nil {
		r.fail("model", "%s", errorLine(err))
		return
	}
	defer gen.Close()
	info := gen.Info()
	r.ok("model", "%s", modelFacts(&info))
	if model.Source == models.Address {
		r.ok("context", "%d tokens, %s", info.ContextSize, info.ContextReason)
		r.ok("reasoning", "%s", gen.About().Reasoning)
		a.checkSteps(ctx, r, gen)
		return
	}
	r.ok("model file", "%s", info.Path)
	r.ok("computed by", "%s", computedBy(info, at.own))
	r.ok("loads", "in %s on %s with %s, %s on a GPU", seconds(loaded), info.Device,
		Count(info.Threads, "thread", "threads"), Count(info.GPULayers, "layer", "layers"))
	r.ok("context", "%d tokens, trained for %d", info.ContextSize, info.TrainedContext)
	if info.ContextReason != "" {
		r.ok("cache", "%s; the context is %s", Count(info.CacheTokens, "token", "tokens"), info.ContextReason)
	}
	if warning := splitWarning(&info); warning != "" {
		r.warn("pre-tokenizer", "%s", warning)
	}
	r.ok("reasoning", "%s", gen.About().Reasoning)
	a.checkSteps(ctx, r, gen)
}

// modelFacts says what is known of a model. Engines at addresses do not tell everything.
func modelFacts(info *backend.Info) string {
	facts := []string{info.Name, info.Architecture}
	if info.Parameters > 0 {
		facts = append(facts, amount(float64(info.Parameters))+" parameters")
	}
	facts = append(facts, info.Quantization)
	if info.Bytes > 0 {
		facts = append(facts, render.Size(info.Bytes))
	}
	return strings.Join(slices.DeleteFunc(facts, func(s string) bool { return s == "" }), ", ")
}

// computedBy says which engine and which kernels compute a model.
func computedBy(info backend.Info, own bool) string {
	text := info.Backend
	if own {
		text += " in a process of its own"
	} else {
		text += " in this process"
	}
	if info.Kernels != "" {
		text += "; kernels: " + info.Kernels
	}
	return text
}

// checkSteps generates a few tokens.
func (a *App) checkSteps(ctx context.Context, r *report, gen generator) {
	req := generation.Request{
		Messages:  []chattemplate.Message{{Role: chattemplate.User, Content: "What is 1 + 1?"}},
		MaxTokens: 32,
	}
	begin := time.Now()
	var result *reasoning.Result
	for e, err := range gen.Generate(ctx, req, generation.Unobserved{}) {
		if err != nil {
			r.fail("steps", "%s", errorLine(err))
			return
		}
		if e.Kind == reasoning.Done {
			result = e.Result
		}
	}
	if result == nil || result.Usage.Completion == 0 {
		r.fail("steps", "the model generated nothing; try another model")
		return
	}
	r.ok("steps", "%d prompt and %d generated tokens in %s, decode %s", result.Usage.Prompt, result.Usage.Completion,
		seconds(time.Since(begin)), rate(result.Usage.Completion-1, result.Timing.Decode))
}

// report is the table that doctor prints.
type report struct {
	rows   [][3]string
	failed bool
}

func (r *report) ok(name, format string, args ...any) {
	r.rows = append(r.rows, [3]string{"ok", name, fmt.Sprintf(format, args...)})
}

// warn reports what does not make a run fail.
func (r *report) warn(name, format string, args ...any) {
	r.rows = append(r.rows, [3]string{"warn", name, fmt.Sprintf(format, args...)})
}

func (r *report) fail(name, format string, args ...any) {
	r.failed = true
	r.rows = append(r.rows, [3]string{"FAIL", name, fmt.Sprintf(format, args...)})
}

func (r *report) print(w io.Writer) error {
	tab := Table(w)
	for _, cells := range r.rows {
		row(tab, cells[:]...)
	}
	return tab.Flush()
}

// Count formats a number of things, in the singular or plural.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// amount formats a number with a unit of thousands, such as 1.5M.
func amount(n float64) string {
	for _, u := range []struct {
		over float64
		name string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if n >= u.over {
			return fmt.Sprintf("%.1f%s", n/u.over, u.name)
		}
	}
	return fmt.Sprintf("%.0f", n)
}
