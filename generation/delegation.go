package generation

import (
	"maps"
	"slices"

	"runner/chattemplate"
	"runner/generation/delegation"
)

// Delegation says who may hand the reasoning to a specialist; see package delegation. The zero value allows nobody.
//
// A run that delegates consists of several turns of the model in one stream of events. The specialist's turns use its
// prompt. The last turn uses the original prompt and answers. What the specialist writes counts as reasoning, so the
// visibility governs it. If the instruction says that it is shown, it counts as preamble instead. The run's limits
// apply to all its turns together. Its usage is the sum over its turns, so a prompt counts each time that it is read.
//
// If a specialist calls a tool of the request, the run ends in that call, as any other run does. When the results
// arrive, the specialist continues. The instructions in the messages say how. If the model delegated, there are no
// such instructions, and the runner must remember the delegation (runner.Config.CallMemory). A delegation that is not
// remembered continues under the original prompt.
type Delegation struct {
	// Model gives the model the functions with which it can delegate. If it is not known how the model writes calls, it
	// gets none, and the run warns with CodeDelegationUnavailable.
	Model bool `json:"model,omitempty"`
	// Specialist, when not nil, hands the user's last message to a specialist, as if the message carried that
	// instruction.
	Specialist *delegation.Delegate `json:"specialist,omitempty"`
	// Instructions are the instructions that messages carry, by the index of the message.
	Instructions map[int][]delegation.Instruction `json:"-"`
	// Work says what happens to a specialist's work when it returns.
	Work Work `json:"work,omitempty"`
}

// Work says how much of a specialist's work the main agent gets.
type Work string

// The values of Work. The zero value means WorkKeep.
const (
	// WorkKeep: everything that the specialist wrote.
	WorkKeep Work = "keep"
	// WorkSquash: one message, in which the specialist sums up its work.
	WorkSquash Work = "squash"
	// WorkDelete: nothing. Messages of earlier turns that are marked as intermediate are left out too.
	WorkDelete Work = "delete"
)

// Instructions returns the instructions of the messages, together with the request's own. That one belongs to the
// user's last message, or to the last message if the user has none.
func (q *Request) Instructions() map[int][]delegation.Instruction {
	if q.Delegation.Specialist == nil {
		return q.Delegation.Instructions
	}
	of := maps.Clone(q.Delegation.Instructions)
	if of == nil {
		of = map[int][]delegation.Instruction{}
	}
	last := LastUser(q.Messages)
	if last < 0 {
		last = len(q.Messages) - 1
	}
	of[last] = append(slices.Clone(of[last]), *q.Delegation.Specialist)
	return of
}

// Delegates reports whether the run may have several turns.
func (q *Request) Delegates() bool {
	return !q.IsRaw() && (q.Delegation.Model || q.Delegation.Specialist != nil || len(q.Delegation.Instructions) > 0)
}

// LastUser returns the index of the user's last message, or -1.
func LastUser(messages []chattemplate.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chattemplate.User {
			return i
		}
	}
	return -1
}
