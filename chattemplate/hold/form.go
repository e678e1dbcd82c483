package hold

import (
	"slices"

	"runner/backend"
	"runner/grammar"
)

// Call follows a call that a model writes in its text.
type Call interface {
	Allows(t backend.Token) bool
	// Accept moves on by t and reports whether it was allowed.
	Accept(t backend.Token) bool
	// Add sets the bits of what may come next.
	Add(m backend.Mask)
	Forced(dst []backend.Token) []backend.Token
	Prepare(work int) (used int, ready bool, err error)
	Clone() Call
}

// Form holds text to what was asked for: the form of an answer, that of a call, or either while the text may still turn
// out to be one or the other. Before its first token, reasoning may be opened or line breaks may come.
type Form struct {
	// Answer follows an answer, or the arguments of a call that is a message of its own. Call follows a call in text.
	// Either may be nil.
	Answer *grammar.Matcher
	Call   Call
	// Ends are the tokens that end the text, the usual one first. They are allowed where the answer is complete.
	Ends []backend.Token
	// MayEnd allows them before the first token, too.
	MayEnd bool
	// Before is a way into reasoning that may come first, and MustOpen says that it has to. Nil is none.
	Before   *grammar.Choice
	MustOpen bool
	// Lines are tokens of line breaks of which one may come first.
	Lines []backend.Token
	// Begun says that a token of the form has come.
	Begun bool

	opening bool // in the middle of Before
}

// Begin makes the form ready for its first token.
func (f *Form) Begin() {
	if f.Before != nil {
		f.Before.Reset()
	}
	f.opening = f.Before != nil && f.MustOpen
}

// Allows implements backend.Constraint.
func (f *Form) Allows(t backend.Token) bool {
	if f.opening {
		return f.Before.Allows(t)
	}
	return f.Answer != nil && f.Answer.Allows(t) || f.Call != nil && f.Call.Allows(t) ||
		f.complete() && slices.Contains(f.Ends, t) || !f.Begun && f.mayEscape(t)
}

// Fill implements backend.Constraint.
func (f *Form) Fill(m backend.Mask) {
	if f.opening {
		f.Before.Fill(m)
		return
	}
	if m.Clear(); f.Answer != nil {
		f.Answer.Fill(m)
	}
	if f.Call != nil {
		f.Call.Add(m)
	}
	if f.complete() {
		set(m, f.Ends)
	}
	if f.Begun {
		return
	}
	if f.Before != nil {
		f.Before.Add(m)
	}
	set(m, f.Lines)
}

func set(m backend.Mask, tokens []backend.Token) {
	for _, t := range tokens {
		m.Set(t)
	}
}

// Accept implements Hold.
func (f *Form) Accept(t backend.Token) {
	switch {
	case f.opening:
		f.Before.Accept(t)
	case f.advance(t):
		f.Begun = true
	case f.Begun:
	case f.Before != nil && f.Before.Accept(t):
		f.opening = true
	default:
		f.Lines = nil
	}
}

// Forced implements Hold.
func (f *Form) Forced(dst []backend.Token) []backend.Token {
	switch {
	case f.opening, f.Answer != nil && f.Call != nil:
	case f.Answer == nil && f.Call == nil:
		if f.MayEnd {
			dst = append(dst, f.Ends[:min(1, len(f.Ends))]...)
		}
	case !f.Begun:
	case f.Call != nil:
		dst = f.Call.Forced(dst)
	default:
		n := len(dst)
		dst = f.Answer.Forced(dst)
		if len(dst) == n && f.Answer.Over() && len(f.Ends) > 0 {
			dst = append(dst, f.Ends[0])
		}
	}
	return dst
}

// Prepare implements Hold.
func (f *Form) Prepare(work int) (used int, ready bool, err error) {
	if ready = true; f.opening {
		return 0, true, nil
	}
	if f.Answer != nil {
		if used, ready, err = f.Answer.Prepare(max(1, work)); err != nil {
			return used, false, err
		}
	}
	if f.Call != nil {
		n, known, err := f.Call.Prepare(max(1, work-used))
		if used += n; err != nil {
			return used, false, &CallError{err}
		}
		ready = ready && known
	}
	return used, ready, nil
}

// CallError is an error of the form of a call in text.
type CallError struct{ Err error }

func (e *CallError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// Answers reports whether the text is certain to be the answer's.
func (f *Form) Answers() bool { return !f.opening && f.Begun && f.Answer != nil && f.Call == nil }

// Takes reports whether tokens can all come next, one after the other.
func (f *Form) Takes(tokens []backend.Token) bool {
	var accept func(backend.Token) bool
	switch {
	case f.opening:
		return false
	case f.Answer != nil:
		accept = f.Answer.Clone().Accept
	case f.Call != nil:
		accept = f.Call.Clone().Accept
	default:
		return false
	}
	for _, t := range tokens {
		if !accept(t) {
			return false
		}
	}
	return true
}

// complete reports whether the text may end here.
func (f *Form) complete() bool { return f.MayEnd && !f.Begun || f.Answer != nil && f.Answer.Done() }

// mayEscape reports whether t may come before the form.
func (f *Form) mayEscape(t backend.Token) bool {
	return f.Before != nil && f.Before.Allows(t) || slices.Contains(f.Lines, t)
}

// advance moves the matchers on by a token and drops the one that cannot go on. It reports false, and changes nothing,
// if neither can.
func (f *Form) advance(t backend.Token) bool {
	answer := f.Answer != nil && f.Answer.Accept(t)
	call := f.Call != nil && f.Call.Accept(t)
	if !answer && !call {
		return false
	}
	if !answer {
		f.Answer = nil
	}
	if !call {
		f.Call = nil
	}
	return true
}
