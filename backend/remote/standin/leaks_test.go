package standin_test

import (
	"context"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/standin"
)

// TestCloseLeavesNothing closes models whose generations have just begun, go on, and have ended. Nothing goes on that a
// model started: no stream, no question, no abort and no connection.
func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Model, c.Pace = fake.Config{Script: never, Sequences: 8}, 2*time.Millisecond
			s, h := start(t, c)
			backendtest.Goroutines(t, func() {
				m := open(t, engine(t, c.Kind, h.URL, fake.Harmony()), backend.Config{}, remote.Patience{})
				for _, n := range []int{0, 1, 20} {
					q, err := m.NewSequence()
					if err != nil {
						t.Fatal(err)
					}
					p := &backend.Sampling{TopLogprobs: -1}
					in := []backend.Input{{Sequence: q, Tokens: []backend.Token{1, 2, 3}, Sampling: p}}
					out := make([]backend.Output, 1)
					for range n {
						if err := backend.StepAll(context.Background(), m, in, out); err != nil {
							t.Fatal(err)
						}
						in[0].Tokens = []backend.Token{out[0].Token}
					}
					if err := m.Step(context.Background(), in, out); err != nil { // it is left pending
						t.Fatal(err)
					}
				}
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
			})
			for began := time.Now(); s.Running() > 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > 5*time.Second {
					t.Fatalf("%d generations go on", s.Running())
				}
			}
		})
	}
}

// TestCloseDoesNotWaitForTheEngine closes a model whose engine has stopped to answer.
func TestCloseDoesNotWaitForTheEngine(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"vllm", "sglang"} {
		s, h := start(t, standin.Config{Kind: kind})
		m := open(t, engine(t, kind, h.URL, fake.Harmony()), backend.Config{}, remote.Patience{})
		s.Fail(func(int) standin.Fault { return standin.Fault{What: standin.Silent} })
		q, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		in := []backend.Input{{Sequence: q, Tokens: []backend.Token{1}, Sampling: &backend.Sampling{TopLogprobs: -1}}}
		if err := m.Step(context.Background(), in, make([]backend.Output, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		began := time.Now()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s: Close took %v", kind, took)
		}
	}
}
