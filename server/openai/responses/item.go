package responses

import (
	"encoding/json"
	"strings"
)

// The types of items.
const (
	typeMessage       = "message"
	typeReasoning     = "reasoning"
	typeCall          = "function_call"
	typeCallOutput    = "function_call_output"
	typeCustom        = "custom_tool_call"
	typeCustomOutput  = "custom_tool_call_output"
	typeItemReference = "item_reference"
)

// The types of parts.
const (
	partInput     = "input_text"
	partOutput    = "output_text"
	partRefusal   = "refusal"
	partReasoning = "reasoning_text"
	partSummary   = "summary_text"
)

// The statuses of responses; those of items are the first three.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusQueued     = "queued"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// Phases of an assistant's messages.
const (
	phaseCommentary = "commentary"
	phaseFinal      = "final_answer"
)

// Item is one item of a conversation: a *[Message], *[Reasoning], *[FunctionCall] or *[FunctionCallOutput].
type Item interface {
	// ItemID returns the item's id, for example msg_….
	ItemID() string
}

// Message is a message of a conversation.
type Message struct {
	// ID begins with msg_.
	ID string `json:"id"`
	// Type is message.
	Type string `json:"type"`
	// Status is in_progress, completed or incomplete.
	Status string `json:"status"`
	// Role is user, assistant, system or developer.
	Role string `json:"role"`
	// Phase is commentary for what an assistant says before its calls, and final_answer for its answer.
	Phase string `json:"phase,omitempty"`
	// Content is the text in parts.
	Content []Part `json:"content"`
}

// Reasoning is the part of the model's reasoning that is shown.
type Reasoning struct {
	// ID begins with rs_.
	ID string `json:"id"`
	// Type is reasoning.
	Type string `json:"type"`
	// Status is in_progress, completed or incomplete.
	Status string `json:"status,omitempty"`
	// Summary has the summary, with visibility summary; else it is empty.
	Summary []Part `json:"summary"`
	// Content has the reasoning itself, with visibility full; else it is left out.
	Content []Part `json:"content,omitempty"`
	// EncryptedContent is the sealed value of the turn's reasoning, if the request asks for it.
	EncryptedContent string `json:"encrypted_content,omitempty"`

	// sealed is the sealed Content in the store.
	sealed string
}

// FunctionCall is a call by the model. A call of a custom tool has the field input in place of arguments.
type FunctionCall struct {
	// ID begins with fc_, or with ctc_.
	ID string `json:"id"`
	// Type is function_call, or custom_tool_call.
	Type string `json:"type"`
	// Status is in_progress, completed or incomplete.
	Status string `json:"status"`
	// CallID is the id by which the call's output refers to it.
	CallID string `json:"call_id"`
	// Name is the function's name.
	Name string `json:"name"`
	// Arguments is the text as the model wrote it, usually JSON.
	Arguments string `json:"arguments"`
}

// MarshalJSON writes the fields of a call of its type.
func (c FunctionCall) MarshalJSON() ([]byte, error) {
	if c.Type == typeCustom {
		return json.Marshal(struct {
			ID     string `json:"id"`
			Type   string `json:"type"`
			Status string `json:"status"`
			CallID string `json:"call_id"`
			Name   string `json:"name"`
			Input  string `json:"input"`
		}{c.ID, c.Type, c.Status, c.CallID, c.Name, c.Arguments})
	}
	type plain FunctionCall
	return json.Marshal(plain(c))
}

// FunctionCallOutput is the result of a call.
type FunctionCallOutput struct {
	// ID begins with fco_.
	ID string `json:"id"`
	// Type is function_call_output, or custom_tool_call_output.
	Type string `json:"type"`
	// Status is completed.
	Status string `json:"status"`
	// CallID is the id of the call.
	CallID string `json:"call_id"`
	// Output is a string or a list of parts, unchanged.
	Output json.RawMessage `json:"output"`

	text string
}

// ItemID implements [Item].
func (m *Message) ItemID() string { return m.ID }

// ItemID implements [Item].
func (r *Reasoning) ItemID() string { return r.ID }

// ItemID implements [Item].
func (c *FunctionCall) ItemID() string { return c.ID }

// ItemID implements [Item].
func (o *FunctionCallOutput) ItemID() string { return o.ID }

// Part is a piece of text.
type Part struct {
	// Type is input_text, output_text, refusal, reasoning_text or summary_text.
	Type string
	// Text is the text. A refusal has it in the field refusal.
	Text string
	// Logprobs is the list of an output_text's tokens as JSON; nil means an empty one.
	Logprobs json.RawMessage
}

var emptyList = json.RawMessage("[]")

// MarshalJSON writes the fields of a part of its type.
func (p Part) MarshalJSON() ([]byte, error) {
	switch p.Type {
	case partOutput:
		logprobs := p.Logprobs
		if logprobs == nil {
			logprobs = emptyList
		}
		return json.Marshal(struct {
			Type        string          `json:"type"`
			Text        string          `json:"text"`
			Annotations json.RawMessage `json:"annotations"`
			Logprobs    json.RawMessage `json:"logprobs"`
		}{p.Type, p.Text, emptyList, logprobs})
	case partRefusal:
		return json.Marshal(struct {
			Type    string `json:"type"`
			Refusal string `json:"refusal"`
		}{p.Type, p.Text})
	}
	return json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{p.Type, p.Text})
}

// textOf joins the texts of parts.
func textOf(parts []Part) string {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
