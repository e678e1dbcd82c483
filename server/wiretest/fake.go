package wiretest

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
)

// Fake is a [wire.Loaded] without a runner and an engine. Its tokens are bytes, its prompts are the texts of all
// messages, and it accepts every request. The zero value works. Its methods may be called by several goroutines at
// once.
type Fake struct {
	// Run carries out a request. If it is nil, Events are the events of every run.
	Run    func(ctx context.Context, req generation.Request, o generation.Observer) iter.Seq2[reasoning.Event, error]
	Events []reasoning.Event
	life
	bytewise
}

var _ wire.Loaded = (*Fake)(nil)

// Broken returns a Fake that breaks with an error at its first probe, if the error is not nil.
func Broken(err error) *Fake { return &Fake{life: life{breaks: err}} }

// Generate implements [wire.Loaded].
func (f *Fake) Generate(ctx context.Context, req generation.Request,
	o generation.Observer) iter.Seq2[reasoning.Event, error] {
	if f.Run != nil {
		return f.Run(ctx, req, o)
	}
	return func(yield func(reasoning.Event, error) bool) {
		for _, e := range f.Events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// life says whether a fake model works.
type life struct {
	mu             sync.Mutex
	breaks, broken error
	closed         bool
}

func (l *life) Probe(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return generation.ErrClosed
	}
	if l.broken == nil {
		l.broken = l.breaks
	}
	return l.broken
}

func (l *life) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

func (l *life) Fail(_ context.Context, why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = why
	return nil
}

func (l *life) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

// Closed reports whether the model was closed.
func (l *life) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// bytewise has the methods of a model that need only its tokens.
type bytewise struct{}

func (bytewise) Info() generation.ModelInfo {
	return generation.ModelInfo{Name: Name, ContextSize: 1024, EmbeddingLength: 1, Digest: "0123456789abcdef"}
}

func (bytewise) Abilities() generation.Abilities {
	return generation.Abilities{Reasoning: true, Tools: true, Embeddings: true}
}

func (bytewise) Tokenize(_ context.Context, _, text string, _ bool) ([]generation.Token, error) {
	tokens := make([]generation.Token, len(text))
	for i := range tokens {
		tokens[i] = generation.Token(text[i])
	}
	return tokens, nil
}

func (bytewise) FillIn() (f generation.FillIn, ok bool) {
	return generation.FillIn{Before: 1, After: 2, Gap: 3, File: 4}, true
}

func (b bytewise) Detokenize(tokens []generation.Token) (text string, err error) {
	for _, t := range tokens {
		text += b.Piece(t)
	}
	return text, nil
}

func (b bytewise) Fits(text string) error {
	if limit := b.Info().ContextSize; len(text) > limit {
		return fmt.Errorf("the text has %d tokens, and the context %d", len(text), limit)
	}
	return nil
}

func (b bytewise) Prompt(ctx context.Context, who string, req generation.Request) (p chattemplate.Prompt, err error) {
	p.Text = req.Prompt
	for _, m := range req.Messages {
		p.Text += m.Content
	}
	p.Tokens, err = b.Tokenize(ctx, who, p.Text, false)
	return p, err
}

func (bytewise) WithBOS(tokens []generation.Token) []generation.Token { return tokens }
func (bytewise) Piece(t generation.Token) string                      { return string([]byte{byte(t)}) }
func (bytewise) Ends() (bos, eos string)                              { return "", "" }
func (bytewise) CheckTool(context.Context, chattemplate.Tool) error   { return nil }
func (bytewise) Stats() generation.Stats                              { return generation.Stats{} }
func (bytewise) Enter(string) (leave func(), err error)               { return func() {}, nil }
func (bytewise) Embed(context.Context, string, []generation.Token) ([]float32, error) {
	return []float32{1}, nil
}
