package anthropic

import (
	"encoding/json"
	"strings"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// MessagesRequest is the body of POST /v1/messages and, without MaxTokens, of POST /v1/messages/count_tokens.
//
//openapi:request MessagesRequest
type MessagesRequest struct {
	wire.Unread
	// The name of the model. The default is the first model that the API key may use.
	Model string `json:"model"`
	// The maximum number of tokens to generate, including reasoning. It may be larger than the context. It is required
	// unless tokens are only counted.
	MaxTokens *int64 `json:"max_tokens" api:"[1..]" sets:"MaxTokens"`
	// The conversation. Neighbouring messages with the same role are joined. The last message must not be the
	// assistant's: the server does not continue an answer that the client began.
	Messages []json.RawMessage `json:"messages" api:"[1..100000]#MessageParam required" of:"Messages"`
	// The system prompt.
	System json.RawMessage `json:"system" api:"string|[]#ContentBlockParam"`
	// Send the answer as server-sent events while it is generated.
	Stream bool `json:"stream" api:"default=false"`
	// The logits are divided by this number. 0 always takes the likeliest token. The default is the server's
	// `--temperature`.
	Temperature *float64 `json:"temperature" api:"[0..2]" sets:"Sampling.Temperature"`
	// Keep only the likeliest tokens that together have this probability. 0 keeps one token. The default is the server's
	// `--top-p`.
	TopP *float64 `json:"top_p" api:"[0..1]" sets:"Sampling.TopP"`
	// Keep only this many of the likeliest tokens. 0 keeps all. The default is the server's `--top-k`.
	TopK *int64 `json:"top_k" api:"[0..2147483647]" sets:"Sampling.TopK"`
	// The answer ends before the first of these texts.
	StopSequences []string `json:"stop_sequences" api:"[..16]string[1..1024]" of:"Stop"`
	// The tools that the model may call.
	Tools []json.RawMessage `json:"tools" api:"[..1024]#MessagesTool" of:"Tools"`
	// Whether the model may or must call a tool. The default is `auto`.
	ToolChoice *ToolChoice `json:"tool_choice" of:"ToolChoice"`
	// Whether the model reasons, and what is shown of the reasoning.
	Thinking *Thinking `json:"thinking"`
	// How much the model reasons, and what form the answer has.
	OutputConfig OutputConfig `json:"output_config"`
	// An older way to give `output_config.format`.
	OutputFormat *OutputFormat `json:"output_format" api:"deprecated"`
	// How the server should shorten the conversation. It has no effect: every request is read as it is, and a list of
	// edits gives the warning `field_ignored`.
	ContextManagement *ContextManagement `json:"context_management"`
	// Refused with the code `thread_unsupported_request`. Clients then send the whole conversation.
	Thread json.RawMessage `json:"thread" api:"null"`
	// Refused: this server has no containers.
	Container json.RawMessage `json:"container" api:"null" refuse:"this server has no containers"`
	// Refused unless it is empty: this server does not call MCP servers.
	MCPServers []json.RawMessage `json:"mcp_servers" api:"array[..0]" refuse:"give their tools in tools"`
}

// ToolChoice says whether the model may or must call a tool.
//
//openapi:request MessagesToolChoice
type ToolChoice struct {
	// `auto` lets the model call tools, `any` makes it call one, `tool` makes it call the named tool, and `none` forbids
	// calls.
	Type string `json:"type" api:"=auto,any,tool,none required"`
	// The name of the tool, for type `tool`.
	Name string `json:"name"`
	// Allow at most one call.
	DisableParallelToolUse bool `json:"disable_parallel_tool_use" api:"default=false"`
}

// ContextManagement says how the server should shorten the conversation.
//
//openapi:request MessagesContextManagement
type ContextManagement struct {
	// What to remove, and when.
	Edits []json.RawMessage `json:"edits" api:"array"`
}

// Thinking asks for the model's reasoning.
//
//openapi:request Thinking
type Thinking struct {
	// `disabled` skips the reasoning.
	Type string `json:"type" api:"=enabled,adaptive,disabled required"`
	// The maximum number of reasoning tokens. Required with type `enabled`.
	BudgetTokens *int64 `json:"budget_tokens" api:"[1..]"`
	// What is shown of the reasoning: all of it (empty), a summary (`summarized` or `updates`), or only the sealed value
	// (`omitted`).
	Display string `json:"display" api:"=,summarized,updates,omitted default="`
}

// OutputConfig says how much the model reasons and what form the answer has.
//
//openapi:request OutputConfig
type OutputConfig struct {
	// How much the model reasons. `xhigh` and `max` mean `high`. The default is the model's own.
	Effort string        `json:"effort" api:"=minimal,low,medium,high,xhigh,max"`
	Format *OutputFormat `json:"format"`
}

// OutputFormat is the form of the answer.
//
// A form that cannot be enforced exactly is refused.
//
//openapi:request OutputFormat
type OutputFormat struct {
	// The only type.
	Type   string          `json:"type" api:"=json_schema required"`
	Schema json.RawMessage `json:"schema" api:"#JSONSchema required"`
}

// Tool is a function that the model may call.
//
//openapi:request MessagesTool
type Tool struct {
	// `custom`, or the type of a tool that Anthropic defines and the client carries out: `bash_*`, `text_editor_*` and
	// `memory_*`. Tools of other types are ignored with the warning `unknown_tool_type`.
	Type string `json:"type" api:"default=custom"`
	// 1 to 256 bytes without white space and without angle, square and curly brackets.
	Name string `json:"name" api:"[1..256] required"`
	// What the tool does. The model reads this.
	Description string `json:"description"`
	// A JSON Schema of the input. Required for type `custom`.
	InputSchema json.RawMessage `json:"input_schema" api:"{}"`
	Strict      bool            `json:"strict" api:"#MessagesToolStrict"`
	// The model does not know the tool until a result has a `tool_reference` with its name.
	DeferLoading bool `json:"defer_loading" api:"default=false"`
	// Stream the input of calls as the model writes it, even if it is not valid. Otherwise the input is sent whole.
	EagerInputStreaming bool `json:"eager_input_streaming" api:"default=false"`
}

// prompt is a decoded request.
type prompt struct {
	req      generation.Request
	warnings wire.Warnings
	// eager names the tools with eager_input_streaming.
	eager map[string]bool
	// found names the tools that results refer to.
	found map[string]bool
	// hostedSearch says that the request has a search for tools that Anthropic's server carries out.
	hostedSearch bool
	// values are the sealed values in the conversation. turn is the turn of the reply; it is set when the model is known.
	values []contract.Carried
	turn   *seal.Turn
}

// decode reads a principal's request, except for what needs the model. complete says that a reply is to be
// generated, so that the request needs all its fields.
func (a *API) decode(who *wire.Principal, body *MessagesRequest, complete bool) (*prompt, error) {
	p := &prompt{req: a.cfg.Request(who)}
	body.Warn(&p.warnings, fields)
	if c := body.ContextManagement; c != nil && len(c.Edits) > 0 {
		p.warnings.Add(wire.CodeIgnored, "context_management: every request is read as it is; the edits have no effect")
	}
	if wire.Given(body.Thread) {
		err := wire.Unsupported("thread",
			"this server keeps no conversations; send the whole conversation, without this field")
		err.Code = codeThread
		return nil, err
	}
	if complete && body.MaxTokens == nil {
		return nil, wire.Invalid("max_tokens", "it is required")
	}
	for _, step := range []func(*MessagesRequest) error{p.sampling, p.thinking, p.output, p.tools, p.choice, p.history} {
		if err := step(body); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *prompt) sampling(body *MessagesRequest) error {
	wire.Set(&p.req, body)
	return wire.SetStops("stop_sequences", body.StopSequences, &p.req.Stop)
}

// thinking reads how much the model reasons and what is shown of it.
func (p *prompt) thinking(body *MessagesRequest) error {
	if effort := body.OutputConfig.Effort; effort != "" {
		p.req.Effort, _ = reasoning.ParseEffort(effort) // it knows all that the field takes
	}
	t := body.Thinking
	if t == nil {
		p.req.Seal = p.req.Visibility != reasoning.VisibilityNone
		return nil
	}
	p.req.Visibility = reasoning.VisibilityNone
	switch t.Type {
	case "disabled":
		p.req.Effort = reasoning.EffortNone
		return nil
	case "adaptive":
	case "enabled":
		if t.BudgetTokens == nil || *t.BudgetTokens < 1 {
			return wire.Invalid("thinking.budget_tokens", "type enabled needs a whole number of at least 1")
		}
		p.req.Budget = int(min(*t.BudgetTokens, 1<<31-1))
	case "between_tools":
		return wire.Unsupported("thinking.type",
			"local models cannot be limited to thinking between tools; use enabled, adaptive or disabled")
	default:
		return wire.Invalid("thinking.type", "it takes enabled, adaptive or disabled")
	}
	p.req.Seal = true
	switch t.Display {
	case "":
		p.req.Visibility = reasoning.VisibilityFull
	case "summarized", "updates":
		p.req.Visibility = reasoning.VisibilitySummary
	case "omitted":
	default:
		return wire.Invalid("thinking.display",
			"it takes summarized, updates or omitted, or nothing for the reasoning itself")
	}
	return nil
}

// output reads the form of the answer.
func (p *prompt) output(body *MessagesRequest) error {
	format, path := body.OutputConfig.Format, "output_config.format"
	if format == nil {
		format, path = body.OutputFormat, "output_format"
	}
	switch {
	case format == nil:
		return nil
	case format.Type != "json_schema":
		return wire.Unsupported(path+".type", "it takes json_schema")
	case !wire.Given(format.Schema):
		return wire.Invalid(path+".schema", "it is required")
	}
	p.req.Form = grammar.JSONSchema(format.Schema)
	return nil
}

func (p *prompt) tools(body *MessagesRequest) error {
	return wire.Each("tools", body.Tools, func(path string, t *Tool) error {
		if t.Type != "" && t.Type != "custom" && !t.define() {
			p.hostedSearch = p.hostedSearch || strings.HasPrefix(t.Type, "tool_search_tool")
			p.warnings.Add("unknown_tool_type", path+" was left out: tools of this type are not known here")
			return nil
		}
		switch {
		case !wire.Given(t.InputSchema):
			return wire.Invalid(path+".input_schema", "it is required")
		case t.EagerInputStreaming:
			if p.eager == nil {
				p.eager = map[string]bool{}
			}
			p.eager[t.Name] = true
		}
		return contract.AddTool(&p.req, path, path+".input_schema", chattemplate.Tool{
			Name: t.Name, Description: t.Description, Parameters: t.InputSchema, Strict: t.Strict, Told: t.DeferLoading,
		})
	})
}

func (p *prompt) choice(body *MessagesRequest) error {
	c := body.ToolChoice
	if c == nil {
		return nil
	}
	switch c.Type {
	case "auto":
		p.req.ToolChoice = generation.ToolChoiceAuto
	case "any":
		p.req.ToolChoice = generation.ToolChoiceRequired
	case "none":
		p.req.ToolChoice = generation.ToolChoiceNone
	case "tool":
		p.req.ToolChoice, p.req.ToolName = generation.ToolChoiceFunction, c.Name
	default:
		return wire.Invalid("tool_choice.type", "it takes auto, any, tool or none")
	}
	p.req.SingleCall = c.DisableParallelToolUse
	return nil
}
