package cli

import (
	"math"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/generation"
	"runner/reasoning"
	"runner/runner"
)

// runOptions are the flags of run.
type runOptions struct {
	request generation.Request
	model   backend.Config
	// isolation says whether the model gets a process of its own.
	isolation isolation
	remote    remoteFlags
	form      formOptions

	name         string
	system       string
	delegate     string
	files        []string
	tools        string
	chatTemplate string
	drafts       runner.Drafts
	seed         uint64
	seeded       bool
	output       string
	check        bool
	plan         bool
	record       recordOptions
	keep         keepOptions
	records      *records
	verbose      bool
	noColor      bool
}

// Values of --output.
const (
	outputText      = "text"
	outputJSON      = "json"
	outputEvents    = "events"
	outputDecisions = "decisions"
	outputAGUI      = "agui"
	outputMEW       = "mew"
)

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

func (o *runOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	o.addPrompt(cmd)
	topic(cmd, "Reasoning", func() { o.addReasoning(cmd) })
	topic(cmd, "Form of the answer", func() {
		o.form.add(cmd)
		f.BoolVar(&o.check, "check", false, "say whether the form is supported, show texts that match it, and stop")
	})
	topic(cmd, "Functions", func() {
		f.StringVar(&o.tools, "tools", "", "functions that the model may call, a JSON `FILE`")
		addNameChoice(cmd, &o.request.ToolChoice, "tool-choice", "whether the model may or must call",
			generation.ToolChoiceAuto, generation.ToolChoiceNone, generation.ToolChoiceRequired)
		addRationale(cmd, &o.request.Rationale)
		f.BoolVar(&o.plan, "plan", false, "write a plan that uses the functions of --tools as JSON, with the reason for "+
			"each step; nothing is called")
	})
	topic(cmd, "Delegation", func() { o.addDelegation(cmd) })
	topic(cmd, "Length", func() {
		f.IntVarP(&o.request.MaxTokens, "max-tokens", "n", 0,
			"generate at most `N` tokens, reasoning included (0: what fits into the context)")
		f.StringArrayVar(&o.request.Stop, "stop", nil, "`TEXT` that ends the answer (repeatable)")
	})
	topic(cmd, "Sampling", func() {
		addSamplingFlags(cmd, &o.request.Sampling)
		f.Uint64VarP(&o.seed, "seed", "s", 0, "seed `N` that makes a run repeatable (default: random)")
	})
	topic(cmd, "Loading the model", func() {
		addModelFlags(cmd, &o.model)
		addDrafts(cmd, &o.drafts)
		o.isolation.add(cmd, "auto: no")
	})
	topic(cmd, "Engine at an address", func() { o.remote.add(cmd) })
	topic(cmd, "Output", func() {
		o.output = outputText
		addNameChoice(cmd, &o.output, "output", "text, one JSON object, or JSON lines of events, of decisions, of AG-UI "+
			"events or of MEW envelopes", outputText, outputJSON, outputEvents, outputDecisions, outputAGUI, outputMEW)
		rename(cmd, "output", "trace", outputDecisions)
		f.BoolVarP(&o.verbose, "verbose", "v", false, "print timings and token counts to standard error")
		f.BoolVar(&o.noColor, "no-color", false, "no styles on the terminal (also: NO_COLOR)")
	})
	topic(cmd, "Traces", func() {
		o.record.add(cmd, "trace", "keep a sealed trace of the run; see runner trace")
	})
	topic(cmd, "Conversation", func() { o.keep.add(cmd) })
	common(cmd, "model", "system", "file", "reasoning", "reasoning-effort", "summary", "schema", "json", "tools",
		"max-tokens", "temperature", "seed", "ctx-size", "output", "verbose")
}

// addPrompt adds the flags for the model and the messages.
func (o *runOptions) addPrompt(cmd *cobra.Command) {
	f := cmd.Flags()
	topic(cmd, "Model and prompt", func() {
		f.StringVarP(&o.name, "model", "m", "", "`MODEL` to use; then the only argument is the prompt")
		f.StringVar(&o.system, "system", "", "system prompt, `TEXT` or @FILE")
		f.StringArrayVarP(&o.files, "file", "f", nil,
			"add the text of `FILE` to the prompt; - is standard input (repeatable)")
		addChatTemplate(cmd, &o.chatTemplate, "the model's own")
	})
}

// addReasoning adds the flags for how a model reasons and how much of it is shown.
func (o *runOptions) addReasoning(cmd *cobra.Command) {
	addChoiceP(cmd, &o.request.Visibility, "reasoning", "r", "how much reasoning is shown", visibilityNames, visibilities)
	addNameChoice(cmd, &o.request.Effort, "reasoning-effort", "how much the model reasons (default: the model's own)",
		efforts...)
	cmd.Flags().IntVar(&o.request.Budget, "reasoning-budget", 0,
		"reason with at most `N` tokens, then answer (0: no limit)")
	o.request.Strategy = reasoning.StrategyAuto
	addNameChoice(cmd, &o.request.Strategy, "reasoning-strategy", "where the reasoning comes from", strategies...)
	addChoice(cmd, &o.request.DetailedSummary, "summary", "length of the summary", []string{"concise", "detailed"},
		[]bool{false, true})
}

// addDelegation adds the flags for specialists.
func (o *runOptions) addDelegation(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.delegate, "delegate", "", "let a specialist reason first; `FILE` has its prompt")
	addDelegationFlags(cmd, &o.request)
}

// addRationale adds the flag that asks for the reasons of calls.
func addRationale(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "rationale", false, "ask the model for its reason for each call, which costs tokens")
}

// addChatTemplate adds the flag for a template. own says what it replaces.
func addChatTemplate(cmd *cobra.Command, file *string, own string) {
	cmd.Flags().StringVar(file, "chat-template", "", "Jinja chat template `FILE` instead of "+own)
}

// validate refuses flags that do not go together or have unsupported values.
func (o *runOptions) validate(cmd *cobra.Command) error {
	o.record.sealing = o.keep.on || o.keep.resume
	if err := o.record.validate(cmd); err != nil {
		return err
	}
	return o.validateRequest(cmd)
}

// validateRequest refuses values that no model supports.
func (o *runOptions) validateRequest(cmd *cobra.Command) error {
	o.seeded = cmd.Flags().Changed("seed")
	if o.seeded {
		o.request.Seed = &o.seed
	}
	if err := checkNumbers([]number{
		{"reasoning-budget", o.request.Budget, 0, math.MaxInt}, {"max-tokens", o.request.MaxTokens, 0, math.MaxInt},
	}); err != nil {
		return err
	}
	if err := checkModelFlags(&o.model); err != nil {
		return err
	}
	if err := o.request.Sampling.Validate(math.MaxInt32); err != nil {
		return &usageError{what: err.Error(), hint: see(cmd), err: err}
	}
	for _, s := range o.request.Stop {
		if s == "" {
			return &usageError{what: "--stop is empty", hint: "give the text that ends the answer"}
		}
	}
	return nil
}
