package delegation

import (
	"slices"

	"runner/chattemplate"
)

// MaxSteps is the most steps of a run that delegates: times that the model is asked to go on, by whoever's prompt.
// The last one is the main prompt's, so that there is an answer.
const MaxSteps = 50

// State says whose prompt is active. The zero value is a conversation under its own prompt. It may be used by one
// goroutine at a time.
type State struct {
	active *Delegate
	steps  int
}

// Active returns the delegation under way, if there is one.
func (s *State) Active() (Delegate, bool) {
	if s.active == nil {
		return Delegate{}, false
	}
	return *s.active, true
}

// Apply follows an instruction. An instruction that cannot be followed is an *Error and changes nothing: a
// delegation inside of another, a return from none, a prompt that is none.
func (s *State) Apply(in Instruction) error {
	switch in := in.(type) {
	case Delegate:
		if err := in.Check(); err != nil {
			return err
		}
		if s.active != nil {
			return &Error{Code: CodeNested, what: "a specialist is active already, and delegations do not nest",
				hint: "call return_control first"}
		}
		s.active = &in
	case Return:
		if s.active == nil {
			return &Error{Code: CodeIdle, what: "no specialist is active, so there is nothing to return from",
				hint: "answer the user"}
		}
		s.Restore()
	}
	return nil
}

// Step counts a step that is about to begin, and reports whether it is the last: then the original prompt is back,
// and there is no more delegating.
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

// Restore brings the original prompt back, whatever has happened.
func (s *State) Restore() { s.active = nil }

// Replay returns the state that a conversation has come to: instructions holds those of its messages, by index. A
// delegation lasts until a message returns control or the assistant answers with a message that is neither marked
// as intermediate nor waits for calls. A return from nothing is ignored, as it is in conversations whose messages
// were deleted. An *Error comes with the index of its message.
func Replay(messages []chattemplate.Message, instructions map[int][]Instruction) (s State, at int, err error) {
	for i, m := range messages {
		of := instructions[i]
		if m.Role == chattemplate.Assistant && len(m.ToolCalls) == 0 && !slices.Contains(of, Instruction(Intermediate{})) {
			s.Restore()
		}
		for _, in := range of {
			if _, back := in.(Return); back && s.active == nil {
				continue
			}
			if err := s.Apply(in); err != nil {
				return s, i, err
			}
		}
	}
	return s, 0, nil
}
