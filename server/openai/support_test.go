package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/reasoning/seal"
	"runner/server/internal/apierror"
	"runner/server/wire"
	"runner/server/wiretest"
)

// zeros is a source of randomness that returns only zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// fixture is the API on loopback.
type fixture struct {
	t      testing.TB
	url    string
	models *wiretest.Models
	api    *API
}

func start(t testing.TB, cfg Config, p *wire.Principal, replies ...fake.Reply) *fixture {
	t.Helper()
	return startModel(t, cfg, p, fake.Config{}, replies...)
}

func startModel(t testing.TB, cfg Config, p *wire.Principal, model fake.Config, replies ...fake.Reply) *fixture {
	t.Helper()
	if cfg.Random == nil {
		cfg.Random = zeros{}
	}
	if p == nil {
		p = wiretest.Anyone()
	}
	f := &fixture{t: t, models: wiretest.New(t, model, replies...)}
	f.api = New(f.models, cfg)
	f.url = wiretest.Serve(t, f.api, p).URL
	return f
}

// answer is an HTTP response.
type answer struct {
	status int
	header http.Header
	body   string
}

func (f *fixture) post(path, body string) answer {
	f.t.Helper()
	resp, err := http.Post(f.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.read(resp)
}

func (f *fixture) get(path string) answer {
	f.t.Helper()
	resp, err := http.Get(f.url + path)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.read(resp)
}

func (f *fixture) read(resp *http.Response) answer {
	f.t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// decode reads JSON that has only v's fields.
func decode(t testing.TB, text string, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// ask posts a chat completion whose body is {"messages": [one of the user's], fields...} and returns the answer.
func (f *fixture) ask(question, fields string) *ChatCompletion {
	f.t.Helper()
	a := f.post("/v1/chat/completions", body(question, fields))
	if a.status != http.StatusOK {
		f.t.Fatalf("status %d: %s", a.status, a.body)
	}
	var c ChatCompletion
	decode(f.t, a.body, &c)
	return &c
}

func body(question, fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	q, _ := json.Marshal(question)
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%s}]%s}`, q, fields)
}

// failing returns the error of a request.
func (a answer) failing(t testing.TB) apierror.Detail {
	t.Helper()
	if a.status < 400 {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	var e apierror.Body
	decode(t, a.body, &e)
	return e.Error
}

// frames cuts a stream into the data of its events. The last one is [DONE].
func framesOf(t testing.TB, stream string) []string {
	t.Helper()
	if !strings.HasSuffix(stream, "data: [DONE]\n\n") {
		t.Fatalf("the stream does not end with [DONE]: %q", stream[max(0, len(stream)-200):])
	}
	var frames []string
	for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("not a frame: %q", frame)
		}
		frames = append(frames, data)
	}
	return frames[:len(frames)-1]
}

// assemble joins chunks as clients do.
func assemble(t testing.TB, frames []string) *ChatCompletion {
	t.Helper()
	out := &ChatCompletion{Object: "chat.completion"}
	finished := map[int]bool{}
	for i, frame := range frames {
		var c Chunk
		decode(t, frame, &c)
		if c.Object != "chat.completion.chunk" || i > 0 && (c.ID != out.ID || c.Model != out.Model ||
			c.Created != out.Created) {
			t.Fatalf("frame %d belongs to another answer: %s", i, frame)
		}
		out.ID, out.Model, out.Created, out.SystemFingerprint = c.ID, c.Model, c.Created, c.SystemFingerprint
		if c.Usage != nil {
			if i != len(frames)-1 || len(c.Choices) != 0 {
				t.Fatalf("usage in frame %d of %d: %s", i, len(frames), frame)
			}
			out.Usage = **c.Usage
			continue
		}
		if len(c.Choices) != 1 {
			t.Fatalf("frame %d has %d choices", i, len(c.Choices))
		}
		d := &c.Choices[0]
		if finished[d.Index] {
			t.Fatalf("frame %d comes after the end of choice %d", i, d.Index)
		}
		for len(out.Choices) <= d.Index {
			out.Choices = append(out.Choices, Choice{Index: len(out.Choices)})
		}
		choice := &out.Choices[d.Index]
		merge(&choice.Message, &d.Delta)
		if d.Logprobs != nil {
			if choice.Logprobs == nil {
				choice.Logprobs = &Logprobs{}
			}
			choice.Logprobs.Content = append(choice.Logprobs.Content, d.Logprobs.Content...)
		}
		if d.FinishReason == nil {
			continue
		}
		finished[d.Index] = true
		choice.FinishReason, choice.FinishDetail, choice.Remarks = *d.FinishReason, d.FinishDetail, d.Remarks
		if d.Index == 0 {
			out.Extras = c.Extras
		} else if c.Warnings != nil || c.ReasoningUnavailable {
			t.Errorf("choice %d speaks for all: %s", d.Index, frame)
		}
	}
	if len(finished) != len(out.Choices) {
		t.Fatalf("%d of %d choices are finished", len(finished), len(out.Choices))
	}
	return out
}

// merge adds a delta to a message.
func merge(m *AnswerMessage, d *Delta) {
	if d.Role != "" {
		m.Role = d.Role
	}
	if d.Content != nil {
		text := **d.Content
		if m.Content != nil {
			text = *m.Content + text
		}
		m.Content = &text
	}
	m.Reasoning += d.Reasoning
	m.ReasoningContent += d.ReasoningContent
	m.ReasoningSummary += d.ReasoningSummary
	m.Preamble += d.Preamble
	for _, call := range d.ToolCalls {
		if call.Index == len(m.ToolCalls) {
			made := AnswerCall{ID: call.ID, Type: call.Type}
			if call.Custom != nil {
				made.Custom = &CustomCall{Name: call.Custom.Name}
			} else {
				made.Function = &FunctionCall{Name: call.Function.Name}
			}
			m.ToolCalls = append(m.ToolCalls, made)
		}
		if made := m.ToolCalls[call.Index]; made.Custom != nil {
			made.Custom.Input += call.Custom.Input
		} else {
			made.Function.Arguments += call.Function.Arguments
		}
	}
	if d.FunctionCall != nil {
		if m.FunctionCall == nil {
			m.FunctionCall = &FunctionCall{Name: d.FunctionCall.Name}
		}
		m.FunctionCall.Arguments += d.FunctionCall.Arguments
	}
	if !reflect.DeepEqual(d.MessageEnd, MessageEnd{}) {
		m.MessageEnd = d.MessageEnd
	}
}

// pretty returns a value as indented JSON, to compare and to print.
func pretty(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(b, &plain); err != nil { // one spelling for each value
		t.Fatal(err)
	}
	b, _ = json.MarshalIndent(plain, "", "  ")
	return string(b)
}

// summaryReply answers the summary pass.
func summaryReply(say string) fake.Reply {
	return fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>",
		Say: say + "<|return|>"}
}

// keys is a keyring for tests.
func keys() *seal.Keyring { return seal.NewKeyring() }

// events reads a recorded stream of events.
func events(t testing.TB, recorded []byte) []reasoning.Event {
	t.Helper()
	var list []reasoning.Event
	for line := range bytes.SplitSeq(bytes.TrimSpace(recorded), []byte("\n")) {
		var e reasoning.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		list = append(list, e)
	}
	return list
}
