package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/models/demo"
	"runner/models/random"
	"runner/models/random/randomtest"
	"runner/reasoning"
	"runner/runner"
)

// TestDraftsChangeNothing compares runs with and without guesses of next tokens on the bundled model and on random
// ones, over 2,000 random prompts, forms, seeds and temperatures. Every event must be the same. RUNNER_LONG=1 makes
// 4,000 requests, with longer answers and as many threads as usual.
func TestDraftsChangeNothing(t *testing.T) {
	needRepeats(t)
	requests, longest, threads := 500, 80, 1 // the models are compared at the same time
	if os.Getenv("RUNNER_LONG") != "" {
		requests, longest, threads = 1000, 200, 0
	}
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]string{"demo": path}
	for name, c := range map[string]random.Config{
		"gpt-oss": {Seed: 1}, "llama": {Architecture: "llama", Seed: 2}, "qwen3moe": {Architecture: "qwen3moe", Seed: 3},
	} {
		models[name] = filepath.Join(t.TempDir(), name+".gguf")
		if err := randomtest.WriteFile(models[name], c); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			off, on := draftsRunner(t, path, threads, runner.DraftsOff), draftsRunner(t, path, threads, runner.DraftsOn)
			rng := rand.New(rand.NewPCG(uint64(len(name)), 3))
			for range requests {
				req := draftsRequest(rng, longest)
				if want, got := everything(t, off, req), everything(t, on, req); got != want {
					t.Fatalf("%+v\nwith guesses\n%s\nwithout\n%s", req, got, want)
				}
			}
			s := on.Stats()
			t.Logf("%d guesses, %d right, %d steps", s.Drafted, s.Accepted, s.Steps)
			if s.Accepted < int64(requests) {
				t.Errorf("only %d guesses were right", s.Accepted)
			}
		})
	}
}

func draftsRunner(t testing.TB, path string, threads int, d runner.Drafts) *runner.Runner {
	t.Helper()
	m, err := llamacpp.Open(context.Background(), path, backend.Config{ContextSize: 2048, Sequences: 3, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }
	r, err := runner.New(m, runner.Config{Drafts: d, Clock: clock, Seed: func() uint64 { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// draftsRequest returns a random request for an answer of up to longest tokens. Its prompt repeats itself, and so do
// many answers of random models.
func draftsRequest(rng *rand.Rand, longest int) generation.Request {
	a, b := rng.IntN(90), rng.IntN(90)
	texts := []string{
		fmt.Sprintf("What is %d + %d?", a, b),
		strings.Repeat(fmt.Sprintf("Tom has %d apples. ", a), 1+rng.IntN(6)) + "Repeat that.",
		fmt.Sprintf("Sort %d, %d, %d and %d.", a, b, a+1, b+1),
	}
	seed := rng.Uint64() >> 11
	req := generation.Request{
		Messages:  []chattemplate.Message{{Role: chattemplate.User, Content: texts[rng.IntN(len(texts))]}},
		Seed:      &seed,
		MaxTokens: 10 + rng.IntN(longest-9), Visibility: reasoning.Visibility(rng.IntN(3)), SummaryTokens: 20,
		Logprobs: rng.IntN(3) == 0, MaySee: reasoning.VisibilityFull, // others get few guesses
	}
	req.Sampling = backend.Sampling{Temperature: []float32{0, 0, 0.2, 0.7, 1, 1.5}[rng.IntN(6)], TopP: 0.95,
		TopK: []int{0, 40}[rng.IntN(2)]}
	if rng.IntN(5) == 0 {
		req.Sampling.RepetitionPenalty, req.Sampling.PresencePenalty = 1.1, 0.2
	}
	schema := `{"type":"object","properties":{"sum":{"type":"integer"},"list":{"type":"array","items":{"type":"integer"},
		"maxItems":6}},"required":["sum","list"],"additionalProperties":false}`
	switch rng.IntN(6) {
	case 0:
		req.Form = grammar.JSONSchema([]byte(schema))
	case 1:
		req.Form = grammar.Regex(`(Tom has [0-9]+ apples\. ){1,5}`)
	case 2:
		req.Form = grammar.Choices("Tom has apples.", "Tom has no apples.")
	}
	return req
}

// everything returns everything that a run says, except for its times. The summary is written beside the answer, so it
// comes last here.
func everything(t *testing.T, r *runner.Runner, req generation.Request) string {
	t.Helper()
	var b, summary strings.Builder
	for e, err := range r.Generate(t.Context(), req, generation.Unobserved{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Result != nil {
			result := *e.Result
			result.Timing = reasoning.Timing{}
			e.Result = &result
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		to := &b
		if e.Segment == reasoning.Summary || e.Kind == reasoning.SummarySettled || strings.HasPrefix(e.Code, "summary_") {
			to = &summary
		}
		to.Write(append(line, '\n'))
	}
	return b.String() + summary.String()
}
