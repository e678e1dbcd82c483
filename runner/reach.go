package runner

import (
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/reasoning"
)

// This file says which fields of a request act on which parts of the output.
//
// Bias, penalties, stop strings and forms can be aimed at single words or tokens. They act only on text that the caller
// may see, because elsewhere they could reveal hidden text. For example, a bias against the mark of reasoning makes the
// model reason in its answer. Penalties that count hidden words let a caller infer these words from the answer.
//
// Fields that shape the distribution as a whole, such as the temperature, act on hidden reasoning too.

// part is a part of the output.
type part uint8

const (
	// partHeader is everything that controls the format: headers, tags, recipients, names of calls, and the beginning of
	// a turn, where reasoning may still be opened.
	partHeader part = iota
	partReasoning
	partPreamble
	partCall // a call's arguments
	partAnswer
	partSummary
	numParts
)

// field is a field of a request that acts on tokens or their text.
type field uint8

// Settings of sampling that have the same effect act on the same parts.
const (
	fieldTemperature = field(backend.Heat)
	fieldFilter      = field(backend.Filter)
	fieldSkew        = field(backend.Skew)
	fieldPenalty     = field(backend.Penalty)
)

const (
	fieldSeed = field(backend.Detail) + iota
	// fieldSeen is not a field of a request. It says which tokens the penalties count.
	fieldSeen
	fieldBias
	// fieldMarkBias is the bias on tokens of the format: control tokens, the tags around reasoning and what begins such a
	// tag where it is spelled out. In an answer, the bias on tokens that end the turn is fieldBias, because there they
	// only end the answer.
	fieldMarkBias
	fieldIgnoreEnd
	fieldStop
	fieldForm
	numFields
)

// rule says when a field acts on a part.
type rule uint8

const (
	never rule = iota
	// whenSeen: if the caller sees the reasoning.
	whenSeen
	always
	// sharpening: always, but a temperature above 1 counts as 1. So it never makes unlikely tokens more likely.
	sharpening
)

// reach is a table of rules.
type reach [numFields][numParts]rule

// reachOf is the table that runners use. docs/reasoning-api.md has it for users.
var reachOf = reach{
	//                 header      reasoning  preamble  call      answer    summary
	fieldTemperature: {sharpening, always, always, always, always, never},
	fieldFilter:      {always, always, always, always, always, never},
	fieldSkew:        {never, always, always, always, always, never},
	fieldSeed:        {always, always, always, always, always, never},
	fieldPenalty:     {never, whenSeen, always, always, always, never},
	fieldSeen:        {never, whenSeen, always, always, always, never},
	fieldBias:        {never, whenSeen, always, always, always, never},
	fieldMarkBias:    {never, whenSeen, whenSeen, whenSeen, whenSeen, never},
	fieldIgnoreEnd:   {never, never, never, never, always, never},
	fieldStop:        {never, never, never, never, always, never},
	fieldForm:        {never, never, never, never, always, never},
}

// acts reports whether a field acts on a part. sees says that the caller sees the reasoning.
func (r *reach) acts(f field, p part, sees bool) bool {
	rule := r[f][p]
	return rule == always || rule == sharpening || rule == whenSeen && sees
}

// segmentOf is the segment of each part that has one.
var segmentOf = [numParts]reasoning.Segment{
	partReasoning: reasoning.Reasoning, partPreamble: reasoning.Preamble, partCall: reasoning.ToolCall,
	partAnswer: reasoning.Answer, partSummary: reasoning.Summary,
}

// stopsIn returns the segments that stop strings act on.
func (r *reach) stopsIn(sees bool) (in []reasoning.Segment) {
	for p := partReasoning; p < numParts; p++ {
		if r.acts(fieldStop, p, sees) {
			in = append(in, segmentOf[p])
		}
	}
	return in
}

// marks recognizes the tokens of a format.
type marks struct {
	vocab *backend.Vocab
	tags  []string
	// spelled are the tags that the model spells out.
	spelled []string
}

// marksOf returns the marks of a turn's format.
func (t *turn) marksOf() marks {
	tags := t.family().About().Marks
	m := marks{vocab: t.r.model.Vocab(), tags: append(tags, reasoning.MarkerOpen, reasoning.MarkerClose)}
	if t.strategy == reasoning.StrategyMarkers {
		tags = m.tags
	}
	for _, tag := range tags {
		if _, ok := m.vocab.Special(tag); !ok {
			m.spelled = append(m.spelled, tag)
		}
	}
	return m
}

// opens reports whether a token's text is the beginning of a tag that the model spells out. Without it the model would
// write the rest of the tag, which nobody recognizes.
func (m *marks) opens(t backend.Token) bool {
	piece := strings.TrimSpace(m.vocab.Piece(t))
	return piece != "" && slices.ContainsFunc(m.spelled, func(tag string) bool { return strings.HasPrefix(tag, piece) })
}

// unbroken reports whether the request keeps the model from ending lines.
func (t *turn) unbroken() bool {
	return slices.ContainsFunc(t.req.Sampling.Plain().Bias, func(b backend.TokenBias) bool {
		return b.Bias < 0 && strings.ContainsAny(t.r.model.Vocab().Piece(b.Token), "\r\n")
	})
}

// is reports whether a token belongs to the format and not to the text.
func (m *marks) is(t backend.Token) bool {
	switch m.vocab.Kind(t) {
	case backend.Control, backend.Unused:
		return true
	}
	piece := m.vocab.Piece(t)
	return slices.ContainsFunc(m.tags, func(tag string) bool { return strings.Contains(piece, tag) })
}

// forbidden is a bias that rules a token out.
const forbidden = -1000

// sampling returns the sampling of a part, in its plain form. Fields of the request that do not act on it are off. With
// all fields off, the most likely token is chosen.
func (r *reach) sampling(req *generation.Request, p part, sees bool, m *marks) backend.Sampling {
	of := req.Sampling.Plain()
	out, from := backend.Sampling{}, of.Settings()
	for i, x := range out.Settings() {
		if x.Effect == backend.Detail || r.acts(field(x.Effect), p, sees) {
			x.Copy(&from[i])
		}
	}
	if r[fieldTemperature][p] == sharpening {
		out.Temperature = min(out.Temperature, 1)
	}
	if r.acts(fieldSeed, p, sees) {
		out.Seed = of.Seed
	}
	for _, b := range of.Bias {
		f := fieldBias
		if (m.is(b.Token) || m.opens(b.Token)) && !(p == partAnswer && m.vocab.EndsGeneration(b.Token)) {
			f = fieldMarkBias
		}
		if r.acts(f, p, sees) {
			out.Bias = append(out.Bias, b)
		}
	}
	if req.IgnoreEnd && r.acts(fieldIgnoreEnd, p, sees) {
		for _, end := range hold.Ends(m.vocab) {
			out.Bias = append(out.Bias, backend.TokenBias{Token: end, Bias: forbidden})
		}
	}
	return out.Plain()
}

// sight says what the caller sees of a turn, and chooses the sampling for each part accordingly.
type sight struct {
	reach *reach
	// sees says that the caller sees the reasoning.
	sees bool
	// hides says that all text of the turn counts as reasoning. reasons says that preambles, and answers without a form,
	// may contain reasons for calls, which a filter takes out. formed says that the answer has a form.
	hides, reasons, formed bool

	// answers reports whether a loop answers the calls of a function. Their arguments are reasoning.
	answers  func(name string) bool
	marks    marks
	sampling [numParts]backend.Sampling
	// penalises says that the request has a penalty. seen are the tokens that penalties count.
	penalises bool
	seen      []backend.Token
}

// look sets the sight of a turn.
func (t *turn) look() {
	req, s := t.req, &t.sight
	s.reach, s.answers, s.marks = t.r.reach, t.answers, t.marksOf()
	s.sees, s.hides = t.job.req.Visibility == reasoning.VisibilityFull, t.hidden()
	s.reasons = req.Rationale && len(req.Tools) > 0 && req.ToolChoice != generation.ToolChoiceNone
	s.formed = !req.Form.IsZero()
	for p := range numParts {
		s.sampling[p] = s.reach.sampling(req, p, s.sees, &s.marks)
		if !req.Logprobs || p == partSummary {
			s.sampling[p].TopLogprobs = -1
		}
	}
	s.penalises = req.Sampling.Penalises()
}

// partOfPlace is the part that each place belongs to.
var partOfPlace = [...]part{
	reader.PlaceHeader: partHeader, reader.PlaceReasoning: partReasoning, reader.PlacePreamble: partPreamble,
	reader.PlaceCall: partCall, reader.PlaceAnswer: partAnswer,
}

// formAt reports whether the answer's form acts at a place.
func (s *sight) formAt(p reader.Place) bool { return s.reach.acts(fieldForm, partOfPlace[p], s.sees) }

// partOf returns the part that the next token belongs to.
func (s *sight) partOf(st *reader.State) part {
	switch {
	case st.Steering, st.Segment == reasoning.Header:
		return partHeader
	case st.Segment == reasoning.Reasoning, st.Marked:
		return partReasoning
	case st.Segment == reasoning.ToolCall:
		if s.answers(st.Call.Name) {
			return partReasoning
		}
		return partCall
	case s.hides, s.reasons && !(s.formed && st.Segment == reasoning.Answer):
		return partReasoning
	case st.Segment == reasoning.Preamble:
		return partPreamble
	}
	return partAnswer
}

// next returns how the next token is chosen.
func (s *sight) next(st *reader.State) backend.Sampling {
	p := s.sampling[s.partOf(st)]
	p.Seen = s.seen
	return p
}

// note adds a token to seen if penalties count it. before and after are the reader's states around the token.
func (s *sight) note(t backend.Token, before, after *reader.State) {
	if s.penalises && before.Segment == after.Segment && !s.marks.is(t) &&
		s.reach.acts(fieldSeen, s.partOf(after), s.sees) {
		s.seen = append(s.seen, t)
	}
}

// withholds reports whether the request has a bias or penalties that do not act on its preambles and answers, because
// these may contain hidden reasons for calls.
func (s *sight) withholds(of *backend.Sampling) bool {
	return s.reasons && !s.sees && (s.penalises || len(of.Plain().Bias) > 0)
}
