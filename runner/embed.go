package runner

import (
	"context"
	"fmt"
	"math"
	"time"

	"runner/backend"
	"runner/generation"
)

// tokenError returns an error about a token that is not in the vocabulary, which has size tokens.
func tokenError(field string, index int, token backend.Token, size int) error {
	return generation.BadField(field, "use tokens of this model", "token %d is %d; the vocabulary has tokens 0 to %d",
		index, token, size-1)
}

// embedding owns a lane that embeds its tokens. err is set before done is closed.
type embedding struct {
	err  error
	done chan struct{}
}

func (e *embedding) started(*lane, int) {}

func (e *embedding) accept(l *lane, _ *backend.Output) {
	l.done = true
	for _, x := range l.hidden {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			e.err = fmt.Errorf("embedding: %w", backend.ErrBadLogits)
			break
		}
	}
	close(e.done)
}

func (e *embedding) drafted(int, int) {}

func (e *embedding) full(l *lane) {
	l.done = true
	e.failed(l, backend.ErrCacheFull)
}

func (e *embedding) failed(_ *lane, err error) {
	e.err = err
	close(e.done)
}

// Embed returns the embedding of tokens: the mean of their last hidden states, scaled to length 1. It has
// Info().EmbeddingLength values. A text is read in pieces between the steps of runs, which go first. It counts as a
// run of its principal. Each principal has one text under way at a time. Callers must take a place in the queue first
// ([Runner.Enter]). The errors are ErrNoEmbeddings, ErrClosed, *RequestError, *PromptTooLongError, and those of the
// context and the backend.
func (r *Runner) Embed(ctx context.Context, principal string, tokens []backend.Token) ([]float32, error) {
	if !r.model.Capabilities().Embeddings {
		return nil, generation.ErrNoEmbeddings
	}
	if len(tokens) == 0 {
		return nil, generation.BadField(generation.TokensField, "give some text", "there are none")
	}
	for i, t := range tokens {
		if !r.model.Vocab().Valid(t) {
			return nil, tokenError(generation.TokensField, i, t, r.model.Vocab().Len())
		}
	}
	if len(tokens) > r.info.ContextSize {
		return nil, &generation.PromptTooLongError{Tokens: len(tokens), Context: r.info.ContextSize,
			Field: generation.TokensField}
	}
	e := &embedding{done: make(chan struct{})}
	l := &lane{ctx: ctx, owner: e, tokens: tokens, principal: principal, hidden: make([]float64, r.info.EmbeddingLength)}
	if err := r.sched.enter(l); err != nil {
		return nil, err
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		select {
		case <-e.done:
		case <-time.After(r.grace): // the step hangs
			return nil, context.Cause(ctx)
		}
	}
	if e.err != nil {
		_ = r.sched.do(ctx, func() {
			if r.sched.noteBad(e.err) {
				r.sched.failAll(r.sched.broken)
			}
		})
		return nil, e.err
	}
	return normalised(l.hidden), nil
}

// normalised returns v scaled to length 1.
func normalised(v []float64) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	out := make([]float32, len(v))
	if sum > 0 {
		for i, x := range v {
			out[i] = float32(x / math.Sqrt(sum))
		}
	}
	return out
}
