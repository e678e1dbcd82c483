package contract

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
)

// Values of the field include that are about reasoning. Not every format has this field.
const (
	// IncludeSealed asks for the reasoning as a sealed value.
	IncludeSealed = "reasoning.encrypted_content"
	// IncludeContent asks for visibility full.
	IncludeContent = "reasoning.content"
)

// maxBudget is the largest reasoning budget, in tokens.
const maxBudget = 1 << 24

// Fields are the fields of a request about reasoning. All are optional and may be null.
//
// How much the model reasons, where the reasoning comes from, and how much of it is returned. These are independent of
// each other. If two fields contradict each other, the request is refused and the error names both.
//
//openapi:request ReasoningOptions
type Fields struct {
	// How much of the reasoning is returned, or an object that also says how much the model reasons. True means `full`
	// and false means `none`.
	Reasoning       json.RawMessage `json:"reasoning,omitempty" api:"boolean|#Visibility|#ReasoningObject" of:"Visibility"`
	ReasoningEffort *string         `json:"reasoning_effort,omitempty" api:"#Effort" of:"Effort"`
	// How much of the reasoning is returned. True means `full` and false means `none`.
	IncludeReasoning json.RawMessage `json:"include_reasoning,omitempty" api:"boolean|#Visibility"`
	// The maximum number of reasoning tokens. When it is reached, the reasoning is ended and the answer begins, and the
	// detail of the finish reason says so. 0 means effort `none`, -1 means no limit.
	ReasoningBudget *int `json:"reasoning_budget,omitempty" api:"[-1..16777216]" of:"Budget"`
	// Another name of `reasoning_budget`.
	ThinkingBudget *int `json:"thinking_budget,omitempty" api:"[-1..16777216]"`
	// False means effort `none`.
	EnableThinking *bool `json:"enable_thinking,omitempty"`
	// An effort. False means effort `none`.
	Think json.RawMessage `json:"think,omitempty" api:"boolean|#Effort"`
	// False and an object of type `disabled` mean effort `none`.
	Thinking json.RawMessage `json:"thinking,omitempty" api:"boolean|#ThinkingSwitch"`
	// Where other servers put the reasoning. `hidden` means visibility `none`. `parsed`, `raw`, `deepseek` and
	// `deepseek-legacy` mean `full`. This server never puts reasoning into the answer, so `raw`, `none` and
	// `deepseek-legacy` give a warning.
	ReasoningFormat *string `json:"reasoning_format,omitempty" api:"=auto,none,hidden,parsed,raw,deepseek,deepseek-legacy"`
	// Where the reasoning comes from: the model's own channels or tags (`native`), a JSON object with reasoning and
	// answer (`json`), a call of a pseudo-function (`tool`), markers in the text (`markers`), or an explanation written
	// after the answer (`posthoc`). `auto` takes the first one that the model supports. The pseudo-function is called
	// `report_reasoning`, so no function in `tools` may have that name.
	ReasoningStrategy *string `json:"reasoning_strategy" api:"=auto,native,json,tool,markers,posthoc" of:"Strategy"`
	// Return all reasoning as sealed values, whatever the visibility. In chat completions it is the message's
	// `reasoning_encrypted_content`. Send it back with its message to restore the reasoning.
	ReasoningSeal *bool `json:"reasoning_seal,omitempty" api:"default=false" of:"Seal"`
	// Store a trace of the whole run, whatever the visibility, encrypted for the keys that the server's operator chose.
	// `trace_id` has its id once it is safely stored. If it cannot be stored, there is the warning `trace_not_stored`.
	// Refused by a server that keeps no traces.
	ReasoningEncrypt *bool `json:"reasoning_encrypt,omitempty" api:"default=false"`
	// Keep the reasoning of earlier turns in the prompt, even where the model's format would drop it. Usually reasoning
	// is kept only while tool calls are pending.
	KeepReasoning *bool `json:"keep_reasoning,omitempty" api:"default=false"`
	// Ask the model for its reason for each call. This costs tokens. The reasons are removed from the model's text and
	// returned with visibility `full`, in chat completions as `rationale`.
	Rationale  *bool       `json:"rationale,omitempty" api:"default=false"`
	Delegation *Delegation `json:"delegation,omitempty" of:"Delegation"`
	// Variables for the model's Jinja template, nested at most 32 deep. They are treated as user text and cannot replace
	// messages or tools. Variables about effort and budget (`enable_thinking` or `thinking` false, `reasoning_effort`,
	// `thinking_budget`) have the same effect as fields of the request.
	TemplateArgs map[string]any `json:"chat_template_kwargs,omitempty" api:"{}[..256]" of:"TemplateArgs"`
}

// object is the object form of Fields.Reasoning.
//
//openapi:request ReasoningObject
type object struct {
	// False means effort `none`.
	Enabled *bool   `json:"enabled"`
	Effort  *string `json:"effort" api:"#Effort"`
	// Return a summary of one or two sentences (`concise`) or a paragraph (`detailed`), or `none`. It quotes at most a
	// third of the reasoning's words in a row; this limit is never below three or above twelve words.
	Summary *string `json:"summary" api:"=auto,concise,detailed,none"`
	// An older name of `summary`.
	GenerateSummary *string `json:"generate_summary" api:"=auto,concise,detailed,none"`
	// True means visibility `none`.
	Exclude *bool `json:"exclude"`
	// Another name of `reasoning_budget`.
	MaxTokens *int `json:"max_tokens" api:"[-1..16777216]"`
	// `all_turns` means `keep_reasoning` true, `current_turn` means false.
	Context *string `json:"context" api:"=auto,current_turn,all_turns"`
}

// Asked is what a request asks for.
type Asked struct {
	Visibility reasoning.Visibility
	// Said says that the request names a visibility. Otherwise the server chooses it.
	Said bool
	// Summary is the requested length of the summary: auto, concise or detailed. It is empty if the request has none.
	Summary string
	Effort  reasoning.Effort
	// Budget is the maximum number of reasoning tokens. 0 means that the request has none, a negative number means no
	// limit.
	Budget   int
	Strategy reasoning.Strategy
	// Seal says that the answer must have the reasoning as a sealed value.
	Seal bool
	// Encrypt says that a trace of the run must be stored.
	Encrypt bool
	// Keep says that earlier turns keep their reasoning.
	Keep bool
	// Rationale says that the model must give its reason for each call.
	Rationale  bool
	Args       map[string]any
	Delegation *Delegation
	// Warnings say which fields have no effect.
	Warnings []wire.Warning
}

// Apply writes the settings that were asked for into a request. The request's other settings are kept.
func (a *Asked) Apply(req *generation.Request) {
	if a.Said {
		req.Visibility = a.Visibility
	}
	req.DetailedSummary = a.Summary == "detailed" || a.Summary != "concise" && req.DetailedSummary
	if a.Effort != reasoning.EffortDefault {
		req.Effort = a.Effort
	}
	if a.Budget != 0 {
		req.Budget = max(a.Budget, 0)
	}
	if a.Strategy != "" {
		req.Strategy, req.Score = a.Strategy, a.Strategy == reasoning.StrategyJSON
	}
	req.KeepReasoning = req.KeepReasoning || a.Keep
	req.Rationale = req.Rationale || a.Rationale
	if a.Args != nil {
		req.TemplateArgs = a.Args
	}
	req.Seal = a.Seal
	a.Delegation.apply(req)
}

// choice is a value that several fields of a request can set.
type choice[T comparable] struct {
	value T
	from  string
}

// say records that a field asks for a value. If another field has asked for a different one, it returns an error that
// names both fields.
func (c *choice[T]) say(param string, value T) error {
	if c.from == "" {
		c.value, c.from = value, param
		return nil
	}
	if c.value != value {
		return wire.Invalid(param, "it asks for %v and %s for %v; say it in one place", value, c.from, c.value)
	}
	return nil
}

// sayIf is say for a value that may be left out.
func (c *choice[T]) sayIf(param string, value *T) error {
	if value == nil {
		return nil
	}
	return c.say(param, *value)
}

// parser collects what the fields say.
type parser struct {
	visibility choice[reasoning.Visibility]
	summary    choice[string]
	effort     choice[reasoning.Effort]
	budget     choice[int]
	keep       choice[bool]
	// noSummary is the field that asks for no summary, and on is the field that asks for reasoning. They are empty if no
	// field does.
	noSummary, on string
	warnings      wire.Warnings
	// templateArgs are the variables for the template. The effort has a name that templates know.
	templateArgs map[string]any
}

// Parse reads the fields and the values of the field include. Errors are of the type *wire.Error and have the field's
// name.
func (f *Fields) Parse(include []string) (Asked, error) {
	var p parser
	if err := cmp.Or( // the first of them
		p.reasoning(f.Reasoning), p.includeReasoning(f.IncludeReasoning), p.include(include),
		p.effortOf("reasoning_effort", f.ReasoningEffort), p.switches(f), p.args(f.TemplateArgs), p.agree(),
		p.keep.sayIf("keep_reasoning", f.KeepReasoning), f.Delegation.check(),
	); err != nil {
		return Asked{}, err
	}
	a := Asked{
		Visibility: p.visibility.value, Said: p.visibility.from != "", Summary: p.summary.value, Warnings: p.warnings,
		Effort: p.effort.value, Budget: p.budget.value, Keep: p.keep.value,
		Seal: f.ReasoningSeal != nil && *f.ReasoningSeal || slices.Contains(include, IncludeSealed), Args: p.templateArgs,
		Rationale: f.Rationale != nil && *f.Rationale, Encrypt: f.ReasoningEncrypt != nil && *f.ReasoningEncrypt,
		Delegation: f.Delegation,
	}
	if f.ReasoningStrategy != nil {
		a.Strategy = reasoning.Strategy(*f.ReasoningStrategy)
	}
	return a, nil
}

// FieldTrace is the field that asks for a trace. The trace contains this name, to say how it was requested.
const FieldTrace = "reasoning_encrypt"

// CanTrace returns an error if a trace is requested and the server keeps none.
func (a *Asked) CanTrace(to wire.Traces) error {
	if a.Encrypt && to == nil {
		return wire.Unsupported(FieldTrace, "this server keeps no traces; its operator can turn them on with runner "+
			"serve --traces. reasoning_seal returns the reasoning as a sealed value")
	}
	return nil
}

// reasoning reads the field reasoning.
func (p *parser) reasoning(raw json.RawMessage) error {
	switch {
	case !wire.Given(raw):
		return nil
	case raw[0] == '"':
		return p.named("reasoning", raw)
	case string(raw) == "true":
		return p.visibility.say("reasoning", reasoning.VisibilityFull)
	case string(raw) == "false":
		return p.visibility.say("reasoning", reasoning.VisibilityNone)
	case raw[0] != '{':
		return wire.Invalid("reasoning", "it takes none, summary, full, true, false or an object")
	}
	var o object
	if err := wire.UnmarshalAt("reasoning", raw, &o); err != nil {
		return err
	}
	return cmp.Or(
		p.enable("reasoning.enabled", o.Enabled), p.summaryOf("reasoning.summary", o.Summary),
		p.summaryOf("reasoning.generate_summary", o.GenerateSummary), p.exclude(o.Exclude), p.contextOf(o.Context),
		p.effortOf("reasoning.effort", o.Effort), p.budgetOf("reasoning.max_tokens", o.MaxTokens),
	)
}

func (p *parser) exclude(on *bool) error {
	if on == nil || !*on {
		return nil
	}
	return p.visibility.say("reasoning.exclude", reasoning.VisibilityNone)
}

func (p *parser) contextOf(turns *string) error {
	if turns == nil || *turns == "auto" {
		return nil
	}
	return p.keep.say("reasoning.context", *turns == "all_turns")
}

// include reads the values of the field include.
func (p *parser) include(names []string) error {
	if !slices.Contains(names, IncludeContent) {
		return nil
	}
	return p.visibility.say("include", reasoning.VisibilityFull)
}

// includeReasoning reads the field include_reasoning.
func (p *parser) includeReasoning(raw json.RawMessage) error {
	switch {
	case !wire.Given(raw):
		return nil
	case string(raw) == "true":
		return p.visibility.say("include_reasoning", reasoning.VisibilityFull)
	case string(raw) == "false":
		return p.visibility.say("include_reasoning", reasoning.VisibilityNone)
	case raw[0] == '"':
		return p.named("include_reasoning", raw)
	}
	return wire.Invalid("include_reasoning", "it takes true, false, none, summary or full")
}

// named reads a visibility by its name.
func (p *parser) named(param string, raw json.RawMessage) error {
	var name string
	if err := wire.UnmarshalAt(param, raw, &name); err != nil {
		return err
	}
	v, err := reasoning.ParseVisibility(name)
	if err != nil {
		return wire.Invalid(param, "%v", err)
	}
	return p.visibility.say(param, v)
}

func (p *parser) summaryOf(param string, length *string) error {
	if length == nil {
		return nil
	}
	if *length == "none" {
		p.noSummary = param
		return nil
	}
	if err := p.summary.say(param, *length); err != nil {
		return err
	}
	return p.visibility.say(param, reasoning.VisibilitySummary)
}

func (p *parser) effortOf(param string, effort *string) error {
	if effort == nil {
		return nil
	}
	e, err := reasoning.ParseEffort(*effort)
	if err != nil || e == reasoning.EffortDefault {
		return wire.Invalid(param, "it takes none, minimal, low, medium, high, xhigh or max")
	}
	return p.effort.say(param, e)
}

func (p *parser) budgetOf(param string, budget *int) error {
	switch {
	case budget == nil:
		return nil
	case *budget < -1 || *budget > maxBudget:
		return wire.Invalid(param, "a budget is 1 to %d tokens, 0 to skip the reasoning or -1 for no limit", maxBudget)
	case *budget == 0:
		return p.effort.say(param, reasoning.EffortNone)
	}
	return p.budget.say(param, *budget)
}

// Limits of TemplateArgs.
const (
	maxArgs  = 256
	maxDepth = 32
)

// args reads the variables of a template. Those about effort and budget count as fields of the request.
func (p *parser) args(args map[string]any) error {
	const param = "chat_template_kwargs"
	if len(args) > maxArgs {
		return wire.Invalid(param, "%d variables are given and at most %d are taken", len(args), maxArgs)
	}
	for _, v := range args {
		if deeper(v, maxDepth-1) {
			return wire.Invalid(param, "it nests more than %d deep", maxDepth)
		}
	}
	for _, name := range []string{"enable_thinking", "thinking"} {
		if on, ok := args[name].(bool); ok {
			if err := p.enable(param+"."+name, &on); err != nil {
				return err
			}
		}
	}
	if n, ok := args["thinking_budget"].(float64); ok && n == math.Trunc(n) && math.Abs(n) <= maxBudget {
		budget := int(n)
		if err := p.budgetOf(param+".thinking_budget", &budget); err != nil {
			return err
		}
	}
	p.templateArgs = args
	if effort, ok := args["reasoning_effort"].(string); ok {
		if err := p.effortOf(param+".reasoning_effort", &effort); err != nil {
			return err
		}
		// Templates do not know names such as xhigh.
		p.templateArgs = maps.Clone(args)
		p.templateArgs["reasoning_effort"] = string(p.effort.value)
	}
	return nil
}

// deeper reports whether a JSON value nests more than n deep.
func deeper(v any, n int) bool {
	switch v := v.(type) {
	case []any:
		return n == 0 || slices.ContainsFunc(v, func(e any) bool { return deeper(e, n-1) })
	case map[string]any:
		for _, e := range v {
			if n == 0 || deeper(e, n-1) {
				return true
			}
		}
		return n == 0
	}
	return false
}
