package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runner/backend"
)

// ErrNoEmbeddings says that the model cannot embed.
var ErrNoEmbeddings = errors.New("this model does not give embeddings")

type tokenError struct {
	index int
	token Token
	size  int
}

func (e tokenError) Error() string {
	return fmt.Sprintf("number %d is %d, and the vocabulary has the tokens 0 to %d", e.index, e.token, e.size-1)
}

// Embed returns the pooled, L2-normalised embedding of tokens, Info().EmbeddingLength values. It takes a turn between two steps, so that
// nobody else waits for more than one text; turns go round the principals, whatever each of them has waiting. Who embeds takes a place in the
// queue first ([Runner.Enter]). The errors are ErrNoEmbeddings, ErrClosed, a *RequestError, a *PromptTooLongError, the context's and the
// backend's.
func (r *Runner) Embed(ctx context.Context, principal string, tokens []Token) ([]float32, error) {
	embedder, ok := r.model.(backend.Embedder)
	if !ok || !r.model.Capabilities().Embeddings {
		return nil, ErrNoEmbeddings
	}
	if len(tokens) == 0 {
		return nil, &RequestError{Field: "Tokens", Err: errors.New("there are none"), Advice: "give some text"}
	}
	for i, t := range tokens {
		if !r.model.Vocab().Valid(t) {
			return nil, &RequestError{Field: "Tokens", Err: tokenError{i, t, r.model.Vocab().Len()}, Advice: "use tokens of this model"}
		}
	}
	if len(tokens) > r.info.ContextSize {
		return nil, &PromptTooLongError{Tokens: len(tokens), Context: r.info.ContextSize}
	}
	if err := r.embedding.take(ctx, principal); err != nil {
		return nil, err
	}
	defer r.embedding.give(principal)
	type result struct {
		vector []float32
		err    error
	}
	done := make(chan result, 1)
	embed := func() {
		vector, err := embedder.Embed(ctx, tokens)
		switch {
		case r.sched.breaks(err):
			r.sched.log.Error("the engine failed", "embedding", true, "error", err) // nobody else may be left to hear of it
		case err != nil && ctx.Err() != nil:
			err = context.Cause(ctx)
		}
		done <- result{vector, err}
	}
	select {
	case r.sched.between <- embed:
	case <-r.sched.stop.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case got := <-done:
		return got.vector, got.err
	case <-ctx.Done():
	}
	select {
	case <-done:
	case <-time.After(r.grace): // it hangs
	}
	return nil, context.Cause(ctx)
}
