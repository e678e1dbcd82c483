// Package chattemplate holds conversations and renders them through chat templates, in the format that a model was
// trained on.
//
// A model comes with a chat template, a program in the Jinja language that writes a conversation as the model expects
// it. Models that write a turn in the same way are a family. A family has three jobs: it renders a conversation into a
// prompt, it reads the model's output back into reasoning, calls and answer, and it says at each place of the turn
// which tokens may come next.
//
// This package has what all families share: [Conversation], [Prompt], [Builder], and [Template] for templates in the
// Jinja language. The packages below it have the rest:
//
//   - family is the interface of a family, with the steps for a new one. families finds the family of a model.
//   - channels is the family of gpt-oss, whose turn is several messages. channels/harmony writes their format.
//   - tags is the family of all other models, whose turn is one text with tags and calls in it.
//   - reader, hold and parameters are what families share to read output and to constrain it.
//   - jinja is the template language.
//
// docs/architecture.md is the map of the source.
//
// # From a template to its family
//
// A vocabulary with harmony's special tokens belongs to channels. Every other model with a template belongs to tags.
// [NewTemplate] compiles the template and renders small conversations with it, called probes. They show what the
// template accepts: system prompts, tools, calls, and in which types. Package tags then renders probes of its own with
// [Template.Probe], to find the marks of reasoning and the style of calls. So a new template usually needs no code.
//
// # Outside text
//
// Text from a user, a tool or a client never becomes a control token. Rendered text carries the origin of every byte,
// and only the template's own literals can become control tokens. The same holds for user-defined tokens that the
// template or its family uses as marks, such as <think>. Other user-defined tokens are text.
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

// Message is one message of a conversation. Traces have it as JSON.
type Message struct {
	Role Role `json:"role"`
	// Name is the optional name of the author.
	Name string `json:"name,omitempty"`
	// Content is the text. In a message of the assistant it is the answer.
	Content string `json:"content,omitempty"`
	// Reasoning is the assistant's reasoning before Content. Each format has rules about when it shows it again.
	Reasoning string `json:"reasoning,omitempty"`
	// Preamble is what the assistant told the user before its tool calls.
	Preamble string `json:"preamble,omitempty"`
	// ToolCalls are the assistant's calls.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// ToolCallID is the id of the call that a tool message answers, and ToolName is its function.
	ToolCallID string `json:"tool_call_id,omitempty"`
	ToolName   string `json:"tool_name,omitempty"`
	// Unseen says which parts the program put there without the caller having seen them.
	Unseen UnseenParts `json:"-"`
}

// ToolCall is one call of a function by the model.
type ToolCall struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Arguments is the JSON text exactly as the model wrote it. It may be invalid.
	Arguments string `json:"arguments,omitempty"`
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Parameters is a JSON Schema object, in its own key order. It is empty for a function without parameters.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// Strict asks for arguments that match Parameters.
	Strict bool `json:"strict,omitempty"`
	// Told says that a message describes the tool, so that the list of tools does not.
	Told bool `json:"-"`
}

// ResponseFormat is a schema for the final answer, to be shown to the model in the prompt. Only harmony has a place for
// it. Templates in the Jinja language do not show it; there the constraint on the answer alone enforces it.
type ResponseFormat struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// Conversation is what a prompt is rendered from.
type Conversation struct {
	Messages       []Message
	Tools          []Tool
	ResponseFormat *ResponseFormat
	Effort         reasoning.Effort
	// Now is the date and time shown to the model. With the zero value none is shown, if the format allows it.
	Now time.Time
	// KeepReasoning keeps the reasoning of earlier turns even if the format would drop it.
	KeepReasoning bool
	// Args are the caller's template variables, with values as decoded from JSON. They count as outside text and cannot
	// replace variables that the conversation sets.
	Args map[string]any
	// NoGenerationPrompt leaves out the opening of the assistant's next turn.
	NoGenerationPrompt bool
}

// Start is the place in a turn where the model begins to write after a prompt.
type Start uint8

// The places where generation starts.
const (
	// StartTurn: the turn has just begun. In harmony that is inside a header, after "<|start|>assistant".
	StartTurn Start = iota
	// StartReasoning: the prompt ends with the opening of the reasoning.
	StartReasoning
	// StartAnswer: the prompt has closed or skipped the reasoning.
	StartAnswer
)

// Prompt is a rendered conversation.
type Prompt struct {
	Tokens []backend.Token
	// Origins has the origin of each of Tokens. Where it is shorter, the rest is FromTemplate.
	Origins []Origin
	// Text is the same prompt as text, for people.
	Text  string
	Start Start
	// Continues says that the prompt ends in the caller's own words and the model continues them. Some templates do so
	// if the last message is the assistant's. The output then need not begin as a turn does.
	Continues bool
}
