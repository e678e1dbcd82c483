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

// RunAgentInput is the body of POST /agui.
//
//openapi:request RunAgentInput
type RunAgentInput struct {
	wire.Unread
	// The version of AG-UI that the client speaks. Clients before 1.0 leave it out.
	ProtocolVersion string `json:"protocolVersion"`
	// The id of the conversation, at most 1,024 bytes. Sealed values are valid only in their conversation.
	ThreadID string `json:"threadId" api:"[1..1024] required"`
	// The id of the run, at most 1,024 bytes.
	RunID string `json:"runId" api:"[1..1024] required"`
	// The id of the run that this one continues. It is returned.
	ParentRunID string `json:"parentRunId" api:"[..1024]"`
	// The conversation. At least one message must be for the model.
	Messages []json.RawMessage `json:"messages" api:"[1..100000]#AguiMessage required"`
	// The tools that the model may call.
	Tools []Tool `json:"tools" api:"[..1024]"`
	// What the application wants the model to know. It becomes part of the system prompt.
	Context []Context `json:"context" api:"[..1024]"`
	// The application's state, any JSON. It becomes part of the system prompt, after the context, unless it is null or
	// empty. The model does not change it.
	State          json.RawMessage `json:"state" api:"any"`
	ForwardedProps ForwardedProps  `json:"forwardedProps"`
	// The answers to all calls of the last message, in place of messages with role `tool`.
	Resume []json.RawMessage `json:"resume" api:"[..1024]#AguiResume"`
}

// Resume answers a call that interrupted the last run.
//
//openapi:request AguiResume
type Resume struct {
	// The id of the interrupt, which is that of the call.
	InterruptID string `json:"interruptId" api:"[1..1024] required"`
	// `cancelled` if nobody answered.
	Status string `json:"status" api:"=resolved,cancelled required"`
	// The result of the call: a text, or other JSON.
	Payload json.RawMessage `json:"payload" api:"any"`
}

// Tool is a function of the client that the model may call.
//
//openapi:request AguiTool
type Tool struct {
	// 1 to 256 bytes without white space and without angle, square and curly brackets.
	Name string `json:"name" api:"[1..256] required"`
	// What the tool does. The model reads this.
	Description string `json:"description"`
	// A JSON Schema of the arguments. Leave it out if there are none.
	Parameters json.RawMessage `json:"parameters" api:"{}"`
}

// Context is a piece of context.
//
//openapi:request AguiContext
type Context struct {
	// What the value is.
	Description string `json:"description"`
	// The value, as text.
	Value string `json:"value"`
}

// prompt is a decoded request.
type prompt struct {
	req    generation.Request
	traces wire.Traces
	form   Form
	// trace asks for a trace of the run.
	trace  bool
	values []contract.Carried
	// warnings are about what was left out of the request.
	warnings wire.Warnings
}

// decode reads a principal's request, except for what needs the model.
func (a *API) decode(who *wire.Principal, input *RunAgentInput) (*prompt, error) {
	for _, id := range []struct{ name, value string }{{"threadId", input.ThreadID}, {"runId", input.RunID}} {
		if err := wire.CheckID(id.name, id.value); err != nil {
			return nil, err
		}
	}
	p := &prompt{req: a.cfg.Request(who), traces: a.cfg.Traces}
	for _, step := range []func(*RunAgentInput) error{p.props, p.tools, p.history, p.resume, p.context} {
		if err := step(input); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *prompt) tools(input *RunAgentInput) error {
	for i, t := range input.Tools {
		path := wire.Index("tools", i)
		if err := contract.AddTool(&p.req, path, path+".parameters", chattemplate.Tool{Name: t.Name,
			Description: t.Description, Parameters: t.Parameters, Strict: input.ForwardedProps.StrictTools}); err != nil {
			return err
		}
	}
	return nil
}

// context puts the application's context and state into the system prompt. They are appended to an existing one,
// because many templates take only one.
func (p *prompt) context(input *RunAgentInput) error {
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
