package runner

import (
	"fmt"
	"maps"
	"slices"

	"runner/chattemplate"
	"runner/reasoning/delegation"
)

// Delegation says who may hand the reasoning to a specialist, see package delegation. The zero value is nobody.
//
// A run that delegates is several turns of the model in one stream of events: under the specialist's prompt, then
// under the original one, which answers. What the specialist writes comes as reasoning, so visibility governs it,
// unless the instruction says that it is shown; then it is preamble. The run's limits are those of all its turns
// together. Its usage is their sum, so that a prompt counts each time that it is read.
//
// Where a specialist calls the request's own tools the run ends in these calls, as any other. When their results
// come, the specialist goes on: as the instructions among the messages say, or where they do not, because it was
// the model who delegated, as the runner remembers (Config.CallMemory). What is not remembered goes on under the
// original prompt.
type Delegation struct {
	// Model offers the model the functions with which it delegates by itself. A model whose way of writing calls is
	// not known gets none, with the warning CodeDelegationUnavailable.
	Model bool
	// Specialist, when not nil, is whom the user's last message delegates to, as if it carried that instruction.
	Specialist *delegation.Delegate
	// Instructions are those that messages carry, by the message's index.
	Instructions map[int][]delegation.Instruction
	// Work says what becomes of a specialist's work when it returns.
	Work Work
}

// Work says what the main agent gets of a specialist's work.
type Work string

// The ways. The zero value is WorkKeep.
const (
	// WorkKeep: all that the specialist wrote.
	WorkKeep Work = "keep"
	// WorkSquash: one message that the specialist makes of it.
	WorkSquash Work = "squash"
	// WorkDelete: nothing. Messages of earlier turns that are marked as intermediate are left out, too.
	WorkDelete Work = "delete"
)

// instructions are those of the messages and that of the request, which the user's last message carries, or where
// there is none the last.
func (q *Request) instructions() map[int][]delegation.Instruction {
	if q.Delegation.Specialist == nil {
		return q.Delegation.Instructions
	}
	of := maps.Clone(q.Delegation.Instructions)
	if of == nil {
		of = map[int][]delegation.Instruction{}
	}
	last := lastUser(q.Messages)
	if last < 0 {
		last = len(q.Messages) - 1
	}
	of[last] = append(slices.Clone(of[last]), *q.Delegation.Specialist)
	return of
}

// delegates reports whether the run may come to several turns.
func (q *Request) delegates() bool {
	return !q.isRaw() && (q.Delegation.Model || q.Delegation.Specialist != nil || len(q.Delegation.Instructions) > 0)
}

// Warnings of runs that delegate.
const (
	// CodeDelegationUnavailable: the model cannot delegate by itself.
	CodeDelegationUnavailable = "delegation_unavailable"
	// CodeDelegationRefused: the model's call to delegate or to return was refused, and told why.
	CodeDelegationRefused = "delegation_refused"
	// CodeDelegationLimit: the steps were used up, so that the original prompt is back.
	CodeDelegationLimit = "delegation_limit"
	// CodeDelegationNotSquashed: no message could be made of the specialist's work, so that all of it was kept.
	CodeDelegationNotSquashed = "delegation_not_squashed"
	// CodeCallIgnored: the turn called a function to delegate beside others, which come first.
	CodeCallIgnored = "delegation_call_ignored"
)

// What was done with a specialist's work, as events of kind Curated say.
const (
	curatedSquashed = "delegation-squashed"
	curatedDeleted  = "delegation-deleted"
)

// validateDelegation reports what of a request's delegation cannot be honoured.
func validateDelegation(req *Request) error {
	bad := func(format string, args ...any) error {
		return &RequestError{Field: "Delegation", Err: fmt.Errorf(format, args...)}
	}
	switch req.Delegation.Work {
	case "", WorkKeep, WorkSquash, WorkDelete:
	default:
		return &RequestError{Field: "Delegation", Err: fmt.Errorf("%q is no way with a specialist's work",
			req.Delegation.Work), Advice: "use keep, squash or delete"}
	}
	for i := range req.Delegation.Instructions {
		if i < 0 || i >= len(req.Messages) {
			return bad("there is no message %d", i)
		}
	}
	for _, t := range req.Tools {
		if delegation.IsTool(t.Name) {
			return &RequestError{Field: "Tools", Err: fmt.Errorf("%s is a function of the runner's where the model may delegate",
				t.Name), Advice: "rename the tool, or leave delegation out"}
		}
	}
	if _, at, err := delegation.Replay(req.Messages, req.instructions()); err != nil {
		return &RequestError{Field: "Delegation", Err: fmt.Errorf("message %d: %w", at, err), Advice: hint(err)}
	}
	return nil
}

// canCall reports whether the model's calls can be read.
func (r *Runner) canCall() bool {
	f := r.template.Format()
	return f.Family == chattemplate.Harmony || f.Tools && f.Calls != nil
}
