package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/models/demo"
	"runner/reasoning"
	"runner/runner"
)

// formSeeds is the number of seeds for each schema.
const formSeeds = 5

// TestHotAnswersMatchTheirSchemas runs the bundled model with forty schemas, at a temperature at which it rambles.
// Every complete answer matches its schema. Every other answer says that it was cut at its maximum length.
func TestHotAnswersMatchTheirSchemas(t *testing.T) {
	schemas := readSchemas(t)
	seeds := formSeeds
	if testing.Short() {
		seeds = 1
	}
	r := openDemo(t)
	type job struct {
		schema string
		seed   uint64
	}
	jobs := make(chan job)
	var mu sync.Mutex
	complete, cut, ended := 0, 0, map[string]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for j := range jobs {
				whole, err := hotRun(t.Context(), r, j.schema, j.seed)
				mu.Lock()
				switch {
				case err != nil:
					t.Errorf("%s, seed %d: %v", j.schema, j.seed, err)
				case whole:
					complete++
					ended[j.schema] = true
				default:
					cut++
				}
				mu.Unlock()
			}
		})
	}
	for _, s := range schemas {
		for seed := range uint64(seeds) {
			jobs <- job{s, seed}
		}
	}
	close(jobs)
	wg.Wait()
	t.Logf("%d runs against %d schemas: %d complete, %d cut by length; %d schemas have complete answers", complete+cut,
		len(schemas), complete, cut, len(ended))
	if n := r.Stats().Violations; n != 0 {
		t.Errorf("the runner counted %d violations", n)
	}
	if complete < cut || len(ended) < len(schemas)*3/4 {
		t.Errorf("only %d of %d runs came to their end, against %d of %d schemas", complete, complete+cut, len(ended),
			len(schemas))
	}
}

// hotRun generates one answer and reports whether it is complete.
func hotRun(ctx context.Context, r *runner.Runner, schema string, seed uint64) (ended bool, err error) {
	req := generation.Request{
		Messages:  []chattemplate.Message{{Role: chattemplate.User, Content: fmt.Sprintf("What is %d + 25?", 17+seed)}},
		Form:      grammar.JSONSchema([]byte(schema)),
		Effort:    []reasoning.Effort{reasoning.EffortLow, reasoning.EffortNone, reasoning.EffortMedium}[seed%3],
		Budget:    60,
		MaxTokens: 300, Seed: &seed,
		Sampling: backend.Sampling{Temperature: 1.5},
	}
	answer := ""
	var result *reasoning.Result
	for e, err := range r.Generate(ctx, req, generation.Unobserved{}) {
		switch {
		case err != nil:
			return false, err
		case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer:
			answer += e.Text
		case e.Kind == reasoning.Done:
			result = e.Result
		}
	}
	if result.Finish == reasoning.FinishLength {
		return false, nil
	}
	if result.Finish != reasoning.FinishStop {
		return false, fmt.Errorf("finish reason %v", result.Finish)
	}
	v, err := grammar.NewValidator([]byte(schema))
	if err != nil {
		return false, err
	}
	if err := v.Validate([]byte(answer)); err != nil {
		return false, fmt.Errorf("%q: %w", answer, err)
	}
	return true, nil
}

func readSchemas(t *testing.T) (out []string) {
	t.Helper()
	f, err := os.Open("testdata/schemas.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		out = append(out, lines.Text())
	}
	if len(out) < 40 {
		t.Fatalf("%d schemas", len(out))
	}
	return out
}

func openDemo(t *testing.T) *runner.Runner {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := llamacpp.Open(t.Context(), path, backend.Config{Threads: 1, Sequences: 4})
	if err != nil {
		t.Fatal(err)
	}
	// Models are told the date. With a fixed date, a seed gives one text.
	date := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	r, err := runner.New(m, runner.Config{Clock: func() time.Time { return date }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// hotCall generates one call of a strict function at a high temperature, and reports whether it is complete.
func hotCall(ctx context.Context, r *runner.Runner, schema string, seed uint64) (ended bool, err error) {
	req := generation.Request{
		Messages: []chattemplate.Message{{Role: chattemplate.User, Content: fmt.Sprintf("What is %d + 25?", 17+seed)}},
		Tools: []chattemplate.Tool{{Name: "look", Description: "Looks it up.", Parameters: json.RawMessage(schema),
			Strict: true}},
		ToolChoice: generation.ToolChoiceRequired, Effort: reasoning.EffortNone,
		MaxTokens: 300, Seed: &seed, Sampling: backend.Sampling{Temperature: 1.5},
	}
	arguments := ""
	var result *reasoning.Result
	for e, err := range r.Generate(ctx, req, generation.Unobserved{}) {
		switch {
		case err != nil:
			return false, err
		case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.ToolCall:
			arguments += e.Text
		case e.Kind == reasoning.Done:
			result = e.Result
		}
	}
	switch result.Finish {
	case reasoning.FinishLength:
		return false, nil
	case reasoning.FinishToolCalls:
	default:
		return false, fmt.Errorf("finish reason %v", result.Finish)
	}
	v, err := grammar.NewValidator([]byte(schema))
	if err != nil {
		return false, err
	}
	if err := v.Validate([]byte(arguments)); err != nil {
		return false, fmt.Errorf("%q: %w", arguments, err)
	}
	return true, nil
}
