package runner

import (
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
)

// resume restores the state of the conversation from the messages and from what the runner remembers of the last calls.
func (d *delegating) resume() error {
	of := d.run.req.Instructions()
	messages := d.run.req.Messages
	if d.run.req.Delegation.Work == generation.WorkDelete {
		before := len(messages)
		messages, of = delegation.Drop(messages, of)
		if dropped := before - len(messages); dropped > 0 {
			d.emit(curated(curatedDeleted, dropped, "earlier turns"))
		}
	}
	state, _, err := delegation.Replay(messages, of)
	if err != nil {
		return &generation.RequestError{Field: "Delegation", Err: err, Advice: hint(err)}
	}
	marked := delegation.Mark(messages, of)
	call := pendingCall(messages)
	if past, ok := d.pastOf(call); ok && past.given <= call.at {
		d.recall(marked, call.at, past)
		for i := call.at; i < len(messages); i++ {
			for _, in := range of[i] {
				if _, back := in.(delegation.Return); back && d.about.ID != "" {
					d.finish(reasoning.DelegationReturned)
				}
			}
		}
		return nil
	}
	d.main, d.given = marked, len(marked)
	active, on := state.Active()
	if !on {
		return nil
	}
	at := lastDelegate(messages, of)
	if messages[at].Role != chattemplate.Assistant {
		at++
	}
	d.main, d.work = slices.Clone(marked[:at]), slices.Clone(marked[at:])
	d.given = len(d.main)
	for i := at; i < len(messages); i++ {
		if m := messages[i]; m.Role == chattemplate.Assistant && m.Content != "" {
			d.texts = append(d.texts, m.Content)
		}
	}
	d.begin(active, "user", len(d.main))
	return nil
}

// pastOf returns what is remembered of the delegation that a pending call belongs to.
func (d *delegating) pastOf(call pending) (past, bool) {
	given := pendingCall(d.run.req.Messages) // its index counts the messages that WorkDelete leaves out
	if call.at < 0 || given.id != call.id {
		return past{}, false
	}
	return d.run.r.cfg.CallMemory.delegationOf(callKey{d.run.req.Principal, call.id}, func() moment {
		return d.run.r.momentAt(&d.run.req, given.at)
	})
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

// past is what the run that continues after the calls needs from this run and the client does not have.
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
func (d *delegating) recall(messages []chattemplate.Message, call int, p past) {
	d.given, d.reported, d.engaged = p.given, slices.Clone(p.reported), true
	d.main = append(slices.Clone(messages[:p.given]), p.main...)
	for range p.steps {
		d.state.Step()
	}
	if p.active == nil {
		d.main = append(d.main, messages[call:]...)
		return
	}
	d.work = append(slices.Clone(p.work), messages[call:]...)
	d.texts = slices.Clone(p.texts)
	d.begin(*p.active, p.by, p.report)
}

// remember stores what the run that continues after the calls needs.
func (d *delegating) remember(calls []chattemplate.ToolCall) {
	if d.run.req.Unremembered {
		return
	}
	given := d.given
	for _, at := range d.reported {
		given = min(given, at) // the report is missing in the client's message
	}
	p := past{
		given: given, main: slices.Clone(d.main[given:]), report: d.report, reported: slices.Clone(d.reported),
		steps: d.state.Steps(),
	}
	if active, on := d.state.Active(); on {
		p.active, p.by = &active, d.about.By
		p.work, p.texts = slices.Clone(d.work), slices.Clone(d.texts)
	} else if len(p.main) == 0 && !d.engaged {
		return
	}
	for i := range calls {
		at := d.run.r.moment(&d.run.req, lastOf(d.run.req.Messages), &calls[i])
		d.run.r.cfg.CallMemory.keepDelegation(callKey{d.run.req.Principal, calls[i].ID}, at, p)
	}
}
