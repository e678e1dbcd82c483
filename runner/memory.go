package runner

import (
	"slices"
	"sync"

	"runner/chattemplate"
)

// callMemory holds the reasoning that led to the last tool calls, by call id.
type callMemory struct {
	mu    sync.Mutex
	max   int
	byID  map[callKey]string
	order []callKey
}

// callKey is a principal's call.
type callKey struct{ principal, id string }

func newCallMemory(n int) *callMemory { return &callMemory{max: n, byID: map[callKey]string{}} }

// keep remembers the reasoning before a call.
func (m *callMemory) keep(id callKey, reasoning string) {
	if m.max <= 0 || reasoning == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.byID[id]; !known {
		m.order = append(m.order, id)
	}
	m.byID[id] = reasoning
	if len(m.order) > m.max {
		delete(m.byID, m.order[0])
		m.order = slices.Delete(m.order, 0, 1)
	}
}

// restore returns messages with the remembered reasoning of a principal's calls that come without any. messages is not changed.
func (m *callMemory) restore(principal string, messages []chattemplate.Message) []chattemplate.Message {
	if m.max <= 0 {
		return messages
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	copied := false
	for i, msg := range messages {
		if msg.Reasoning != "" || len(msg.ToolCalls) == 0 {
			continue
		}
		text, ok := m.byID[callKey{principal, msg.ToolCalls[0].ID}]
		if !ok {
			continue
		}
		if !copied {
			messages, copied = slices.Clone(messages), true
		}
		messages[i].Reasoning = text
	}
	return messages
}
