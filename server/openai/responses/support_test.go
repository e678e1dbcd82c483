package responses

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"runner/backend/fake"
	"runner/reasoning/prompts"
	"runner/server/wire"
	"runner/server/wiretest"
)

// The texts of the tests' models. The secret is in every reasoning and must never show where reasoning must not.
const (
	secret   = "zebracanary"
	question = "What is two and two?"
	thoughts = "the user asks " + secret + " so two and two are four"
	answer   = "It is four."
	brief    = "Adding gives the sum."
)

// fixture is an API with a model on loopback.
type fixture struct {
	*API
	models *wiretest.Models
	server *httptest.Server
	client openai.Client
}

// start serves the API for a principal with all permissions. Without replies, the model answers question with thoughts
// and answer, and summarizes with brief.
func start(t testing.TB, cfg Config, model fake.Config, replies ...fake.Reply) *fixture {
	t.Helper()
	if len(replies) == 0 {
		replies = usual()
	}
	f := &fixture{models: wiretest.New(t, model, replies...)}
	f.API = New(f.models, cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		f.Close(ctx)
	})
	f.server = wiretest.Serve(t, f.API, wiretest.Anyone())
	f.client = clientOf(f.server)
	return f
}

func clientOf(s *httptest.Server) openai.Client {
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

// as serves the same API to another principal.
func (f *fixture) as(t testing.TB, p *wire.Principal) *fixture {
	other := *f
	other.server = wiretest.Serve(t, f.API, p)
	other.client = clientOf(other.server)
	return &other
}

func usual() []fake.Reply {
	return []fake.Reply{
		{After: wiretest.Ask(question), Say: wiretest.Think(thoughts, answer)},
		summaryReply(brief),
	}
}

// summaryReply answers the summary pass.
func summaryReply(say string) fake.Reply {
	return fake.Reply{Prompt: "<|start|>developer", After: prompts.SummaryConciseV1 +
		"<|end|><|start|>assistant<|channel|>final<|message|>", Say: say + "<|return|>"}
}

// slowly makes each step of a model take a while.
func slowly(each time.Duration) fake.Config {
	return fake.Config{Delay: func(int) time.Duration { return each }}
}

// object is a JSON object.
type object = map[string]any

// do makes a request and returns the status and the body.
func (f *fixture) do(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// post creates a response, which must succeed.
func (f *fixture) post(t testing.TB, body string) object {
	t.Helper()
	status, got := f.do(t, "POST", "/v1/responses", body)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d, %s", body, status, got)
	}
	return decode(t, got)
}

// get gets a response, which must exist.
func (f *fixture) get(t testing.TB, path string) object {
	t.Helper()
	status, got := f.do(t, "GET", path, "")
	if status != http.StatusOK {
		t.Fatalf("GET %s: status %d, %s", path, status, got)
	}
	return decode(t, got)
}

// refused makes a request that must be refused, and returns the error.
func (f *fixture) refused(t testing.TB, method, path, body string, want int) object {
	t.Helper()
	status, got := f.do(t, method, path, body)
	if status != want {
		t.Fatalf("%s %s %.300s: status %d, want %d: %s", method, path, body, status, want, got)
	}
	e, ok := decode(t, got)["error"].(object)
	if !ok {
		t.Fatalf("no error in %s", got)
	}
	return e
}

func decode(t testing.TB, data string) object {
	t.Helper()
	var v object
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

func encode(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// frames reads a stream of server-sent events to its end and checks that each is named after its type.
func frames(t testing.TB, r io.Reader) []object {
	t.Helper()
	var all []object
	name := ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "data: "):
			e := decode(t, strings.TrimPrefix(line, "data: "))
			if e["type"] != name {
				t.Fatalf("event %q has type %v", name, e["type"])
			}
			all = append(all, e)
		case line != "" && !strings.HasPrefix(line, ":"):
			t.Fatalf("a line that is no frame: %q", line)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// stream makes a request whose answer is a stream.
func (f *fixture) stream(t testing.TB, method, path, body string) []object {
	t.Helper()
	status, got := f.do(t, method, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d, %s", body, status, got)
	}
	return frames(t, strings.NewReader(got))
}

// body returns a request about question with more fields.
func body(t testing.TB, more object) string {
	t.Helper()
	b := object{"input": question, "temperature": 0}
	maps.Copy(b, more)
	return encode(t, b)
}

// fold handles a stream as OpenAI's client for JavaScript does (ResponseAccumulator), but without the last event,
// which has the result. What it makes of the others must equal that result. It fails where that client would.
func fold(t testing.TB, events []object) (output []any, last object) {
	t.Helper()
	for i, e := range events {
		if seq := int(e["sequence_number"].(float64)); seq != i {
			t.Fatalf("event %d has number %d", i, seq)
		}
	}
	if events[0]["type"] != "response.created" {
		t.Fatalf("the first event is %v", events[0]["type"])
	}
	done := map[int]bool{}
	for i, e := range events {
		kind := e["type"].(string)
		switch kind {
		case "response.created", "response.queued", "response.in_progress":
			if n := len(e["response"].(object)["output"].([]any)); n != 0 || len(output) != 0 {
				t.Fatalf("%s with %d items after %d", kind, n, len(output))
			}
			continue
		case "response.completed", "response.incomplete", "response.failed":
			if i != len(events)-1 {
				t.Fatalf("%s is not the last event", kind)
			}
			return output, e["response"].(object)
		case "response.output_item.added":
			if int(e["output_index"].(float64)) != len(output) {
				t.Fatalf("item added at %v of %d", e["output_index"], len(output))
			}
			output = append(output, clone(t, e["item"]))
			continue
		}
		at := int(e["output_index"].(float64))
		if at >= len(output) {
			t.Fatalf("%s for item %d of %d", kind, at, len(output))
		}
		if done[at] {
			t.Fatalf("%s after item %d was done", kind, at)
		}
		item := output[at].(object)
		if kind == "response.output_item.done" {
			done[at] = true
			if next := e["item"].(object); next["status"] == "in_progress" || encode(t, merge(item, next)) != encode(t, next) {
				t.Fatalf("item %s is done as %s", encode(t, item), encode(t, next))
			}
			output[at] = clone(t, e["item"])
			continue
		}
		if e["item_id"] != item["id"] {
			t.Fatalf("%s names item %v, and %d is %v", kind, e["item_id"], at, item["id"])
		}
		foldText(t, kind, e, item)
	}
	t.Fatal("the stream has no end")
	return nil, nil
}

// foldText folds one event about an item's texts.
func foldText(t testing.TB, kind string, e, item object) {
	t.Helper()
	list, index := "content", "content_index"
	if strings.Contains(kind, "summary") {
		list, index = "summary", "summary_index"
	}
	part := func() object { return item[list].([]any)[int(e[index].(float64))].(object) }
	switch kind {
	case "response.content_part.added", "response.reasoning_summary_part.added":
		parts, _ := item[list].([]any)
		if int(e[index].(float64)) != len(parts) {
			t.Fatalf("part added at %v of %d", e[index], len(parts))
		}
		item[list] = append(parts, clone(t, e["part"]))
	case "response.output_text.delta":
		p := part()
		p["text"] = p["text"].(string) + e["delta"].(string)
		p["logprobs"] = append(p["logprobs"].([]any), e["logprobs"].([]any)...)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		p := part()
		p["text"] = p["text"].(string) + e["delta"].(string)
	case "response.output_text.done", "response.reasoning_text.done", "response.reasoning_summary_text.done":
		if p := part(); p["text"] != e["text"] || p["logprobs"] != nil && encode(t, p["logprobs"]) != encode(t,
			e["logprobs"]) {
			t.Fatalf("%s says %v after deltas %v", kind, e, p)
		}
	case "response.content_part.done", "response.reasoning_summary_part.done":
		if p := part(); encode(t, p) != encode(t, e["part"]) {
			t.Fatalf("%s says %s after %s", kind, encode(t, e["part"]), encode(t, p))
		}
	case "response.function_call_arguments.delta":
		item["arguments"] = item["arguments"].(string) + e["delta"].(string)
	case "response.function_call_arguments.done":
		if item["arguments"] != e["arguments"] || item["name"] != e["name"] {
			t.Fatalf("%s says %v after %v", kind, e, item)
		}
	default:
		t.Fatalf("unknown event %s", kind)
	}
}

// merge returns a folded item with what only its last event has: the status and the sealed value.
func merge(item, done object) object {
	m := maps.Clone(item)
	m["status"] = done["status"]
	if sealed, ok := done["encrypted_content"]; ok {
		m["encrypted_content"] = sealed
	}
	return m
}

func clone(t testing.TB, v any) any {
	t.Helper()
	var c any
	if err := json.Unmarshal([]byte(encode(t, v)), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// types lists the types of events, with a repeated type only once.
func types(events []object) string {
	var b bytes.Buffer
	last := ""
	for _, e := range events {
		if kind := strings.TrimPrefix(e["type"].(string), "response."); kind != last {
			last = kind
			at := ""
			if i, ok := e["output_index"]; ok {
				at = fmt.Sprint(i, " ")
			}
			fmt.Fprintln(&b, at+kind)
		}
	}
	return b.String()
}

// items lists a response's items by type.
func items(response object) []string {
	var list []string
	for _, item := range response["output"].([]any) {
		list = append(list, item.(object)["type"].(string))
	}
	return list
}

// item returns an item of a response.
func item(response object, i int) object { return response["output"].([]any)[i].(object) }

// partText returns the text of a part of an item.
func partText(item object, list string, i int) string {
	return item[list].([]any)[i].(object)["text"].(string)
}

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
