package delegate

import (
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
)

// resume restores the state of the conversation from the messages and from what the runner remembers of the last calls.
func (l *loop) resume() error {
	of := l.req.Instructions()
	messages := l.req.Messages
	if l.req.Delegation.Work == generation.WorkDelete {
		before := len(messages)
		messages, of = delegation.Drop(messages, of)
		if dropped := before - len(messages); dropped > 0 {
			l.turns.Emit(curated(CuratedDeleted, dropped, "earlier turns"))
		}
	}
	state, err := replay(l.req, messages, of)
	if err != nil {
		return err
	}
	marked := delegation.Mark(messages, of)
	call := pendingCall(messages)
	if past, ok := l.pastOf(call); ok && past.given <= call.at {
		l.recall(marked, call.at, past)
		for i := call.at; i < len(messages); i++ {
			for _, in := range of[i] {
				if _, back := in.(delegation.Return); back && l.about.ID != "" {
					l.finish(reasoning.DelegationReturned)
				}
			}
		}
		return nil
	}
	l.main, l.given = marked, len(marked)
	active, on := state.Active()
	if !on {
		return nil
	}
	at := lastDelegate(messages, of)
	if messages[at].Role != chattemplate.Assistant {
		at++
	}
	l.main, l.work = slices.Clone(marked[:at]), slices.Clone(marked[at:])
	l.given = len(l.main)
	for i := at; i < len(messages); i++ {
		if m := messages[i]; m.Role == chattemplate.Assistant && m.Content != "" {
			l.texts = append(l.texts, m.Content)
		}
	}
	l.turns.Emit(instructed(active))
	l.begin(active, "user", len(l.main))
	return nil
}

// pastOf returns what is remembered of the delegation that a pending call belongs to.
func (l *loop) pastOf(call pending) (past, bool) {
	given := pendingCall(l.req.Messages) // its index counts the messages that WorkDelete leaves out
	if call.at < 0 || given.id != call.id {
		return past{}, false
	}
	p, ok := l.turns.Recall(given.at).(past)
	return p, ok
}

// lastDelegate returns the index of the message with the last instruction to delegate.
func lastDelegate(messages []chattemplate.Message, of map[int][]delegation.Instruction) int {
	for i := len(messages) - 1; i >= 0; i-- {
		for _, in := range of[i] {
			if _, ok := in.(delegation.Delegate); ok {
				return i
			}
		}
	}
	return 0
}

// pending is the assistant's message with calls if the conversation ends with their results.
type pending struct {
	at int // index of the message, -1 if there is none
	id string
}

func pendingCall(messages []chattemplate.Message) pending {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role == chattemplate.Assistant && len(m.ToolCalls) > 0 {
			return pending{i, m.ToolCalls[0].ID}
		}
		if m.Role != chattemplate.ToolRole {
			break
		}
	}
	return pending{at: -1}
}

// past is what the request that continues after the calls needs from this request and the client does not have.
type past struct {
	given      int
	main, work []chattemplate.Message
	texts      []string
	active     *delegation.Delegate
	by         string
	report     int
	reported   []int
	steps      int
}

// recall continues from what the runner remembers of the calls in messages[call].
func (l *loop) recall(messages []chattemplate.Message, call int, p past) {
	l.given, l.reported, l.engaged = p.given, slices.Clone(p.reported), true
	l.main = append(slices.Clone(messages[:p.given]), p.main...)
	for range p.steps {
		l.state.Step()
	}
	if p.active == nil {
		l.main = append(l.main, messages[call:]...)
		return
	}
	l.work = append(slices.Clone(p.work), messages[call:]...)
	l.texts = slices.Clone(p.texts)
	l.begin(*p.active, p.by, p.report)
}

// remember stores what the request that continues after the calls needs.
func (l *loop) remember(calls []chattemplate.ToolCall) {
	given := l.given
	for _, at := range l.reported {
		given = min(given, at) // the report is missing in the client's message
	}
	p := past{
		given: given, main: slices.Clone(l.main[given:]), report: l.report, reported: slices.Clone(l.reported),
		steps: l.state.Steps(),
	}
	if active, on := l.state.Active(); on {
		p.active, p.by = &active, l.about.By
		p.work, p.texts = slices.Clone(l.work), slices.Clone(l.texts)
	} else if len(p.main) == 0 && !l.engaged {
		return
	}
	for i := range calls {
		l.turns.Remember(&calls[i], p)
	}
}
