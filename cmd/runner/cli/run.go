package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"runner/backend"
	"runner/chattemplate"
	"runner/cmd/runner/conversation"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/hint"
	"runner/models"
	"runner/models/hub"
	"runner/reasoning"
	"runner/runner"
)

func (a *App) runCommand() *cobra.Command {
	o := &runOptions{}
	o.addRooms(a, Recorded{Usage: "keep a sealed trace of the run; see runner trace",
		Sealing: []string{keepFlag, resumeFlag}, Sealed: &o.sealing})
	return Command(&cobra.Command{
		Use:   "run [MODEL] [PROMPT]",
		Short: "Ask a model, or chat with it",
		Long: `Ask a model one question, or chat with it when there is no prompt and this is a terminal.

MODEL is the path of a GGUF file or of a folder with a model, or the name of a downloaded model, such as ORG/REPO,
ORG/REPO:Q4_K_M, gpt-oss-20b or the address of its page. "demo", or nothing, is the bundled model, which works out small
sums and word problems.

A single argument is a MODEL if there is one; else it is a PROMPT for the bundled model. One word that looks like a name
is refused if there is no such model: it has a slash and a letter, or begins with a letter and has a digit and one of
"-", ":", "." and "/".

Standard input is read if it is not a terminal. The message consists of the files, standard input and PROMPT, in this
order. The reasoning comes before the answer, dimmed; to a pipe goes only the answer, and the reasoning to standard
error.`,
		Example: `  runner run --reasoning full "What is 17 + 25?"
  runner run ggml-org/gpt-oss-20b-GGUF
  git diff | runner run model.gguf --reasoning-effort high "Review this change."
  runner run --output json "What is 532 - 187?" | jq .answer`,
		Args: AtMost(2, "arguments", "put the prompt in quotes"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return CompleteModels(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, o, args) },
	}, o.flags())
}

func (a *App) run(cmd *cobra.Command, o *runOptions, args []string) (err error) {
	if err := o.validate(cmd); err != nil {
		return err
	}
	q, err := a.wanted(cmd.Context(), o, args)
	if err != nil {
		return err
	}
	cfg, err := a.readRequestFiles(o)
	if err != nil {
		return err
	}
	if o.request.Form, err = a.source(cmd.Context(), cmd, &o.form); err != nil {
		return err
	}
	if o.check {
		return a.checkForm(cmd.Context(), o.request.Form, o.seed)
	}
	if o.plan {
		if err := o.validatePlan(cmd); err != nil {
			return err
		}
	}
	p, err := a.readPrompt(q.typed, q.given, o.files)
	if err != nil {
		return err
	}
	chatting := !p.given && !p.piped && a.inTerminal && a.outTerminal
	cfg.MeasureCosts = chatting
	if err := o.refuse(a, chatting, p); err != nil {
		return err
	}
	var keeps *keeper
	if chatting && (o.keep.on || o.keep.resume) {
		if keeps, err = a.newKeeper(&o.sealing); err != nil {
			return err
		}
	}
	if a.traced = o.record.On(); a.traced {
		if err := o.record.Open(nil, false); err != nil {
			return err
		}
		defer func() {
			if err := o.record.Close(); err != nil {
				a.Complain("warning: cannot close the trace store: " + err.Error())
			}
		}()
	}
	if !chatting && o.request.Visibility != reasoning.VisibilitySummary {
		o.model.Sequences = 1 // without a summary pass one is enough
	}
	ctx, stop := UntilStopped(cmd.Context())
	defer stop()
	spinner := a.Spinner()
	if err := a.Isolate(o.isolation); err != nil {
		return err
	}
	a.UseRemote(o.remote)
	if err := a.address(served{placed: placed{Model: q.model}}); err != nil {
		return err
	}
	at, err := a.place(ctx, q.model)
	if err != nil {
		return err
	}
	gen, loaded, err := a.open(ctx, at, o.model, cfg, spinner)
	if err != nil {
		return err
	}
	if chatting {
		c := &chat{options: o, spinner: spinner, gen: gen, model: q.model, loaded: loaded,
			kept: q.kept, keeper: keeps}
		ctx, interrupted, done := c.catch(cmd.Context(), ctx, stop) // the chat has its own way with signals
		defer done()
		if interrupted {
			return errors.Join(ErrInterrupted, c.close())
		}
		c.open = func(ctx context.Context, other placed) (generator, time.Duration, error) {
			return a.open(ctx, other, o.model, ownTemplate(cfg, other.Name == q.model.Name), spinner)
		}
		return a.chat(ctx, c, p)
	}
	defer gen.Close()
	req := o.request
	req.Messages = append(req.Messages, chattemplate.Message{Role: chattemplate.User, Content: p.text()})
	if o.plan {
		return a.plan(ctx, gen, o, req, spinner)
	}
	return a.once(ctx, gen, o, req, spinner, loaded)
}

// wanted is what the arguments of run ask for.
type wanted struct {
	model models.Model
	// typed is the prompt, if one is given.
	typed string
	given bool
	// kept is the conversation to go on with, or nil.
	kept *conversation.Kept
}

// wanted finds the prompt, the conversation and the model that the arguments ask for.
func (a *App) wanted(ctx context.Context, o *runOptions, args []string) (q wanted, err error) {
	name, typed, given, err := o.arguments(args)
	if err != nil {
		return q, err
	}
	q.typed, q.given = typed, given
	if q.kept, err = a.resume(o, q.given); err != nil {
		return q, err
	}
	if q.kept != nil && len(args) == 0 && o.name == "" {
		name = cmp.Or(q.kept.Model, name)
	}
	q.model, err = a.resolveOrPull(ctx, name)
	a.chosen(q.model)
	if err != nil && len(args) == 1 && name == args[0] && !models.IsName(name) {
		err = notPrompt(name, err)
	}
	return q, err
}

// refuse returns an error for options and a prompt that do not go together.
func (o *runOptions) refuse(a *App, chatting bool, p prompt) error {
	switch {
	case chatting && o.plan:
		return Usage("--plan does not work in a chat").Hint("give a prompt")
	case o.plan && o.request.Delegates():
		return Usage("a plan cannot be delegated").Hint("leave out --plan, or --delegate and --allow-delegation")
	case chatting && o.request.Rationale && !o.record.On():
		hint := "give a prompt, with --output json, events or decisions"
		if flag := o.record.Flag(); flag != "" {
			hint += ", or " + flag + " to keep them"
		}
		return Usage("a chat does not show the reasons of --rationale").Hint("%s", hint)
	case chatting && o.output != outputText:
		return Usage("--output %s does not work in a chat", o.output).Hint("give a prompt")
	case !chatting && p.empty():
		return Usage("the prompt is empty").Hint("give one as an argument or on standard input")
	}
	return o.keep.check(a, chatting)
}

// arguments decides which argument is the model and which is the prompt. With --model all are the prompt.
func (o *runOptions) arguments(args []string) (model, typed string, given bool, err error) {
	switch {
	case o.name != "" && len(args) > 1:
		return "", "", false, Usage("--model and two arguments are too many").Hint("put the prompt in quotes")
	case o.name != "":
		return o.name, strings.Join(args, ""), len(args) > 0, nil
	case len(args) == 0:
		return models.DemoName, "", false, nil
	case len(args) == 2:
		return args[0], args[1], true, nil
	case isModel(args[0]):
		return args[0], "", false, nil
	}
	return models.DemoName, args[0], true, nil
}

// notPrompt adds to the error of a word that was taken for a name how to send it as a prompt.
func notPrompt(word string, err error) error {
	here, asked := (*models.Error)(nil), (*hub.Error)(nil)
	if errors.As(err, &here) || errors.As(err, &asked) && asked.Kind == hub.NotFound {
		return hint.Replace(err, orPrompt(word, hint.Of(err)))
	}
	return err
}

// orPrompt adds to advice about a word how to send it as a prompt. A file and a repository with a digit or a part are
// hardly ever meant as one, but yes/no may be.
func orPrompt(word, advice string) hint.Advice {
	if strings.ContainsAny(word, ":@") || strings.HasSuffix(word, ".gguf") ||
		strings.Contains(word, "/") && strings.ContainsAny(word, "0123456789") {
		return hint.Advice(advice)
	}
	if !strings.HasSuffix(advice, "?") {
		advice += "."
	}
	return hint.Advice(advice + " To send it as a prompt: runner run demo " + word)
}

// readRequestFiles reads the files of --system, --tools, --chat-template and the rooms. It returns the configuration of
// the model's runner.
func (a *App) readRequestFiles(o *runOptions) (cfg runner.Config, err error) {
	cfg.Drafts = o.drafts
	if o.system != "" {
		system, err := a.readSystem(o.system)
		if err != nil {
			return cfg, err
		}
		o.request.Messages = []chattemplate.Message{{Role: chattemplate.System, Content: system}}
	}
	for _, r := range o.rooms {
		if err := r.Read(); err != nil {
			return cfg, err
		}
	}
	if o.tools != "" {
		if o.request.Tools, err = a.readTools(o.tools); err != nil {
			return cfg, err
		}
		cfg.CallMemory = runner.NewCallMemory(ownCalls, callAge)
	}
	if o.chatTemplate != "" {
		if cfg.ChatTemplate, err = a.ReadFile("--chat-template", o.chatTemplate); err != nil {
			return cfg, err
		}
		if cfg.ChatTemplate == "" {
			return cfg, Input("--chat-template %s is empty", o.chatTemplate).
				Hint("leave out the flag to use the model's own template")
		}
	}
	return cfg, nil
}

// resolve finds the model called name. It unpacks the bundled one if necessary.
func (a *App) resolve(ctx context.Context, name string) (models.Model, error) {
	m, err := models.Resolve(name, a.FreeMemory())
	if err != nil || m.Source != models.Demo {
		return m, err
	}
	path, err := a.engine.Demo(ctx)
	return models.Unpacked(path), err
}

// chosen says which of several quantizations a model is.
func (a *App) chosen(m models.Model) {
	if m.Selector != "" {
		a.Note(fmt.Sprintf("%s is here as %s; %s is used", m.Name, strings.Join(m.Among, ", "), m.Selector))
	}
}

// mayPull reports whether err says that a model is not here that the hub may have, and there is a terminal to ask on.
func (a *App) mayPull(err error) bool {
	absent := (*models.Error)(nil)
	return errors.As(err, &absent) && absent.Repo != "" && a.inTerminal && a.errTerminal
}

// resolveOrPull finds the model called name. On a terminal it offers to download one that is not here.
func (a *App) resolveOrPull(ctx context.Context, name string) (models.Model, error) {
	m, err := a.resolve(ctx, name)
	if !a.mayPull(err) {
		return m, err
	}
	ctx, stop := UntilStopped(ctx)
	defer stop()
	switch pulled, failed := a.offerPull(ctx, name); {
	case failed != nil:
		return m, failed
	case !pulled:
		return m, Input("%s is not on this machine", name).From(err).Hint("%s", adviceOf(err))
	}
	return a.resolve(ctx, name)
}

// open loads a model and returns how long that took. It warns where the model differs from what cfg asks for.
func (a *App) open(ctx context.Context, m placed, cfg backend.Config, rc runner.Config,
	spinner *render.Spinner) (generator, time.Duration, error) {
	defer spinner.Stop()
	begin := time.Now()
	spinner.Set("loading " + render.CleanLine(m.Name))
	if cfg.Sequences == 0 {
		cfg.Sequences = 2 // one conversation and its summary pass
	}
	cfg.Progress = func(fraction float32) bool {
		spinner.Set(fmt.Sprintf("loading %s %3.0f%%", render.CleanLine(m.Name), 100*fraction))
		return ctx.Err() == nil
	}
	gen, err := a.load(ctx, m, cfg, rc)
	took := time.Since(begin)
	switch {
	case err == nil:
		spinner.Stop()
		info := gen.Info()
		a.warnLoaded(&cfg, m.Model, info)
		if warning := splitWarning(&info); warning != "" {
			a.Complain("warning: " + warning)
		}
	case ctx.Err() != nil:
		err = ErrInterrupted
	}
	return gen, took, err
}

// ownTemplate returns rc without its chat template, unless same is set: the template of --chat-template was written for
// the model that the command names.
func ownTemplate(rc runner.Config, same bool) runner.Config {
	if !same {
		rc.ChatTemplate = ""
	}
	return rc
}

// once answers a single prompt.
func (a *App) once(ctx context.Context, gen generator, o *runOptions, req generation.Request, spinner *render.Spinner,
	loaded time.Duration) error {
	if req.Rationale && !o.record.On() && (req.Visibility != reasoning.VisibilityFull || o.output == outputText) {
		a.Complain("warning: --rationale shows reasons only with --reasoning full and --output " +
			flags.Alternatives(outputNames()[1:]))
	}
	run := newRunID()
	format := outputNamed(o.output)
	to := format.New(a.streams(o, spinner), Asked{
		Run: run, Model: gen.Info().Name, Prompt: req.Messages[len(req.Messages)-1].Content, Interrupted: func() bool {
			return ctx.Err() != nil
		},
	})
	req.Phases = format.Phases
	out, err := generate(ctx, gen, req, o.observer(run), to, spinner)
	o.record.Tell(out.Result, a.Note)
	if err != nil {
		return err
	}
	if o.verbose {
		writeTimings(a.Stderr(), loaded, gen.Info(), out.Info, out.Result)
	}
	if why := cutForm(&o.request, out); why != "" {
		return &brokenForm{why}
	}
	if code, text, _ := render.Shortfall(out); code == render.CodeNoAnswer {
		return errors.New(text)
	}
	if o.output == outputText {
		a.afterwords(out)
	}
	return nil
}

// cutForm says why a reply does not match the form that was asked for. It returns "" if it matches, and for a reply
// that is a call.
func cutForm(req *generation.Request, r generation.Reply) string {
	if req.Form.IsZero() || len(r.Calls) > 0 || req.Form.IsJSON() && json.Valid([]byte(r.Answer)) {
		return ""
	}
	if _, text, ok := render.Shortfall(r); ok {
		return text
	}
	for _, w := range r.Warnings {
		if w.Code == generation.CodeFormCut {
			return w.Text
		}
	}
	return ""
}

// afterwords warns if a reply is missing or cut off.
func (a *App) afterwords(r generation.Reply) {
	if _, text, ok := render.Shortfall(r); ok {
		a.Complain("warning: " + text)
	}
}

// streams returns the streams for a renderer.
func (a *App) streams(o *runOptions, spinner *render.Spinner) render.Streams {
	return render.Streams{Out: a.out, Err: a.err, OutTerminal: a.outTerminal, ErrTerminal: a.errTerminal,
		Color: a.color(o), Width: a.wrapWidth(o), Spinner: spinner}
}

// narrowest is the narrowest terminal that lines are broken for, in columns.
const narrowest = 20

// wrapWidth returns the width to which lines of an answer are broken, or 0 to break none. The last column stays free,
// because terminals differ in where the cursor is after it. An answer that must match a form may be for a program.
func (a *App) wrapWidth(o *runOptions) int {
	if !a.outTerminal || !o.request.Form.IsZero() {
		return 0
	}
	columns, _, err := term.GetSize(int(a.out.Fd()))
	if err != nil || columns < narrowest {
		return 0
	}
	return columns - 1
}

// newRunID returns a new id of a run, for traces.
func newRunID() string {
	var b [8]byte
	rand.Read(b[:])
	return "run_" + hex.EncodeToString(b[:])
}

// color reports whether styles are allowed on terminals (see no-color.org).
func (a *App) color(o *runOptions) bool {
	return !o.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Spinner returns a spinner if standard error is a terminal that can show one, and otherwise nil.
func (a *App) Spinner() *render.Spinner {
	if !a.errTerminal || os.Getenv("TERM") == "dumb" {
		return nil
	}
	a.shown = render.NewSpinner(a.err)
	return a.shown
}
