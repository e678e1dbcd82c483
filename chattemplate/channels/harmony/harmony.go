// Package harmony writes conversations in harmony, the prompt format of the gpt-oss models.
//
// It has the format's special tokens, the layout of a message, the texts of the system and developer messages with
// their TypeScript-like tool definitions, and the rule for which reasoning stays in a conversation's history. The
// format is described at https://github.com/openai/harmony. The texts here are the same as those of its renderer.
//
// It does not tokenize or read output. Package channels translates conversations into its messages.
//
// Only this package's own calls of [Sink.Control] become special tokens. Everything else is text.
package harmony

import (
	"fmt"

	"runner/backend"
)

// The names of the format's special tokens.
const (
	StartName     = "<|start|>"
	EndName       = "<|end|>"
	MessageName   = "<|message|>"
	ChannelName   = "<|channel|>"
	ConstrainName = "<|constrain|>"
	ReturnName    = "<|return|>"
	CallName      = "<|call|>"
)

// Tokens are the ids of the format's special tokens in one vocabulary.
type Tokens struct {
	Start, End, Message, Channel, Constrain, Return, Call backend.Token
}

// Find finds the special tokens by their names. It fails if the vocabulary has no special token for start, end, message
// or channel. The others are optional, and backend.NoToken if they are missing.
func Find(v *backend.Vocab) (Tokens, error) {
	var t Tokens
	for _, e := range []struct {
		name     string
		id       *backend.Token
		required bool
	}{
		{StartName, &t.Start, true}, {EndName, &t.End, true}, {MessageName, &t.Message, true},
		{ChannelName, &t.Channel, true}, {ConstrainName, &t.Constrain, false}, {ReturnName, &t.Return, false},
		{CallName, &t.Call, false},
	} {
		id, ok := v.Special(e.name)
		if !ok && e.required {
			return Tokens{}, fmt.Errorf("vocabulary of a harmony model has no token %s", e.name)
		}
		if *e.id = backend.NoToken; ok {
			*e.id = id
		}
	}
	return t, nil
}

// Lookup is Find with all tokens required. It returns false if one is missing.
func Lookup(v *backend.Vocab) (Tokens, bool) {
	t, err := Find(v)
	if err != nil || t.Constrain == backend.NoToken || t.Return == backend.NoToken || t.Call == backend.NoToken {
		return Tokens{}, false
	}
	return t, true
}

// Role says who wrote a message.
type Role string

// The roles. A tool's message carries the tool's name in place of a role.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// The channels of an assistant.
const (
	// Analysis is reasoning.
	Analysis = "analysis"
	// Commentary is tool calls and preambles to them.
	Commentary = "commentary"
	// Final is the answer.
	Final = "final"
)

// Message is one message: a header and its text.
type Message struct {
	Role Role
	// Name is the author's name. For RoleTool it is the tool, for instance "functions.add".
	Name string
	// Recipient is the receiver of the message, for instance "functions.add" or "assistant". Empty means everybody.
	Recipient string
	Channel   string
	// ContentType describes Content, for instance "json"; Constrain puts the <|constrain|> token before it.
	ContentType string
	Constrain   bool
	Content     string
	// Unseen says that the caller has not seen Content.
	Unseen bool
}

// Sink receives a rendering piece by piece. Adjacent texts are one text.
type Sink interface {
	// Text takes text. It must never become a special token.
	Text(s string)
	// Unseen takes text that the caller has not seen.
	Unseen(s string)
	// Control takes a special token.
	Control(t backend.Token)
}

// Write renders one message with the token that ends it. That is <|call|> for an assistant's message with a recipient,
// and else <|end|>. <|return|> only ends generation and never comes in a history.
func (t *Tokens) Write(s Sink, m Message) {
	s.Control(t.Start)
	if m.Role == RoleTool {
		s.Text(m.Name)
	} else {
		s.Text(string(m.Role))
		if m.Name != "" {
			s.Text(":")
			s.Text(m.Name)
		}
	}
	if m.Recipient != "" {
		s.Text(" to=")
		s.Text(m.Recipient)
	}
	if m.Channel != "" {
		s.Control(t.Channel)
		s.Text(m.Channel)
	}
	if m.Constrain || m.ContentType != "" {
		s.Text(" ")
		if m.Constrain {
			s.Control(t.Constrain)
		}
		s.Text(m.ContentType)
	}
	s.Control(t.Message)
	if m.Unseen {
		s.Unseen(m.Content)
	} else {
		s.Text(m.Content)
	}
	if m.Role == RoleAssistant && m.Recipient != "" {
		s.Control(t.Call)
	} else {
		s.Control(t.End)
	}
}

// OpenTurn renders the opening of an assistant's message, up to the place where the model writes its header.
func (t *Tokens) OpenTurn(s Sink) {
	s.Control(t.Start)
	s.Text(string(RoleAssistant))
}

// OpenFinal renders the rest of the header of a final answer, after [Tokens.OpenTurn].
func (t *Tokens) OpenFinal(s Sink) {
	s.Control(t.Channel)
	s.Text(Final)
	s.Control(t.Message)
}

// DropAnalysis removes the reasoning that a history no longer shows. These are the messages on the analysis channel
// before the last final answer that is followed by a message or, with forCompletion, by the opening of a new turn. So
// reasoning is dropped after its turn has an answer, and kept while tool calls are pending. msgs is not changed.
func DropAnalysis(msgs []Message, forCompletion bool) []Message {
	last := -1
	for i, m := range msgs {
		if m.Role == RoleAssistant && m.Channel == Final && (forCompletion || i < len(msgs)-1) {
			last = i
		}
	}
	kept := make([]Message, 0, len(msgs))
	for i, m := range msgs {
		if i < last && m.Channel == Analysis {
			continue
		}
		kept = append(kept, m)
	}
	return kept
}
