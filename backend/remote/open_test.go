package remote_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/remotetest"
	"runner/backend/remote/web"
)

// altered is an engine of which a test changes single answers.
type altered struct {
	*remotetest.Engine
	describe func(ctx context.Context, d remote.Description) (remote.Description, error)
	encode   func(text string, special bool, tokens []backend.Token) []backend.Token
	decode   func(text string) string
}

func (a *altered) Describe(ctx context.Context) (remote.Description, error) {
	d, err := a.Engine.Describe(ctx)
	if a.describe != nil && err == nil {
		return a.describe(ctx, d)
	}
	return d, err
}

func (a *altered) Encode(ctx context.Context, text string, special bool) ([]backend.Token, error) {
	tokens, err := a.Engine.Encode(ctx, text, special)
	if a.encode != nil {
		tokens = a.encode(text, special, tokens)
	}
	return tokens, err
}

func (a *altered) Decode(ctx context.Context, tokens []backend.Token) (string, error) {
	text, err := a.Engine.Decode(ctx, tokens)
	if a.decode != nil {
		text = a.decode(text)
	}
	return text, err
}

func openAltered(ctx context.Context, a *altered, p remote.Patience) (*remote.Model, error) {
	return remote.Open(ctx, remote.Config{Engine: a, Vocab: a.Vocab(), Tokenize: a.Tokenize, Patience: p,
		Load: backend.Config{Sequences: 4}})
}

// An engine whose vocabulary is another one is refused by name, whatever differs.
func TestAnotherVocabularyIsRefused(t *testing.T) {
	for want, change := range map[string]func(a *altered){
		"tokens and the engine's has": func(a *altered) {
			a.describe = func(_ context.Context, d remote.Description) (remote.Description, error) {
				d.Vocabulary--
				return d, nil
			}
		},
		"the special token": func(a *altered) {
			a.encode = func(_ string, special bool, tokens []backend.Token) []backend.Token {
				if special {
					tokens[0]++
				}
				return tokens
			}
		},
		"the same text has other tokens": func(a *altered) {
			a.encode = func(_ string, special bool, tokens []backend.Token) []backend.Token {
				if !special {
					tokens = append(tokens, 5)
				}
				return tokens
			}
		},
		"spell another text": func(a *altered) {
			a.decode = func(text string) string { return text + "." }
		},
	} {
		a := &altered{Engine: remotetest.New(fake.Config{})}
		if m, err := openAltered(t.Context(), a, quick); err != nil {
			t.Fatalf("the engine as it is: %v", err)
		} else if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		change(a)
		_, err := openAltered(t.Context(), a, quick)
		if !errors.Is(err, remote.ErrTokenizer) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// An engine that takes connections and says nothing holds nobody up, when it is opened and later.
func TestSilentEnginesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &altered{Engine: remotetest.New(fake.Config{})}
		silent := false
		a.describe = func(ctx context.Context, d remote.Description) (remote.Description, error) {
			if silent {
				<-ctx.Done()
				return d, context.Cause(ctx)
			}
			return d, nil
		}
		m, err := openAltered(t.Context(), a, remote.Patience{})
		if err != nil {
			t.Fatal(err)
		}
		silent = true
		var slow *web.Error
		began := time.Now()
		_, err = openAltered(t.Context(), a, remote.Patience{})
		if !errors.As(err, &slow) || slow.Kind != web.Slow || time.Since(began) > 2*time.Minute {
			t.Errorf("opened after %v with %v", time.Since(began), err)
		}
		began = time.Now()
		_, err = write(t.Context(), m, prompt, 1, backend.Sampling{}, nil)
		if !errors.Is(err, backend.ErrUnavailable) || time.Since(began) > 3*time.Minute || faults(m) == 0 {
			t.Errorf("a request ended after %v with %v and %d faults", time.Since(began), err, faults(m))
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A caller that leaves says nothing about the engine: what failed before still counts, and what is open stays open.
func TestLeavingDoesNotCloseTheBreaker(t *testing.T) {
	e := remotetest.New(fake.Config{})
	leave := make(chan context.CancelFunc, 1)
	e.Fault = func(ctx context.Context, _, _ int) error {
		select {
		case cancel := <-leave:
			cancel()
			<-ctx.Done()
			return ctx.Err()
		default:
			return &web.Error{Kind: web.Unreachable}
		}
	}
	patience := quick
	patience.Faults = 60 * time.Millisecond
	m := open(t, e, remote.Config{Patience: patience})
	for range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		leave <- cancel
		if _, err := write(ctx, m, prompt, 1, backend.Sampling{}, nil); err == nil {
			t.Fatal("there is a token")
		}
		cancel()
		select {
		case <-leave: // the breaker was open, and nothing was asked
		default:
		}
		_, _ = write(t.Context(), m, prompt, 1, backend.Sampling{}, nil)
	}
	if n := len(e.Requests()); n > 24 {
		t.Errorf("the engine got %d requests while it failed", n)
	}
}
