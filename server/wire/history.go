package wire

import "runner/chattemplate"

// DropPlain takes the reasoning out of messages where a client sent it as plain text, which are those that plain
// names, nil all of them, except where calls are pending: such reasoning is the client's own text, and a model
// needs no more of it than what led to the calls that it is to go on from. Calls are pending as long as neither an
// answer nor the user has come since.
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
