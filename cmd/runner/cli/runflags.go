package cli

import (
	"math"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/generation"
	"runner/reasoning"
)

// runOptions are the flags of run.
type runOptions struct {
	request generation.Request
	model   backend.Config
	// isolation says whether the model gets a process of its own.
	isolation isolation
	form      formOptions

	system       string
	delegate     string
	files        []string
	tools        string
	chatTemplate string
	seed         uint64
	seeded       bool
	output       string
	plan         bool
	record       recordOptions
	records      *records
	verbose      bool
	noColor      bool
}

// Values of --output.
const (
	outputText   = "text"
	outputJSON   = "json"
	outputEvents = "events"
	outputTrace  = "trace"
	outputAGUI   = "agui"
	outputMEW    = "mew"
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

	o.addReasoning(cmd)
	f.BoolVar(&o.plan, "plan", false, "write a plan with the functions of --tools as JSON, with the reason for each; "+
		"nothing is called")
	f.BoolVar(&o.request.Rationale, "rationale", false, "have the model give its reason for each call, which costs tokens")

	f.StringVar(&o.system, "system", "", "system prompt, `TEXT` or @FILE")
	f.StringVar(&o.delegate, "delegate", "", "have a specialist reason first, whose prompt is in `FILE`")
	addDelegationFlags(cmd, &o.request)
	f.StringArrayVar(&o.files, "file", nil, "add the text of `FILE` to the prompt, - for standard input (repeatable)")
	f.StringVar(&o.tools, "tools", "", "functions that the model may call, a JSON `FILE`")
	addNameChoice(cmd, &o.request.ToolChoice, "tool-choice", "whether the model may or must call",
		generation.ToolChoiceAuto,
		generation.ToolChoiceNone,
		generation.ToolChoiceRequired)
	o.form.add(cmd)
	f.StringVar(&o.chatTemplate, "chat-template", "", "Jinja chat template `FILE` instead of the model's own")

	f.IntVar(&o.request.MaxTokens, "max-tokens", 0,
		"most `tokens` to generate, reasoning included (0: what the context holds)")
	f.StringArrayVar(&o.request.Stop, "stop", nil, "`TEXT` that ends the answer (repeatable)")
	addSamplingFlags(cmd, &o.request.Sampling)
	f.Uint64Var(&o.seed, "seed", 0, "seed `N` that makes a run repeatable (default: drawn)")

	addModelFlags(cmd, &o.model)
	o.isolation.add(cmd, "auto: no")

	o.output = outputText
	addNameChoice(cmd, &o.output, "output", "text, one JSON object, or JSON lines of events, of decisions, of AG-UI "+
		"events or of MEW envelopes", outputText, outputJSON, outputEvents, outputTrace, outputAGUI, outputMEW)
	o.record.add(cmd, "trace", "keep all of the run, sealed to who may read it; see runner keys and runner trace")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print timings and token counts to standard error")
	f.BoolVar(&o.noColor, "no-color", false, "no styles on the terminal (also: NO_COLOR)")
}

// addReasoning adds the flags for how a model reasons and how much of it is shown.
func (o *runOptions) addReasoning(cmd *cobra.Command) {
	addChoice(cmd, &o.request.Visibility, "reasoning", "how much reasoning is shown", visibilityNames, visibilities)
	addNameChoice(cmd, &o.request.Effort, "reasoning-effort", "how much the model reasons (default: the model's own)",
		efforts...)
	cmd.Flags().IntVar(&o.request.Budget, "reasoning-budget", 0,
		"most reasoning `tokens`; when they are spent the answer starts (0: no limit)")
	o.request.Strategy = reasoning.StrategyAuto
	addNameChoice(cmd, &o.request.Strategy, "reasoning-strategy", "where the reasoning comes from", strategies...)
	addChoice(cmd, &o.request.DetailedSummary, "summary", "length of the summary", []string{"concise", "detailed"},
		[]bool{false, true})
}

// validate refuses flags that do not go together or have unsupported values.
func (o *runOptions) validate(cmd *cobra.Command) error {
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
