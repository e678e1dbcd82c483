package cli

import (
	"math"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/reasoning"
	"runner/runner"
)

// runOptions are the flags of run.
type runOptions struct {
	request generation.Request
	model   backend.Config
	// isolation says whether the model gets a process of its own.
	isolation Isolation
	remote    RemoteFlags
	// rooms are what the rooms add, and roomFlags their flags.
	rooms     []Asking
	roomFlags []flags.Table
	form      formOptions

	name         string
	system       string
	files        []string
	tools        string
	chatTemplate string
	drafts       runner.Drafts
	seed         uint64
	seeded       bool
	output       string
	check        bool
	plan         bool
	record       Recorder
	traceFlags   flags.Table
	sealing      Sealing
	keep         keepOptions
	verbose      bool
	noColor      bool
}

var (
	visibilityNames = []string{"none", "summary", "full"}
	visibilities    = []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
		reasoning.VisibilityFull}
	efforts = []reasoning.Effort{reasoning.EffortNone, reasoning.EffortMinimal, reasoning.EffortLow,
		reasoning.EffortMedium, reasoning.EffortHigh}
	strategies = []reasoning.Strategy{reasoning.StrategyAuto, reasoning.StrategyNative, reasoning.StrategyJSON,
		reasoning.StrategyTool,
		reasoning.StrategyMarkers, reasoning.StrategyPosthoc}
)

func (o *runOptions) flags() flags.Table {
	return flags.List(
		flags.Topic("Model and prompt",
			flags.Text("model", &o.name, "`MODEL` to use; then the only argument is the prompt", flags.Short("m")),
			systemFlag(&o.system),
			flags.Texts("file", &o.files, "add the text of `FILE` to the prompt; - is standard input (repeatable)",
				flags.Short("f")),
			templateFlag(&o.chatTemplate)),
		flags.Topic("Reasoning", o.reasoningFlags()),
		flags.Topic("Form of the answer", o.form.flags(),
			flags.Switch("check", &o.check, "say whether the form is supported, show texts that match it, and stop",
				flags.Needs(formFlags...))),
		flags.Topic("Functions",
			flags.Text("tools", &o.tools, "functions that the model may call, a JSON `FILE`"),
			flags.Name("tool-choice", &o.request.ToolChoice, []generation.ToolChoice{
				generation.ToolChoiceAuto, generation.ToolChoiceNone, generation.ToolChoiceRequired},
				"whether the model may or must call"),
			rationaleFlag(&o.request.Rationale),
			flags.Switch("plan", &o.plan, "write a plan that uses the functions of --tools as JSON, with the reason for each "+
				"step; nothing is called")),
		flags.List(o.roomFlags...),
		flags.Topic("Length",
			flags.Int("max-tokens", &o.request.MaxTokens, 0, 0, math.MaxInt,
				"generate at most `N` tokens, reasoning included (0: what fits into the context)", flags.Short("n")),
			flags.Texts("stop", &o.request.Stop, "`TEXT` that ends the answer (repeatable)")),
		flags.Topic("Sampling", samplingFlags(&o.request.Sampling), flags.Seed("seed", &o.seed,
			"seed `N` that makes a run repeatable (default: random)", flags.Short("s"))),
		flags.Topic("Loading the model", modelFlags(&o.model), draftsFlag(&o.drafts), o.isolation.flags()),
		flags.Topic("Engine at an address", o.remote.flags()),
		flags.Topic("Output",
			outputFlag(&o.output),
			flags.Switch("verbose", &o.verbose, "print timings and token counts to standard error", flags.Short("v")),
			flags.Switch("no-color", &o.noColor, "no styles on the terminal (also: NO_COLOR)")),
		flags.Topic("Traces", o.traceFlags),
		flags.Topic("Conversation", o.keep.flags()),
	).Showing("model", "file", "tools", "max-tokens", "temperature", "seed", "output", "verbose")
}

// VisibilityFlag is a flag for how much reasoning is shown.
func VisibilityFlag(name string, to *reasoning.Visibility, usual reasoning.Visibility, usage string,
	marks ...flags.Mark) flags.Table {
	return flags.Choice(name, to, usual, visibilityNames, visibilities, usage, marks...)
}

// systemFlag is the flag for the system prompt.
func systemFlag(text *string) flags.Table {
	return flags.Text("system", text, "system prompt, `TEXT` or @FILE", flags.Common)
}

// reasoningFlags are the flags for how a model reasons and how much of it is shown.
func (o *runOptions) reasoningFlags() flags.Table {
	r := &o.request
	return flags.List(
		flags.OneOf(
			VisibilityFlag("reasoning", &r.Visibility, reasoning.VisibilityNone,
				"how much reasoning is shown", flags.Short("r"), flags.Common),
			flags.Switch("no-reasoning", new(bool), "the same as --reasoning none", flags.CommandLine)),
		flags.Choice("reasoning-effort", &r.Effort, reasoning.EffortDefault, effortNames()[1:], efforts,
			"how much the model reasons (default: the model's own)", flags.Common),
		flags.Int("reasoning-budget", &r.Budget, 0, 0, math.MaxInt,
			"reason with at most `N` tokens, then answer (0: no limit)"),
		flags.Name("reasoning-strategy", &r.Strategy, strategies,
			"where the reasoning comes from"),
		flags.Choice("summary", &r.DetailedSummary, false, []string{"concise", "detailed"}, []bool{false, true},
			"length of the summary", flags.Common))
}

// rationaleFlag is the flag that asks for the reasons of calls.
func rationaleFlag(on *bool) flags.Table {
	return flags.Switch("rationale", on, "ask the model for its reason for each call, which costs tokens")
}

// templateFlag is the flag for a template.
func templateFlag(file *string) flags.Table {
	return flags.Text("chat-template", file, "Jinja chat template `FILE` instead of the model's own")
}

// validate refuses values that no model supports.
func (o *runOptions) validate(cmd *cobra.Command) error {
	o.seeded = cmd.Flags().Changed("seed")
	if o.seeded {
		o.request.Seed = &o.seed
	}
	if err := checkModelFlags(&o.model); err != nil {
		return err
	}
	if err := o.request.Sampling.Validate(math.MaxInt32); err != nil {
		return Usage("%v", err).From(err).Hint("%s", See(cmd))
	}
	for _, s := range o.request.Stop {
		if s == "" {
			return Usage("--stop is empty").Hint("give the text that ends the answer")
		}
	}
	return nil
}
