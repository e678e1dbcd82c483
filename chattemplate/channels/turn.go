package channels

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/chattemplate/hold"
	"runner/chattemplate/parameters"
	"runner/chattemplate/reader"
	"runner/chattemplate/tags"
	"runner/grammar"
	"runner/reasoning"
)

// turn is one turn of messages. Headers are held to a list for every request: gpt-oss now and then writes a header that
// is none, or calls what nobody offers, most of all where it is offered nothing.
type turn struct {
	*Reader
	f   *Family
	cfg family.TurnConfig
	// builtin are the tools of gpt-oss's own that the model may call.
	builtin []any

	// answer is the form of the answer, nil where it is free. calls are the forms of arguments, by function.
	answer *grammar.Grammar
	calls  map[string]*grammar.Grammar
	// headers are the messages that the model may open, and calling those after its reasoning where a call is demanded.
	headers, calling *hold.OneOf
	// owed says that the turn may not end outside of an answer or a call, and report that report_reasoning is to be
	// called first.
	owed, report, demanded bool
	// thinking opens reasoning between markers before the answer; nil where the model is not asked for that, and after
	// its reasoning. marked says that it was asked for, and lines are what may stand after the markers.
	thinking *grammar.Choice
	marked   bool
	lines    []backend.Token

	text   *hold.Text
	form   hold.Form
	place  reader.Place
	hold   hold.Hold
	forced []backend.Token
	// follow opens the next message.
	follow []backend.Token
}

// Turn compiles what a turn is held to.
func (f *Family) Turn(ctx context.Context, cfg family.TurnConfig) (family.Turn, error) {
	t := &turn{f: f, cfg: cfg, builtin: slices.Clone(builtinTools(cfg.Args)), report: cfg.Report != nil}
	var err error
	if !cfg.Form.IsZero() {
		if t.answer, err = cfg.Grammars.Compile(ctx, cfg.Form); err != nil {
			return nil, family.Refuse("Form", err)
		}
	}
	t.owed = t.answer != nil || cfg.MustCall
	t.text = hold.NewText(f.cfg.Vocab, f.headerTokens()...)
	if err := t.holdArguments(ctx); err != nil {
		return nil, err
	}
	if err := t.holdHeaders(true); err != nil {
		return nil, err
	}
	if cfg.MustCall {
		if t.calling, err = t.listHeaders(false); err != nil {
			return nil, err
		}
	}
	if t.answer == nil || !cfg.Markers {
		return t, nil
	}
	t.marked, t.lines = true, hold.LineBreaks(f.cfg.Tokenize)
	t.text.EndsWith(tags.Markers.Close)
	spellings, err := hold.Spellings(f.cfg.Vocab, f.cfg.Tokenize, tags.Markers.Open, tags.Markers.Open+"\n")
	if err != nil {
		return nil, err
	}
	t.thinking, err = grammar.NewChoice(spellings...)
	return t, err
}

const (
	// maxPlainTools and maxPlainBytes are the most functions, and bytes of their schemas, of a request whose calls
	// are held to what nobody asked for.
	maxPlainTools = 128
	maxPlainBytes = 256 << 10
)

// holdArguments holds calls to the parameters of their functions: of those that say strict to the schema as it
// stands, of others to the names, the types and the choices in it, or to any object. Nobody asked for the latter,
// so it must cost little and never fail.
func (t *turn) holdArguments(ctx context.Context) error {
	tools, grammars := t.cfg.Tools, t.cfg.Grammars
	if t.report {
		tools = append(tools[:len(tools):len(tools)], *t.cfg.Report)
	}
	if len(tools) == 0 {
		return nil
	}
	object, err := grammars.Compile(ctx, grammar.AnyObject())
	if err != nil {
		return err
	}
	t.calls = make(map[string]*grammar.Grammar, len(tools))
	left := maxPlainBytes
	for _, tool := range tools {
		if tool.Strict && len(tool.Parameters) > 0 {
			form := grammar.JSONSchema(parameters.AsObject(tool.Parameters))
			if t.calls[tool.Name], err = grammars.Compile(ctx, form); err != nil {
				return family.Refuse("Tools", fmt.Errorf("%s: %w", tool.Name, err))
			}
			continue
		}
		if t.cfg.NoCalls || t.takesAnything(tool.Name) {
			continue
		}
		t.calls[tool.Name] = object
		if len(tool.Parameters) > left || len(tools) > maxPlainTools {
			continue
		}
		left -= len(tool.Parameters)
		form := parameters.Plain(tool.Parameters)
		if form.IsZero() {
			continue
		}
		if g, err := grammars.Compile(ctx, form); err == nil {
			t.calls[tool.Name] = g
		} else if ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// takesAnything reports whether calls of a function cannot be told from those of a tool of gpt-oss's own, which
// need not be JSON.
func (t *turn) takesAnything(name string) bool {
	return slices.ContainsFunc(t.builtin, func(tool any) bool {
		own, _ := tool.(string)
		return own != "" && isBuiltin(name, own)
	})
}

// holdHeaders lets the model open only the messages that listHeaders lists.
func (t *turn) holdHeaders(mayReason bool) (err error) {
	t.headers, err = t.listHeaders(mayReason)
	return err
}

// listHeaders lists the messages that the request allows: with or without further reasoning, and no call of a function
// that is not offered.
func (t *turn) listHeaders(mayReason bool) (*hold.OneOf, error) {
	w := newHeaderWriter(&t.f.cfg)
	if t.report {
		w.call(t.cfg.Report.Name, false)
		return w.hold()
	}
	tools, builtin := t.cfg.Tools, t.builtin
	if t.cfg.NoCalls {
		tools, builtin = nil, nil
	}
	calls := len(tools)+len(builtin) > 0
	if mayReason {
		w.words(w.analysis, calls)
	}
	// Where a call is demanded no words go before it: they have no end of their own that the limits would leave
	// room after.
	if !t.cfg.MustCall {
		w.answer(calls)
		if calls {
			w.words(w.commentary, true)
		}
		for _, tool := range builtin {
			w.builtin(tool, mayReason)
		}
	}
	for _, tool := range tools {
		if t.cfg.Admits == nil || t.cfg.Admits(tool.Name) {
			w.call(tool.Name, mayReason)
		}
	}
	return w.hold()
}

// Ignored reports false: all strict tools are held to their parameters.
func (t *turn) Ignored() bool { return false }

// Warm works out the first masks of the forms.
func (t *turn) Warm(ctx context.Context) {
	forms := make([]*grammar.Grammar, 0, 1+len(t.calls))
	if t.answer != nil {
		forms = append(forms, t.answer)
	}
	for _, form := range t.calls {
		forms = append(forms, form)
	}
	hold.Warm(ctx, forms)
}

// mayCall reports whether the model may call a tool when its reasoning is over.
func (t *turn) mayCall() bool { return !t.cfg.NoCalls && len(t.cfg.Tools)+len(t.builtin) > 0 }

// Open completes a prompt. With tools the model keeps the choice between an answer and a call, so its headers are held
// to these.
func (t *turn) Open(p *chattemplate.Prompt, skip bool) error {
	if skip && p.Start != chattemplate.StartAnswer {
		chooses := t.report || t.mayCall()
		if chooses && p.Start == chattemplate.StartReasoning {
			p.Tokens = append(append(p.Tokens, t.f.end...), t.f.turn...)
			p.Start = chattemplate.StartTurn
		}
		if !chooses {
			p.Tokens = append(p.Tokens, t.f.OpenAnswer(p.Start)...)
			p.Start = chattemplate.StartAnswer
		} else if err := t.holdHeaders(false); err != nil {
			return err
		}
	}
	if p.Start != chattemplate.StartAnswer || !t.cfg.MustCall && !t.report {
		return nil
	}
	e := &family.RefusedError{Field: "ToolChoice",
		Err:    errors.New("the chat template opens the answer itself, so that the model cannot call anything"),
		Advice: "use the model's own template, or ask for no call"}
	if t.report {
		e.Field, e.Advice = "Strategy", "use the model's own template, or the strategies auto, json or markers"
	}
	return e
}

// Begin starts to read.
func (t *turn) Begin(cfg reader.Config) error {
	cfg.Tools = make([]string, len(t.cfg.Tools))
	for i, tool := range t.cfg.Tools {
		cfg.Tools[i] = tool.Name
	}
	var err error
	if t.Reader, err = NewReader(cfg); err != nil {
		return err
	}
	st := t.State()
	t.enter(&st)
	return nil
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
	t.moveOn(tok)
}

// Force takes a token that the caller puts into the turn.
func (t *turn) Force(tok backend.Token) {
	t.Reader.Push(tok)
	t.moveOn(tok)
}

// moveOn goes to where the reader stands after a token.
func (t *turn) moveOn(tok backend.Token) {
	st, from := t.State(), t.place
	if st.Place == from {
		return
	}
	// A model that has no use for its tools would reason in one message after another until its tokens are used up.
	if from == reader.PlaceReasoning && t.calling != nil {
		t.headers, t.calling = t.calling, nil
	}
	t.enter(&st)
	if st.Place == reader.PlaceHeader {
		t.openHeader(tok)
	}
}

// openHeader leads from the end of a message, which was tok, into the header of the next. The end may be missing: then
// tok is already of that header.
func (t *turn) openHeader(tok backend.Token) {
	switch {
	case tok == t.f.native.tokens.Channel:
		t.hold.Accept(tok)
	case tok == t.f.turn[0]:
		t.follow = t.f.turn[1:]
	default:
		t.follow = t.f.turn
	}
}

// formAt returns the answer's form where it counts, and nil elsewhere.
func (t *turn) formAt(p reader.Place) *grammar.Grammar {
	if t.answer == nil || !t.cfg.FormAt(p) {
		return nil
	}
	return t.answer
}

// enter chooses what may come at a new place.
func (t *turn) enter(st *reader.State) {
	from := t.place
	t.place, t.hold, t.follow = st.Place, nil, nil
	form, ends := t.formAt(st.Place), t.ends(st.Place)
	switch st.Place {
	case reader.PlaceHeader:
		if form == nil {
			t.headers.Reset()
			t.hold = t.headers
			return
		}
	case reader.PlaceReasoning, reader.PlacePreamble:
		if t.owed {
			t.text.Begin(st.Place == reader.PlaceReasoning)
			t.hold = t.text
		}
		if st.Place == reader.PlaceReasoning {
			t.thinking = nil // once is enough
		}
	case reader.PlaceCall:
		if form == nil {
			form = t.calls[t.called(st)]
		}
	}
	t.form = hold.Form{Ends: ends}
	if st.Place == reader.PlaceAnswer && t.marked {
		if from == reader.PlaceReasoning || from == reader.PlaceCall {
			t.form.Lines = t.lines
		} else if t.thinking != nil {
			t.form.Before, t.form.MustOpen = t.thinking, true
			t.hold = &t.form
		}
	}
	if form != nil {
		t.form.Answer = form.Matcher()
		t.hold = &t.form
	}
	t.form.Begin()
}

// called names the function whose call the model is writing.
func (t *turn) called(st *reader.State) string {
	if st.InObject {
		return reasoning.ReportReasoningName
	}
	return st.Call.Name
}

// ends are the tokens that end the text at a place, the usual one first.
func (t *turn) ends(p reader.Place) []backend.Token {
	tokens := &t.f.native.tokens
	if p == reader.PlaceCall {
		return []backend.Token{tokens.Call}
	}
	return []backend.Token{tokens.Return, tokens.End}
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

// Follow returns the tokens that open the next message.
func (t *turn) Follow() []backend.Token {
	follow := t.follow
	t.follow = nil
	return follow
}

// EndReasoning closes the message. Where the model may call nothing, its answer is opened.
func (t *turn) EndReasoning() (end, open []backend.Token, err error) {
	if !t.mayCall() {
		return t.f.end, t.f.final, nil
	}
	return t.f.end, nil, t.holdHeaders(false)
}

// EndObject ends the reasoning in an object.
func (t *turn) EndObject() ([]backend.Token, bool) {
	return hold.EndObject(t.Reader, t.hold, t.f.cfg.Tokenize)
}

// Resume goes on after a call of report_reasoning. The prompt that was rendered with its result stands for the opening
// of the next message.
func (t *turn) Resume(p *chattemplate.Prompt) error {
	if p.Start == chattemplate.StartReasoning {
		p.Tokens = append(append(p.Tokens, t.f.end...), t.f.turn...)
	}
	opened := t.f.turn
	if p.Start == chattemplate.StartAnswer {
		opened = slices.Concat(t.f.turn, t.f.final)
	}
	for _, tok := range opened {
		t.Reader.Push(tok)
	}
	if t.report {
		t.report = false
		if err := t.holdHeaders(false); err != nil {
			return err
		}
	}
	st := t.State()
	t.place = reader.PlaceNone
	t.enter(&st)
	return nil
}
