package tags

import (
	"context"
	"errors"
	"slices"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/chattemplate/hold"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/grammar"
	"runner/reasoning"
)

// turn is one turn of text.
type turn struct {
	family.Progress
	f   *Family
	cfg family.TurnConfig

	// answer is the form of the answer; nil allows any answer.
	answer *grammar.Grammar
	// calls has the forms of calls; nil allows any call. later takes its place after the call of report_reasoning.
	calls, later *textCalls
	owed         hold.Owed
	// ignored says that strict tools are not enforced.
	ignored bool
	// opening has the tags that open reasoning before the answer; nil allows none. marked says that one must come.
	opening *grammar.Choice
	marked  bool
	// thinks says that the model was made to reason and must write the tag that opens its reasoning itself.
	thinks bool
	// ends end the turn, and lines may come after a tag.
	ends, lines []backend.Token

	text *hold.Text
	// call follows the call that the reader has just found.
	call hold.Call
}

// Turn implements family.Family.
func (f *Family) Turn(ctx context.Context, cfg family.TurnConfig) (family.Turn, error) {
	t := &turn{f: f, cfg: cfg, owed: cfg.Owed(), text: hold.NewText(f.cfg.Vocab)}
	var err error
	if !cfg.Form.IsZero() {
		if t.answer, err = cfg.Grammars.Compile(ctx, cfg.Form); err != nil {
			return nil, family.Refuse("Form", err)
		}
	}
	t.ends, t.lines = hold.Ends(f.cfg.Vocab), hold.LineBreaks(f.cfg.Tokenize)
	if err := t.holdCalls(ctx); err != nil {
		return nil, err
	}
	switch {
	case !t.owed.Any():
	case cfg.Markers:
		t.marked = true
		t.text.EndsWith(markup.Markers.Close)
		return t, t.opensWith(markup.Markers.Open, markup.Markers.Open+"\n")
	case cfg.Native && f.format.Open != "":
		if _, ok := f.cfg.Vocab.Special(f.format.Close); !ok {
			t.text.EndsWith(f.format.Close)
		}
		if cfg.Effort != reasoning.EffortNone {
			return t, t.opensWith(f.format.Open)
		}
	}
	return t, nil
}

// opensWith allows reasoning before the answer. It opens with one of several spellings of a tag.
func (t *turn) opensWith(spellings ...string) error {
	tokens, err := hold.Spellings(t.f.cfg.Vocab, t.f.cfg.Tokenize, spellings...)
	if err != nil {
		return err
	}
	t.opening, err = grammar.NewChoice(tokens...)
	return err
}

// holdCalls compiles the forms of calls in text. If the model's style of calls is unknown, no call can be enforced.
func (t *turn) holdCalls(ctx context.Context) error {
	cfg := &t.cfg
	strict := slices.ContainsFunc(cfg.Tools, func(t chattemplate.Tool) bool { return t.Strict })
	if t.f.format.Calls == nil {
		t.ignored, t.owed.Report = strict, false
		return t.refuseCalls()
	}
	holds := t.owed.Any() || strict || cfg.SingleCall
	var err error
	if t.owed.Offered && holds {
		if t.calls, err = t.f.newTextCalls(ctx, cfg.Grammars, cfg.Callable(), cfg.SingleCall); err != nil {
			return err
		}
	}
	if t.owed.Reports() {
		t.later = t.calls
		t.calls, err = t.f.newTextCalls(ctx, cfg.Grammars, []chattemplate.Tool{*cfg.Report}, true)
	}
	return err
}

// refuseCalls refuses requests that depend on the form of calls, for a model whose style of calls is unknown.
func (t *turn) refuseCalls() error {
	unknown := errors.New("the way this model writes calls is unknown, so its calls cannot be constrained")
	switch {
	case t.cfg.MustCall:
		return &family.RefusedError{Field: "ToolChoice", Err: unknown, Advice: "use auto"}
	case t.cfg.SingleCall:
		return &family.RefusedError{Field: "SingleCall", Err: unknown, Advice: "leave it out"}
	case t.cfg.Report != nil && t.answer != nil:
		return &family.RefusedError{Field: "Strategy", Err: errors.New("the way this model writes calls is unknown, so it " +
			"cannot both report its reasoning by a call and answer in a form"),
			Advice: "use auto, json or markers"}
	}
	return nil
}

// Ignored implements family.Turn.
func (t *turn) Ignored() bool { return t.ignored }

// Forms implements family.Turn.
func (t *turn) Forms() []*grammar.Grammar {
	var forms []*grammar.Grammar
	if t.answer != nil {
		forms = append(forms, t.answer)
	}
	if t.calls != nil {
		forms = append(forms, t.calls.whole, t.calls.after)
	}
	return forms
}

// Open implements family.Turn. Calls are in the text of answers, so skipping leads there. If the template makes the
// model reason but leaves the mark that opens the reasoning to it, the mark is added: what the model writes without the
// mark would be taken for the answer.
func (t *turn) Open(p *chattemplate.Prompt, skip bool) error {
	switch {
	case skip && p.Start != chattemplate.StartAnswer:
		p.Tokens = append(p.Tokens, t.f.OpenAnswer(p.Start)...)
		p.Start = chattemplate.StartAnswer
	case skip || p.Start != chattemplate.StartTurn || p.Continues || !t.cfg.Native || !t.f.thinks(&t.cfg):
	case t.cfg.Loose:
		t.thinks = true
	default:
		p.Tokens = append(p.Tokens, t.f.openReasoning...)
		p.Start = chattemplate.StartReasoning
	}
	return nil
}

// Begin implements family.Turn.
func (t *turn) Begin(cfg reader.Config) error {
	tools := t.cfg.Tools
	if t.cfg.NoCalls {
		tools = nil // the model is not shown any tools
	}
	cfg.Tools = make([]string, len(tools))
	for i, tool := range tools {
		cfg.Tools[i] = tool.Name
	}
	if t.calls != nil {
		cfg.Opens = t.opens
	}
	cfg.Held, cfg.Thinks = t.owed.Any(), t.thinks && !t.owed.Any()
	if t.f.format.Calls != nil {
		cfg.StringParam = func(function, parameter string) bool { return stringParam(tools, function, parameter) }
	}
	r, err := t.f.newReader(cfg)
	if err != nil {
		return err
	}
	t.Reader, t.Moved = r, func(st reader.State, _ backend.Token) { t.enter(&st) }
	st := t.State()
	t.enter(&st)
	return nil
}

// opens is the reader's question whether a call begins in an answer, see reader.Config.Opens. If the answer may be a
// call from its beginning, the matcher that follows it knows. If calls may come anywhere, a matcher starts here.
func (t *turn) opens(text string) bool {
	switch {
	case t.Place == reader.PlaceCall:
		return false // a second call in one token
	case t.Form() != nil:
		t.call = t.Form().Call
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

// enter chooses the constraint at a new place.
func (t *turn) enter(st *reader.State) {
	from := t.Place
	t.Place = st.Place
	t.Enforce(nil)
	switch st.Place {
	case reader.PlaceReasoning:
		if t.owed.Any() {
			t.text.Begin(true)
			t.Enforce(t.text)
		}
		if t.marked {
			t.opening = nil // once is enough
		}
	case reader.PlaceCall:
		if t.call != nil {
			t.EnforceForm(hold.Form{Call: t.call, Ends: t.ends, Begun: true})
			t.call = nil
			t.owed.Made()
		}
	case reader.PlaceAnswer:
		t.enterAnswer(from)
	}
}

// enterAnswer chooses the constraint where an answer begins, or goes on after reasoning or a call.
func (t *turn) enterAnswer(from reader.Place) {
	t.call = nil
	goesOn := from == reader.PlaceReasoning || from == reader.PlaceCall
	f := hold.Form{Ends: t.ends}
	if !goesOn && t.opening != nil {
		f.Before, f.MustOpen = t.opening, t.marked
	}
	switch {
	case f.MustOpen:
		t.EnforceForm(f)
		return
	case t.owed.Free():
		return
	case goesOn:
		f.Lines = t.lines
	}
	f.MayEnd = t.owed.MayEnd()
	if t.calls != nil && t.owed.MayCall() {
		f.Call = &callMatcher{t.calls, t.calls.whole.Matcher()}
	}
	if t.answer != nil && t.owed.MayAnswer() {
		f.Answer = t.answer.Matcher()
	}
	t.EnforceForm(f)
}

// Follow implements family.Turn. A turn is one text, so nothing follows.
func (t *turn) Follow() []backend.Token { return nil }

// EndReasoning implements family.Turn. The answer or a call follows directly.
func (t *turn) EndReasoning() (end, open []backend.Token, err error) {
	return t.f.OpenAnswer(chattemplate.StartReasoning), nil, nil
}

// EndObject implements family.Turn.
func (t *turn) EndObject() ([]backend.Token, bool) {
	return t.Now.EndObject(t.Reader, t.f.cfg.Tokenize)
}

// Resume implements family.Turn.
func (t *turn) Resume(*chattemplate.Prompt) error {
	if t.owed.Reports() {
		t.owed.Resume()
		t.calls, t.later = t.later, nil
		st := t.State()
		t.Place = reader.PlaceNone
		t.enter(&st)
	}
	return nil
}
