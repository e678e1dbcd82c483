package wire

import "runner/chattemplate"

// DropPlain removes from messages the reasoning that a client sent as plain text. plain reports which messages have
// such reasoning; nil means all of them. The reasoning before pending calls stays, because the model continues from
// it. Calls are pending until an answer or a user's message follows.
func DropPlain(messages []chattemplate.Message, plain func(i int) bool) {
	pending := true
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		pending = pending && (m.Role == chattemplate.ToolRole || m.Role == chattemplate.Assistant && len(m.ToolCalls) > 0)
		if !pending && (plain == nil || plain(i)) {
			m.Reasoning = ""
		}
	}
}
