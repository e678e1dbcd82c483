package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
)

// A key that may see no reasoning cannot make the model reason in its answer, whatever tokens its requests bias or
// penalise.
func TestServeKeepsReasoningOutOfBiasedAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	key := newKey(t, file, "none", "--reasoning", "none")
	s := serve(t, "--api-keys", file)
	post := func(path string, body, to any) {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, text := send(t, http.MethodPost, s.url+path, key, string(b))
		if err := json.Unmarshal([]byte(text), to); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d, %v", b, status, err)
		}
	}
	against := map[string]int{}
	for _, channel := range []string{"analysis", "final"} {
		var cut struct{ Tokens []int }
		if post("/tokenize", map[string]any{"content": channel}, &cut); len(cut.Tokens) != 1 {
			t.Fatalf("%s is the tokens %v", channel, cut.Tokens)
		}
		against[fmt.Sprint(cut.Tokens[0])] = -100
	}
	ask := func(question string, fields map[string]any) (content string, reasoning int) {
		t.Helper()
		tool := map[string]any{"name": "look", "parameters": map[string]any{"type": "object"}}
		body := map[string]any{
			"messages": []any{map[string]any{"role": "user", "content": question}}, "temperature": 0, "max_tokens": 300,
			"tools": []any{map[string]any{"type": "function", "function": tool}},
		}
		for name, value := range fields {
			body[name] = value
		}
		var reply struct {
			Choices []struct{ Message struct{ Content string } }
			Usage   struct {
				Details struct {
					Reasoning int `json:"reasoning_tokens"`
				} `json:"completion_tokens_details"`
			}
		}
		post("/v1/chat/completions", body, &reply)
		return reply.Choices[0].Message.Content, reply.Usage.Details.Reasoning
	}
	for i := range 5 {
		a, b := 17+i*3, 25+i*7
		question, want := fmt.Sprintf("What is %d + %d?", a, b), fmt.Sprintf("%d + %d = %d.", a, b, a+b)
		for name, fields := range map[string]map[string]any{
			"nothing": nil, "bias": {"logit_bias": against}, "penalty": {"frequency_penalty": -2},
			"bias and heat": {"logit_bias": against, "temperature": 2, "seed": i, "top_k": 2},
		} {
			content, reasoning := ask(question, fields)
			if reasoning == 0 || name != "bias and heat" && content != want {
				t.Errorf("%s, %s: %q after %d tokens of reasoning", question, name, content, reasoning)
			}
		}
	}
}
