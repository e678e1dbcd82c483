package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"runner/reasoning"
)

// chatShape is what checks of gpt-oss providers expect of chat completions, in an answer and in each chunk of a stream.
type chatShape struct {
	Choices []struct {
		Message chatMessageShape `json:"message"`
		Delta   chatMessageShape `json:"delta"`
	} `json:"choices"`
}

type chatMessageShape struct {
	Role             string  `json:"role"`
	Refusal          *string `json:"refusal"`
	Reasoning        *string `json:"reasoning"`
	ReasoningContent *string `json:"reasoning_content"`
}

func (m *chatMessageShape) reasons() bool {
	return m.Reasoning != nil && *m.Reasoning != "" && m.ReasoningContent != nil && *m.ReasoningContent == *m.Reasoning
}

// responseShape is what they expect of responses.
type responseShape struct {
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"output"`
}

// reasons reports whether there is reasoning and each of its items has text.
func (r *responseShape) reasons() bool {
	items := 0
	for _, item := range r.Output {
		if item.Type != "reasoning" {
			continue
		}
		if items++; len(item.Content) == 0 {
			return false
		}
		for _, part := range item.Content {
			if part.Type != "reasoning_text" || part.Text == "" {
				return false
			}
		}
	}
	return items > 0
}

// compatibilityRequests are requests that OpenAI's agents send to a provider: a question with a tool, and the turn
// after the call.
var compatibilityRequests = map[string][]string{
	"/v1/chat/completions": {
		`{"model":"demo","messages":[{"role":"user","content":"` + asksLookUp + `"}],` + chatTools + `$S}`,
		`{"model":"demo","messages":[{"role":"user","content":"` + asksSum + `"},` +
			`{"role":"assistant","content":null,"tool_calls":` +
			`[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"call_1","content":"{\"status\":\"ok\"}"},` +
			`{"role":"user","content":"` + asksSum + `"}],` + chatTools + `$S}`,
	},
	"/v1/responses": {
		`{"model":"demo","input":[{"role":"user","content":"` + asksLookUp + `"}],"include":[],` + responseTools + `$S}`,
		`{"model":"demo","input":[{"role":"user","content":"` + asksSum + `"}],"include":[],"store":false,` +
			responseTools + `$S}`,
	},
}

const (
	lookParameters = `"name":"look","description":"Look it up.",` +
		`"parameters":{"type":"object","properties":{},"additionalProperties":false}`
	chatTools     = `"tools":[{"type":"function","function":{` + lookParameters + `,"strict":false}}]`
	responseTools = `"tools":[{"type":"function",` + lookParameters + `,"strict":false}]`
)

// With --reasoning full, a request that does not ask for reasoning gets it in the shapes that are expected of gpt-oss
// providers. Without the flag it gets none.
func TestAnswersHaveTheShapesOfGPTOSS(t *testing.T) {
	for _, usual := range everyVisibility {
		o := &serveOptions{Host: Host{MaxReasoning: reasoning.VisibilityFull}}
		o.Defaults.Visibility = usual
		url := wholeServerWith(t, io.Discard, o, false)
		want := usual == reasoning.VisibilityFull
		for path, bodies := range compatibilityRequests {
			for _, body := range bodies {
				for _, stream := range []string{"", `,"stream":true`} {
					sent := strings.ReplaceAll(body, "$S", stream)
					status, out := all(t.Context(), t, http.MethodPost, url+path, "", sent)
					if status != http.StatusOK || hasShape(t, path, stream != "", out) != want {
						t.Errorf("--reasoning %s: %s %s: %d, want its shape %v:\n%s", usual, path, sent, status, want, out)
					}
				}
			}
		}
	}
}

// hasShape reports whether an answer, with its headers, has the expected shape.
func hasShape(t *testing.T, path string, stream bool, out string) bool {
	t.Helper()
	if !stream {
		out = out[strings.IndexByte(out, '{'):]
		if path == "/v1/responses" {
			var r responseShape
			readShape(t, out, &r)
			return r.reasons()
		}
		var c chatShape
		readShape(t, out, &c)
		m := c.Choices[0].Message
		return m.Role == "assistant" && m.Refusal == nil && m.reasons()
	}
	found, done := false, false
	for line := range strings.Lines(out) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok || data == "[DONE]":
		case path == "/v1/responses":
			var e struct {
				Type  string          `json:"type"`
				Delta json.RawMessage `json:"delta"` // an object in some events
			}
			readShape(t, data, &e)
			found = found || e.Type == "response.reasoning_text.delta" && string(e.Delta) != `""`
			done = done || e.Type == "response.reasoning_text.done"
		default:
			var c chatShape
			readShape(t, data, &c)
			found = found || c.Choices[0].Delta.reasons()
			done = true
		}
	}
	return found && done
}

func readShape(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
