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
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
)

// steering keeps what a model writes to what its request asks for: the form of the answer, the form of a call's
// arguments, and which messages it may open. What is in force is a function of where the header machine stands;
// reasoning and preambles stay free, but the turn cannot end in them while an answer or a call is owed.
//
// It is the lane's constraint. Everything in it belongs to the scheduler's goroutine, or to the backend during a step.
type steering struct {
	vocab *backend.Vocab
	// spent adds up the time that masks take, in nanoseconds.
	spent  *atomic.Int64
	format chattemplate.Format
	// answer is the answer's form, nil where it is free, and calls are the forms of a harmony model's arguments.
	answer *grammar.Grammar
	calls  map[string]*grammar.Grammar
	// headers are the messages that a harmony model may open, and builtin the tools of gpt-oss's own that it may
	// call; nil in other families.
	headers *grammar.Choice
	builtin []any
	// text holds calls in the text of families without channels; nil where they are free. later takes its place
	// when report_reasoning has been called. ignored says that strict tools are not held to anything.
	text, later *textCalls
	ignored     bool
	// answerEnds and callEnds are harmony's ends of an answer and of a call.
	answerEnds, callEnds []backend.Token
	// reach and sees say where the answer's form acts.
	reach *reach
	sees  bool
	// owed says that the turn may not end outside of an answer or a call, and report that report_reasoning is to be
	// called first.
	owed, report bool

	// opening is the tag with which the model may begin to reason before its answer; nil where it cannot. thinksFirst
	// says that it has to.
	opening     *grammar.Choice
	thinksFirst bool

	at   place
	mode steerMode
	// matcher follows the answer, or a harmony call, and call a call in text; in an answer that may turn out to be
	// a call both do, until one of them cannot go on.
	matcher, call *grammar.Matcher
	// mayEnd says that the turn may end here whatever the matchers say.
	mayEnd bool
	// begun says that the open matcher has taken a token. Until then tag is the way into reasoning, and padded says that a
	// line break may come.
	begun  bool
	tag    *grammar.Choice
	padded bool
	// lines are the tokens of one and of two line breaks, which models like to write after a tag.
	lines []backend.Token
	// free is what may stand in text that goes on to something else, made when it is first needed, and outside the control
	// tokens that it leaves out.
	free    backend.Mask
	outside []backend.Token
	// closing is the marker that ends reasoning in text; tail is the end of the reasoning so far, and
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
		return s.matcher != nil && s.matcher.Allows(t) || s.call != nil && s.text.allows(s.call, t) ||
			s.complete() && slices.Contains(s.breaks, t) || !s.begun && s.mayEscape(t)
	}
	return true
}

// complete reports whether the segment may end here.
func (s *steering) complete() bool {
	return s.mayEnd && !s.begun || s.matcher != nil && s.matcher.Done()
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
		if m.Clear(); s.matcher != nil {
			s.matcher.Fill(m)
		}
		if s.call != nil {
			s.text.add(s.call, m)
		}
		if s.complete() {
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
		if s.free == nil {
			s.free = backend.NewMask(s.vocab.Len())
			for t := range backend.Token(s.vocab.Len()) {
				if s.isText(t) {
					s.free.Set(t)
				}
			}
		}
		copy(m, s.free)
		for _, t := range s.spanning {
			if s.spans(t) {
				m.Unset(t)
			}
		}
	}
}

// Prepare implements preparer.
func (s *steering) Prepare(work int) (used int, ready bool, err error) {
	if ready = true; s.mode != steerForm {
		return 0, true, nil
	}
	for _, m := range []*grammar.Matcher{s.matcher, s.call} {
		if m == nil {
			continue
		}
		n, known, err := m.Prepare(max(1, work-used))
		if used += n; err != nil {
			return used, false, s.blame(m, err)
		}
		ready = ready && known
	}
	return used, ready, nil
}

// blame says which form an error of a matcher is about.
func (s *steering) blame(m *grammar.Matcher, err error) error {
	e := &generation.RequestError{Field: "Form", Err: err, Advice: hint(err)}
	if m == s.call {
		e.Field = "Tools"
	}
	for name, form := range s.calls {
		if s.at == placeCall && form == m.Grammar() {
			e.Field, e.Err = "Tools", fmt.Errorf("%s: %w", name, err)
		}
	}
	return e
}

// warm works out the first masks of the forms, while the prompt is read.
func (s *steering) warm(ctx context.Context) {
	var forms []*grammar.Grammar
	if s.answer != nil {
		forms = append(forms, s.answer)
	}
	for _, form := range s.calls {
		forms = append(forms, form)
	}
	if s.text != nil {
		forms = append(forms, s.text.whole, s.text.after)
	}
	if len(forms) == 0 {
		return
	}
	go func() {
		for _, form := range forms {
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

// mayEscape reports whether t may come before the form: a tag that opens reasoning, or the line break after one
// that closed it.
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
		case s.advance(t):
			s.begun = true
		case s.begun:
		case s.tag != nil && s.tag.Accept(t):
			s.mode = steerTag
		default:
			s.padded = false
		}
	}
}

// advance moves the matchers on by a token and drops the one that cannot go on. It reports false, and changes
// nothing, if neither can.
func (s *steering) advance(t backend.Token) bool {
	answer := s.matcher != nil && s.matcher.Accept(t)
	call := s.call != nil && s.text.accept(s.call, t)
	if !answer && !call {
		return false
	}
	if !answer {
		s.matcher = nil
	}
	if !call {
		s.call = nil
	}
	return true
}

// answers reports whether the text is certain to be the answer's, by its form.
func (s *steering) answers() bool {
	return s.at == placeText && s.mode == steerForm && s.begun && s.matcher != nil && s.call == nil
}

// takes reports whether tokens can all come next, one after the other, as the open form demands.
func (s *steering) takes(tokens []backend.Token) bool {
	if s.mode != steerForm {
		return false
	}
	m := s.matcher
	if m == nil {
		m = s.call
	}
	if m == nil {
		return false
	}
	m = m.Clone()
	for _, t := range tokens {
		if !m.Accept(t) {
			return false
		}
	}
	return true
}

// next returns the tokens that must come next because nothing else can. The slice is valid until the next call.
func (s *steering) next() []backend.Token {
	s.forced = s.forced[:0]
	switch {
	case s.mode != steerForm, s.matcher != nil && s.call != nil:
	case s.matcher == nil && s.call == nil:
		if s.mayEnd {
			s.forced = append(s.forced, s.breaks[:min(1, len(s.breaks))]...)
		}
	case !s.begun:
	case s.call != nil:
		s.forced = s.text.next(s.call, s.vocab, s.forced)
	default:
		s.forced = s.matcher.Forced(s.forced)
		if len(s.forced) == 0 && s.matcher.Over() && len(s.breaks) > 0 {
			s.forced = append(s.forced, s.breaks[0])
		}
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

func (s *steering) placeOf(st *reader.State) place {
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

// partOfPlace is the part that each place belongs to.
var partOfPlace = [...]part{
	placeHeader: partHeader, placeReasoning: partReasoning, placePreamble: partPreamble, placeCall: partCall,
	placeText: partAnswer,
}

// formIn returns the answer's form where it acts, and nil elsewhere.
func (s *steering) formIn(p place) *grammar.Grammar {
	if s.answer == nil || !s.reach.acts(fieldForm, partOfPlace[p], s.sees) {
		return nil
	}
	return s.answer
}

// follow goes to where the header machine stands now.
func (s *steering) follow(st reader.State) {
	from, to := s.at, s.placeOf(&st)
	if s.at = to; from == to {
		return
	}
	var form *grammar.Grammar
	s.mode, s.begun, s.tag, s.padded, s.mayEnd = steerFree, false, nil, false, false
	s.tail = s.tail[:0]
	switch to {
	case placeHeader:
		if form = s.formIn(to); form != nil {
			break
		}
		if s.headers != nil {
			s.mode = steerHeader
			s.headers.Reset()
		}
		return
	case placeReasoning, placePreamble:
		if s.owed {
			s.mode = steerText
		}
		if to == placeReasoning && s.thinksFirst {
			s.opening = nil // once is enough
		}
		form = s.formIn(to)
	case placeCall:
		if s.format.Family != chattemplate.Harmony {
			if s.call != nil {
				s.mode, s.matcher, s.begun, s.text.made = steerForm, nil, true, true
			}
			return
		}
		name := st.Call.Name
		if st.InObject {
			name = reasoning.ReportReasoningName
		}
		if form = s.formIn(to); form == nil {
			form = s.calls[name]
		}
	case placeText:
		form = s.formIn(to)
		if s.format.Family != chattemplate.Harmony {
			s.followText()
		}
		s.padded = (from == placeReasoning || from == placeCall) && (s.format.Family != chattemplate.Harmony || s.thinksFirst)
		if from != placeReasoning && from != placeCall {
			if s.tag = s.opening; s.tag != nil {
				s.tag.Reset()
			}
			if s.tag != nil && s.thinksFirst {
				s.mode, s.matcher, s.call = steerTag, nil, nil
				return
			}
		}
	}
	if form == nil || s.format.Family != chattemplate.Harmony {
		return
	}
	s.mode, s.matcher = steerForm, form.Matcher()
	if s.breaks = s.answerEnds; to == placeCall {
		s.breaks = s.callEnds
	}
}

// newSteering compiles what a request asks for.
func (r *Runner) newSteering(ctx context.Context, t *turn, form grammar.Source) (*steering, error) {
	s, req := &steering{
		vocab: r.model.Vocab(), spent: &r.maskTime, format: t.format(), reach: t.sight.reach, sees: t.sight.sees,
	}, &t.req
	var err error
	if !form.IsZero() {
		if s.answer, err = r.grammars().Compile(ctx, form); err != nil {
			return nil, &generation.RequestError{Field: "Form", Err: err, Advice: hint(err)}
		}
	}
	s.report = t.strategy == reasoning.StrategyTool && !t.effortNone()
	s.owed = s.answer != nil || req.MustCall()
	if s.format.Family == chattemplate.Harmony {
		if err := s.initHarmony(ctx, t); err != nil {
			return nil, err
		}
	} else if err := s.initTags(ctx, r, t); err != nil {
		return nil, err
	}
	held := s.answer != nil || s.owed && s.format.Family != chattemplate.Harmony
	if held && t.strategy == reasoning.StrategyMarkers && !t.effortNone() {
		s.closes(reader.MarkersFormat.Close)
		s.thinksFirst, s.lines = true, lineBreaks(r)
		return s, s.opensWith(r, reader.MarkersFormat.Open, reader.MarkersFormat.Open+"\n")
	}
	return s, nil
}

// opensWith lets the model begin to reason before its answer, with one of several spellings of a tag.
func (s *steering) opensWith(r *Runner, tags ...string) error {
	spellings := make([][]backend.Token, len(tags))
	for i, tag := range tags {
		if t, ok := s.vocab.Special(tag); ok {
			spellings[i] = []backend.Token{t}
			continue
		}
		var err error
		if spellings[i], err = r.model.Tokenize(nil, tag); err != nil {
			return err
		}
	}
	var err error
	s.opening, err = grammar.NewChoice(spellings...)
	return err
}

// lineBreaks returns the tokens of one and of two line breaks.
func lineBreaks(r *Runner) (list []backend.Token) {
	for _, text := range []string{"\n", "\n\n"} {
		if tokens, err := r.model.Tokenize(nil, text); err == nil && len(tokens) == 1 {
			list = append(list, tokens[0])
		}
	}
	return list
}

// closes notes the marker that ends reasoning. A model may spell it even where it is a token of its own.
func (s *steering) closes(tag string) {
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
