package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/grammar"
	"runner/reasoning"
)

// steering keeps what a model writes to what its request asks for: the form of the answer, the form of a strict tool's
// arguments, and which messages it may open. What is in force is a function of where the header machine stands; reasoning
// and preambles stay free, but the turn cannot end in them while an answer or a call is owed.
//
// It is the lane's constraint. Everything in it belongs to the scheduler's goroutine, or to the backend during a step.
type steering struct {
	vocab *backend.Vocab
	// spent adds up the time that masks take, in nanoseconds.
	spent  *atomic.Int64
	format chattemplate.Format
	// answer is the answer's form and calls the form of each strict tool's arguments; nil and absent are free.
	answer *grammar.Grammar
	calls  map[string]*grammar.Grammar
	// headers are the messages that a harmony model may open; nil where it is free.
	headers *grammar.Choice
	// answerEnds and callEnds are harmony's ends of an answer and of a call.
	answerEnds, callEnds []backend.Token
	// owed says that the turn may not end outside of an answer or a call, and report that report_reasoning is to be called first.
	owed, report bool

	// opening is the tag with which the model may begin to reason before its answer; nil where it cannot.
	opening *grammar.Choice

	at      place
	mode    steerMode
	matcher *grammar.Matcher
	// begun says that the open matcher has taken a token. Until then tag is the way into reasoning, and padded says that a
	// line break may come.
	begun  bool
	tag    *grammar.Choice
	padded bool
	// lines are the tokens of one and of two line breaks, which models like to write after a tag.
	lines []backend.Token
	// text is what may stand in text that goes on to something else, made when it is first needed, and outside the control
	// tokens that it leaves out.
	text    backend.Mask
	outside []backend.Token
	// closing is the marker that ends reasoning in text, where that is no token of its own; tail is the end of the reasoning so far, and
	// spanning are the tokens that may run over the marker.
	closing  string
	tail     []byte
	spanning []backend.Token
	// breaks are the ends of the open segment, the usual one first.
	breaks []backend.Token
	forced []backend.Token
}

type steerMode uint8

const (
	steerFree   steerMode = iota
	steerHeader           // one of headers
	steerText             // text that goes on to something else: it cannot end the turn
	steerForm             // what matcher admits
	steerTag              // inside a tag that opens reasoning
)

// steers reports whether anything is in force.
func (s *steering) steers() bool { return s.mode != steerFree }

// Allows implements backend.Constraint.
func (s *steering) Allows(t backend.Token) bool {
	switch s.mode {
	case steerHeader:
		return s.headers.Allows(t)
	case steerTag:
		return s.tag.Allows(t)
	case steerText:
		return s.isText(t) && !s.spans(t)
	case steerForm:
		return s.matcher.Allows(t) || s.matcher.Done() && slices.Contains(s.breaks, t) || !s.begun && s.mayEscape(t)
	}
	return true
}

// Fill implements backend.Constraint.
func (s *steering) Fill(m backend.Mask) {
	began := time.Now()
	s.fill(m)
	s.spent.Add(int64(time.Since(began)))
}

func (s *steering) fill(m backend.Mask) {
	switch s.mode {
	case steerHeader:
		s.headers.Fill(m)
	case steerTag:
		s.tag.Fill(m)
	case steerForm:
		s.matcher.Fill(m)
		if s.matcher.Done() {
			for _, t := range s.breaks {
				m.Set(t)
			}
		}
		if !s.begun && s.tag != nil {
			s.tag.Add(m)
		}
		if !s.begun && s.padded {
			for _, t := range s.lines {
				m.Set(t)
			}
		}
	default:
		if s.text == nil {
			s.text = backend.NewMask(s.vocab.Len())
			for t := range backend.Token(s.vocab.Len()) {
				if s.isText(t) {
					s.text.Set(t)
				}
			}
		}
		copy(m, s.text)
		for _, t := range s.spanning {
			if s.spans(t) {
				m.Unset(t)
			}
		}
	}
}

// Prepare implements preparer.
func (s *steering) Prepare(work int) (used int, ready bool, err error) {
	if s.mode != steerForm {
		return 0, true, nil
	}
	if used, ready, err = s.matcher.Prepare(work); err != nil {
		err = s.blame(err)
	}
	return used, ready, err
}

// blame says which form an error of the matcher is about.
func (s *steering) blame(err error) error {
	e := &RequestError{Field: "Form", Err: err, Advice: hint(err)}
	for name, form := range s.calls {
		if s.at == placeCall && form == s.matcher.Grammar() {
			e.Field, e.Err = "Tools", fmt.Errorf("%s: %w", name, err)
		}
	}
	return e
}

// warm works out the first masks of the forms, while the prompt is read.
func (s *steering) warm(ctx context.Context) {
	if s.answer == nil && len(s.calls) == 0 {
		return
	}
	go func() {
		if s.answer != nil {
			s.answer.Warm(ctx)
		}
		for _, form := range s.calls {
			form.Warm(ctx)
		}
	}()
}

// spans reports whether t would end the reasoning and go on with text of the answer, which the form would not see.
func (s *steering) spans(t backend.Token) bool {
	if s.closing == "" || s.at != placeReasoning {
		return false
	}
	p := s.vocab.Piece(t)
	if strings.IndexByte(p, s.closing[len(s.closing)-1]) < 0 {
		return false
	}
	text := string(s.tail) + p
	i := strings.Index(text, s.closing)
	return i >= 0 && strings.Trim(text[i+len(s.closing):], "\n") != ""
}

// mayEscape reports whether t may come before the form: a tag that opens reasoning, or the line break after one that closed it.
func (s *steering) mayEscape(t backend.Token) bool {
	return s.tag != nil && s.tag.Allows(t) || s.padded && slices.Contains(s.lines, t)
}

// isText reports whether t may stand in text that goes on to something else.
func (s *steering) isText(t backend.Token) bool {
	if s.vocab.EndsGeneration(t) || s.vocab.Kind(t) == backend.Unused || !s.vocab.Valid(t) {
		return false
	}
	return !slices.Contains(s.outside, t)
}

// accept moves on by a token, sampled or forced.
func (s *steering) accept(t backend.Token) {
	if s.at == placeReasoning && s.closing != "" {
		s.tail = append(s.tail, s.vocab.Piece(t)...)
		s.tail = s.tail[max(0, len(s.tail)-len(s.closing)+1):]
	}
	switch s.mode {
	case steerHeader:
		s.headers.Accept(t)
	case steerTag:
		s.tag.Accept(t)
	case steerForm:
		switch {
		case s.matcher.Accept(t):
			s.begun = true
		case s.begun:
		case s.tag != nil && s.tag.Accept(t):
			s.mode = steerTag
		default:
			s.padded = false
		}
	}
}

// takes reports whether tokens can all come next, one after the other, as the open form demands.
func (s *steering) takes(tokens []backend.Token) bool {
	if s.mode != steerForm {
		return false
	}
	m := s.matcher.Clone()
	for _, t := range tokens {
		if !m.Accept(t) {
			return false
		}
	}
	return true
}

// next returns the tokens that must come next because nothing else can. The slice is valid until the next call.
func (s *steering) next() []backend.Token {
	if s.mode != steerForm || !s.begun {
		return nil
	}
	s.forced = s.matcher.Forced(s.forced[:0])
	if len(s.forced) == 0 && s.matcher.Over() && len(s.breaks) > 0 {
		s.forced = append(s.forced, s.breaks[0])
	}
	return s.forced
}

// place is where a token stands, as far as it matters for what may come.
type place uint8

const (
	placeNone place = iota
	placeHeader
	placeReasoning
	placePreamble
	placeCall
	placeText // the answer, or the object of strategy json
)

func (s *steering) placeOf(st *reasoning.State) place {
	switch {
	case st.Segment == reasoning.ToolCall || st.Call.Name != "" || st.InObject && st.Recipient != "":
		return placeCall
	case st.InObject:
		return placeText
	case st.Segment == reasoning.Header && s.format.Family == chattemplate.Harmony:
		return placeHeader
	case st.Segment == reasoning.Reasoning:
		return placeReasoning
	case st.Segment == reasoning.Preamble:
		return placePreamble
	}
	return placeText
}

// follow goes to where the header machine stands now.
func (s *steering) follow(st reasoning.State) {
	from, to := s.at, s.placeOf(&st)
	if s.at = to; from == to {
		return
	}
	var form *grammar.Grammar
	s.mode, s.begun, s.tag, s.padded = steerFree, false, nil, false
	s.tail = s.tail[:0]
	switch to {
	case placeHeader:
		if s.headers != nil {
			s.mode = steerHeader
			s.headers.Reset()
		}
		return
	case placeReasoning, placePreamble:
		if s.owed {
			s.mode = steerText
		}
		return
	case placeCall:
		name := st.Call.Name
		if st.InObject {
			name = reasoning.ReportReasoningName
		}
		form = s.calls[name]
	case placeText:
		form = s.answer
		s.padded = from == placeReasoning && s.format.Family != chattemplate.Harmony
		if from != placeReasoning {
			if s.tag = s.opening; s.tag != nil {
				s.tag.Reset()
			}
		}
	}
	if form == nil {
		return
	}
	s.mode, s.matcher = steerForm, form.Matcher()
	if s.format.Family == chattemplate.Harmony {
		s.breaks = s.answerEnds
		if to == placeCall {
			s.breaks = s.callEnds
		}
	}
}

// newSteering compiles what a request asks for.
func (r *Runner) newSteering(ctx context.Context, t *turn, form grammar.Source) (*steering, error) {
	s, req := &steering{vocab: r.model.Vocab(), spent: &r.maskTime, format: t.format()}, &t.req
	var err error
	if !form.IsZero() {
		if s.answer, err = r.grammars().Compile(ctx, form); err != nil {
			return nil, &RequestError{Field: "Form", Err: err, Advice: hint(err)}
		}
	}
	tools := req.Tools
	if s.report = t.strategy == reasoning.StrategyTool; s.report {
		tools = append(tools[:len(tools):len(tools)], reasoning.ReportReasoningV1())
	}
	for _, tool := range tools {
		if !tool.Strict || len(tool.Parameters) == 0 {
			continue
		}
		g, err := r.grammars().Compile(ctx, grammar.JSONSchema(tool.Parameters))
		if err != nil {
			return nil, &RequestError{Field: "Tools", Err: fmt.Errorf("%s: %w", tool.Name, err), Advice: hint(err)}
		}
		if s.calls == nil {
			s.calls = map[string]*grammar.Grammar{}
		}
		s.calls[tool.Name] = g
	}
	s.owed = s.answer != nil || req.ToolChoice == ToolChoiceRequired || req.ToolChoice == ToolChoiceFunction
	if s.format.Family == chattemplate.Harmony {
		if err := s.initHarmony(r, req); err != nil {
			return nil, err
		}
	} else if err := s.initTags(r, t); err != nil {
		return nil, err
	}
	if s.answer != nil && t.strategy == reasoning.StrategyMarkers {
		s.closes(reasoning.MarkersFormat.Close)
		return s, s.opens(r, reasoning.MarkersFormat.Open)
	}
	return s, nil
}

// initTags prepares for formats whose text is held together by tags, or by nothing.
func (s *steering) initTags(r *Runner, t *turn) error {
	if req := &t.req; req.ToolChoice == ToolChoiceRequired || req.ToolChoice == ToolChoiceFunction {
		return &RequestError{Field: "ToolChoice", Err: errors.New("this model's format has no header that could hold it to a call"),
			Advice: "use auto, or a harmony model"}
	}
	if s.report && s.answer != nil {
		return &RequestError{Field: "Strategy", Err: errors.New("only harmony models can report their reasoning by a call and be held to a form"),
			Advice: "use auto, json or markers"}
	}
	s.breaks = r.ends
	for _, text := range []string{"\n", "\n\n"} {
		if tokens, err := r.model.Tokenize(nil, text); err == nil && len(tokens) == 1 {
			s.lines = append(s.lines, tokens[0])
		}
	}
	if s.answer == nil || t.strategy != reasoning.StrategyNative || s.format.Family != chattemplate.ThinkTags {
		return nil
	}
	s.closes(s.format.Close)
	if t.conv.Effort == chattemplate.EffortNone {
		return nil
	}
	return s.opens(r, s.format.Open)
}

// opens lets the model begin to reason before its answer, with a tag.
func (s *steering) opens(r *Runner, tag string) error {
	open := []backend.Token{backend.NoToken}
	var ok bool
	if open[0], ok = s.vocab.Special(tag); !ok {
		var err error
		if open, err = r.model.Tokenize(nil, tag); err != nil {
			return err
		}
	}
	var err error
	s.opening, err = grammar.NewChoice(open)
	return err
}

// closes notes the marker that ends reasoning, if it is text.
func (s *steering) closes(tag string) {
	if _, ok := s.vocab.Special(tag); ok {
		return
	}
	s.closing = tag
	last := tag[len(tag)-1]
	for t := range backend.Token(s.vocab.Len()) {
		if p := s.vocab.Piece(t); strings.IndexByte(p[:max(0, len(p)-1)], last) >= 0 && s.isText(t) {
			s.spanning = append(s.spanning, t)
		}
	}
}

// hint is the advice of an error, if it has one.
func hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// endTokens returns the tokens that end generation, the usual one first.
func endTokens(v *backend.Vocab) []backend.Token {
	var out []backend.Token
	if v.EOS() != backend.NoToken {
		out = append(out, v.EOS())
	}
	for t := range backend.Token(v.Len()) {
		if v.EndsGeneration(t) && t != v.EOS() {
			out = append(out, t)
		}
	}
	return out
}
