package hold

import (
	"slices"

	"runner/backend"
	"runner/grammar"
)

// Call is the form of a call that a model writes in its text.
type Call interface {
	// Allows reports whether t may come next.
	Allows(t backend.Token) bool
	// Accept advances by t and reports whether it was allowed.
	Accept(t backend.Token) bool
	// Add sets the bits of all tokens that may come next.
	Add(m backend.Mask)
	// Forced appends the tokens that must come next because nothing else can.
	Forced(dst []backend.Token) []backend.Token
	// Prepare works as that of Hold.
	Prepare(work int) (used int, ready bool, err error)
	// Clone returns an independent copy in the same state.
	Clone() Call
}

// Form makes text match the form of an answer or of a call. While the text can still become either, it follows both.
// Before the form's first token, reasoning may open or a line break may come.
type Form struct {
	// Answer is the form of an answer, or of the arguments of a call that is its own message. Call is the form of a call
	// in text. Either may be nil.
	Answer *grammar.Matcher
	Call   Call
	// Arguments is what Answer was compiled from if that is the arguments of a call that must match a schema. Engines that
	// can follow such a form get it.
	Arguments grammar.Source
	// Ends are the tokens that end the text, the usual one first. They are allowed if the answer is complete.
	Ends []backend.Token
	// MayEnd also allows them before the first token.
	MayEnd bool
	// Before has the texts that open reasoning before the form; nil allows none. MustOpen requires one of them.
	Before   *grammar.Choice
	MustOpen bool
	// Lines are tokens of line breaks. One of them may come first.
	Lines []backend.Token
	// Begun says that a token of the form has come.
	Begun bool

	opening bool // in the middle of Before
	// spare is memory for the Answer of a copy.
	spare *grammar.Matcher
}

// Begin makes the form ready for its first token.
func (f *Form) Begin() {
	if f.Before != nil {
		f.Before.Reset()
	}
	f.opening = f.Before != nil && f.MustOpen
}

// Whole reports whether the next token begins the form of an answer, and nothing else may come before or instead.
func (f *Form) Whole() bool {
	return !f.Begun && !f.opening && f.Answer != nil && f.Call == nil && f.Before == nil && !f.MayEnd
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

// Copy implements Hold. There is no looking ahead before the form's first token.
func (f *Form) Copy(to Hold) Hold {
	if f.opening || !f.Begun {
		return nil
	}
	c, ok := to.(*Form)
	if !ok {
		c = new(Form)
	}
	spare := c.spare
	*c = *f
	if c.spare = spare; f.Answer != nil {
		if c.spare == nil {
			c.spare = new(grammar.Matcher)
		}
		*c.spare = *f.Answer
		c.Answer = c.spare
	}
	if f.Call != nil {
		c.Call = f.Call.Clone()
	}
	return c
}

// CallError is an error from the form of a call in text.
type CallError struct{ Err error }

func (e *CallError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// Answers reports whether the text is certainly an answer and not a call.
func (f *Form) Answers() bool { return !f.opening && f.Begun && f.Answer != nil && f.Call == nil }

// takes reports whether all of the tokens may come next, in this order.
func (f *Form) takes(tokens []backend.Token) bool {
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

// advance moves the matchers on by a token and drops the one that cannot go on. If neither can, it changes nothing and
// returns false.
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
