package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A crowd is some clients, each of which asks some questions one after the other.
const (
	crowdClients   = 8
	crowdQuestions = 2
)

// crowdRequest returns a client's request. All stream at temperature 1 with a seed. Some have a schema, some a
// call, and some see summaries.
func crowdRequest(client, question int) string {
	seed := client*crowdQuestions + question
	body := map[string]any{"temperature": 1, "seed": seed, "stream": true, "max_tokens": 200, "reasoning": "full",
		"stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]any{"role": "user",
			"content": fmt.Sprintf("What is %d + %d?", 100+7*seed, 35+11*seed)}}}
	schema := map[string]any{"type": "object", "required": []string{"a", "note"}, "properties": map[string]any{
		"a": map[string]any{"type": "integer"}, "note": map[string]any{"type": "string"}}}
	switch client % 4 {
	case 1:
		body["response_format"] = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "sum", "schema": schema}}
	case 2:
		body["reasoning"] = "summary"
	case 3:
		body["tool_choice"] = "required"
		body["tools"] = []any{map[string]any{"type": "function",
			"function": map[string]any{"name": "add", "parameters": schema}}}
	}
	text, _ := json.Marshal(body) // it has only texts and numbers
	return string(text)
}

// said is what a stream says: each kind of text, how it ended, and the number of tokens. How a text is cut into pieces
// depends on time and is left out.
type said struct {
	content, reasoning, summary, calls, end string
}

// crowd asks all questions of the clients at the same time.
type crowd struct {
	mu      sync.Mutex
	answers []said // as far as they have come
}

// now returns what has come so far.
func (c *crowd) now() []said {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.answers)
}

// ask returns the answers of a server when all have ended. An answer that failed ends in its error's text; failed is
// their number.
func (c *crowd) ask(s *serving) (answers []said, failed int) {
	transport := &http.Transport{MaxIdleConnsPerHost: crowdClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	c.answers = make([]said, crowdClients*crowdQuestions)
	lost := make([]bool, len(c.answers))
	var wg sync.WaitGroup
	for k := range crowdClients {
		wg.Go(func() {
			for q := range crowdQuestions {
				i := k*crowdQuestions + q
				if err := c.stream(s, client, crowdRequest(k, q), i); err != nil {
					lost[i] = true
					c.add(i, func(a *said) { a.end += "error: " + err.Error() })
				}
			}
		})
	}
	wg.Wait()
	for _, l := range lost {
		if l {
			failed++
		}
	}
	return c.answers, failed
}

func (c *crowd) add(i int, more func(*said)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more(&c.answers[i])
}

// stream sends a request and reads the stream of answer i.
func (c *crowd) stream(s *serving, client *http.Client, body string, i int) error {
	res, err := client.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return nil
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content, Reasoning string
					Summary            string `json:"reasoning_summary"`
					ToolCalls          []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
			Usage *struct {
				CompletionTokens int `json:"completion_tokens"`
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return fmt.Errorf("a torn frame %q: %w", data, err)
		}
		if chunk.Error != nil {
			return fmt.Errorf("the stream ends with an error: %s", chunk.Error.Message)
		}
		c.add(i, func(a *said) {
			for _, choice := range chunk.Choices {
				a.content += choice.Delta.Content
				a.reasoning += choice.Delta.Reasoning
				a.summary += choice.Delta.Summary
				for _, call := range choice.Delta.ToolCalls {
					a.calls += call.Function.Name + call.Function.Arguments
				}
				a.end += choice.FinishReason
			}
			if chunk.Usage != nil {
				a.end += fmt.Sprintf(" %d tokens", chunk.Usage.CompletionTokens)
			}
		})
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// crowd lets a crowd ask a server.
func (s *serving) crowd() (answers []said, failed int) { return new(crowd).ask(s) }

// begins reports whether each text of a begins the same text of b.
func (a said) begins(b said) bool {
	return strings.HasPrefix(b.content, a.content) && strings.HasPrefix(b.reasoning, a.reasoning) &&
		strings.HasPrefix(b.summary, a.summary) && strings.HasPrefix(b.calls, a.calls)
}

var wellEnded = regexp.MustCompile(`^(stop|length|tool_calls) [1-9][0-9]* tokens$`)

// wellFormed checks answer i of a crowd. It must have ended, and have the form that was asked for unless it was too
// long.
func wellFormed(i int, a said) error {
	if !wellEnded.MatchString(a.end) {
		return fmt.Errorf("it ends with %q", a.end)
	}
	if strings.HasPrefix(a.end, "length") {
		return nil
	}
	text := a.content
	switch i / crowdQuestions % 4 {
	case 1:
	case 3:
		var ok bool
		if text, ok = strings.CutPrefix(a.calls, "add"); !ok {
			return fmt.Errorf("it calls %q", a.calls)
		}
	default:
		return nil
	}
	var form struct {
		A    *int
		Note *string
	}
	if err := json.Unmarshal([]byte(text), &form); err != nil || form.A == nil || form.Note == nil {
		return fmt.Errorf("%q is not of the form: %w", text, err)
	}
	return nil
}
