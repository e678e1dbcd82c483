package tags

import (
	"context"
	"errors"
	"slices"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/grammar"
	"runner/reasoning"
)

// turn is one turn of text.
type turn struct {
	*Reader
	f   *Family
	cfg family.TurnConfig

	// answer is the form of the answer, nil where it is free.
	answer *grammar.Grammar
	// calls hold calls to their form; nil where they are free. later takes their place when report_reasoning has been
	// called. must says that the turn is nothing but calls, and made that it has had one.
	calls, later *textCalls
	must, made   bool
	// owed says that the turn may not end outside of an answer or a call. ignored says that strict tools are not held
	// to anything.
	owed, ignored bool
	// opening is the way into reasoning before the answer; nil where there is none. marked says that it has to be taken.
	opening *grammar.Choice
	marked  bool
	// ends end the turn, and lines are what may stand after a tag.
	ends, lines []backend.Token

	text   *hold.Text
	form   hold.Form
	place  reader.Place
	hold   hold.Hold
	forced []backend.Token
	// call follows the call that the reader has just seen the beginning of.
	call hold.Call
}

// Turn compiles what a turn is held to.
func (f *Family) Turn(ctx context.Context, cfg family.TurnConfig) (family.Turn, error) {
	t := &turn{f: f, cfg: cfg, text: hold.NewText(f.cfg.Vocab)}
	var err error
	if !cfg.Form.IsZero() {
		if t.answer, err = cfg.Grammars.Compile(ctx, cfg.Form); err != nil {
			return nil, family.Refuse("Form", err)
		}
	}
	t.owed = t.answer != nil || cfg.MustCall
	t.ends, t.lines = hold.Ends(f.cfg.Vocab), hold.LineBreaks(f.cfg.Tokenize)
	if err := t.holdCalls(ctx); err != nil {
		return nil, err
	}
	switch {
	case !t.owed:
	case cfg.Markers:
		t.marked = true
		t.text.EndsWith(Markers.Close)
		return t, t.opensWith(Markers.Open, Markers.Open+"\n")
	case cfg.Native && f.format.Open != "":
		t.text.EndsWith(f.format.Close)
		if cfg.Effort != reasoning.EffortNone {
			return t, t.opensWith(f.format.Open)
		}
	}
	return t, nil
}

// opensWith lets the model begin to reason before its answer, with one of several spellings of a tag.
func (t *turn) opensWith(spellings ...string) error {
	tokens, err := hold.Spellings(t.f.cfg.Vocab, t.f.cfg.Tokenize, spellings...)
	if err != nil {
		return err
	}
	t.opening, err = grammar.NewChoice(tokens...)
	return err
}

// holdCalls prepares for calls in text. Without a known way of writing them nothing can be held to anything.
func (t *turn) holdCalls(ctx context.Context) error {
	cfg := &t.cfg
	strict := slices.ContainsFunc(cfg.Tools, func(t chattemplate.Tool) bool { return t.Strict })
	if t.f.format.Calls == nil {
		t.ignored = strict
		return t.refuseCalls()
	}
	holds := cfg.MustCall || strict || cfg.SingleCall || t.answer != nil || cfg.Report != nil
	var err error
	if len(cfg.Tools) > 0 && !cfg.NoCalls && holds {
		tools := slices.Clone(cfg.Tools)
		if cfg.Admits != nil {
			tools = slices.DeleteFunc(tools, func(tool chattemplate.Tool) bool { return !cfg.Admits(tool.Name) })
		}
		t.must = cfg.MustCall
		if t.calls, err = t.f.newTextCalls(ctx, cfg.Grammars, tools, cfg.SingleCall); err != nil {
			return err
		}
	}
	if cfg.Report != nil {
		t.later, t.owed, t.must = t.calls, true, true
		t.calls, err = t.f.newTextCalls(ctx, cfg.Grammars, []chattemplate.Tool{*cfg.Report}, true)
	}
	return err
}

// refuseCalls refuses what a model whose calls cannot be held cannot be held to.
func (t *turn) refuseCalls() error {
	unknown := errors.New("how this model writes calls is not known, so it cannot be held to one")
	switch {
	case t.cfg.MustCall:
		return &family.RefusedError{Field: "ToolChoice", Err: unknown, Advice: "use auto"}
	case t.cfg.SingleCall:
		return &family.RefusedError{Field: "SingleCall", Err: unknown, Advice: "leave it out"}
	case t.cfg.Report != nil && t.answer != nil:
		return &family.RefusedError{Field: "Strategy", Err: errors.New("how this model writes calls is not known, so it " +
			"cannot report its reasoning by one and be held to a form"),
			Advice: "use auto, json or markers"}
	}
	return nil
}

// Ignored reports whether strict tools are not held to their parameters.
func (t *turn) Ignored() bool { return t.ignored }

// Warm works out the first masks of the forms.
func (t *turn) Warm(ctx context.Context) {
	var forms []*grammar.Grammar
	if t.answer != nil {
		forms = append(forms, t.answer)
	}
	if t.calls != nil {
		forms = append(forms, t.calls.whole, t.calls.after)
	}
	hold.Warm(ctx, forms)
}

// Open completes a prompt. Calls are written in the text of answers, so that skipping leads there.
func (t *turn) Open(p *chattemplate.Prompt, skip bool) error {
	if skip && p.Start != chattemplate.StartAnswer {
		p.Tokens = append(p.Tokens, t.f.OpenAnswer(p.Start)...)
		p.Start = chattemplate.StartAnswer
	}
	return nil
}

// Begin starts to read.
func (t *turn) Begin(cfg reader.Config) error {
	tools := t.cfg.Tools
	if t.cfg.NoCalls {
		tools = nil // what is not shown is not called
	}
	cfg.Tools = make([]string, len(tools))
	for i, tool := range tools {
		cfg.Tools[i] = tool.Name
	}
	if t.calls != nil {
		cfg.Opens = t.opens
	}
	if t.f.format.Calls != nil {
		cfg.StringParam = func(function, parameter string) bool { return stringParam(tools, function, parameter) }
	}
	var err error
	if t.Reader, err = t.f.newReader(cfg); err != nil {
		return err
	}
	st := t.State()
	t.enter(&st)
	return nil
}

// opens is asked by the reader when a call begins in an answer, with what came after its mark, or with all of it
// where there is no mark. Where the answer may be a call from its beginning on, a matcher has followed it and
// knows. Where calls may come anywhere, one starts now.
func (t *turn) opens(text string) bool {
	switch {
	case t.place == reader.PlaceCall:
		return false // a second call in one token
	case t.hold == &t.form:
		t.call = t.form.Call
		return t.call != nil
	case t.calls == nil:
		return false // the call of report_reasoning was the only one
	}
	m := t.calls.after.Matcher()
	if text != "" && !m.AcceptText(text) {
		return false
	}
	t.call = &callMatcher{t.calls, m}
	return true
}

// Push takes a token of the model.
func (t *turn) Push(tok backend.Token) { t.PushOutput(tok, nil) }

// PushOutput takes a token of the model.
func (t *turn) PushOutput(tok backend.Token, out *backend.Output) {
	if t.hold != nil {
		t.hold.Accept(tok)
	}
	if t.place == reader.PlaceAnswer && t.hold == &t.form && t.form.Answers() {
		t.BeginAnswer()
	}
	t.Reader.PushOutput(tok, out)
	t.moveOn()
}

// Force takes a token that the caller puts into the turn.
func (t *turn) Force(tok backend.Token) {
	t.Reader.Push(tok)
	t.moveOn()
}

// moveOn goes to where the reader stands.
func (t *turn) moveOn() {
	if st := t.State(); st.Place != t.place {
		t.enter(&st)
	}
}

// enter chooses what may come at a new place.
func (t *turn) enter(st *reader.State) {
	from := t.place
	t.place, t.hold = st.Place, nil
	switch st.Place {
	case reader.PlaceReasoning:
		if t.owed {
			t.text.Begin(true)
			t.hold = t.text
		}
		if t.marked {
			t.opening = nil // once is enough
		}
	case reader.PlaceCall:
		if t.call != nil {
			t.form, t.made = hold.Form{Call: t.call, Ends: t.ends, Begun: true}, true
			t.hold, t.call = &t.form, nil
		}
	case reader.PlaceAnswer:
		t.enterAnswer(from)
	}
}

// enterAnswer chooses what may come where an answer begins, or goes on after a call.
func (t *turn) enterAnswer(from reader.Place) {
	t.call = nil
	goesOn := from == reader.PlaceReasoning || from == reader.PlaceCall
	single := t.calls != nil && t.calls.form.single
	held := t.answer != nil || t.calls != nil && (t.must || t.made && single)
	t.form = hold.Form{Ends: t.ends}
	if !goesOn && t.opening != nil {
		t.form.Before, t.form.MustOpen = t.opening, t.marked
		if t.marked {
			t.hold = &t.form
			t.form.Begin()
			return
		}
	}
	if !held {
		return
	}
	if goesOn {
		t.form.Lines = t.lines
	}
	t.hold = &t.form
	t.form.MayEnd = t.calls != nil && t.made
	switch {
	case t.form.MayEnd && single:
	case t.calls != nil:
		t.form.Call = &callMatcher{t.calls, t.calls.whole.Matcher()}
		fallthrough
	default:
		if t.answer != nil && !t.form.MayEnd && !(t.calls != nil && t.must) {
			t.form.Answer = t.answer.Matcher()
		}
	}
	t.form.Begin()
}

// Hold returns what may come next.
func (t *turn) Hold() hold.Hold { return t.hold }

// Forced returns the tokens that must come next.
func (t *turn) Forced() []backend.Token {
	t.forced = t.forced[:0]
	if t.hold != nil {
		t.forced = t.hold.Forced(t.forced)
	}
	return t.forced
}

// Follow returns nothing: a turn is one text.
func (t *turn) Follow() []backend.Token { return nil }

// EndReasoning closes the reasoning. The answer, or a call, follows at once.
func (t *turn) EndReasoning() (end, open []backend.Token, err error) {
	return t.f.OpenAnswer(chattemplate.StartReasoning), nil, nil
}

// EndObject ends the reasoning in an object.
func (t *turn) EndObject() ([]backend.Token, bool) {
	return hold.EndObject(t.Reader, t.hold, t.f.cfg.Tokenize)
}

// Resume goes on after a call of report_reasoning.
func (t *turn) Resume(*chattemplate.Prompt) error {
	if t.cfg.Report != nil && t.f.format.Calls != nil {
		t.calls, t.later, t.made = t.later, nil, false
		t.must = t.cfg.MustCall
		st := t.State()
		t.place = reader.PlaceNone
		t.enter(&st)
	}
	return nil
}
