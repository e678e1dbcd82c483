package agui

import (
	"encoding/json"
	"fmt"

	"runner/chattemplate"
	"runner/reasoning"
	"runner/runner"
	"runner/server/wire"
)

// ForwardedProps is what a client says to this server beside what the protocol has fields for. All of it may be left out, and what is not here is
// ignored. What is said twice has to be the same.
type ForwardedProps struct {
	// Model is a name as GET /v1/models lists it; empty is the default model.
	Model string `json:"model"`
	// Reasoning is the visibility (none, summary, full), or a ReasoningObject.
	Reasoning json.RawMessage `json:"reasoning"`
	// ReasoningEffort is none, minimal, low, medium or high.
	ReasoningEffort *string `json:"reasoning_effort"`
	// ReasoningBudget is the most reasoning tokens, 1 to 16,777,216; then the answer starts.
	ReasoningBudget *int `json:"reasoning_budget"`
	// ReasoningStrategy is where reasoning comes from: auto, native, json, tool, markers or posthoc.
	ReasoningStrategy *string `json:"reasoning_strategy"`
	// ReasoningSeal asks for the reasoning as sealed values, whatever is visible.
	ReasoningSeal bool `json:"reasoning_seal"`
	// ReasoningEncrypt asks the server to store the trace, which it does not.
	ReasoningEncrypt bool `json:"reasoning_encrypt"`
	// KeepReasoning keeps the reasoning of earlier turns in the prompt where the format would drop it.
	KeepReasoning bool `json:"keep_reasoning"`
	// Rationale asks for the model's reason for each call and for what it assumes, which show with visibility full.
	Rationale bool `json:"rationale"`
	// Chunks asks for REASONING_MESSAGE_CHUNK, and LegacyThinking for THINKING_* events; not both.
	Chunks         bool `json:"chunks"`
	LegacyThinking bool `json:"legacy_thinking"`
	// MaxTokens is the most tokens to generate, reasoning included: 1 to 2,147,483,647.
	MaxTokens *int `json:"max_tokens"`
	// Temperature is 0 to 2; TopP is 0 to 1.
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	// Seed makes a run repeatable: 0 to 9,007,199,254,740,991.
	Seed *uint64 `json:"seed"`
	// Stop lists texts that end the answer: at most 16, of 1 to 1,024 bytes each.
	Stop []string `json:"stop"`
	// ToolChoice is auto, none or required.
	ToolChoice *string `json:"tool_choice"`
	// StrictTools holds calls to the parameters of their tools, where the model's format can.
	StrictTools bool `json:"strict_tools"`
	// ParallelToolCalls false allows one call at most.
	ParallelToolCalls *bool `json:"parallel_tool_calls"`
}

// ReasoningObject is the object form of ForwardedProps.Reasoning.
type ReasoningObject struct {
	// Effort is none, minimal, low, medium or high. It changes no visibility.
	Effort *string `json:"effort"`
	// Summary asks for visibility summary, with that length: auto, concise or detailed.
	Summary *string `json:"summary"`
	// Exclude true asks for visibility none.
	Exclude bool `json:"exclude"`
	// MaxTokens is another name of reasoning_budget.
	MaxTokens *int `json:"max_tokens"`
}

// The limits of what ForwardedProps says.
const (
	maxBudget = 1 << 24
	maxStops  = 16
	maxStop   = 1024
	maxSeed   = 1<<53 - 1
	maxTokens = 1<<31 - 1
)

// at is the path of a field of ForwardedProps.
func at(name string) string { return "forwardedProps." + name }

// props reads what the client says of the run.
func (p *prompt) props(input *RunAgentInput) error {
	props := &input.ForwardedProps
	p.req.Visibility = reasoning.VisibilityNone
	for _, step := range []func(*ForwardedProps) error{p.delivery, p.reasoning, p.sampling} {
		if err := step(props); err != nil {
			return err
		}
	}
	return nil
}

// delivery reads in which form the reasoning comes.
func (p *prompt) delivery(props *ForwardedProps) error {
	switch {
	case props.ReasoningEncrypt:
		return wire.Unsupported(at("reasoning_encrypt"), "this server keeps no traces; reasoning_seal returns the reasoning as a sealed value")
	case props.Chunks && props.LegacyThinking:
		return wire.Invalid(at("chunks"), "clients that know chunks take no events of legacy_thinking; ask for one of them")
	case props.ReasoningSeal && props.LegacyThinking:
		return wire.Unsupported(at("reasoning_seal"), "the events of legacy_thinking have no place for sealed values; leave one of them out")
	case props.Chunks:
		p.form = FormChunked
	case props.LegacyThinking:
		p.form = FormLegacy
	}
	p.seal = props.ReasoningSeal
	return nil
}

// reasoning reads how much the model reasons and what of it is shown.
func (p *prompt) reasoning(props *ForwardedProps) error {
	var o ReasoningObject
	if raw := props.Reasoning; wire.Given(raw) {
		switch raw[0] {
		case '"':
			var name string
			if err := wire.UnmarshalAt(at("reasoning"), raw, &name); err != nil {
				return err
			}
			v, err := reasoning.ParseVisibility(name)
			if err != nil {
				return wire.Invalid(at("reasoning"), "%v", err)
			}
			p.req.Visibility = v
		case '{':
			if err := wire.UnmarshalAt(at("reasoning"), raw, &o); err != nil {
				return err
			}
		default:
			return wire.Invalid(at("reasoning"), "it takes none, summary, full or an object")
		}
	}
	if err := p.summary(&o); err != nil {
		return err
	}
	if err := agree(at("reasoning.effort"), o.Effort, at("reasoning_effort"), props.ReasoningEffort, p.effort); err != nil {
		return err
	}
	if err := agree(at("reasoning.max_tokens"), o.MaxTokens, at("reasoning_budget"), props.ReasoningBudget, p.budget); err != nil {
		return err
	}
	if props.ReasoningStrategy != nil {
		s, err := reasoning.ParseStrategy(*props.ReasoningStrategy)
		if err != nil {
			return wire.Invalid(at("reasoning_strategy"), "%v", err)
		}
		p.req.Strategy, p.req.Score = s, s == reasoning.StrategyJSON
	}
	p.req.KeepReasoning = p.req.KeepReasoning || props.KeepReasoning
	p.req.Rationale = p.req.Rationale || props.Rationale
	return nil
}

// agree reads a value that can be said in two places, and refuses two that differ.
func agree[T comparable](path string, value *T, otherPath string, other *T, read func(path string, value T) error) error {
	if value != nil {
		if err := read(path, *value); err != nil {
			return err
		}
	}
	if other == nil {
		return nil
	}
	if value != nil && *value != *other {
		return wire.Invalid(otherPath, "it asks for %v and %s for %v; say it in one place", *other, path, *value)
	}
	return read(otherPath, *other)
}

func (p *prompt) effort(path, value string) error {
	e, err := reasoning.ParseEffort(value)
	if err != nil || e == chattemplate.EffortDefault {
		return wire.Invalid(path, "it takes none, minimal, low, medium or high")
	}
	p.req.Effort = e
	return nil
}

func (p *prompt) budget(path string, value int) error {
	if value < 1 || value > maxBudget {
		return wire.Invalid(path, "a budget is 1 to %d tokens; effort none skips the reasoning", maxBudget)
	}
	p.req.Budget = value
	return nil
}

func (p *prompt) summary(o *ReasoningObject) error {
	if o.Summary == nil {
		return nil
	}
	switch path := at("reasoning.summary"); {
	case o.Exclude:
		return wire.Invalid(path, "it asks for a summary and reasoning.exclude for none; say one of them")
	case *o.Summary == "auto":
	case *o.Summary == "concise", *o.Summary == "detailed":
		p.req.DetailedSummary = *o.Summary == "detailed"
	default:
		return wire.Invalid(path, "it takes auto, concise or detailed")
	}
	p.req.Visibility = reasoning.VisibilitySummary
	return nil
}

// sampling reads how the answer is generated.
func (p *prompt) sampling(props *ForwardedProps) error {
	if n := props.MaxTokens; n != nil {
		if *n < 1 || *n > maxTokens {
			return wire.Invalid(at("max_tokens"), "it takes a whole number from 1 to %d", maxTokens)
		}
		p.req.MaxTokens = *n
	}
	if t := props.Temperature; t != nil {
		if !(*t >= 0 && *t <= 2) {
			return wire.Invalid(at("temperature"), "it takes a number from 0 to 2")
		}
		p.req.Sampling.Temperature = float32(*t)
	}
	if t := props.TopP; t != nil {
		if !(*t >= 0 && *t <= 1) {
			return wire.Invalid(at("top_p"), "it takes a number from 0 to 1")
		}
		p.req.Sampling.TopP = float32(*t)
	}
	if props.Seed != nil {
		if *props.Seed > maxSeed {
			return wire.Invalid(at("seed"), "it takes a whole number from 0 to %d", maxSeed)
		}
		p.req.Seed = props.Seed
	}
	if props.ToolChoice != nil {
		switch c := runner.ToolChoice(*props.ToolChoice); c {
		case runner.ToolChoiceAuto, runner.ToolChoiceNone, runner.ToolChoiceRequired:
			p.req.ToolChoice = c
		default:
			return wire.Invalid(at("tool_choice"), "it takes auto, none or required")
		}
	}
	if props.ParallelToolCalls != nil {
		p.req.SingleCall = !*props.ParallelToolCalls
	}
	return p.stop(props.Stop)
}

func (p *prompt) stop(stop []string) error {
	if len(stop) == 0 {
		return nil
	}
	if len(stop) > maxStops {
		return wire.Invalid(at("stop"), "there are %d; at most %d are allowed", len(stop), maxStops)
	}
	for i, s := range stop {
		if s == "" || len(s) > maxStop {
			return wire.Invalid(at(fmt.Sprintf("stop.%d", i)), "it has %d bytes; 1 to %d are allowed", len(s), maxStop)
		}
	}
	p.req.Stop = stop
	return nil
}
