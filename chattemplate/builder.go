package chattemplate

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"runner/backend"
)

// Tokenizer appends the tokens of plain text to dst. No text may become a control token, as backend.Model.Tokenize
// promises. User-defined tokens are matched in it.
type Tokenizer func(dst []backend.Token, text string) ([]backend.Token, error)

// Builder puts a prompt together. It tokenizes adjacent texts as one, so that the tokens do not depend on how the text
// was cut into pieces. Text never becomes a control token, nor a user-defined token that the format uses as a mark.
type Builder struct {
	vocab    *backend.Vocab
	tokenize Tokenizer
	// most is the maximum bytes of text; 0 is no limit.
	most int

	tokens  []backend.Token
	origins []Origin
	text    strings.Builder
	pending int         // the offset in text of what is not tokenized yet
	runs    []originRun // of the pending text
	// guarded are user-defined tokens that text must not become, because they mark structure in the format.
	guarded names
	// Continues becomes the prompt's field of that name.
	Continues bool
	err       error
}

// Text adds plain text that the caller sent or has seen. Too much text makes Prompt fail with ErrTooLong.
func (b *Builder) Text(s string) { b.add(s, Seen) }

// Unseen adds plain text that the caller has not seen.
func (b *Builder) Unseen(s string) { b.add(s, Unseen) }

func (b *Builder) add(s string, of Origin) {
	if b.most > 0 && len(s) > b.most-b.text.Len() {
		b.err = ErrTooLong
	}
	if b.err != nil || s == "" {
		return
	}
	b.text.WriteString(s)
	end := b.text.Len() - b.pending
	if n := len(b.runs); n > 0 && b.runs[n-1].of == of {
		b.runs[n-1].end = end
	} else {
		b.runs = append(b.runs, originRun{end, of})
	}
}

// Control adds a special token.
func (b *Builder) Control(t backend.Token) {
	b.flush()
	b.tokens, b.origins = append(b.tokens, t), append(b.origins, FromTemplate)
	b.text.WriteString(b.vocab.Piece(t))
	b.pending = b.text.Len()
}

// flush tokenizes the pending text. No token will span the texts before and after it.
func (b *Builder) flush() {
	text, from := b.text.String()[b.pending:], len(b.tokens)
	for s := text; s != "" && b.err == nil; {
		n := b.cut(s)
		b.tokens, b.err = b.tokenize(b.tokens, s[:n])
		s = s[n:]
	}
	if b.err == nil {
		b.origins = originsOf(b.origins, b.vocab, b.tokens[from:], text, b.runs)
	}
	b.pending, b.runs = b.text.Len(), b.runs[:0]
}

// cut returns where a text must be cut so that the first name of a guarded token in it does not become the token.
func (b *Builder) cut(text string) int {
	if len(b.guarded.tokens) == 0 {
		return len(text)
	}
	anywhere := func(int, int) bool { return true }
	for i := range len(text) {
		if _, n := b.guarded.at(text, i, anywhere); n > 0 {
			_, first := utf8.DecodeRuneInString(text[i:])
			return i + first
		}
	}
	return len(text)
}

// NewBuilder returns an empty builder. Text in it does not become one of the tokens named, even if they are
// user-defined. A template guards its own.
func (c *Config) NewBuilder(marks ...backend.Token) *Builder {
	b := &Builder{vocab: c.Vocab, tokenize: c.Tokenize, most: c.MaxText}
	for _, t := range marks {
		if c.Vocab.Kind(t) == backend.UserDefined {
			b.guarded.add(c.Vocab.Piece(t), t)
		}
	}
	return b
}

// Prompt returns the prompt. start is the place where generation starts. An error is ErrTooLong or the tokenizer's.
func (b *Builder) Prompt(start Start) (Prompt, error) {
	b.flush()
	if errors.Is(b.err, ErrTooLong) {
		return Prompt{}, b.err
	}
	if b.err != nil {
		return Prompt{}, fmt.Errorf("tokenize prompt: %w", b.err)
	}
	return Prompt{Tokens: b.tokens, Origins: b.origins, Text: b.text.String(), Start: start, Continues: b.Continues}, nil
}
