package tracing

import (
	"encoding/json"
	"errors"
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning/trace"
)

// prompt is the JSON of trace.Begin.Prompt.
type prompt struct {
	Messages     []message          `json:"messages,omitempty"`
	TemplateArgs map[string]any     `json:"template_args,omitempty"`
	Text         string             `json:"text,omitempty"`
	Tokens       []generation.Token `json:"tokens,omitempty"`
}

type message struct {
	Role       chattemplate.Role `json:"role"`
	Name       string            `json:"name,omitempty"`
	Content    string            `json:"content,omitempty"`
	Reasoning  string            `json:"reasoning,omitempty"`
	Preamble   string            `json:"preamble,omitempty"`
	ToolCalls  []call            `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
	ToolName   string            `json:"tool_name,omitempty"`
}

type call struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

// sampling is the JSON of trace.Begin.Sampling.
type sampling struct {
	Seed              *uint64         `json:"seed,omitempty"`
	Temperature       float32         `json:"temperature"`
	TopK              int             `json:"top_k"`
	TopP              float32         `json:"top_p"`
	MinP              float32         `json:"min_p"`
	TypicalP          float32         `json:"typical_p"`
	RepetitionPenalty float32         `json:"repetition_penalty"`
	PresencePenalty   float32         `json:"presence_penalty"`
	FrequencyPenalty  float32         `json:"frequency_penalty"`
	PenaltyWindow     int             `json:"penalty_window,omitempty"`
	Bias              []bias          `json:"logit_bias,omitempty"`
	MaxTokens         int             `json:"max_tokens,omitempty"`
	AnswerReserve     int             `json:"answer_reserve,omitempty"`
	Stop              []string        `json:"stop,omitempty"`
	ToolChoice        string          `json:"tool_choice,omitempty"`
	ToolName          string          `json:"tool_name,omitempty"`
	Form              string          `json:"form,omitempty"`
	Schema            json.RawMessage `json:"schema,omitempty"`
}

type bias struct {
	Token generation.Token `json:"token"`
	Bias  float32          `json:"bias"`
}

// errRequest replaces an encoder's error, which may quote the request.
var errRequest = errors.New("the request cannot be written as JSON")

// describe fills in what the run starts from.
func describe(b *trace.Begin, req *generation.Request) error {
	p := prompt{TemplateArgs: req.TemplateArgs, Text: req.Prompt, Tokens: req.PromptTokens}
	for _, m := range req.Messages {
		out := message{
			Role: m.Role, Name: m.Name, Content: m.Content, Reasoning: m.Reasoning, Preamble: m.Preamble,
			ToolCallID: m.ToolCallID, ToolName: m.ToolName,
		}
		for _, c := range m.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, call(c))
		}
		p.Messages = append(p.Messages, out)
	}
	var tools []tool
	for _, t := range req.Tools {
		tools = append(tools, tool{t.Name, t.Description, t.Parameters, t.Strict})
	}
	s := &req.Sampling
	chosen := sampling{
		Seed: req.Seed, Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP, TypicalP: s.TypicalP,
		RepetitionPenalty: s.RepetitionPenalty, PresencePenalty: s.PresencePenalty, FrequencyPenalty: s.FrequencyPenalty,
		PenaltyWindow: s.PenaltyWindow,
		MaxTokens:     req.MaxTokens, AnswerReserve: req.AnswerReserve, Stop: req.Stop, ToolChoice: string(req.ToolChoice),
		ToolName: req.ToolName,
	}
	for _, t := range s.Bias {
		chosen.Bias = append(chosen.Bias, bias{t.Token, t.Bias})
	}
	if !req.Form.IsZero() {
		chosen.Form, chosen.Schema = req.Form.String(), req.Form.Schema()
	}
	var err error
	write := func(to *json.RawMessage, v any) {
		text, failed := json.Marshal(v)
		if *to = text; failed != nil {
			err = errRequest
		}
	}
	write(&b.Prompt, p)
	write(&b.Sampling, chosen)
	if tools != nil {
		write(&b.Tools, tools)
	}
	return err
}

// goal returns the user's last message, or the text of a raw prompt.
func goal(b *trace.Begin) string {
	var p prompt
	if json.Unmarshal(b.Prompt, &p) != nil {
		return ""
	}
	for _, m := range slices.Backward(p.Messages) {
		if m.Role == chattemplate.User {
			return m.Content
		}
	}
	return p.Text
}
