package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
)

// textCalls holds calls that a model writes in the text of its answers to their form. The reader of the text asks
// it whether what begins as a call is one, so that both always agree; see [steering.opens].
type textCalls struct {
	form *callForm
	// whole is a block of calls with its opening mark, and after is one without.
	whole, after *grammar.Grammar
	// taken are the tokens whose text holds a byte that stands for a mark.
	taken []backend.Token
	// must says that the turn is nothing but calls, and made that it has had one.
	must, made bool
	mask       backend.Mask
}

// newTextCalls compiles the calls that a model may make.
func (s *steering) newTextCalls(ctx context.Context, r *Runner, tools []chattemplate.Tool, must,
	single bool) (*textCalls, error) {
	c := &textCalls{form: newCallForm(s.vocab, s.format.Calls, single), must: must, mask: backend.NewMask(s.vocab.Len())}
	block, err := c.form.block(tools)
	if err != nil {
		return nil, &generation.RequestError{Field: "Tools", Err: err,
			Advice: "change the tool, or leave strict and the choice of tools out"}
	}
	whole := block
	if s.format.Calls.Open != "" {
		whole = grammar.Sequence(c.form.text(s.format.Calls.Open), block)
	}
	for _, g := range []struct {
		to   **grammar.Grammar
		form grammar.Source
	}{{&c.after, block}, {&c.whole, whole}} {
		if *g.to, err = r.grammars().Compile(ctx, g.form); err != nil {
			return nil, &generation.RequestError{Field: "Tools", Err: c.blame(ctx, r, tools, err), Advice: hint(err)}
		}
	}
	for t := range backend.Token(s.vocab.Len()) {
		if c.form.standsForMark(s.vocab.Piece(t)) {
			c.taken = append(c.taken, t)
		}
	}
	return c, nil
}

// blame finds the tool that a form cannot be made for.
func (c *textCalls) blame(ctx context.Context, r *Runner, tools []chattemplate.Tool, err error) error {
	for _, tool := range tools {
		if block, bad := c.form.block([]chattemplate.Tool{tool}); bad == nil {
			if _, bad = r.grammars().Compile(ctx, block); bad != nil {
				return fmt.Errorf("%s: %w", tool.Name, bad)
			}
		}
	}
	return err
}

// allows reports whether t may come next in a call.
func (c *textCalls) allows(m *grammar.Matcher, t backend.Token) bool {
	if mark, ok := c.form.mark(t); ok {
		return m.AllowsText(mark.byte)
	}
	return m.Allows(t) && !slices.Contains(c.taken, t)
}

// accept moves on by t and reports whether it was allowed.
func (c *textCalls) accept(m *grammar.Matcher, t backend.Token) bool {
	if mark, ok := c.form.mark(t); ok {
		return m.AcceptText(mark.byte)
	}
	return !slices.Contains(c.taken, t) && m.Accept(t)
}

// add sets the bits of what may come next in a call.
func (c *textCalls) add(m *grammar.Matcher, mask backend.Mask) {
	m.Fill(c.mask)
	for _, t := range c.taken {
		c.mask.Unset(t)
	}
	for _, mark := range c.form.marks {
		if m.AllowsText(mark.byte) {
			c.mask.Set(mark.token)
		}
	}
	for i, w := range c.mask {
		mask[i] |= w
	}
}

// next appends the tokens that must come next in a call.
func (c *textCalls) next(m *grammar.Matcher, vocab *backend.Vocab, dst []backend.Token) []backend.Token {
	if b, ok := m.ForcedByte(); !ok {
		return dst
	} else if i := strings.IndexByte(markBytes, b); i >= 0 && i < len(c.form.marks) {
		return append(dst, c.form.marks[i].token)
	}
	from := len(dst)
	dst = m.Forced(dst)
	for i, t := range dst[from:] {
		if c.form.standsForMark(vocab.Piece(t)) {
			return dst[:from+i]
		}
	}
	return dst
}

// opens is asked by the reader when a call begins in an answer, with what came after its mark, or with all of it
// where there is no mark. Where the answer may be a call from its beginning on, a matcher has followed it and
// knows. Where calls may come anywhere, one starts now.
func (s *steering) opens(text string) bool {
	switch c := s.text; {
	case s.at == placeCall:
		return false // a second call in one token
	case s.mode == steerForm:
		return s.call != nil
	case c == nil:
		return false // the call of report_reasoning was the only one
	default:
		m := c.after.Matcher()
		if text != "" && !m.AcceptText(text) {
			return false
		}
		s.call = m
		return true
	}
}

// initTags prepares for formats whose text is held together by tags, or by nothing.
func (s *steering) initTags(ctx context.Context, r *Runner, t *turn) error {
	s.breaks, s.lines = r.ends, lineBreaks(r)
	if err := s.initCalls(ctx, r, t); err != nil {
		return err
	}
	if !s.owed || t.strategy != reasoning.StrategyNative || s.format.Family != chattemplate.ThinkTags {
		return nil
	}
	s.closes(s.format.Close)
	if t.conv.Effort == reasoning.EffortNone {
		return nil
	}
	return s.opensWith(r, s.format.Open)
}

// initCalls prepares for calls in text. Without a known way of writing them nothing can be held to anything.
func (s *steering) initCalls(ctx context.Context, r *Runner, t *turn) error {
	req := &t.req
	must := req.ToolChoice == generation.ToolChoiceRequired || req.ToolChoice == generation.ToolChoiceFunction
	strict := slices.ContainsFunc(req.Tools, func(t chattemplate.Tool) bool { return t.Strict })
	if s.format.Calls == nil {
		switch {
		case must:
			return &generation.RequestError{Field: "ToolChoice",
				Err: errors.New("how this model writes calls is not known, so it cannot be held to one"), Advice: "use auto"}
		case req.SingleCall:
			return &generation.RequestError{Field: "SingleCall",
				Err: errors.New("how this model writes calls is not known, so it cannot be held to one"), Advice: "leave it out"}
		case s.report && s.answer != nil:
			return &generation.RequestError{Field: "Strategy",
				Err: errors.New("how this model writes calls is not known, so it " +
					"cannot report its reasoning by one and be held to a form"),
				Advice: "use auto, json or markers"}
		}
		s.ignored, s.report = strict, false
		return nil
	}
	var err error
	if len(req.Tools) > 0 && req.ToolChoice != generation.ToolChoiceNone && (must || strict || req.SingleCall ||
		s.answer != nil ||
		s.report) {
		tools := slices.DeleteFunc(slices.Clone(req.Tools), func(tool chattemplate.Tool) bool { return !t.admits(tool.Name) })
		if s.text, err = s.newTextCalls(ctx, r, tools, must, req.SingleCall); err != nil {
			return err
		}
	}
	if s.report {
		s.later, s.owed = s.text, true
		s.text, err = s.newTextCalls(ctx, r, []chattemplate.Tool{reportTool()}, true, true)
	}
	return err
}

// followText goes to where an answer begins, or goes on after a call.
func (s *steering) followText() {
	c := s.text
	s.call, s.mayEnd = nil, false
	if s.answer == nil && (c == nil || !c.must && !(c.made && c.form.single)) {
		return
	}
	s.mode, s.matcher = steerForm, nil
	if c != nil && c.made {
		s.mayEnd = true
		if c.form.single {
			return
		}
	}
	if c != nil {
		s.call = c.whole.Matcher()
	}
	if s.answer != nil && !s.mayEnd && !(c != nil && c.must) {
		s.matcher = s.answer.Matcher()
	}
}
