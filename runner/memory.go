package runner

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"runner/chattemplate"
	"runner/generation"
)

// CallMemory remembers the reasoning before tool calls and what loops need to go on after them. Some formats keep the
// reasoning in the prompt while calls are pending. With a CallMemory they get it back even if visibility hid it from
// the caller. It is kept in memory only, for a limited time. It is used only for the same principal, model and thread,
// and only if the call comes back with the same name, arguments and preceding message.
//
// When there are too many calls, the principal with the most calls loses its oldest. So many calls of one principal
// never displace another's.
//
// Several runners may share a CallMemory. Its methods may be called by several goroutines at once. Nil remembers
// nothing.
type CallMemory struct {
	max   int
	age   time.Duration
	clock func() time.Time

	mu   sync.Mutex
	byID map[callKey]remembered
	// order has the ids of each principal's calls, oldest first.
	order map[string][]string
	// sweeps means that a sweep is scheduled.
	sweeps bool
}

// remembered is the reasoning before a call, and what the loop keeps that made the turn.
type remembered struct {
	at        moment
	made      time.Time
	reasoning string
	loop      any
}

// callKey identifies a principal's call.
type callKey struct{ principal, id string }

// moment is a digest of everything that must be the same when a call comes back.
type moment [sha256.Size]byte

// NewCallMemory returns a memory for so many calls, each kept for at most age; 0 means no limit. It returns nil if
// calls is not positive.
func NewCallMemory(calls int, age time.Duration) *CallMemory {
	if calls <= 0 {
		return nil
	}
	return &CallMemory{max: calls, age: age, clock: time.Now, byID: map[callKey]remembered{}, order: map[string][]string{}}
}

// Forget removes calls of a principal.
func (m *CallMemory) Forget(principal string, ids ...string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.drop(callKey{principal, id})
	}
}

// keep stores the reasoning before a call.
func (m *CallMemory) keep(id callKey, at moment, reasoning string) {
	if m != nil && reasoning != "" {
		m.put(id, at, func(r *remembered) { r.reasoning = reasoning })
	}
}

// keepForLoop stores what a loop keeps about a call.
func (m *CallMemory) keepForLoop(id callKey, at moment, what any) {
	if m != nil {
		m.put(id, at, func(r *remembered) { r.loop = what })
	}
}

// recall returns what is stored for a call, if the call's moment matches.
func (m *CallMemory) recall(id callKey, at func() moment) (remembered, bool) {
	if m == nil {
		return remembered{}, false
	}
	m.mu.Lock()
	r, known := m.byID[id]
	known = known && !m.old(r)
	m.mu.Unlock()
	if !known || r.at != at() {
		return remembered{}, false
	}
	return r, true
}

func (m *CallMemory) put(id callKey, at moment, set func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.byID[id]
	if !known {
		m.order[id.principal] = append(m.order[id.principal], id.id)
	}
	if r.at != at {
		r = remembered{at: at}
	}
	r.made = m.clock()
	set(&r)
	m.byID[id] = r
	if len(m.byID) > m.max {
		m.shrink(id.principal)
	}
	if m.age > 0 && !m.sweeps {
		m.sweeps = true
		time.AfterFunc(m.age, m.sweep)
	}
}

// shrink drops the oldest call of the principal that has the most calls. latest is the principal of the newest call;
// it loses one only if no other principal has as many.
func (m *CallMemory) shrink(latest string) {
	most := latest
	for principal, ids := range m.order {
		if n := len(m.order[most]); len(ids) > n || len(ids) == n && most == latest {
			most = principal
		}
	}
	m.drop(callKey{most, m.order[most][0]})
}

func (m *CallMemory) drop(id callKey) {
	if _, known := m.byID[id]; !known {
		return
	}
	delete(m.byID, id)
	ids := m.order[id.principal]
	if ids = slices.Delete(ids, slices.Index(ids, id.id), slices.Index(ids, id.id)+1); len(ids) == 0 {
		delete(m.order, id.principal)
		return
	}
	m.order[id.principal] = ids
}

func (m *CallMemory) old(r remembered) bool { return m.age > 0 && m.clock().Sub(r.made) >= m.age }

// sweep removes calls that are too old. It schedules the next sweep for the rest.
func (m *CallMemory) sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.age
	for id, r := range m.byID {
		if m.old(r) {
			m.drop(id)
			continue
		}
		next = min(next, m.age-m.clock().Sub(r.made))
	}
	if m.sweeps = len(m.byID) > 0; m.sweeps {
		time.AfterFunc(next, m.sweep)
	}
}

// restore returns a request's messages. Calls get the remembered reasoning, unless theirs was sealed: what clients keep
// as plain text may be shortened. The request's own messages are not changed.
func (r *Runner) restore(req *generation.Request) []chattemplate.Message {
	messages, copied := req.Messages, false
	for i, msg := range messages {
		if len(msg.ToolCalls) == 0 || msg.Reasoning != "" && msg.Unseen&chattemplate.UnseenReasoning != 0 {
			continue
		}
		known, ok := r.cfg.CallMemory.recall(callKey{req.Principal, msg.ToolCalls[0].ID}, func() moment {
			return r.momentAt(req, i)
		})
		if !ok || known.reasoning == "" {
			continue
		}
		if !copied {
			messages, copied = slices.Clone(messages), true
		}
		messages[i].Reasoning = known.reasoning
		messages[i].Unseen |= chattemplate.UnseenReasoning
	}
	return messages
}

// momentAt returns the moment of the first call of a request's message.
func (r *Runner) momentAt(req *generation.Request, message int) moment {
	return r.moment(req, lastOf(req.Messages[:message]), &req.Messages[message].ToolCalls[0])
}

// lastOf returns the last message, or nil.
func lastOf(messages []chattemplate.Message) *chattemplate.Message {
	if len(messages) == 0 {
		return nil
	}
	return &messages[len(messages)-1]
}

// moment returns the moment of a call that a request made or brings back. before is the message that precedes the
// call.
func (r *Runner) moment(req *generation.Request, before *chattemplate.Message,
	call *chattemplate.ToolCall) (at moment) {
	if before == nil {
		before = &chattemplate.Message{}
	}
	h := sha256.New()
	for _, part := range []string{
		r.info.Key, req.Thread, call.Name, canonical(call.Arguments), string(before.Role), before.Name, before.ToolCallID,
		before.Content,
	} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Sum(at[:0])
	return at
}

// canonical returns arguments in one spelling, because clients may rewrite the JSON. Invalid JSON stays as it is.
func canonical(arguments string) string {
	if strings.TrimSpace(arguments) == "" {
		return "{}"
	}
	var v any
	if json.Unmarshal([]byte(arguments), &v) != nil {
		return arguments
	}
	text, err := json.Marshal(v)
	if err != nil {
		return arguments
	}
	return string(text)
}
