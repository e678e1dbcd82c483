package chattemplate

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"runner/reasoning"
)

// maxName is the maximum bytes of a tool's or an author's name.
const maxName = 256

// reserved are the template variables that callers cannot set: those that come from the conversation or the model, and
// the functions that templates call.
var reserved = map[string]bool{
	"messages": true, "tools": true, "add_generation_prompt": true, "continue_final_message": true,
	"bos_token": true, "eos_token": true, "pad_token": true, "unk_token": true,
	"raise_exception": true, "strftime_now": true, "namespace": true, "range": true, "dict": true, "lipsum": true,
	"cycler": true, "joiner": true, "loop": true, "self": true, "caller": true, "varargs": true, "kwargs": true,
	"True": true, "False": true, "None": true, "true": true, "false": true, "none": true,
}

// Normalize checks a conversation and fills in what clients may leave out, such as the name of the tool in its result.
// Its error is a *ConversationError. The caller's conversation is not changed.
func Normalize(c Conversation) (*Conversation, error) {
	if len(c.Messages) == 0 {
		return nil, &ConversationError{Message: -1, Tool: -1, Err: errors.New("conversation has no messages"),
			Advice: "send at least one message"}
	}
	switch c.Effort {
	case reasoning.EffortDefault, reasoning.EffortNone, reasoning.EffortMinimal, reasoning.EffortLow,
		reasoning.EffortMedium, reasoning.EffortHigh:
	default:
		return nil, &ConversationError{
			Message: -1, Tool: -1, Err: errors.New("unknown reasoning effort"),
			Advice: "the efforts are none, minimal, low, medium and high",
		}
	}
	for name := range c.Args {
		if reserved[name] {
			return nil, ArgError(name, "leave this variable out; the conversation sets it", "cannot be set by the caller")
		}
	}
	for i, t := range c.Tools {
		if !ValidName(t.Name) {
			return nil, ToolError(i, NameAdvice, errors.New("its name is not valid"))
		}
	}
	orphans := c.Orphans()
	c.Messages = append([]Message(nil), c.Messages...)
	for i := range c.Messages {
		if slices.Contains(orphans, i) {
			continue
		}
		if err := normalizeMessage(c.Messages, i); err != nil {
			return nil, err
		}
	}
	for _, i := range slices.Backward(orphans) {
		c.Messages = slices.Delete(c.Messages, i, i+1)
	}
	orderResults(c.Messages)
	return &c, nil
}

// orderResults puts the results of a message's calls behind it, in the order of the calls. Most templates show no ids,
// so the model would take the result of one call for another's. Messages of others that came in between follow.
func orderResults(msgs []Message) {
	for i := range msgs {
		calls, results := msgs[i].ToolCalls, msgs[i+1:]
		if len(calls) == 0 {
			continue
		}
		if n := slices.IndexFunc(results, func(m Message) bool { return m.Role == Assistant }); n >= 0 {
			results = results[:n]
		}
		places := make(map[string]int, len(calls)) // negative, so that a result of no call comes last
		for i, c := range calls {
			places[c.ID] = i - len(calls)
		}
		nameless := func(m Message) bool { return m.Role == ToolRole && m.ToolCallID == "" }
		given := len(calls) > 1 && !slices.ContainsFunc(results, nameless)
		slices.SortStableFunc(results, func(a, b Message) int {
			switch is, other := a.Role == ToolRole, b.Role == ToolRole; {
			case is && !other:
				return -1
			case other && !is:
				return 1
			case is && given:
				return cmp.Compare(places[a.ToolCallID], places[b.ToolCallID])
			}
			return 0
		})
	}
}

// NameAdvice says which names [ValidName] accepts.
const NameAdvice = "names have 1 to 256 bytes and no white space, control characters, or angle, square or curly " +
	"brackets"

// ValidName reports whether s can be the name of a tool or an author. Such names stand in headers of messages, where
// white space separates words, and brackets begin a control token or arguments.
func ValidName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("<>[]{}", r)
	})
}

func normalizeMessage(msgs []Message, i int) error {
	m := &msgs[i]
	switch m.Role {
	case System, Developer, User, Assistant:
	case ToolRole:
		if m.ToolName == "" {
			m.ToolName = calledTool(msgs[:i], m.ToolCallID)
		}
		if m.ToolName == "" {
			m.ToolName = m.Name
		}
		if m.ToolName == "" {
			return messageError(i, "give the tool's name, or the id of a call that an assistant message before it makes",
				"tool result does not match a call")
		}
		if !ValidName(m.ToolName) {
			return messageError(i, NameAdvice, "tool name is not valid")
		}
	default:
		return messageError(i, "the roles are system, developer, user, assistant and tool", "unknown role")
	}
	if m.Name != "" && !ValidName(m.Name) {
		return messageError(i, NameAdvice, "author name is not valid")
	}
	if len(m.ToolCalls) > 0 && m.Role != Assistant {
		return messageError(i, "only assistant messages call tools", "tool calls in a message that is not an assistant's")
	}
	for _, call := range m.ToolCalls {
		if !ValidName(call.Name) {
			return messageError(i, NameAdvice, "name of a called tool is not valid")
		}
	}
	return nil
}

// Orphans returns the indexes of results whose call is not in the conversation, before others speak. Clients that
// forget the beginning of a long conversation leave them behind. They are left out: few templates take them.
func (c *Conversation) Orphans() (of []int) {
	last := len(c.Messages) - 1
	for last >= 0 && c.Messages[last].Role == ToolRole {
		last--
	}
	for i := range max(0, last) {
		m := &c.Messages[i]
		if m.Role == ToolRole && m.ToolName+m.Name == "" && calledTool(c.Messages[:i], m.ToolCallID) == "" {
			of = append(of, i)
		}
	}
	return of
}

// calledTool returns the function of the latest call with an id. Results without an id answer the calls of the latest
// message that has any, in order.
func calledTool(before []Message, id string) string {
	results := 0
	for i := len(before) - 1; i >= 0; i-- {
		calls := before[i].ToolCalls
		switch {
		case id == "" && results < len(calls):
			return calls[results].Name
		case id == "" && len(calls) > 0:
			return ""
		case before[i].Role == ToolRole:
			results++
		}
		for _, c := range calls {
			if id != "" && c.ID == id {
				return c.Name
			}
		}
	}
	return ""
}

// IsPrompt reports whether messages with role r are system prompts.
func IsPrompt(r Role) bool { return r == System || r == Developer }

// JoinPrompts joins the texts of system prompts, with an empty line between them.
func JoinPrompts(msgs []Message) string {
	var texts []string
	for _, m := range msgs {
		if m.Content != "" {
			texts = append(texts, m.Content)
		}
	}
	return strings.Join(texts, "\n\n")
}
