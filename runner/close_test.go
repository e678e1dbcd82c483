package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend/fake"
	"runner/generation"
)

// TestCloseLeavesNoGoroutine checks that nothing goes on after Close: synctest fails if a goroutine of the test does
// not end.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	for name, cfg := range map[string]fake.Config{
		"steps that wait": {Vocab: fake.Harmony()},
		"sequences at their own pace": {Vocab: fake.Harmony(),
			Pace: func(int, int) time.Duration { return time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.Script = fake.Replies(cfg.Vocab, fake.Reply{After: ask("q"), Say: think(thought, "four")})
				r, err := New(fake.New(cfg), Config{MeasureCosts: true, CallMemory: NewCallMemory(4, time.Hour)})
				if err != nil {
					t.Fatal(err)
				}
				req := user("q")
				if g := collect(t.Context(), r, req, &notebook{}); g.err != nil {
					t.Error(g.err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range r.Generate(ctx, req, &notebook{}) { // one that Close ends
					go r.Close()
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				if g := collect(ctx, r, generation.Request{Messages: req.Messages}); g.err == nil {
					t.Error("a closed runner generates")
				}
			})
		})
	}
}
