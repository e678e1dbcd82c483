package responses

import (
	"encoding/json"
	"strings"

	"runner/server/wire"
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
	// head returns the item's id, for example msg_…, and its type.
	head() (id *string, kind string)
}

// idOf returns the id of an item.
func idOf(item Item) string {
	id, _ := item.head()
	return *id
}

// idPrefix begins the ids of items of each type.
var idPrefix = map[string]string{typeMessage: "msg_", typeReasoning: "rs_", typeCall: "fc_", typeCustom: "ctc_",
	typeCallOutput: "fco_", typeCustomOutput: "fco_"}

// Message is a message of a conversation.
//
//openapi:answer ResponseMessage
type Message struct {
	// The id of the item.
	ID string `json:"id"`
	// The type of this object.
	Type   string `json:"type" api:"=message"`
	Status string `json:"status" api:"#ItemStatus"`
	// The author's role.
	Role string `json:"role" api:"=user,assistant,system,developer"`
	// `final_answer` if this is the answer, `commentary` if it comes before calls.
	Phase string `json:"phase,omitempty" api:"=commentary,final_answer"`
	// The text.
	Content []Part `json:"content" api:"[]#ResponsePart"`
}

// Reasoning is the part of the model's reasoning that is shown.
//
//openapi:answer ResponseReasoning
type Reasoning struct {
	// The id of the item.
	ID string `json:"id"`
	// The type of this object.
	Type   string `json:"type" api:"=reasoning"`
	Status string `json:"status,omitempty" api:"#ItemStatus"`
	// The summary, with visibility `summary`.
	Summary []Part `json:"summary" api:"[]#ResponseTextPart"`
	// The reasoning, with visibility `full`.
	Content []Part `json:"content,omitempty" api:"[]#ResponseTextPart"`
	// The sealed reasoning of the turn, if requested. Send it back with the item.
	EncryptedContent string `json:"encrypted_content,omitempty"`

	// sealed is the sealed Content in the store.
	sealed string
}

// FunctionCall is a call that the model makes. A call of a custom tool has the field input instead of arguments.
//
//openapi:answer ResponseCall
type FunctionCall struct {
	// The id of the item.
	ID string `json:"id"`
	// The type of this object.
	Type   string `json:"type" api:"=function_call"`
	Status string `json:"status" api:"#ItemStatus"`
	// The id that the result of the call refers to.
	CallID string `json:"call_id"`
	// The name of the function.
	Name string `json:"name"`
	// The namespace of the function, if it has one.
	Namespace string `json:"namespace,omitempty"`
	// The arguments as the model wrote them, usually a JSON object.
	Arguments string `json:"arguments"`
}

// customCall is a FunctionCall that calls a custom tool.
//
// A model's call of a custom tool.
//
//openapi:answer ResponseCustomCall
type customCall struct {
	// The id of the item.
	ID string `json:"id"`
	// The type of this object.
	Type   string `json:"type" api:"=custom_tool_call"`
	Status string `json:"status" api:"#ItemStatus"`
	// The id that the result of the call refers to.
	CallID string `json:"call_id"`
	// The name of the tool.
	Name string `json:"name"`
	// The namespace of the tool, if it has one.
	Namespace string `json:"namespace,omitempty"`
	// The text.
	Arguments string `json:"input"`
}

// MarshalJSON writes the fields of a call of its type.
func (c FunctionCall) MarshalJSON() ([]byte, error) {
	type function FunctionCall
	if c.Type == typeCustom {
		return json.Marshal(customCall(c))
	}
	return json.Marshal(function(c))
}

// FunctionCallOutput is the result of a call.
//
//openapi:answer ResponseCallOutput
type FunctionCallOutput struct {
	// The id of the item.
	ID string `json:"id"`
	// The type of this object.
	Type   string `json:"type" api:"=function_call_output,custom_tool_call_output"`
	Status string `json:"status" api:"#ItemStatus"`
	// The id of the call.
	CallID string `json:"call_id"`
	// The result as it was sent.
	Output json.RawMessage `json:"output" api:"string|[]#ResponseInputPart"`

	text string
}

func (m *Message) head() (id *string, kind string)            { return &m.ID, m.Type }
func (r *Reasoning) head() (id *string, kind string)          { return &r.ID, r.Type }
func (c *FunctionCall) head() (id *string, kind string)       { return &c.ID, c.Type }
func (o *FunctionCallOutput) head() (id *string, kind string) { return &o.ID, o.Type }

// Part is a piece of text.
type Part struct {
	// Type is input_text, output_text, refusal, reasoning_text or summary_text.
	Type string
	// Text is the text. A refusal has it in the field refusal.
	Text string
	// Logprobs are the tokens of an output_text.
	Logprobs []wire.TokenLogprob
}

// outputPart is a Part that the model wrote.
//
//openapi:answer ResponseOutputText
type outputPart struct {
	// The type of this object.
	Type string `json:"type" api:"=output_text"`
	// The text.
	Text string `json:"text"`
	// Always empty.
	Annotations []string `json:"annotations" api:"array[..0]"`
	// The tokens of the text, if requested.
	Logprobs []wire.TokenLogprob `json:"logprobs"`
}

// refusalPart is a Part.
//
//openapi:answer ResponseRefusal
type refusalPart struct {
	// The type of this object. Models here write no refusals, but requests may contain them.
	Type string `json:"type" api:"=refusal"`
	// The text.
	Refusal string `json:"refusal"`
}

// plainPart is any other Part.
//
//openapi:answer ResponseTextPart
type plainPart struct {
	// The type of this object.
	Type string `json:"type" api:"=input_text,reasoning_text,summary_text"`
	// The text.
	Text string `json:"text"`
}

// MarshalJSON writes the fields of a part of its type.
func (p Part) MarshalJSON() ([]byte, error) {
	switch p.Type {
	case partOutput:
		return json.Marshal(outputPart{p.Type, p.Text, []string{}, append(noLogprobs, p.Logprobs...)})
	case partRefusal:
		return json.Marshal(refusalPart{p.Type, p.Text})
	}
	return json.Marshal(plainPart{p.Type, p.Text})
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
