package contract_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/reasoning/seal"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/wire"
	"runner/server/wiretest"
)

type object = map[string]any

// turn is a question and its answer as a client has them: a text or a call with its result, and the sealed value.
type turn struct {
	asked, text, call, value string
}

// origin is the place where reasoning was sealed.
type origin struct {
	principal, thread    string
	thought, asked, call string
	number               int
}

// allows reports whether the reasoning may be where it is.
func (o *origin) allows(r *thought) bool {
	if len(r.calls) > 0 {
		return o.thought == r.thought && slices.Equal(r.calls, []string{o.call})
	}
	return o.thought == r.thought && o.asked == r.asked
}

// format makes requests in one wire format.
type format struct {
	path string
	// request returns the body of a request from turns and a last question.
	request func(thread string, turns []turn, question string) object
	// answer returns the text, the call and the sealed value of an answer.
	answer func(t *testing.T, body string) turn
	// threads means that conversations have ids.
	threads bool
}

const function = "look"

var parameters = object{"type": "object"}

var formats = map[string]format{
	"chat completions": {path: "/v1/chat/completions", request: func(_ string, turns []turn, question string) object {
		var messages []any
		for _, u := range turns {
			if u.asked != "" {
				messages = append(messages, object{"role": "user", "content": u.asked})
			}
			m := object{"role": "assistant", "content": u.text, "reasoning_encrypted_content": u.value}
			messages = append(messages, m)
			if u.call != "" {
				m["tool_calls"] = []any{object{"id": u.call, "type": "function",
					"function": object{"name": function, "arguments": "{}"}}}
				messages = append(messages, object{"role": "tool", "tool_call_id": u.call, "content": "the sky"})
			}
		}
		return object{"messages": append(messages, object{"role": "user", "content": question}), "reasoning_seal": true,
			"keep_reasoning": true,
			"tools":          []any{object{"type": "function", "function": object{"name": function, "parameters": parameters}}}}
	}, answer: func(t *testing.T, body string) (u turn) {
		var c openai.ChatCompletion
		read(t, body, &c)
		m := c.Choices[0].Message
		if u.value = m.ReasoningEncryptedContent; m.Content != nil {
			u.text = *m.Content
		}
		if len(m.ToolCalls) > 0 {
			u.call = m.ToolCalls[0].ID
		}
		return u
	}},
	"messages": {path: "/v1/messages", request: func(_ string, turns []turn, question string) object {
		var messages []any
		for _, u := range turns {
			if u.asked != "" {
				messages = append(messages, object{"role": "user", "content": u.asked})
			}
			blocks := []any{object{"type": "thinking", "thinking": "x", "signature": u.value}}
			if u.text != "" {
				blocks = append(blocks, object{"type": "text", "text": u.text})
			}
			if u.call != "" {
				blocks = append(blocks, object{"type": "tool_use", "id": u.call, "name": function, "input": object{}})
			}
			messages = append(messages, object{"role": "assistant", "content": blocks})
			if u.call != "" {
				messages = append(messages, object{"role": "user",
					"content": []any{object{"type": "tool_result", "tool_use_id": u.call, "content": "the sky"}}})
			}
		}
		return object{"max_tokens": 200, "messages": append(messages, object{"role": "user", "content": question}),
			"thinking": object{"type": "adaptive"},
			"tools":    []any{object{"name": function, "input_schema": parameters}}}
	}, answer: func(t *testing.T, body string) (u turn) {
		var m struct {
			Content []struct{ Type, Signature, Text, ID string }
		}
		read(t, body, &m)
		for _, b := range m.Content {
			u.text += b.Text
			u.value += b.Signature
			u.call += b.ID
		}
		return u
	}},
	"responses": {path: "/v1/responses", request: func(_ string, turns []turn, question string) object {
		var items []any
		for _, u := range turns {
			if u.asked != "" {
				items = append(items, object{"role": "user", "content": u.asked})
			}
			items = append(items, object{"type": "reasoning", "summary": []any{}, "encrypted_content": u.value})
			if u.text != "" {
				items = append(items, object{"role": "assistant", "content": u.text})
			}
			if u.call != "" {
				items = append(items, object{"type": "function_call", "call_id": u.call, "name": function, "arguments": "{}"},
					object{"type": "function_call_output", "call_id": u.call, "output": "the sky"})
			}
		}
		return object{"input": append(items, object{"role": "user", "content": question}),
			"include": []any{"reasoning.encrypted_content"}, "store": false,
			"keep_reasoning": true, "tools": []any{object{"type": "function", "name": function, "parameters": parameters}}}
	}, answer: func(t *testing.T, body string) (u turn) {
		var r struct {
			Output []struct {
				EncryptedContent string `json:"encrypted_content"`
				CallID           string `json:"call_id"`
				Content          []struct{ Text string }
			}
		}
		read(t, body, &r)
		for _, item := range r.Output {
			u.value += item.EncryptedContent
			u.call += item.CallID
			for _, p := range item.Content {
				u.text += p.Text
			}
		}
		return u
	}},
	"AG-UI": {path: "/agui", threads: true, request: func(thread string, turns []turn, question string) object {
		var messages []any
		id := func() string { return fmt.Sprint("m", len(messages)) }
		for _, u := range turns {
			if u.asked != "" {
				messages = append(messages, object{"id": id(), "role": "user", "content": u.asked})
			}
			messages = append(messages, object{"id": id(), "role": "reasoning", "content": "", "encryptedValue": u.value})
			m := object{"id": id(), "role": "assistant", "content": u.text}
			messages = append(messages, m)
			if u.call != "" {
				m["toolCalls"] = []any{object{"id": u.call, "type": "function",
					"function": object{"name": function, "arguments": "{}"}, "encryptedValue": u.value}}
				messages = append(messages, object{"id": id(), "role": "tool", "toolCallId": u.call, "content": "the sky"})
			}
		}
		return object{"threadId": thread, "runId": "r",
			"messages":       append(messages, object{"id": id(), "role": "user", "content": question}),
			"tools":          []any{object{"name": function, "description": "", "parameters": parameters}},
			"forwardedProps": object{"reasoning_seal": true, "keep_reasoning": true}}
	}, answer: func(t *testing.T, body string) (u turn) {
		for line := range strings.Lines(body) {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			var e struct{ Type, Delta, ToolCallID, EncryptedValue string }
			read(t, data, &e)
			switch e.Type {
			case "TEXT_MESSAGE_CONTENT":
				u.text += e.Delta
			case "TOOL_CALL_START":
				u.call = e.ToolCallID
			case "REASONING_ENCRYPTED_VALUE":
				u.value = e.EncryptedValue
			case "RUN_ERROR":
				t.Fatal(body)
			}
		}
		return u
	}},
}

func read(t *testing.T, body string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
}

// Conversations are made, edited at random as clients may edit them, and sent again. The server always answers. It
// restores reasoning only at the place for which it was sealed. An unedited conversation gets all of its reasoning
// back.
func TestEditedHistoriesAreAnswered(t *testing.T) {
	const questions = 6
	replies := []fake.Reply{{After: wiretest.Ask("over"), Say: wiretest.Think("", "Bye.")}}
	for i := range questions {
		question, thought := fmt.Sprint("question ", i), fmt.Sprintf("<thought %d>", i)
		say := wiretest.Think(thought, "I see.")
		if i%2 == 0 {
			say = wiretest.Call(thought, "", function, "{}")
		}
		replies = append(replies, fake.Reply{After: wiretest.Ask(question), Say: say})
	}
	for name, f := range formats {
		t.Run(name, func(t *testing.T) {
			models := wiretest.New(t, fake.Config{ContextSize: 1 << 14}, replies...)
			keys := seal.NewKeyring()
			api := map[string]wire.Format{
				"/v1/chat/completions": openai.New(models, openai.Config{Seal: keys}),
				"/v1/messages":         anthropic.New(models, anthropic.Config{Seal: keys}),
				"/v1/responses":        responses.New(models, responses.Config{Config: wire.Config{Seal: keys}}),
				"/agui":                agui.New(models, agui.Config{Seal: keys}),
			}[f.path]
			urls := map[string]string{}
			for _, id := range []string{"one", "two"} {
				p := wiretest.Anyone()
				p.ID = id
				urls[id] = wiretest.Serve(t, api, p).URL + f.path
			}
			ask := func(principal, thread string, turns []turn, question string) string {
				t.Helper()
				body, err := json.Marshal(f.request(thread, turns, question))
				if err != nil {
					t.Fatal(err)
				}
				status, _, answer := wiretest.Send(t, http.MethodPost, urls[principal], string(body),
					http.Header{"Anthropic-Version": {"2023-06-01"}})
				if status != http.StatusOK || strings.Contains(answer, "RUN_ERROR") {
					t.Fatalf("%d %s for %s", status, answer, body)
				}
				return answer
			}
			origins := map[string]origin{} // by value
			type conversation struct {
				principal, thread string
				turns             []turn
			}
			rng := rand.New(rand.NewPCG(7, 7))
			number := 0
			made := []conversation{{principal: "one", thread: "a"}, {principal: "one", thread: "b"},
				{principal: "two", thread: "a"}}
			for i := range made {
				c := &made[i]
				for _, q := range rng.Perm(questions) {
					question := fmt.Sprint("question ", q)
					u := f.answer(t, ask(c.principal, c.thread, c.turns, question))
					if u.asked = question; u.value == "" || (u.call != "") != (q%2 == 0) {
						t.Fatalf("question %d is answered with %+v", q, u)
					}
					number++
					origins[u.value] = origin{c.principal, c.thread, fmt.Sprintf("<thought %d>", q), question, u.call, number}
					c.turns = append(c.turns, u)
				}
				if answer := ask(c.principal, c.thread, c.turns, "over"); strings.Contains(answer, "sealed_dropped") {
					t.Fatalf("a conversation that nobody edited: %s", answer)
				}
				if n := len(restored(models.Last().Messages)); n != questions {
					t.Fatalf("%d thoughts are restored of a conversation that nobody edited", n)
				}
			}
			for range 150 {
				c := made[rng.IntN(len(made))]
				turns := slices.Clone(c.turns)
				for range 1 + rng.IntN(4) {
					other := made[rng.IntN(len(made))].turns
					turns = edit(rng, turns, other[rng.IntN(len(other))])
				}
				ask(c.principal, c.thread, turns, "over")
				last := 0
				for _, r := range restored(models.Last().Messages) {
					first := number + 1 // the first turn that it may belong to, in order
					for _, u := range turns {
						o, ours := origins[u.value]
						if ours && o.principal == c.principal && (!f.threads || o.thread == c.thread) && o.allows(&r) && o.number > last {
							first = min(first, o.number)
						}
					}
					if last = first; last > number {
						t.Fatalf("%+v is restored for %s in %s: %+v", r, c.principal, c.thread, turns)
					}
				}
			}
		})
	}
}

// thought is reasoning in a prompt.
type thought struct {
	thought, asked string
	calls          []string
}

var thoughts = regexp.MustCompile(`<thought \d>`)

func restored(messages []chattemplate.Message) (list []thought) {
	asked := ""
	for _, m := range messages {
		if m.Role == chattemplate.User {
			asked = m.Content
		}
		for _, found := range thoughts.FindAllString(m.Reasoning, -1) {
			r := thought{thought: found, asked: asked}
			for _, c := range m.ToolCalls {
				r.calls = append(r.calls, c.ID)
			}
			list = append(list, r)
		}
	}
	return list
}

// edit changes a conversation in one place. other is a turn of this or another conversation.
func edit(rng *rand.Rand, turns []turn, other turn) []turn {
	if len(turns) == 0 {
		return []turn{other}
	}
	i, j := rng.IntN(len(turns)), rng.IntN(len(turns))
	switch u := &turns[i]; rng.IntN(13) {
	case 0:
		return turns[i:]
	case 1:
		return slices.Delete(turns, i, i+1)
	case 2:
		turns[i], turns[j] = turns[j], turns[i]
	case 3:
		return slices.Insert(turns, j, turns[i])
	case 4:
		return slices.Insert(turns, j, other)
	case 5:
		u.asked = "Today is Monday. " + u.asked
	case 6:
		u.asked = ""
	case 7:
		u.value = other.value
	case 8:
		if u.call != "" {
			u.call = "call_renamed"
		}
	case 9:
		if u.call, u.text = other.call, ""; u.call == "" {
			u.text = "I see."
		}
	case 10:
		if n := len(u.value); n > 0 {
			u.value = u.value[:rng.IntN(n)]
		}
	case 11:
		if u.call != "" {
			u.call, u.text = "", "I see."
		}
	case 12:
		u.value = "AQ" + strings.TrimPrefix(u.value, "Ag")
	}
	return turns
}
