package agui

import (
	"runner/generation"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// ForwardedProps are the options that the protocol has no fields for. All of them are optional. Unknown ones are
// ignored. Two names of one option must have the same value.
type ForwardedProps struct {
	// Model is a name from GET /v1/models; empty means the default model.
	Model string `json:"model"`
	// Fields are the options for the reasoning.
	contract.Fields
	// Chunks asks for REASONING_MESSAGE_CHUNK, and LegacyThinking for THINKING_* events; not both.
	Chunks         bool `json:"chunks"`
	LegacyThinking bool `json:"legacy_thinking"`
	// MaxTokens is the maximum number of generated tokens, including reasoning: 1 to 2,147,483,647.
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
	// StrictTools makes calls match the parameters of their tools, if the model's format supports that.
	StrictTools bool `json:"strict_tools"`
	// ParallelToolCalls false allows at most one call.
	ParallelToolCalls *bool `json:"parallel_tool_calls"`
}

// The limits of ForwardedProps.
const (
	maxTokens = 1<<31 - 1
)

// path is the path of ForwardedProps in a request.
const path = "forwardedProps"

// at returns the path of a field of ForwardedProps.
func at(name string) string { return path + "." + name }

// props reads the client's options.
func (p *prompt) props(input *RunAgentInput) error {
	props := &input.ForwardedProps
	asked, err := props.Parse(nil)
	if err != nil {
		return wire.Under(path, err)
	}
	p.warnings = append(p.warnings, asked.Warnings...)
	asked.Apply(&p.req)
	if err := asked.CanTrace(p.traces); err != nil {
		return wire.Under(path, err)
	}
	p.seal, p.trace = asked.Seal, asked.Encrypt
	if err := p.delivery(props); err != nil {
		return err
	}
	return p.sampling(props)
}

// delivery reads the form in which the reasoning is sent.
func (p *prompt) delivery(props *ForwardedProps) error {
	switch {
	case props.Chunks && props.LegacyThinking:
		return wire.Invalid(at("chunks"), "it cannot be combined with legacy_thinking; use one of them")
	case p.seal && props.LegacyThinking:
		return wire.Unsupported(at("reasoning_seal"),
			"it cannot be combined with legacy_thinking, whose events have no place for sealed values; leave one of them out")
	case props.Chunks:
		p.form = FormChunked
	case props.LegacyThinking:
		p.form = FormLegacy
	}
	return nil
}

// sampling reads the options for generating the answer.
func (p *prompt) sampling(props *ForwardedProps) error {
	if n := props.MaxTokens; n != nil {
		if *n < 1 || *n > maxTokens {
			return wire.Invalid(at("max_tokens"), "it takes a whole number from 1 to %d", maxTokens)
		}
		p.req.MaxTokens = *n
	}
	if err := wire.ReadTemperature(at("temperature"), props.Temperature, &p.req.Sampling.Temperature); err != nil {
		return err
	}
	if err := wire.ReadTopP(at("top_p"), props.TopP, &p.req.Sampling.TopP); err != nil {
		return err
	}
	if props.Seed != nil {
		if *props.Seed > wire.MaxSeed {
			return wire.Invalid(at("seed"), "it takes a whole number from 0 to %d", wire.MaxSeed)
		}
		p.req.Seed = props.Seed
	}
	if props.ToolChoice != nil {
		switch c := generation.ToolChoice(*props.ToolChoice); c {
		case generation.ToolChoiceAuto, generation.ToolChoiceNone, generation.ToolChoiceRequired:
			p.req.ToolChoice = c
		default:
			return wire.Invalid(at("tool_choice"), "it takes auto, none or required")
		}
	}
	if props.ParallelToolCalls != nil {
		p.req.SingleCall = !*props.ParallelToolCalls
	}
	if len(props.Stop) > 0 {
		p.req.Stop = props.Stop
	}
	return wire.CheckStops(at("stop"), props.Stop)
}
