package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
)

func TestTextComesBackFromItsTokens(t *testing.T) {
	r := start(t, fake.Config{}, Config{})
	parts := []string{"<|start|>", "<|end|>", "<|", "|>", "hello ", "ä", "\xff", "<", "<|message|>", "\n\n", ""}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var text string
		for range rng.IntN(6) {
			text += parts[rng.IntN(len(parts))]
		}
		for _, special := range []bool{false, true} {
			tokens, err := r.Tokenize(t.Context(), "", text, special)
			if err != nil {
				t.Fatal(err)
			}
			back, err := r.Detokenize(tokens)
			if err != nil || back != text {
				t.Fatalf("special %v: %q came back as %q, %v", special, text, back, err)
			}
			controls := 0
			for _, tok := range tokens {
				if r.model.Vocab().Kind(tok) == backend.Control {
					controls++
				}
			}
			want := 0
			if special {
				want = strings.Count(text, "<|start|>") + strings.Count(text, "<|end|>") + strings.Count(text, "<|message|>")
			}
			if controls != want {
				t.Fatalf("special %v: %q has %d control tokens, want %d", special, text, controls, want)
			}
		}
	}
	var bad *generation.RequestError
	if _, err := r.Detokenize([]backend.Token{-1}); !errors.As(err, &bad) {
		t.Errorf("token -1: %v", err)
	}
}

func TestEmbed(t *testing.T) {
	r := start(t, fake.Config{ContextSize: 64}, Config{})
	tokens, err := r.Tokenize(t.Context(), "", "two and two", false)
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.Embed(t.Context(), "", tokens)
	if err != nil || len(v) != r.Info().EmbeddingLength {
		t.Fatalf("%d values, %v", len(v), err)
	}
	var bad *generation.RequestError
	if _, err := r.Embed(t.Context(), "", nil); !errors.As(err, &bad) {
		t.Errorf("no tokens: %v", err)
	}
	if _, err := r.Embed(t.Context(), "", []backend.Token{1 << 20}); !errors.As(err, &bad) {
		t.Errorf("a foreign token: %v", err)
	}
	var long *generation.PromptTooLongError
	if _, err := r.Embed(t.Context(), "", make([]backend.Token, 65)); !errors.As(err, &long) {
		t.Errorf("65 tokens: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Embed(t.Context(), "", tokens); !errors.Is(err, generation.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// Probe must return even if the step hangs.
func TestProbeOfAModelThatHangs(t *testing.T) {
	release := make(chan struct{})
	r := start(t, fake.Config{Fail: func(int, []backend.Input) error { <-release; return nil }}, Config{})
	defer close(release)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := r.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		cancel()
	}
}

func TestProbeSeesABrokenModelAndKeepsTheCache(t *testing.T) {
	r := start(t, fake.Config{Sequences: 2}, Config{}, fake.Reply{After: ask("a"), Say: think("x", "y")},
		fake.Reply{After: ask("b"), Say: think("x", "y")})
	for _, q := range []string{"a", "b"} {
		if g := collect(t.Context(), r.Runner, user(q)); g.err != nil {
			t.Fatal(g.err)
		}
	}
	for range 5 {
		if err := r.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.model.OpenSequences(); n != 1 {
		t.Errorf("%d sequences are kept after five probes, want all but one", n)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Probe(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestPromptsThatNoContextHoldsAreNotTokenized checks that their number of bytes is enough to refuse them.
func TestPromptsThatNoContextHoldsAreNotTokenized(t *testing.T) {
	r := start(t, fake.Config{ContextSize: 64}, Config{})
	long := strings.Repeat("word ", r.maxText)
	for name, req := range map[string]generation.Request{"messages": user(long), "raw": {Prompt: long}} {
		var e *generation.PromptTooLongError
		if err := collect(t.Context(), r.Runner, req).err; !errors.As(err, &e) || e.Tokens != 0 || e.Bytes != r.maxText ||
			e.Context != 64 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var e *generation.PromptTooLongError
	if err := collect(t.Context(), r.Runner, user(strings.Repeat("a ", 100))).err; !errors.As(err, &e) || e.Tokens <= 64 {
		t.Errorf("text that may fit is refused: %v", err)
	}
	if r.Fits(long) == nil || r.Fits("word") != nil {
		t.Error("Fits")
	}
}
