package jsontext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"runner/grammar/expr"
	"runner/grammar/regex"
)

// maxStates limits the automaton of a constraint, before dead states are dropped.
const maxStates = 20000

// StringConstraint is the constraint on a string.
type StringConstraint struct {
	// MinLength and MaxLength limit the number of characters (code points). A negative MaxLength means no limit.
	MinLength, MaxLength int
	// Patterns must all be found in the string. They are in the dialect of package regex.
	Patterns []string
	// NotPatterns must not be found in the string.
	NotPatterns []string
	// Formats are the names of formats that the string must have. Unsupported ones have no effect.
	Formats []string
	// NotFormats are formats that the string must not have.
	NotFormats []string
	// NotIn are the excluded values, not encoded.
	NotIn []string
}

// condition is a regular language of the inside of a string.
type condition struct {
	r    *regex.Regex
	full bool // r matches the whole; otherwise it is searched for
	// head comes before what r matches and has at most most characters. It is nil if there is no such part. With it,
	// the expression may have dead ends.
	head *regex.Regex
	most int
}

func (c condition) build(s *expr.Set, enc regex.Encoding) expr.ID {
	switch {
	case c.head != nil:
		head := s.And(c.head.Full(s, enc), s.Repeat(regex.Any(s, enc), 0, c.most))
		return s.Concat(head, c.r.Full(s, enc))
	case c.full:
		return c.r.Full(s, enc)
	}
	return c.r.Search(s, enc)
}

func (c condition) lengths() (least, most int) {
	if c.full {
		return c.r.FullLengths()
	}
	return c.r.SearchLengths()
}

// stringPlan is a constraint that was read. A string satisfies it if all of must and none of mustNot hold, its length
// is within limits and it is none of words.
type stringPlan struct {
	must        []condition
	mustNot     []condition
	least, most int
	words       []string
}

// String returns the form of the strings that satisfy c. It fails with [ErrUnsatisfiable], an [UnsupportedError] or,
// for a pattern, a [*regex.Error].
func String(ctx context.Context, c StringConstraint) (Form, error) {
	p, err := c.plan()
	if err != nil {
		return nil, err
	}
	if p.most >= 0 && p.least > p.most {
		return nil, ErrUnsatisfiable
	}
	p.dropWords()
	switch {
	case len(p.must) == 0 && len(p.mustNot) == 0:
		if form, ok := p.withoutConditions(); ok {
			return form, nil
		}
	case len(p.must) == 1 && len(p.mustNot) == 0 && len(p.words) == 0:
		if form, ok, err := p.oneCondition(); ok || err != nil {
			return form, err
		}
	}
	if f := p.onlyFormat(&c); f != nil {
		a, err := f.counted()
		if err != nil {
			return nil, tooComplex(err)
		}
		return counted(a, p.least, p.most)
	}
	return p.determinize(ctx)
}

func (c *StringConstraint) plan() (*stringPlan, error) {
	p := &stringPlan{least: max(c.MinLength, 0), most: max(c.MaxLength, -1), words: c.NotIn}
	for _, pattern := range c.Patterns {
		r, err := regex.Parse(pattern)
		if err != nil {
			return nil, err
		}
		if !r.SearchAll() {
			p.must = append(p.must, condition{r: r})
		}
	}
	for _, pattern := range c.NotPatterns {
		r, err := regex.Parse(pattern)
		if err != nil {
			return nil, err
		}
		p.mustNot = append(p.mustNot, condition{r: r})
	}
	for _, name := range c.Formats {
		if f := formats[name]; f != nil {
			p.must = append(p.must, f.condition())
			p.atMost(f.most)
		}
	}
	for _, name := range c.NotFormats {
		f := formats[name]
		if f == nil || f.most > 0 {
			return nil, UnsupportedError(fmt.Sprintf("a string that is not in the format %q", name))
		}
		p.mustNot = append(p.mustNot, f.condition())
	}
	return p, nil
}

// atMost lowers the maximum length. 0 means no limit.
func (p *stringPlan) atMost(n int) {
	if n > 0 && (p.most < 0 || n < p.most) {
		p.most = n
	}
}

// dropWords removes excluded words that the other conditions exclude already.
func (p *stringPlan) dropWords() {
	if len(p.words) == 0 {
		return
	}
	s := expr.NewSet()
	var ids []expr.ID
	for _, m := range p.must {
		ids = append(ids, m.build(s, regex.UTF8))
	}
	var kept []string
	for _, word := range p.words {
		n := utf8.RuneCountInString(word)
		if n < p.least || p.most >= 0 && n > p.most || !utf8.ValidString(word) {
			continue
		}
		if !slices.ContainsFunc(ids, func(id expr.ID) bool { return !s.Match(id, word) }) {
			kept = append(kept, word)
		}
	}
	p.words = kept
}

// onlyFormat returns the format of a plan that has only one format and a length.
func (p *stringPlan) onlyFormat(c *StringConstraint) *format {
	if len(c.Formats) != 1 || len(c.Patterns) > 0 || len(p.mustNot) > 0 || len(p.words) > 0 || p.least > expr.MaxCounted {
		return nil
	}
	return formats[c.Formats[0]]
}

// withoutConditions returns the form of the strings with a length that are none of the words. It handles no word of the
// maximum length: at its last character there may be no other way to continue.
func (p *stringPlan) withoutConditions() (Form, bool) {
	least, most := p.least, p.most
	if len(p.words) == 0 {
		return func(s *expr.Set) expr.ID { return quoted(s, s.Repeat(regex.Any(s, regex.JSONFree), least, most)) }, true
	}
	for _, word := range p.words {
		if utf8.RuneCountInString(word) == most {
			return nil, false
		}
	}
	words := newWordList(p.words)
	return func(s *expr.Set) expr.ID {
		text := s.Repeat(regex.Any(s, regex.JSONString), least, most)
		return quoted(s, s.And(text, s.Not(words.build(s))))
	}, true
}

// oneCondition returns the form of the strings with a length and one condition. It reports false if that needs an
// automaton.
func (p *stringPlan) oneCondition() (Form, bool, error) {
	c := p.must[0]
	if c.head != nil {
		return nil, false, nil
	}
	least, most := c.lengths()
	if most >= 0 && (least > most || p.least > most) || p.most >= 0 && p.most < least {
		return nil, false, ErrUnsatisfiable
	}
	if p.least <= least && (p.most < 0 || most >= 0 && most <= p.most) {
		return func(s *expr.Set) expr.ID { return quoted(s, c.build(s, regex.JSONString)) }, true, nil
	}
	if c.full {
		return nil, false, nil
	}
	id, ok := c.r.SearchBetween(expr.NewSet(), regex.JSONString, p.least, p.most)
	if !ok {
		return nil, false, nil
	}
	if id == expr.Empty {
		return nil, false, ErrUnsatisfiable
	}
	least, most = p.least, p.most
	return func(s *expr.Set) expr.ID {
		id, _ := c.r.SearchBetween(s, regex.JSONString, least, most)
		return quoted(s, id)
	}, true, nil
}

// determinize returns the form of any plan, through an automaton.
func (p *stringPlan) determinize(ctx context.Context) (Form, error) {
	if p.least > expr.MaxCounted {
		return nil, UnsupportedError(fmt.Sprintf("a minimum length above %d together with other conditions", expr.MaxCounted))
	}
	words := newWordList(p.words)
	build := func(s *expr.Set) expr.ID {
		all := make([]expr.ID, 0, len(p.must)+len(p.mustNot)+2)
		for _, c := range p.must {
			all = append(all, c.build(s, regex.JSONString))
		}
		for _, c := range p.mustNot {
			all = append(all, s.Not(c.build(s, regex.JSONString)))
		}
		all = append(all, s.Not(words.build(s)))
		if len(p.must) == 0 {
			all = append(all, s.Star(regex.Any(s, regex.JSONString)))
		}
		return s.And(all...)
	}
	a, err := expr.DeterminizeText(ctx, build, anyChar, maxStates)
	if err != nil {
		return nil, tooComplex(err)
	}
	return counted(a, p.least, p.most)
}

// tooComplex turns an error about the size of an automaton into one of this package.
func tooComplex(err error) error {
	if errors.Is(err, expr.ErrTooComplex) {
		return UnsupportedError("the conditions on a string are too complex together")
	}
	return err
}

// counted returns the form of the texts of a with a length.
func counted(a *expr.Automaton, least, most int) (Form, error) {
	shortest, longest := a.LengthRange()
	if least <= shortest && (most < 0 || longest >= 0 && longest <= most) {
		least, most = 0, -1
	}
	if expr.NewSet().Counted(a, least, most) == expr.Empty {
		return nil, ErrUnsatisfiable
	}
	return func(s *expr.Set) expr.ID { return quoted(s, s.Counted(a, least, most)) }, nil
}

// wordList is a list of strings spelled like literals, without the quotes.
type wordList struct {
	plain *expr.Words
	wide  []string
}

func newWordList(words []string) wordList {
	var w wordList
	var plain []string
	for _, word := range words {
		if isASCII(word) {
			text := quote(word)
			plain = append(plain, text[1:len(text)-1])
		} else {
			w.wide = append(w.wide, word)
		}
	}
	w.plain = expr.NewWords(plain)
	return w
}

func (w wordList) build(s *expr.Set) expr.ID {
	ids := []expr.ID{s.Words(w.plain)}
	for _, word := range w.wide {
		ids = append(ids, regex.Text(s, regex.JSONString, word))
	}
	return s.Union(ids...)
}
