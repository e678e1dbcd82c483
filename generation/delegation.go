package generation

import (
	"maps"
	"slices"

	"runner/chattemplate"
	"runner/generation/delegation"
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
// the model who delegated, as the runner remembers (runner.Config.CallMemory). What is not remembered goes on under the
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

// Instructions are those of the messages and that of the request, which the user's last message carries, or where
// there is none the last.
func (q *Request) Instructions() map[int][]delegation.Instruction {
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

// Delegates reports whether the run may come to several turns.
func (q *Request) Delegates() bool {
	return !q.IsRaw() && (q.Delegation.Model || q.Delegation.Specialist != nil || len(q.Delegation.Instructions) > 0)
}

// lastUser is the index of the user's last message, or -1.
func lastUser(messages []chattemplate.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chattemplate.User {
			return i
		}
	}
	return -1
}
