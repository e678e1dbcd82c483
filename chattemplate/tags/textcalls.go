package tags

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/chattemplate/hold"
	"runner/grammar"
)

// textCalls has the forms of calls in the text of an answer. The reader asks it whether a text that begins like a call
// is one, so that both always agree; see turn.opens.
type textCalls struct {
	form *callForm
	// whole is the form of a block of calls with its opening mark. after is the form without the mark.
	whole, after *grammar.Grammar
	// taken are the tokens whose text contains a byte that stands for a mark. They are never allowed.
	taken []backend.Token
	vocab *backend.Vocab
	mask  backend.Mask
}

// newTextCalls compiles the forms of the calls that a model may make.
func (f *Family) newTextCalls(ctx context.Context, grammars *grammar.Cache, tools []chattemplate.Tool,
	single bool) (*textCalls, error) {
	vocab, style := f.cfg.Vocab, f.format.Calls
	c := &textCalls{form: newCallForm(vocab, style, single), vocab: vocab, mask: backend.NewMask(vocab.Len())}
	block, err := c.form.block(tools)
	if err != nil {
		return nil, &family.RefusedError{Field: "Tools", Err: err,
			Advice: "change the tool, or leave strict and the choice of tools out"}
	}
	whole := block
	if style.Open != "" {
		whole = grammar.Sequence(c.form.text(style.Open), block)
	}
	for _, g := range []struct {
		to   **grammar.Grammar
		form grammar.Source
	}{{&c.after, block}, {&c.whole, whole}} {
		if *g.to, err = grammars.Compile(ctx, g.form); err != nil {
			return nil, family.Refuse("Tools", c.blame(ctx, grammars, tools, err))
		}
	}
	for t := range backend.Token(vocab.Len()) {
		if c.form.standsForMark(vocab.Piece(t)) {
			c.taken = append(c.taken, t)
		}
	}
	return c, nil
}

// blame finds the tool whose form does not compile, and names it in the error.
func (c *textCalls) blame(ctx context.Context, grammars *grammar.Cache, tools []chattemplate.Tool, err error) error {
	for _, tool := range tools {
		if block, bad := c.form.block([]chattemplate.Tool{tool}); bad == nil {
			if _, bad = grammars.Compile(ctx, block); bad != nil {
				return fmt.Errorf("%s: %w", tool.Name, bad)
			}
		}
	}
	return err
}

// callMatcher follows one block of calls. It implements hold.Call.
type callMatcher struct {
	calls *textCalls
	*grammar.Matcher
}

// Allows implements hold.Call.
func (c *callMatcher) Allows(t backend.Token) bool {
	if mark, ok := c.calls.form.mark(t); ok {
		return c.AllowsText(mark.byte)
	}
	return c.Matcher.Allows(t) && !slices.Contains(c.calls.taken, t)
}

// Accept implements hold.Call.
func (c *callMatcher) Accept(t backend.Token) bool {
	if mark, ok := c.calls.form.mark(t); ok {
		return c.AcceptText(mark.byte)
	}
	return !slices.Contains(c.calls.taken, t) && c.Matcher.Accept(t)
}

// Add implements hold.Call.
func (c *callMatcher) Add(to backend.Mask) {
	mask := c.calls.mask
	c.Fill(mask)
	for _, t := range c.calls.taken {
		mask.Unset(t)
	}
	for _, mark := range c.calls.form.marks {
		if c.AllowsText(mark.byte) {
			mask.Set(mark.token)
		}
	}
	for i, w := range mask {
		to[i] |= w
	}
}

// Forced implements hold.Call.
func (c *callMatcher) Forced(dst []backend.Token) []backend.Token {
	if b, ok := c.ForcedByte(); !ok {
		return dst
	} else if i := strings.IndexByte(markBytes, b); i >= 0 && i < len(c.calls.form.marks) {
		return append(dst, c.calls.form.marks[i].token)
	}
	from := len(dst)
	dst = c.Matcher.Forced(dst)
	for i, t := range dst[from:] {
		if c.calls.form.standsForMark(c.calls.vocab.Piece(t)) {
			return dst[:from+i]
		}
	}
	return dst
}

// Clone implements hold.Call.
func (c *callMatcher) Clone() hold.Call { return &callMatcher{c.calls, c.Matcher.Clone()} }
