package agui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"runner/chattemplate"
	"runner/generation"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// RunAgentInput is the body of POST /agui. Unknown fields are ignored.
type RunAgentInput struct {
	// ProtocolVersion is the version that the client speaks. Clients that do not send it are older than 1.0, and refuse
	// some of its fields.
	ProtocolVersion string `json:"protocolVersion"`
	// ThreadID is the id of the conversation and RunID that of the run: 1 to 1,024 bytes. ParentRunID is the run that
	// this one continues; it is only sent back.
	ThreadID    string `json:"threadId"`
	RunID       string `json:"runId"`
	ParentRunID string `json:"parentRunId"`
	// Messages are Message values, 1 to 100,000.
	Messages []json.RawMessage `json:"messages" max:"100000"`
	// Tools are the client's, at most 1,024.
	Tools []Tool `json:"tools" max:"1024"`
	// Context is what the application wants the model to know, at most 1,024 pieces. It goes into the system prompt.
	Context []Context `json:"context" max:"1024"`
	// State is the application's state, any JSON. It goes into the system prompt, after the context. Null and an empty
	// object, list or text are left out. The model does not change it.
	State          json.RawMessage `json:"state"`
	ForwardedProps ForwardedProps  `json:"forwardedProps"`
	// Resume answers interrupts. This server has none, so it must be empty.
	Resume []json.RawMessage `json:"resume" max:"1024"`
}

// Note implements [wire.Noter].
func (in *RunAgentInput) Note(body []byte) {
	for name, value := range wire.Members(body) {
		if strings.EqualFold(name, path) {
			in.ForwardedProps.Note(value)
		}
	}
}

// Tool is a function of the client that the model may call.
type Tool struct {
	// Name has 1 to 256 bytes without white space or angle, square or curly brackets.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON Schema object; left out for a function without parameters.
	Parameters json.RawMessage `json:"parameters"`
}

// Context is a piece of context.
type Context struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// The limits of a request, in addition to that of its length.
const (
	maxID       = 1024
	maxMessages = 100_000
	maxTools    = 1024
	maxContext  = 1024
)

// prompt is a decoded request.
type prompt struct {
	req    generation.Request
	traces wire.Traces
	form   Form
	// seal asks for sealed values of the reasoning, and trace for a trace of the run.
	seal, trace bool
	values      []contract.Carried
	// warnings are about what was left out of the request.
	warnings []generation.Notice
}

// decode reads a principal's request, except for what needs the model.
func (a *API) decode(who *wire.Principal, input *RunAgentInput) (*prompt, error) {
	for _, id := range []struct{ name, value string }{{"threadId", input.ThreadID}, {"runId", input.RunID}} {
		if err := checkID(id.name, id.value); err != nil {
			return nil, err
		}
	}
	if len(input.ParentRunID) > maxID {
		return nil, wire.Invalid("parentRunId", "it has %d bytes; at most %d are allowed", len(input.ParentRunID), maxID)
	}
	if len(input.Resume) > 0 {
		return nil, wire.Unsupported("resume", "no run of this server is interrupted, so there is nothing to resume; "+
			"answer calls with tool messages")
	}
	p := &prompt{req: a.cfg.Defaults, traces: a.cfg.Traces}
	p.req.Visibility = who.Default(p.req.Visibility)
	for _, step := range []func(*RunAgentInput) error{p.props, p.tools, p.history, p.context} {
		if err := step(input); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func checkID(path, id string) error {
	if id == "" {
		return wire.Invalid(path, "it is required")
	}
	if len(id) > maxID {
		return wire.Invalid(path, "it has %d bytes; at most %d are allowed", len(id), maxID)
	}
	return nil
}

func (p *prompt) tools(input *RunAgentInput) error {
	if len(input.Tools) > maxTools {
		return wire.Invalid("tools", "there are %d; at most %d are allowed", len(input.Tools), maxTools)
	}
	for i, t := range input.Tools {
		if t.Name == "" {
			return wire.Invalid(fmt.Sprintf("tools[%d].name", i), "it is required")
		}
		tool := chattemplate.Tool{Name: t.Name, Description: t.Description, Strict: input.ForwardedProps.StrictTools}
		if wire.Given(t.Parameters) {
			if t.Parameters[0] != '{' {
				return wire.Invalid(fmt.Sprintf("tools[%d].parameters", i), "it takes a JSON Schema object")
			}
			tool.Parameters = t.Parameters
		}
		p.req.Tools = append(p.req.Tools, tool)
	}
	return nil
}

// context puts the application's context and state into the system prompt. They are appended to an existing one,
// because many templates take only one.
func (p *prompt) context(input *RunAgentInput) error {
	if len(input.Context) > maxContext {
		return wire.Invalid("context", "there are %d; at most %d are allowed", len(input.Context), maxContext)
	}
	var b strings.Builder
	if len(input.Context) > 0 {
		b.WriteString("Context from the application:")
	}
	for _, c := range input.Context {
		fmt.Fprintf(&b, "\n\n%s:\n%s", c.Description, c.Value)
	}
	about := paragraphs(b.String(), stateOf(input))
	if about == "" {
		return nil
	}
	if first := &p.req.Messages[0]; first.Role == chattemplate.System || first.Role == chattemplate.Developer {
		first.Content = paragraphs(first.Content, about)
		return nil
	}
	p.req.Messages = append([]chattemplate.Message{{Role: chattemplate.System, Content: about}}, p.req.Messages...)
	for i := range p.values {
		if p.values[i].Message != contract.Nowhere {
			p.values[i].Message++
		}
	}
	return nil
}

// stateOf returns the application's state as the model reads it, or an empty string if there is none.
func stateOf(input *RunAgentInput) string {
	var compact bytes.Buffer
	if !wire.Given(input.State) || json.Compact(&compact, input.State) != nil {
		return ""
	}
	switch state := compact.String(); state {
	case "{}", "[]", `""`:
		return ""
	default:
		return "State of the application, as JSON:\n\n" + state
	}
}

// paragraphs joins the texts that are not empty with blank lines.
func paragraphs(texts ...string) string {
	var b strings.Builder
	for _, t := range texts {
		if t != "" && b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(t)
	}
	return b.String()
}
