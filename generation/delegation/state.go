package delegation

import (
	"slices"

	"runner/chattemplate"
)

// MaxSteps is the maximum number of steps in a run that delegates. A step is one generation by the model, under any
// prompt. The last step uses the main prompt, so that there is an answer.
const MaxSteps = 50

// State says whose prompt is active. The zero value is a conversation under its own prompt. It is for one goroutine at
// a time.
type State struct {
	active *Delegate
	steps  int
}

// Active returns the current delegation, if there is one.
func (s *State) Active() (Delegate, bool) {
	if s.active == nil {
		return Delegate{}, false
	}
	return *s.active, true
}

// Apply follows an instruction. It returns an *Error and changes nothing for a delegation inside another, a return
// without a specialist, or an invalid prompt.
func (s *State) Apply(in Instruction) error {
	switch in := in.(type) {
	case Delegate:
		if err := in.Check(); err != nil {
			return err
		}
		if s.active != nil {
			return &Error{Code: CodeNested, what: "a specialist is active already, and delegations do not nest",
				Advice: "call return_control first"}
		}
		s.active = &in
	case Return:
		if s.active == nil {
			return &Error{Code: CodeIdle, what: "no specialist is active, so there is nothing to return from",
				Advice: "answer the user"}
		}
		s.Restore()
	}
	return nil
}

// Step counts a step that is about to begin and reports whether it is the last. Before the last step it restores the
// original prompt; there must be no more delegation.
func (s *State) Step() (last bool) {
	s.steps++
	if s.steps < MaxSteps {
		return false
	}
	s.Restore()
	return true
}

// Steps returns how many steps have begun.
func (s *State) Steps() int { return s.steps }

// Restore makes the original prompt active.
func (s *State) Restore() { s.active = nil }

// Replay returns the state at the end of a conversation. instructions holds the instructions of its messages, by index.
// A delegation lasts until a message returns control, or until the assistant answers with a message that has no calls
// and is not marked as intermediate. A return without a specialist is ignored, because messages may have been deleted.
// If there is an *Error, at is the index of its message and n that of the instruction in the message.
func Replay(messages []chattemplate.Message, instructions map[int][]Instruction) (s State, at, n int, err error) {
	for i, m := range messages {
		of := instructions[i]
		if m.Role == chattemplate.Assistant && len(m.ToolCalls) == 0 && !slices.Contains(of, Instruction(Intermediate{})) {
			s.Restore()
		}
		for n, in := range of {
			if _, back := in.(Return); back && s.active == nil {
				continue
			}
			if err := s.Apply(in); err != nil {
				return s, i, n, err
			}
		}
	}
	return s, 0, 0, nil
}
