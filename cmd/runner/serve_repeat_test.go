package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"runner/backend/llamacpp"
)

// repeats reports whether a token's logits depend only on its sequence on this machine.
func repeats(t *testing.T) bool {
	t.Helper()
	e, err := llamacpp.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	s := e.System()
	return s.Kernels != "" && len(s.Devices) == 0 // a GPU has other kernels
}

// needRepeats skips a test where repeats is false.
func needRepeats(t *testing.T) {
	t.Helper()
	if !repeats(t) {
		t.Skip("this machine has a GPU, or its processor can run none of the runner's kernels; " +
			"other kernels round by what else is in the batch")
	}
}

// TestServeRepeatsForASeed: at temperature 1 a seed gives the same text, the same call and the same JSON. This holds
// for a request alone and with seven others, and with and without a cached prompt.
func TestServeRepeatsForASeed(t *testing.T) {
	needRepeats(t)
	s := serve(t, "--parallel", "8")
	parameters := map[string]any{"type": "object", "required": []string{"a", "note"}, "properties": map[string]any{
		"a": map[string]any{"type": "integer"}, "note": map[string]any{"type": "string"}}}
	kinds := map[string]map[string]any{
		"text": {},
		"call": {"tool_choice": "required", "tools": []any{map[string]any{"type": "function",
			"function": map[string]any{"name": "add", "parameters": parameters}}}},
		"schema": {"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "sum",
			"schema": parameters}}},
	}
	ask := func(kind string, seed int) (string, error) {
		request := map[string]any{"temperature": 1, "seed": seed, "reasoning": "full", "max_tokens": 120,
			"messages": []any{map[string]any{"role": "user", "content": fmt.Sprintf("What is %d + %d?", 100+7*seed,
				35+11*seed)}}}
		for name, value := range kinds[kind] {
			request[name] = value
		}
		body, err := json.Marshal(request)
		if err != nil {
			return "", err
		}
		res, err := http.Post(s.url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			return "", fmt.Errorf("status %d: %s: %w", res.StatusCode, text, err)
		}
		var got struct {
			Choices []struct {
				FinishReason string `json:"finish_reason"`
				Message      struct {
					Content, Reasoning string
					ToolCalls          []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal(text, &got); err != nil {
			return "", err
		}
		return fmt.Sprintf("%+v", got.Choices), nil
	}
	const seeds = 8
	type question struct {
		kind string
		seed int
	}
	alone := map[question]string{}
	for kind := range kinds {
		for seed := range seeds {
			text, err := ask(kind, seed)
			if err != nil {
				t.Fatal(err)
			}
			alone[question{kind, seed}] = text
		}
	}
	places := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for range 2 {
		for q, want := range alone {
			wg.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				if text, err := ask(q.kind, q.seed); err != nil || text != want {
					t.Errorf("%s, seed %d:\nalone: %s\nwith others: %s %v", q.kind, q.seed, want, text, err)
				}
			})
		}
	}
	wg.Wait()
}
