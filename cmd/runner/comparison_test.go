//go:build unix

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// asks is a body of a chat completion with a question that the bundled model can answer.
func asks(fields string) string {
	return `{"temperature": 0, "messages": [{"role": "user", "content": "What is 17 + 25?"}]` + fields + `}`
}

// TestComparison checks what the table of README.md says of this program. Each row has a check here. The commands and
// flags that the cells name are checked with those of all documents, in package cli.
func TestComparison(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	keys := filepath.Join(t.TempDir(), "keys.json")
	key := make(map[string]string)
	for _, reasoning := range []string{"none", "full"} {
		out, err := exec.Command("runner", "serve", "apikey", "new", keys, reasoning, "--reasoning", reasoning).Output()
		if err != nil {
			t.Fatal(err)
		}
		key[reasoning] = strings.TrimSpace(string(out))
	}
	s := serve(t, "--api-keys", keys)
	full := key["full"]
	// reply sends a request, and wants a status and texts in the reply.
	reply := func(t *testing.T, key, path, body string, status int, want ...string) string {
		t.Helper()
		got, text := send(t, http.MethodPost, s.url+path, key, body)
		if got != status {
			t.Fatalf("%s: status %d, want %d: %s", path, got, status, text)
		}
		says(t, text, want...)
		return text
	}
	// run runs the program, and wants texts in what it prints.
	run := func(t *testing.T, want []string, args ...string) {
		t.Helper()
		out, err := exec.Command("runner", append([]string{"run", "--temperature", "0"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		says(t, string(out), want...)
	}
	hides := func(t *testing.T, text string) {
		t.Helper()
		if strings.Contains(text, "digit by digit") {
			t.Errorf("the reasoning is in %s", text)
		}
	}
	const chat = "/v1/chat/completions"
	checks := map[string]func(t *testing.T){
		"Formats over HTTP": func(t *testing.T) {
			reply(t, full, chat, asks(""), http.StatusOK, "17 + 25 = 42.")
			reply(t, full, "/v1/responses", `{"temperature": 0, "input": "What is 17 + 25?"}`, http.StatusOK, "17 + 25 = 42.")
			reply(t, full, "/v1/messages", asks(`, "model": "demo", "max_tokens": 400`), http.StatusOK, "17 + 25 = 42.")
			reply(t, full, "/api/chat", asks(`, "model": "demo", "options": {"temperature": 0}`), http.StatusOK, `"done":true`)
			reply(t, full, "/agui", `{"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [],
				"forwardedProps": {}, "messages": [{"id": "1", "role": "user", "content": "What is 17 + 25?"}]}`, http.StatusOK,
				"RUN_FINISHED")
		},
		"Reasoning, if nobody asks": func(t *testing.T) {
			hides(t, reply(t, full, chat, asks(""), http.StatusOK))
			reply(t, full, chat, asks(`, "reasoning": "full"`), http.StatusOK, "digit by digit")
		},
		"Summary of the reasoning": func(t *testing.T) {
			run(t, []string{"Adding gives 42.", "17 + 25 = 42."}, "--reasoning", "summary", "What is 17 + 25?")
		},
		"Cap on reasoning by API key": func(t *testing.T) {
			reply(t, key["none"], chat, asks(`, "reasoning": "full"`), http.StatusForbidden, "reasoning:full")
			reply(t, key["none"], chat, asks(""), http.StatusOK, "17 + 25 = 42.")
		},
		"Reasoning carried by the client": func(t *testing.T) {
			text := reply(t, full, chat, asks(`, "reasoning_seal": true`), http.StatusOK, `"reasoning_encrypted_content":"`)
			hides(t, text)
		},
		"A schema that cannot be kept exactly": func(t *testing.T) {
			reply(t, full, chat, asks(`, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema":
				{"type": "array", "items": {"type": "number"}, "uniqueItems": true}}}`), http.StatusBadRequest, "uniqueItems")
		},
		"Record of a run": func(t *testing.T) {
			t.Setenv("RUNNER_PASSPHRASE", "correct horse battery staple")
			if out, err := exec.Command("runner", "trace", "keys", "new").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			run(t, []string{"17 + 25 = 42.", "trace "}, "--trace", "What is 17 + 25?")
			out, err := exec.Command("runner", "trace", "verify").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			says(t, string(out), "2 entries, 1 trace")
		},
		"Reason for each call": func(t *testing.T) {
			tools := filepath.Join(t.TempDir(), "tools.json")
			if err := os.WriteFile(tools, []byte(`[{"name": "calculator", "description": "Works with two whole numbers.",
				"parameters": {"type": "object", "properties": {"operation": {"enum": ["add"]}, "a": {"type": "integer"},
				"b": {"type": "integer"}}, "required": ["operation", "a", "b"]}}]`), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, []string{`"rationale":{"why":"`}, "--tools", tools, "--tool-choice", "required", "--rationale",
				"--reasoning", "full", "--output", "decisions", "What is 48213 + 9977?")
		},
		"Images": func(t *testing.T) {
			reply(t, full, chat, `{"messages": [{"role": "user", "content": [{"type": "image_url",
				"image_url": {"url": "data:image/png;base64,AAAA"}}]}]}`, http.StatusBadRequest, "text only")
		},
		"Reranking": func(t *testing.T) {
			reply(t, full, "/v1/rerank", `{}`, http.StatusNotFound)
		},
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "\n| | runner | ollama |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(table, -1)
	if len(rows) != len(checks) {
		t.Errorf("the table has %d rows, and there are %d checks", len(rows), len(checks))
	}
	for _, row := range rows {
		check := checks[row[1]]
		if check == nil {
			t.Errorf("nothing checks the row %q", row[1])
			continue
		}
		t.Run(row[1], check)
	}
}
