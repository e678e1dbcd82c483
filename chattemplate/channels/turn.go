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
	"runner/chattemplate/markup"
	"runner/chattemplate/parameters"
	"runner/chattemplate/reader"
	"runner/grammar"
	"runner/reasoning"
)

// turn is one turn of messages. Every request constrains the headers to a list, because gpt-oss sometimes writes a
// malformed header or calls a tool that does not exist. It does so most often when it has no tools.
type turn struct {
	family.Progress
	f   *Family
	cfg family.TurnConfig
	// builtin are the built-in tools that the model may call.
	builtin []any

	// answer is the form of the answer; nil allows any answer. calls are the forms of arguments, by function.
	answer *grammar.Grammar
	calls  map[string]*grammar.Grammar
	// strict has what the forms of strict functions were compiled from.
	strict map[string]grammar.Source
	// strictly says that the model may only call what is offered. passedOn says that it calls another function, whose
	// arguments match anything. tails are what follows the name of one, by whether its channel has come.
	strictly, passedOn bool
	anything           *grammar.Grammar
	tails              map[bool]*hold.OneOf
	// headers are the headers that the model may write. calling takes their place after the reasoning if a call is
	// required. decisive takes their place after a preamble if the model may not reason: it has an answer and calls.
	headers, calling, decisive *hold.OneOf
	owed                       hold.Owed
	// shut says that the model may not reason on its channel.
	shut bool
	// own is the turn's reader.
	own *Reader
	// thinking opens reasoning between markers before the answer. It is nil after the reasoning, and if the model was
	// not asked for it. marked says that the model was asked for it. lines may come after the reasoning. closed says that
	// the caller closed the reasoning and the answer follows.
	thinking       *grammar.Choice
	marked, closed bool
	lines          []backend.Token

	text *hold.Text
	// follow opens the next message.
	follow []backend.Token
}

// Turn implements family.Family.
func (f *Family) Turn(ctx context.Context, cfg family.TurnConfig) (family.Turn, error) {
	t := &turn{f: f, cfg: cfg, builtin: slices.Clone(builtinTools(cfg.Args)), owed: cfg.Owed()}
	if len(t.builtin) > 0 && !cfg.NoCalls {
		t.owed.Offered = true
	}
	var err error
	if !cfg.Form.IsZero() {
		if t.answer, err = cfg.Grammars.Compile(ctx, cfg.Form); err != nil {
			return nil, family.Refuse("Form", err)
		}
	}
	t.text = hold.NewText(f.cfg.Vocab, f.headerTokens()...)
	if err := t.holdArguments(ctx); err != nil {
		return nil, err
	}
	if t.headers, err = t.listHeaders(true, true); err != nil {
		return nil, err
	}
	t.strictly = !t.owed.Offered || t.owed.Call || t.owed.Report || len(t.strict) > 0
	if !t.strictly {
		if err := t.holdTails(); err != nil {
			return nil, err
		}
	}
	if t.owed.Call {
		if t.calling, err = t.listHeaders(false, false); err != nil {
			return nil, err
		}
	}
	if t.answer == nil || !cfg.Markers {
		return t, nil
	}
	t.marked, t.lines = true, hold.LineBreaks(f.cfg.Tokenize)
	t.text.EndsWith(markup.Markers.Close)
	spellings, err := hold.Spellings(f.cfg.Vocab, f.cfg.Tokenize, markup.Markers.Open, markup.Markers.Open+"\n")
	if err != nil {
		return nil, err
	}
	t.thinking, err = grammar.NewChoice(spellings...)
	return t, err
}

const (
	// maxPlainTools and maxPlainBytes limit the functions, and the bytes of their schemas, for which calls get a form
	// that the request did not ask for.
	maxPlainTools = 128
	maxPlainBytes = 256 << 10
)

// holdArguments compiles the forms of calls. Arguments of a strict function must match its schema. Arguments of another
// function must match the names, types and choices in its schema, or else be any object. No request asks for the
// latter, so it must cost little and never fail.
func (t *turn) holdArguments(ctx context.Context) error {
	tools, grammars := t.cfg.Tools, t.cfg.Grammars
	if t.owed.Report {
		tools = append(tools[:len(tools):len(tools)], *t.cfg.Report)
	}
	if len(tools) == 0 {
		return nil
	}
	object, err := grammars.Compile(ctx, grammar.AnyObject())
	if err != nil {
		return err
	}
	t.anything = object
	t.calls = make(map[string]*grammar.Grammar, len(tools))
	t.strict = map[string]grammar.Source{}
	left := maxPlainBytes
	for _, tool := range tools {
		if tool.Strict && len(tool.Parameters) > 0 {
			form := grammar.JSONSchema(parameters.AsObject(tool.Parameters))
			if t.calls[tool.Name], err = grammars.Compile(ctx, form); err != nil {
				return family.Refuse("Tools", fmt.Errorf("%s: %w", tool.Name, err))
			}
			t.strict[tool.Name] = form
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

// takesAnything reports whether a function has the name of a built-in tool. Calls of those need not be JSON.
func (t *turn) takesAnything(name string) bool {
	return slices.ContainsFunc(t.builtin, func(tool any) bool {
		own, _ := tool.(string)
		return own != "" && isBuiltin(name, own)
	})
}

// shutReasoning keeps the model from reasoning. With mayTalk it may write a preamble, and then no second one: a model
// that works there would go on in message after message.
func (t *turn) shutReasoning(mayTalk bool) (err error) {
	if t.shut = true; t.own != nil {
		t.own.Shut()
	}
	if t.headers, err = t.listHeaders(false, mayTalk); err == nil && mayTalk {
		t.decisive, err = t.listHeaders(false, false)
	}
	return err
}

// listHeaders returns the headers that the request allows. With mayReason the model may reason again, and with mayTalk
// it may write a preamble.
func (t *turn) listHeaders(mayReason, mayTalk bool) (*hold.OneOf, error) {
	w := newHeaderWriter(t.f)
	if t.owed.Reports() {
		w.call(t.cfg.Report.Name, false)
		return w.hold()
	}
	calls := t.owed.Offered
	if mayReason {
		w.words(w.analysis, calls)
	}
	// No words may go before a required call. They have no limit of their own, so they could leave no tokens for it.
	if !t.owed.MustCall() {
		w.answer(calls)
		if calls {
			if mayTalk {
				w.words(w.commentary, true)
			}
			for _, tool := range t.builtin {
				w.builtin(tool, mayReason)
			}
		}
	}
	for _, tool := range t.cfg.Callable() {
		w.call(tool.Name, mayReason)
	}
	return w.hold()
}

// Ignored implements family.Turn. All strict tools are enforced.
func (t *turn) Ignored() bool { return false }

// Forms implements family.Turn.
func (t *turn) Forms() []*grammar.Grammar {
	forms := make([]*grammar.Grammar, 0, 1+len(t.calls))
	if t.answer != nil {
		forms = append(forms, t.answer)
	}
	for _, form := range t.calls {
		forms = append(forms, form)
	}
	return forms
}

// Open implements family.Turn. With tools the model still chooses between an answer and a call, so only the headers of
// these are allowed.
func (t *turn) Open(p *chattemplate.Prompt, skip bool) error {
	if skip && p.Start != chattemplate.StartAnswer {
		chooses := t.owed.MayCall()
		if chooses && p.Start == chattemplate.StartReasoning {
			p.Tokens = append(append(p.Tokens, t.f.end...), t.f.turn...)
			p.Start = chattemplate.StartTurn
		}
		if !chooses {
			p.Tokens = append(p.Tokens, t.f.OpenAnswer(p.Start)...)
			p.Start = chattemplate.StartAnswer
		} else if err := t.shutReasoning(true); err != nil {
			return err
		}
	}
	if p.Start != chattemplate.StartAnswer || !t.owed.MustCall() {
		return nil
	}
	e := &family.RefusedError{Field: "ToolChoice",
		Err:    errors.New("the chat template opens the answer itself, so that the model cannot call anything"),
		Advice: "use the model's own template, or ask for no call"}
	if t.owed.Reports() {
		e.Field, e.Advice = "Strategy", "use the model's own template, or the strategies auto, json or markers"
	}
	return e
}

// Begin implements family.Turn.
func (t *turn) Begin(cfg reader.Config) error {
	cfg.Tools = make([]string, len(t.cfg.Tools))
	for i, tool := range t.cfg.Tools {
		cfg.Tools[i] = tool.Name
	}
	r, err := NewReader(cfg)
	if err != nil {
		return err
	}
	if t.own, t.Reader, t.Moved = r, r, t.moved; t.shut {
		r.Shut()
	}
	st := t.State()
	t.enter(&st)
	return nil
}

// moved follows the reader to the place after a token.
func (t *turn) moved(st reader.State, tok backend.Token) {
	// A model that does not want to call its tools would reason in message after message until its tokens are used up.
	if t.Place == reader.PlaceReasoning && t.calling != nil {
		t.headers, t.calling = t.calling, nil
	}
	t.enter(&st)
	if st.Place == reader.PlaceHeader {
		t.openHeader(tok)
	}
}

// openHeader leads into the header of the next message. tok ended the last message. If the end is missing, tok already
// belongs to the header.
func (t *turn) openHeader(tok backend.Token) {
	switch tok {
	case t.f.native.tokens.Channel:
		t.Accept(tok)
	case t.f.turn[0]:
		t.follow = t.f.turn[1:]
	default:
		t.follow = t.f.turn
	}
}

// formAt returns the answer's form if it applies at a place, and else nil.
func (t *turn) formAt(p reader.Place) *grammar.Grammar {
	if t.answer == nil || !t.cfg.FormAt(p) {
		return nil
	}
	return t.answer
}

// enter chooses the constraint at a new place.
func (t *turn) enter(st *reader.State) {
	from := t.Place
	t.Place, t.follow = st.Place, nil
	t.Enforce(nil)
	form, ends := t.formAt(st.Place), t.ends(st.Place)
	var arguments grammar.Source
	switch st.Place {
	case reader.PlaceHeader:
		if form == nil {
			t.headers.Reset()
			t.Enforce(t.headers)
			return
		}
	case reader.PlaceReasoning, reader.PlacePreamble:
		if st.Place == reader.PlacePreamble && t.decisive != nil {
			t.headers, t.decisive = t.decisive, nil
		}
		if t.owed.Any() {
			t.text.Begin(st.Place == reader.PlaceReasoning)
			t.Enforce(t.text)
		}
		if st.Place == reader.PlaceReasoning {
			t.thinking = nil // once is enough
		}
	case reader.PlaceCall:
		if form == nil {
			form, arguments = t.calls[t.called(st)], t.strict[t.called(st)]
		}
		if form == nil && t.passedOn {
			form = t.anything
		}
		t.passedOn = false
	}
	f := hold.Form{Ends: ends, Arguments: arguments}
	if st.Place == reader.PlaceAnswer && t.marked {
		if t.closed || from == reader.PlaceReasoning || from == reader.PlaceCall {
			f.Lines, t.closed = t.lines, false
		} else if t.thinking != nil {
			f.Before, f.MustOpen = t.thinking, true
		}
	}
	if form != nil {
		f.Answer = form.Matcher()
	}
	if f.Answer != nil || f.Before != nil {
		t.EnforceForm(f)
	}
}

// called returns the name of the function that the model is calling.
func (t *turn) called(st *reader.State) string {
	if st.InObject {
		return reasoning.ReportReasoningName
	}
	return st.Call.Name
}

// ends returns the tokens that end the text at a place, the usual one first.
func (t *turn) ends(p reader.Place) []backend.Token {
	tokens := &t.f.native.tokens
	if p == reader.PlaceCall {
		return []backend.Token{tokens.Call}
	}
	return []backend.Token{tokens.Return, tokens.End}
}

// Follow implements family.Turn. The tokens open the next message.
func (t *turn) Follow() []backend.Token {
	follow := t.follow
	t.follow = nil
	return follow
}

// EndReasoning implements family.Turn. It closes the message, and opens the answer if the model may not make a call.
func (t *turn) EndReasoning() (end, open []backend.Token, err error) {
	if !t.owed.MayCall() {
		t.closed = true
		return t.f.end, t.f.final, nil
	}
	return t.f.end, nil, t.shutReasoning(false)
}

// EndObject implements family.Turn.
func (t *turn) EndObject() ([]backend.Token, bool) {
	return t.Now.EndObject(t.Reader, t.f.cfg.Tokenize)
}

// Resume implements family.Turn. The prompt ends with the opening of the next message, and the reader reads that too.
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
	t.calling = nil
	if t.owed.Reports() {
		t.owed.Resume()
		if err := t.shutReasoning(true); err != nil {
			return err
		}
	}
	st := t.State()
	t.Place = reader.PlaceNone
	t.enter(&st)
	return nil
}
