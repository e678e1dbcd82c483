// Package conversation is what was said in a chat, turn by turn, and the forms in which it is written to files: as it
// was shown, and as JSON that can be read again.
package conversation

import (
	"fmt"
	"strings"

	"runner/chattemplate"
)

// Conversation is what was said so far. The zero value is empty.
type Conversation struct {
	// System are the messages before the first turn.
	System []chattemplate.Message
	Turns  []Turn
}

// Turn is a message of the user and all that followed it, up to the next message of the user.
type Turn struct {
	// Messages begin with the user's. A turn that was forgotten has none.
	Messages []chattemplate.Message
	// Shown is what was visible of the turn, also if it was forgotten.
	Shown []Part
}

// Part is a visible text under a heading.
type Part struct{ Heading, Text string }

// The headings of messages.
const (
	HeadingUser      = "You"
	HeadingReasoning = "Reasoning"
	HeadingPreamble  = "Before the call"
	HeadingCall      = "Call of "
	HeadingResult    = "Result of "
	HeadingAnswer    = "Answer"
)

// Show adds a visible text. An empty one is left out.
func (t *Turn) Show(heading, text string) {
	if text != "" {
		t.Shown = append(t.Shown, Part{heading, text})
	}
}

// Messages returns all messages in their order. Their reasoning is what the program kept, and no text of the user.
func (c *Conversation) Messages() []chattemplate.Message {
	list := append([]chattemplate.Message(nil), c.System...)
	for _, t := range c.Turns {
		list = append(list, t.Messages...)
	}
	for i := range list {
		if list[i].Reasoning != "" {
			list[i].Unseen |= chattemplate.UnseenReasoning
		}
	}
	return list
}

// Last returns the index of the last turn that was not forgotten, or -1 if there is none.
func (c *Conversation) Last() int {
	for i := len(c.Turns) - 1; i >= 0; i-- {
		if len(c.Turns[i].Messages) > 0 {
			return i
		}
	}
	return -1
}

// Undo takes back the last turn that was not forgotten, with all that was shown since. It returns false if there is
// none.
func (c *Conversation) Undo() bool {
	last := c.Last()
	if last >= 0 {
		c.Turns = c.Turns[:last]
	}
	return last >= 0
}

// Markdown returns what was shown of a conversation with a model.
func (c *Conversation) Markdown(model string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Conversation with %s\n", model)
	for _, t := range c.Turns {
		for _, part := range t.Shown {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.Heading, strings.Trim(part.Text, "\n"))
		}
	}
	return []byte(b.String())
}

// fromMessages makes turns of messages that [check] accepts. All of them count as shown.
func fromMessages(list []chattemplate.Message) Conversation {
	var c Conversation
	for _, m := range list {
		switch {
		case chattemplate.IsPrompt(m.Role):
			c.System = append(c.System, m)
			continue
		case m.Role == chattemplate.User:
			c.Turns = append(c.Turns, Turn{})
		}
		t := &c.Turns[len(c.Turns)-1]
		t.Messages = append(t.Messages, m)
		t.showMessage(m)
	}
	return c
}

func (t *Turn) showMessage(m chattemplate.Message) {
	switch m.Role {
	case chattemplate.User:
		t.Show(HeadingUser, m.Content)
	case chattemplate.ToolRole:
		t.Show(HeadingResult+m.ToolName, m.Content)
	default:
		t.Show(HeadingReasoning, m.Reasoning)
		t.Show(HeadingPreamble, m.Preamble)
		for _, call := range m.ToolCalls {
			t.Show(HeadingCall+call.Name, call.Arguments)
		}
		t.Show(HeadingAnswer, m.Content)
	}
}
