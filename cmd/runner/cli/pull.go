package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"runner/cmd/runner/render"
	"runner/hint"
	"runner/models"
	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/download"
	"runner/models/installed"
	"runner/models/names"
	"runner/models/pull"
)

func (a *App) pullCommand() *cobra.Command {
	var asJSON bool
	return Command(&cobra.Command{
		Use:   "pull NAME",
		Short: "Download a model",
		Long: `Download a model into the Hugging Face cache, where other programs find it, too.

NAME is a repository (ORG/REPO), also with a quantization or a file (ORG/REPO:Q4_K_M), the address of its page, or the
short name of a well-known model, such as gpt-oss-20b. Without a quantization, the best one that fits into this
machine's memory is taken.

To go on with an interrupted download, give the same command again. Every file is checked against the hub's hash.
HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE work as in Hugging Face's own tools.`,
		Example: `  runner pull gpt-oss-20b
  runner pull ggml-org/gpt-oss-20b-GGUF
  runner pull unsloth/Qwen3-8B-GGUF:Q5_K_M`,
		Args:              Exactly(1, "name one model", ""),
		ValidArgsFunction: completePull,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := UntilStopped(cmd.Context())
			defer stop()
			err := a.pull(ctx, args[0], asJSON)
			if ctx.Err() != nil {
				err = a.stopped()
			}
			if err != nil && asJSON {
				_ = json.NewEncoder(a.Stdout()).Encode(failed{State: stateError, Error: err.Error(), Hint: adviceOf(err)})
			}
			return err
		},
	}, JSONFlag(&asJSON, "report progress, waits and errors as JSON, one object a line"))
}

// stopped says that an interrupted download lost nothing.
func (a *App) stopped() error {
	a.Note("interrupted; what is here is kept, and the same command goes on with it")
	return ErrInterrupted
}

// pull downloads a model.
func (a *App) pull(ctx context.Context, name string, asJSON bool) error {
	planning, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	here, isHere := pulledBefore(name)
	told := a.waiting()
	client, err := a.HubClient(func(err error, wait time.Duration) {
		if isHere {
			giveUp(err)
			return
		}
		if asJSON {
			line := failed{State: stateRetrying, Error: err.Error(), Wait: wait.Seconds()}
			_ = json.NewEncoder(a.Stdout()).Encode(line) // the pull goes on
			return
		}
		told(err, wait)
	})
	if err != nil {
		return err
	}
	plan, err := a.planPull(planning, client, name)
	if e := (*hub.Error)(nil); isHere && errors.As(err, &e) && (e.Kind == hub.Offline || e.Temporary) {
		a.Complain("warning: the model is here, but whether it is the newest version is not known: " + e.Error())
		return a.ready(here.Name, here.Dir, asJSON)
	}
	if err != nil {
		return err
	}
	if !asJSON {
		a.Note(describePull(plan))
	}
	return a.fetch(ctx, plan, asJSON, false)
}

// pulledBefore finds the whole model that a name means in the Hugging Face cache.
func pulledBefore(name string) (catalog.Entry, bool) {
	n, _ := hubName(name) // what is wrong is said when the pull is planned
	return installed.Whole(cache.Default(), n)
}

// hubName reads the name of a model on the hub. The name of a repository without its owner is that of a model here.
func hubName(name string) (names.Name, error) {
	n, err := names.Parse(name, models.Hosts()...)
	if repos, _ := n.OnHub(); n.Word != "" && len(repos) == 0 {
		if m, absent := models.Resolve(name, 0); absent == nil && m.Files.Repo != "" {
			n = names.Name{Repo: m.Files.Repo}
		}
	}
	return n, err
}

// ready says that a model is here.
func (a *App) ready(name, snapshot string, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.Stdout()).Encode(map[string]string{"state": stateSuccess, "name": name, "path": snapshot})
	}
	a.Note("ready: runner run " + name)
	return nil
}

// offerPull asks on the terminal whether to download a model that is not here, and does so. It reports false if the
// answer is no.
func (a *App) offerPull(ctx context.Context, name string) (bool, error) {
	client, err := a.hub()
	if err != nil {
		return false, err
	}
	plan, err := a.planPull(ctx, client, name)
	if err != nil {
		return false, err
	}
	fmt.Fprint(a.Stderr(), render.Wrap(offer(name, plan), a.noteWidth()-len(" yes"))+" ")
	yes, err := a.answersYes(ctx)
	if err != nil || !yes {
		return false, err
	}
	if err = a.fetch(ctx, plan, false, true); ctx.Err() != nil {
		return true, a.stopped()
	}
	return true, err
}

// offer is the question whether to download a model, with all that speaks against it.
func offer(name string, plan *pull.Plan) string {
	question := render.CleanLine(name) + " is not on this machine. "
	if plan.TooBig {
		question += tooBig + ". "
	}
	return question + "Download " + describePull(plan) + "? [y/N]"
}

// answersYes reads the answer to a question. An end of the input, or of ctx, is an interrupt.
func (a *App) answersYes(ctx context.Context) (bool, error) {
	answer, err := unlessStopped(ctx, func() (string, error) {
		answer, err := bufio.NewReader(a.in).ReadString('\n')
		if err != nil && answer == "" {
			return "", ErrInterrupted
		}
		return strings.ToLower(strings.TrimSpace(answer)), nil
	})
	return answer == "y" || answer == "yes", err
}

// tooBig says that a model may not fit.
const tooBig = "This machine may not have the memory for this model, and it is the smallest there is"

// fetch downloads what a plan says. asked reports that the user said yes to it.
func (a *App) fetch(ctx context.Context, plan *pull.Plan, asJSON, asked bool) error {
	if plan.TooBig && !asked {
		a.Complain("warning: " + tooBig)
	}
	for _, r := range plan.Refused {
		a.Complain(fmt.Sprintf("warning: the file %q is left out: %s", r.Path, r.Why))
	}
	var files []string
	for _, i := range plan.Items {
		files = append(files, i.Path)
	}
	bars := render.NewTransfers(a.err, a.errTerminal && !asJSON, files)
	states, said := map[string]download.State{}, map[string]string{}
	report := func(p download.Progress) {
		if why := unusual[p.State]; why != "" && states[p.File] != p.State {
			bars.Say(p.File + ": " + why)
		}
		states[p.File] = p.State
		bars.Set(p.File, stateWord(p.State), p.Done, p.Total)
		if p.Retry == nil {
			return
		}
		if line := p.File + ": " + again(p.Retry); line != said[p.File] { // once for each cause
			said[p.File] = line
			bars.Say(line)
		}
	}
	if asJSON {
		enc := json.NewEncoder(a.Stdout())
		report = func(p download.Progress) {
			line := transferred{File: p.File, State: string(p.State), Done: p.Done, Total: p.Total, Verified: p.Verified}
			if p.Retry != nil {
				line.State, line.Error, line.Wait = stateRetrying, p.Retry.Error(), p.Wait.Seconds()
			}
			_ = enc.Encode(line) // the download goes on
		}
	}
	linked, err := plan.Run(ctx, report)
	bars.End(err == nil)
	if err != nil {
		return err
	}
	if !linked {
		a.Complain("warning: links do not work here, so other revisions of the model do not share its files")
	}
	return a.ready(plan.Model.Spelled(), plan.Model.Dir, asJSON)
}

// unusual explains states that a reader would wonder about.
var unusual = map[download.State]string{
	download.Waiting: "another program is downloading it; waiting for that one",
	download.Again:   "its content does not have the hub's hash, so it is downloaded once more",
}

// stateWord is what people read of a state.
func stateWord(s download.State) string {
	switch s {
	case download.There:
		return "already here"
	case download.Again:
		return "once more"
	}
	return string(s)
}

// transferred is a line of pull --json about a file. One of the state retrying has the reason and the wait.
type transferred struct {
	File     string  `json:"file"`
	State    string  `json:"state"`
	Done     int64   `json:"done"`
	Total    int64   `json:"total"`
	Verified int64   `json:"verified"`
	Error    string  `json:"error,omitempty"`
	Wait     float64 `json:"wait_seconds,omitempty"`
}

// States of lines of pull --json that no file has.
const (
	stateRetrying = "retrying"
	stateError    = "error"
	stateSuccess  = "success"
)

// failed is the last line of pull --json after an error. A line of the state retrying has it, too, with the wait, while
// the hub is asked for the list of files.
type failed struct {
	State string  `json:"state"`
	Error string  `json:"error"`
	Hint  string  `json:"hint,omitempty"`
	Wait  float64 `json:"wait_seconds,omitempty"`
}

// hub returns a client of the hub that the environment names. It says on the terminal when it has to wait.
func (a *App) hub() (*hub.Client, error) { return a.HubClient(a.waiting()) }

// waiting says that the hub is asked again, once for each cause.
func (a *App) waiting() func(error, time.Duration) {
	last := ""
	return func(err error, _ time.Duration) {
		if line := again(err); line != last {
			last = line
			a.Note(line)
		}
	}
}

// HubClient returns a client of the hub that the environment names. waiting is called when it has to wait.
func (a *App) HubClient(waiting func(err error, wait time.Duration)) (*hub.Client, error) {
	cfg, err := hub.FromEnvironment()
	if err != nil {
		return nil, err
	}
	cfg.Waiting = waiting
	cfg.UserAgent = "runner/" + cmp.Or(a.build.Version, "unknown")
	return hub.New(cfg)
}

// again says that a request failed and is repeated.
func again(err error) string {
	if e := (*hub.Error)(nil); errors.As(err, &e) {
		return e.Detail + "; trying again"
	}
	return err.Error() + "; trying again"
}

// planPull finds the repository and the files that a name means.
func (a *App) planPull(ctx context.Context, client *hub.Client, name string) (*pull.Plan, error) {
	parsed, err := hubName(name)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(name, models.DemoName) {
		return nil, Input("%s is part of this program", name).Hint("use it: runner run %s", name)
	}
	if repos, _ := parsed.OnHub(); len(repos) == 0 {
		e := Input("no model %q is known", name).Hint("name a repository of the hub as ORG/REPO")
		if near := models.Near(name); len(near) > 0 {
			e.Advice = hint.Advice(models.DidYouMean(near))
		}
		return nil, e
	}
	plan, err := pull.NewPlan(ctx, client, cache.Default(), parsed, a.FreeMemory())
	return plan, suggest(parsed, err)
}

// suggest adds the nearest names to the hub's error that it has no such repository.
func suggest(n names.Name, err error) error {
	e := (*hub.Error)(nil)
	if !errors.As(err, &e) || e.Kind != hub.NotFound || n.Revision != "" {
		return err
	}
	near := models.Near(n.Repo)
	if len(near) == 0 {
		return err
	}
	return hint.Replace(err, hint.Advice(models.DidYouMean(near)+" Else "+e.Advice))
}

// describePull says in one line what will be downloaded.
func describePull(p *pull.Plan) string {
	what := []string{p.ID}
	if p.Model.Quant != "" {
		what = append(what, p.Model.Quant)
	}
	what = append(what, render.Size(p.Model.Bytes()))
	if n := len(p.Items); n > 1 {
		what = append(what, fmt.Sprintf("%d files", n))
	}
	if p.License != "" {
		what = append(what, "licence "+p.License)
	}
	if p.Gated {
		what = append(what, "gated: its owner wants its terms accepted first")
	}
	if missing := p.Missing(); missing < p.Model.Bytes() {
		what = append(what, render.Size(p.Model.Bytes()-missing)+" of that are already here")
	}
	return strings.Join(what, ", ")
}
