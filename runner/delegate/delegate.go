// Package delegate carries out requests that may hand their reasoning to specialists ([generation.Delegation]). It is a
// loop above the runs of package runner, which does not know it.
//
// After each turn the loop chooses the next one: one of a specialist, one in which the specialist squashes its work
// into one message, or one under the prompt of the request. What a specialist writes counts as reasoning, so the
// visibility governs it. If the specialist is shown, its text counts as a preamble.
//
// # Rules
//
//   - Only the report of a specialist enters the conversation. The specialist's own conversation is built from it for
//     each turn. So the prompt of the request is back as soon as no specialist is active, however a turn ends.
//   - The limits of the request hold for all its turns together, and its usage is the sum over them.
//   - A specialist that fails never fails the request, unless the model does.
package delegate

import (
	"errors"
	"fmt"

	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
)

// Codes of Curated events about a specialist's work.
const (
	CuratedSquashed = "delegation-squashed"
	CuratedDeleted  = "delegation-deleted"
)

// Loop implements [generation.Loop].
type Loop struct{}

// Takes implements [generation.Loop].
func (Loop) Takes(q *generation.Request) bool { return q.Delegates() }

// Check implements [generation.Loop].
func (Loop) Check(q *generation.Request, can generation.Abilities) (own []string, err error) {
	bad := generation.BadField
	switch work := q.Delegation.Work; work {
	case "", generation.WorkKeep, generation.WorkSquash, generation.WorkDelete:
	default:
		return nil, bad("Delegation", "use keep, squash or delete", "unknown value %q for a specialist's work", work)
	}
	for i := range q.Delegation.Instructions {
		if i < 0 || i >= len(q.Messages) {
			return nil, bad("Delegation", "", "there is no message %d", i)
		}
	}
	for _, t := range q.Tools {
		if delegation.IsTool(t.Name) {
			return nil, bad("Tools", "rename the tool, or leave delegation out", "the name %s is reserved for delegation",
				t.Name)
		}
	}
	if _, err := replay(q, q.Messages, q.Instructions()); err != nil {
		return nil, err
	}
	if q.Delegation.Model && mayCall(q, can) {
		own = []string{delegation.DelegateName, delegation.ReturnName}
	}
	return own, nil
}

// mayCall reports whether the model and the request allow calls.
func mayCall(q *generation.Request, can generation.Abilities) bool {
	return can.Calls && q.ToolChoice != generation.ToolChoiceNone && q.Strategy != reasoning.StrategyJSON
}

// replay returns whose prompt is active at the end of a conversation.
func replay(q *generation.Request, messages []chattemplate.Message, of map[int][]delegation.Instruction) (
	delegation.State, error) {
	state, at, n, err := delegation.Replay(messages, of)
	if err == nil {
		return state, nil
	}
	refused := &generation.RequestError{Field: "Delegation", Err: err}
	if n < len(q.Delegation.Instructions[at]) { // it is a message's and not the request's own
		refused.Field, refused.Within = "Messages", fmt.Sprintf("[%d].instructions[%d]", at, n)
	}
	if e := (*delegation.Error)(nil); errors.As(err, &e) {
		refused.Advice = e.Hint()
	}
	return state, refused
}

// Run implements [generation.Loop].
func (Loop) Run(q *generation.Request, turns generation.Turns) error {
	return (&loop{req: q, turns: turns}).run()
}
