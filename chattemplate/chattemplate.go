// Package chattemplate turns messages and tools into the tokens of a prompt, in the format that a model was trained on.
//
// Harmony models (gpt-oss) are rendered natively, by the subpackage harmony; every other family through its own
// Jinja template, with the engine in the subpackage jinja. The package also tells which family a model belongs to,
// which is what the splitter in package reasoning needs in order to take the output apart again, and it renders the
// sequences that the runner forces in the middle of a turn: to close reasoning, to skip it, to ask for a summary.
//
// It does not generate, parse model output or know about visibility.
//
// Rule: text that a user, a tool or a client typed can never become a control token. Rendered text carries the origin
// of every byte, and only the template's own literals may turn into special tokens.
package chattemplate

import (
	"encoding/json"
	"time"

	"runner/backend"
	"runner/reasoning"
)

// Role says who wrote a message.
type Role string

// The roles of a conversation.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one message of a conversation.
type Message struct {
	Role Role
	// Name is the optional name of the author.
	Name string
	// Content is the text; for an assistant the answer.
	Content string
	// Reasoning is what an assistant thought before Content. Formats keep it only where their rules say so.
	Reasoning string
	// Preamble is what an assistant told the user before its tool calls.
	Preamble string
	// ToolCalls are an assistant's calls.
	ToolCalls []ToolCall
	// ToolCallID names the call that a tool message answers, and ToolName its function.
	ToolCallID, ToolName string
}

// ToolCall is one call of a function by the model.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is the JSON text exactly as the model wrote it; it need not be valid.
	Arguments string
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string
	// Parameters is a JSON Schema object, in its own key order; empty for a function without parameters.
	Parameters json.RawMessage
	// Strict asks for arguments that obey Parameters.
	Strict bool
}

// ResponseFormat is a schema that the final answer is to follow, as the prompt tells it to the model. Harmony has a
// place for it; templates in the Jinja language have none, and leave it to the constraint on the answer.
type ResponseFormat struct {
	Name, Description string
	Schema            json.RawMessage
}

// Conversation is what a prompt is rendered from.
type Conversation struct {
	Messages       []Message
	Tools          []Tool
	ResponseFormat *ResponseFormat
	Effort         reasoning.Effort
	// Now is the date and time shown to the model; the zero value shows none where the format allows it.
	Now time.Time
	// KeepReasoning keeps the reasoning of earlier turns where the format would drop it.
	KeepReasoning bool
	// Args are extra template variables from the caller, JSON-like values. They are user text and cannot shadow
	// the variables that the conversation sets.
	Args map[string]any
	// NoGenerationPrompt leaves out the opening of the assistant's turn.
	NoGenerationPrompt bool
}

// Start says where in a turn the model begins to write after a prompt.
type Start uint8

// The places where generation starts.
const (
	// StartTurn: at the very beginning of the turn. In harmony that is inside a header, after "<|start|>assistant".
	StartTurn Start = iota
	// StartReasoning: the prompt ends with the opening of the reasoning.
	StartReasoning
	// StartAnswer: the prompt has closed or skipped the reasoning.
	StartAnswer
)

// Prompt is a rendered conversation.
type Prompt struct {
	Tokens []backend.Token
	// Text is the same prompt as text, for people.
	Text  string
	Start Start
	// Continues says that the prompt ends in the caller's own words, so that the model goes on from them. Some
	// templates do so with a last message of the assistant. What the model writes then need not begin as its turns do.
	Continues bool
}
