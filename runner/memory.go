package runner

import (
	"slices"
	"sync"

	"runner/chattemplate"
)

// callMemory holds what led to the last tool calls, by call id. When there are too many, the oldest of the principal goes that has the most, so
// that nobody's many calls push out another's.
type callMemory struct {
	mu   sync.Mutex
	max  int
	byID map[callKey]remembered
	// order has the ids of each principal's calls, the oldest first.
	order map[string][]string
}

// remembered is what led to a call: the reasoning before it, and the delegation that it is a part of.
type remembered struct {
	reasoning string
	past      *past
}

// callKey is a principal's call.
type callKey struct{ principal, id string }

func newCallMemory(n int) *callMemory {
	return &callMemory{max: n, byID: map[callKey]remembered{}, order: map[string][]string{}}
}

// keep remembers the reasoning before a call.
func (m *callMemory) keep(id callKey, reasoning string) {
	if m.max <= 0 || reasoning == "" {
		return
	}
	m.put(id, func(r *remembered) { r.reasoning = reasoning })
}

// keepDelegation remembers the delegation that a call is a part of.
func (m *callMemory) keepDelegation(id callKey, p past) {
	if m.max > 0 {
		m.put(id, func(r *remembered) { r.past = &p })
	}
}

// delegationOf returns the delegation that a call is a part of.
func (m *callMemory) delegationOf(id callKey) (past, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.byID[id]; r.past != nil {
		return *r.past, true
	}
	return past{}, false
}

func (m *callMemory) put(id callKey, set func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.byID[id]
	if !known {
		m.order[id.principal] = append(m.order[id.principal], id.id)
	}
	set(&r)
	m.byID[id] = r
	if len(m.byID) > m.max {
		m.forget(id.principal)
	}
}

// forget drops the oldest call of the principal that has the most; of latest, which the newest is of, only if no other has as many.
func (m *callMemory) forget(latest string) {
	most := latest
	for principal, ids := range m.order {
		if n := len(m.order[most]); len(ids) > n || len(ids) == n && most == latest {
			most = principal
		}
	}
	ids := m.order[most]
	delete(m.byID, callKey{most, ids[0]})
	if len(ids) == 1 {
		delete(m.order, most)
		return
	}
	m.order[most] = slices.Delete(ids, 0, 1)
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
		text := m.byID[callKey{principal, msg.ToolCalls[0].ID}].reasoning
		if text == "" {
			continue
		}
		if !copied {
			messages, copied = slices.Clone(messages), true
		}
		messages[i].Reasoning = text
	}
	return messages
}
