package agui

import (
	"encoding/json"

	"runner/generation"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// ForwardedProps are the options that the protocol has no fields for. All are optional. Two names of one
// option must have the same value.
//
// Options of this server that the protocol has no fields for. Reasoning is sent as messages of its own. Sealed values
// are sent as `REASONING_ENCRYPTED_VALUE` (refused with `legacy_thinking`). The reasons for calls and the model's
// assumptions are sent as `CUSTOM` events, with visibility `full`.
//
//openapi:request AguiProps
type ForwardedProps struct {
	// The name of the model. The default is the first model that the API key may use.
	Model string `json:"model"`
	// Fields are the options for the reasoning.
	contract.Fields
	// Send `REASONING_MESSAGE_CHUNK` instead of the three events of a reasoning message. The answer then waits for the
	// end of the summary.
	Chunks bool `json:"chunks" api:"default=false"`
	// Send `THINKING_*` events, for clients up to 0.0.45. Refused with `chunks`.
	LegacyThinking bool `json:"legacy_thinking" api:"default=false"`
	// End a run that calls tools with the outcome `interrupt`. `resume` answers it. It needs a `protocolVersion`.
	Interrupts bool `json:"interrupts" api:"default=false"`
	// The maximum number of tokens to generate, including reasoning.
	MaxTokens *int `json:"max_tokens" api:"[1..2147483647]" sets:"MaxTokens"`
	// The logits are divided by this number. 0 always takes the likeliest token. The default is the server's
	// `--temperature`.
	Temperature *float64 `json:"temperature" api:"[0..2]" sets:"Sampling.Temperature"`
	// Keep only the likeliest tokens that together have this probability. 0 keeps one token. The default is the server's
	// `--top-p`.
	TopP *float64 `json:"top_p" api:"[0..1]" sets:"Sampling.TopP"`
	// Makes the run repeatable. Without it a random seed is used.
	Seed *uint64 `json:"seed" api:"[0..9007199254740991]" sets:"Seed"`
	// The answer ends before the first of these texts.
	Stop []string `json:"stop" api:"[..16]string[1..1024]" of:"Stop"`
	// A JSON Schema for the answer, as in chat completions.
	ResponseSchema json.RawMessage `json:"response_schema" api:"#AguiResponseSchema" of:"Form"`
	// Whether the model may or must call a tool. The default is `auto`.
	ToolChoice  *string `json:"tool_choice" api:"=auto,none,required" of:"ToolChoice"`
	StrictTools bool    `json:"strict_tools" api:"#AguiStrictTools"`
	// With false the model makes at most one call.
	ParallelToolCalls *bool `json:"parallel_tool_calls"`
}

// path is the path of ForwardedProps in a request.
const path = "forwardedProps"

// at returns the path of a field of ForwardedProps.
func at(name string) string { return path + "." + name }

// props reads the client's options.
func (p *prompt) props(input *RunAgentInput) error {
	props := &input.ForwardedProps
	input.Warn(&p.warnings, fields)
	asked, err := props.Parse(nil)
	if err != nil {
		return wire.Under(path, err)
	}
	p.warnings = append(p.warnings, asked.Warnings...)
	asked.Apply(&p.req)
	if err := asked.CanTrace(p.traces); err != nil {
		return wire.Under(path, err)
	}
	p.trace = asked.Encrypt
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
	case p.req.Seal && props.LegacyThinking:
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
	wire.Set(&p.req, props)
	if props.ToolChoice != nil {
		p.req.ToolChoice = generation.ToolChoice(*props.ToolChoice)
	}
	if props.ParallelToolCalls != nil {
		p.req.SingleCall = !*props.ParallelToolCalls
	}
	if wire.Given(props.ResponseSchema) {
		var err error
		if p.req.Form, err = contract.ResponseSchema(at("response_schema"), props.ResponseSchema); err != nil {
			return err
		}
	}
	return wire.SetStops(at("stop"), props.Stop, &p.req.Stop)
}
