package delegation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"runner/chattemplate"
)

// The functions with which a model delegates.
const (
	DelegateName = "delegate_internal_reasoning"
	ReturnName   = "return_control"
)

// IsTool reports whether a function is one of those with which a model delegates.
func IsTool(name string) bool { return name == DelegateName || name == ReturnName }

// Tools returns both functions. The schema limits the prompt to most characters, so that a model does not fill its
// context with it.
func Tools(most int) []chattemplate.Tool {
	most = max(1, min(most, MaxPrompt))
	return []chattemplate.Tool{
		{
			Name: DelegateName,
			Description: "Hands the reasoning about the conversation to a specialist that you describe, which works on it " +
				"by itself. " +
				"Its work comes back as the result. It is internal: the user sees your answer only.",
			Strict: true,
			Parameters: fmt.Appendf(nil,
				`{"type":"object","properties":{"agent_prompt":{"type":"string","minLength":1,"maxLength":%d,`+
					`"description":"The specialist's whole system prompt: who it is, what to work out, what to return."}},`+
					`"required":["agent_prompt"],"additionalProperties":false}`, most),
		},
		{
			Name: ReturnName, Description: "As a specialist: ends your work and hands control back to who asked for it.",
			Strict:     true,
			Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		},
	}
}

// Call returns the instruction for a call of one of the [Tools]. The errors are *Error.
func Call(name, arguments string) (Instruction, error) {
	if name == ReturnName {
		return Return{}, nil
	}
	var given struct {
		Prompt *string `json:"agent_prompt"`
	}
	if err := json.NewDecoder(bytes.NewReader([]byte(valid(arguments)))).Decode(&given); err != nil ||
		given.Prompt == nil {
		return nil, &Error{
			Code: CodeMalformed, Field: "agent_prompt", what: DelegateName + " takes an object with a string agent_prompt",
			Advice: "call it again with one",
		}
	}
	d := Delegate{Prompt: *given.Prompt}
	return d, d.Check()
}

// What a specialist is told in addition to its prompt. The model reads these texts, so each version is a constant of
// its own.
const (
	rankV1 = "What follows says how you work for now. It adds to what is said above and changes none of it."
	workV1 = "What you write is internal: it goes to the main agent, not to the user. Write down what you find, and " +
		"end when you are done."
)

// SquashV1 asks a specialist to sum up its work in one message.
const SquashV1 = "Write one message that holds what of your work above the main agent needs: what you found, and " +
	"what it rests on. " +
	"Leave out how you got there. Write nothing else."

// The marks around text in a prompt that no specialist replaces.
const (
	fixedOpen  = "<fixed>"
	fixedClose = "</fixed>"
)

// Compose returns a conversation as a specialist gets it. The leading system messages are the operator's and stay.
// Below them, the specialist's prompt replaces the developer's messages, except the parts that these mark as fixed:
// from <fixed> to </fixed> or to the end. messages is not changed.
func Compose(messages []chattemplate.Message, d Delegate) []chattemplate.Message {
	head := chattemplate.Message{Role: chattemplate.System}
	var above []string
	n := 0
	for ; n < len(messages); n++ {
		m := messages[n]
		if m.Role != chattemplate.System && m.Role != chattemplate.Developer {
			break
		}
		if n == 0 {
			head = m
		}
		text := m.Content
		if m.Role == chattemplate.Developer {
			text = fixed(text)
		}
		if text != "" {
			above = append(above, text)
		}
	}
	texts := above
	if len(above) > 0 {
		texts = append(texts, rankV1)
	}
	texts = append(texts, d.Prompt, workV1, d.XML())
	head.Content = strings.Join(texts, "\n\n")
	return append([]chattemplate.Message{head}, messages[n:]...)
}

// fixed returns the parts of a prompt that are marked as fixed, with their marks, one a line.
func fixed(prompt string) string {
	var parts []string
	for {
		_, rest, ok := strings.Cut(prompt, fixedOpen)
		if !ok {
			return strings.Join(parts, "\n")
		}
		text, after, _ := strings.Cut(rest, fixedClose)
		parts = append(parts, fixedOpen+text+fixedClose)
		prompt = after
	}
}

// Report returns a specialist's work as the main agent gets it. texts are its messages; there may be none.
func Report(texts []string) string {
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(Intermediate{}.XML())
		b.WriteByte('\n')
		b.WriteString(strings.TrimSpace(t))
		b.WriteByte('\n')
	}
	b.WriteString(Return{}.XML())
	return b.String()
}

// Mark returns messages as the model gets them. A message that is intermediate or returns control gets a line
// before its text that says so. The line for an active specialist is in its own prompt.
func Mark(messages []chattemplate.Message, instructions map[int][]Instruction) []chattemplate.Message {
	out := append([]chattemplate.Message(nil), messages...)
	for i := range out {
		for j := len(instructions[i]) - 1; j >= 0; j-- {
			if _, ok := instructions[i][j].(Delegate); ok {
				continue
			}
			line := instructions[i][j].XML()
			if out[i].Content != "" {
				line += "\n"
			}
			out[i].Content = line + out[i].Content
		}
	}
	return out
}

// Drop returns messages without those of the assistant that are marked as intermediate and have no calls. of holds the
// instructions by their new index.
func Drop(messages []chattemplate.Message, instructions map[int][]Instruction) (kept []chattemplate.Message,
	of map[int][]Instruction) {
	of = map[int][]Instruction{}
	for i, m := range messages {
		marked := false
		for _, in := range instructions[i] {
			marked = marked || in == Instruction(Intermediate{})
		}
		if marked && m.Role == chattemplate.Assistant && len(m.ToolCalls) == 0 {
			continue
		}
		if len(instructions[i]) > 0 {
			of[len(kept)] = instructions[i]
		}
		kept = append(kept, m)
	}
	return kept, of
}
