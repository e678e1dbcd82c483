package runner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
)

// TestAStepThatHangs: who cancels a run is let go although the step does not end, whether the run is in it or waits for it; so is Close.
func TestAStepThatHangs(t *testing.T) {
	hangs, release := make(chan struct{}), make(chan struct{})
	cfg := fake.Config{Vocab: fake.Harmony(), Fail: func(step int, _ []backend.Input) error {
		if step == 3 {
			close(hangs)
			<-release
		}
		return nil
	}}
	cfg.Script = fake.Replies(cfg.Vocab, fake.Reply{After: ask("q"), Say: think("x", "a b c d e f g h")})
	r, err := New(fake.New(cfg), Config{})
	if err != nil {
		t.Fatal(err)
	}
	r.grace = 50 * time.Millisecond
	left := errors.New("the client has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			if i == 1 {
				<-hangs
			}
			if g := collect(ctx, r, user("q")); !errors.Is(g.err, left) {
				t.Errorf("run %d ends with %v", i, g.err)
			}
		})
	}
	<-hangs
	cancel(left)
	wg.Wait()
	if err := r.Close(); !errors.Is(err, ErrHangs) {
		t.Errorf("close: %v", err)
	}
	close(release)
	<-r.stopped
}

// TestEmbeddingGoesRoundThePrincipals: one principal's many texts keep another's one waiting for no more than one of them.
func TestEmbeddingGoesRoundThePrincipals(t *testing.T) {
	r, err := New(slowEmbedder{fake.New(fake.Config{Vocab: fake.Harmony()})}, Config{Queue: 1, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var mu sync.Mutex
	var order []string
	var wg sync.WaitGroup
	embed := func(principal string) {
		wg.Go(func() {
			if _, err := r.Embed(t.Context(), principal, []Token{1, 2, 3}); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, principal)
		})
	}
	waiting := func(n int) {
		for {
			r.embedding.mu.Lock()
			there := len(r.embedding.waiting)
			r.embedding.mu.Unlock()
			if there == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := r.embedding.take(t.Context(), "many"); err != nil { // so that all wait
		t.Fatal(err)
	}
	for range 20 {
		embed("many")
	}
	waiting(20)
	embed("one")
	waiting(21)
	r.embedding.give("many")
	wg.Wait()
	if order[0] != "one" && order[1] != "one" {
		t.Errorf("the order is %v", order)
	}
	// Places in the queue are few, and another principal still gets one.
	for i, want := range []error{nil, nil, ErrQueueFull} {
		if leave, err := r.Enter("many"); !errors.Is(err, want) || (leave == nil) != (want != nil) {
			t.Errorf("place %d: %v", i, err)
		}
	}
	leave, err := r.Enter("one")
	if err != nil {
		t.Fatal(err)
	}
	leave()
	leave()
}
