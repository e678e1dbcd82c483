package chattemplate

import (
	"errors"
	"fmt"

	"runner/backend"
	"runner/chattemplate/harmony"
)

// Config says what a Template is made from.
type Config struct {
	// Vocab is the model's vocabulary, and Tokenize its tokenizer for plain text.
	Vocab    *backend.Vocab
	Tokenize Tokenizer
	// Source is the chat template in the Jinja language: the model's own or the user's. Empty means none.
	Source string
	// ForceJinja renders through Source even for a model that is rendered natively, because the user asked for it.
	ForceJinja bool
	// MaxText is the most bytes of text that a prompt may have, so that one that no context holds is not tokenized;
	// 0 is no limit. More is ErrTooLong, or what a template in the Jinja language fails with when its output is too
	// long.
	MaxText int
}

// Template renders conversations for one model. It is compiled once and safe for concurrent use.
type Template struct {
	vocab    *backend.Vocab
	tokenize Tokenizer
	maxText  int
	format   Format
	renderer renderer

	endReasoning []backend.Token
	openAnswer   [StartAnswer + 1][]backend.Token
}

// renderer renders one family's format into a builder.
type renderer interface {
	// render renders a normalized conversation and says where the model begins to write.
	render(b *builder, c *Conversation) (Start, error)
	// endReasoning, openAnswer and summaryTurn render what the Template's methods of these names describe.
	endReasoning(b *builder)
	openAnswer(b *builder, from Start)
	summaryTurn(b *builder, prompt string) error
}

// New compiles a template and finds out the model's family.
//
// A vocabulary with harmony's special tokens is rendered natively unless ForceJinja is set. Every other model needs
// a template: without one New returns ErrNoTemplate, except that a vocabulary with the tokens <|im_start|> and
// <|im_end|> is rendered as ChatML. A template that does not compile is a *TemplateError.
func New(c Config) (*Template, error) {
	if c.Vocab == nil || c.Tokenize == nil {
		return nil, errors.New("chat template needs a vocabulary and a tokenizer")
	}
	t := &Template{vocab: c.Vocab, tokenize: c.Tokenize, maxText: c.MaxText}
	if tokens, ok := harmony.Lookup(c.Vocab); ok && (!c.ForceJinja || c.Source == "") {
		t.renderer = native{tokens}
		t.format = Format{Family: Harmony, CanSkip: true, Tools: true}
	} else {
		j, err := newJinja(c)
		if err != nil {
			return nil, err
		}
		t.renderer, t.format = j, j.format
	}
	if err := t.force(); err != nil {
		return nil, err
	}
	return t, nil
}

// force renders the sequences that do not depend on a conversation.
func (t *Template) force() error {
	b := t.newBuilder()
	t.renderer.endReasoning(b)
	p, err := b.finish()
	if err != nil {
		return err
	}
	t.endReasoning = p.Tokens
	for from := range t.openAnswer {
		b := t.newBuilder()
		t.renderer.openAnswer(b, Start(from))
		p, err := b.finish()
		if err != nil {
			return err
		}
		t.openAnswer[from] = p.Tokens
	}
	return nil
}

func (t *Template) newBuilder() *builder {
	return &builder{vocab: t.vocab, tokenize: t.tokenize, most: t.maxText}
}

// Format describes the model's family.
func (t *Template) Format() Format { return t.format }

// Render renders a conversation. It fails with a *ConversationError, a *TemplateError or ErrTooLong, or with the
// tokenizer's error.
func (t *Template) Render(c Conversation) (Prompt, error) {
	normal, err := normalize(c)
	if err != nil {
		return Prompt{}, err
	}
	b := t.newBuilder()
	start, err := t.renderer.render(b, normal)
	if err != nil {
		return Prompt{}, err
	}
	p, err := b.finish()
	p.Start, p.Continues = start, b.continues
	return p, err
}

// EndReasoning returns the tokens that close reasoning in the middle of its text, as when its budget is spent.
// Harmony models are then at StartTurn: the first token is <|end|>, and the others open the header of a new message
// that may become an answer or a call. Think-tag models are at StartAnswer. Models that do not mark reasoning have
// nothing to close. The slice must not be modified.
func (t *Template) EndReasoning() []backend.Token { return t.endReasoning }

// OpenAnswer returns the tokens that lead from a place in the turn straight to the text of the answer: from StartTurn
// they skip the reasoning, from StartReasoning they close it, and at StartAnswer there is nothing to do. The slice must
// not be modified.
func (t *Template) OpenAnswer(from Start) []backend.Token {
	if from > StartAnswer {
		return nil
	}
	return t.openAnswer[from]
}

// SummaryTurn returns the tokens that ask the model, in the middle of its turn, for a text about what it has written so
// far, and that open the answer to it. They go after the last token of reasoning or answer text once that is closed: in
// harmony after its <|end|>, in think-tag families after the closing tag, and nowhere after an end-of-turn token.
//
// In harmony the prompt is a developer message, in other families a user's.
func (t *Template) SummaryTurn(prompt string) ([]backend.Token, error) {
	b := t.newBuilder()
	if err := t.renderer.summaryTurn(b, prompt); err != nil {
		return nil, fmt.Errorf("summary turn: %w", err)
	}
	p, err := b.finish()
	return p.Tokens, err
}
