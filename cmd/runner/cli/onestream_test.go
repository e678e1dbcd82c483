package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/decision"
	"runner/reasoning/seal"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/wire"
	"runner/server/wiretest"
)

// outcome is what the output of a format says about a run.
type outcome struct {
	// said is the text for the user, thoughts the reasoning and summary its summary, each in the order of arrival.
	said, thoughts, summary string
	// calls has the names of the called functions.
	calls []string
	// ending is how the run ended: done or error. It is empty if the format does not say.
	ending string
	// wrong lists what is out of order or not closed.
	wrong []string
}

func (t *outcome) wrongf(format string, args ...any) {
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
}

// part is something that a format cannot show.
type part uint16

const (
	noThoughts part = 1 << iota
	noSummary
	noCalls
	noPreamble
	noText
	noEnding
	// eitherText: the format does not distinguish reasoning from its summary.
	eitherText
	// holdsBack: the format writes some parts whole, or delays them to keep the order. If a run breaks off, they may be
	// missing.
	holdsBack
	// textCalls: a call whose arguments are no object is text.
	textCalls
)

// encoding is one of the formats in which a run leaves the process.
type encoding struct {
	name string
	// encode writes a run with a visibility. It returns false if the format does not have that visibility. read parses
	// what was written.
	encode func(t *testing.T, r *wiretest.Recording, v reasoning.Visibility) (out string, ok bool)
	read   func(out string) outcome
	lacks  part
}

// everyVisibility has all visibilities, least first.
var everyVisibility = []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
	reasoning.VisibilityFull}

// overHTTP encodes with a wire format. bodies has the requests for none, summary and full; an empty one is skipped.
// Where possible, the requests ask for sealed values too, because the format has access to what is sealed.
func overHTTP(mount func(wire.Models) wire.Format, path string, bodies [3]string) func(*testing.T, *wiretest.Recording,
	reasoning.Visibility) (string, bool) {
	return func(t *testing.T, r *wiretest.Recording, v reasoning.Visibility) (string, bool) {
		if bodies[v] == "" {
			return "", false
		}
		m := wiretest.New(t, fake.Config{})
		m.Replay = r
		s := wiretest.Serve(t, mount(m), wiretest.Anyone())
		status, header, body := wiretest.Send(t, http.MethodPost, s.URL+path, bodies[v], nil)
		if status == http.StatusBadRequest {
			t.Fatalf("%s: %s", bodies[v], body)
		}
		var head bytes.Buffer
		if err := header.Write(&head); err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets(v) {
			if strings.Contains(head.String(), secret) {
				t.Errorf("the header contains %s: %s", secret, &head)
			}
		}
		return body, true
	}
}

// inTerminal encodes with a renderer of the command line. Standard error is appended to standard output.
func inTerminal(make func(s render.Streams, cancelled func() bool) render.Renderer) func(*testing.T,
	*wiretest.Recording, reasoning.Visibility) (string, bool) {
	return func(t *testing.T, r *wiretest.Recording, v reasoning.Visibility) (string, bool) {
		var out, aside bytes.Buffer
		to := make(render.Streams{Out: &out, Err: &aside}, func() bool { return errors.Is(r.Err, context.Canceled) })
		for e, err := range r.Play(&generation.Request{Visibility: v}, generation.Unobserved{}) {
			if err == nil {
				err = to.Render(e)
			}
			if err != nil && !errors.Is(err, r.Err) {
				t.Fatal(err)
			}
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		if aside.Len() > 0 {
			out.WriteString(stderrMark + aside.String())
		}
		return out.String(), true
	}
}

// stderrMark separates standard output from standard error.
const stderrMark = "\n== standard error ==\n"

// threeways makes the requests for each of everyVisibility from one body.
func threeways(body string, fields ...string) (list [3]string) {
	for i, f := range fields {
		if f != "-" {
			list[i] = strings.Replace(body, "$", f, 1)
		}
	}
	return list
}

func encodings() []encoding {
	keys := seal.NewKeyring()
	chat := func(m wire.Models) wire.Format { return openai.New(m, openai.Config{Seal: keys}) }
	resp := func(m wire.Models) wire.Format { return responses.New(m, responses.Config{}) }
	claude := func(m wire.Models) wire.Format { return anthropic.New(m, anthropic.Config{}) }
	llama := func(m wire.Models) wire.Format { return ollama.New(m, ollama.Config{}) }
	ag := func(m wire.Models) wire.Format { return agui.New(m, agui.Config{}) }
	const question = `"messages":[{"role":"user","content":"What is 2 + 2?"}]`
	const function = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"find","parameters":{"type":"object"}}}]`
	chatBodies := func(more string) [3]string {
		return threeways(`{`+question+`,`+function+`,"logprobs":true,"top_logprobs":1,"reasoning_seal":true`+more+
			`,"reasoning":"$"}`, "none", "summary", "full")
	}
	respBodies := func(more string) [3]string {
		return threeways(
			`{"input":"What is 2 + 2?",`+
				`"tools":[{"type":"function","name":"look","parameters":{"type":"object"},"strict":false}],`+
				`"include":["reasoning.encrypted_content","message.output_text.logprobs"]`+more+`,"reasoning":"$"}`, "none",
			"summary", "full")
	}
	claudeBodies := func(more string) [3]string {
		return threeways(`{`+question+`,"max_tokens":2000,"tools":[{"name":"look","input_schema":{"type":"object"}}]`+more+
			`,"thinking":{"type":"adaptive","display":"$"}}`,
			"omitted", "summarized", "full")
	}
	llamaBodies := func(more string) [3]string {
		return threeways(`{"model":"`+wiretest.Name+`",`+question+`,`+function+more+`$}`, "", "-", `,"think":true`)
	}
	// In Anthropic's format, a request without a display shows the reasoning.
	full := func(list [3]string) [3]string {
		list[2] = strings.Replace(list[2], `,"display":"full"`, "", 1)
		return list
	}
	agBodies := func(more string) [3]string {
		return threeways(
			`{"threadId":"t","runId":"r","protocolVersion":"1.0",`+
				`"messages":[{"id":"m","role":"user","content":"What is 2 + 2?"}],`+
				`"tools":[{"name":"look","description":"","parameters":{"type":"object"}}],"forwardedProps":{`+more+
				`"reasoning":"$"}}`, "none", "summary", "full")
	}
	raw := func(more string) [3]string { return threeways(`{"prompt":"Two and two","logprobs":1`+more+`$}`, "") }
	const stream = `,"stream":true`
	return []encoding{
		{"chat completions", overHTTP(chat, "/v1/chat/completions", chatBodies("")), readChat, holdsBack},
		{"chat completions stream", overHTTP(chat, "/v1/chat/completions",
			chatBodies(stream+`,"stream_options":{"include_usage":true}`)), readChatStream, 0},
		{"chat completions stream of two choices", overHTTP(chat, "/v1/chat/completions", chatBodies(stream+`,"n":2`)),
			readChatStream, holdsBack},
		{"completions", overHTTP(chat, "/v1/completions", raw("")), readChat, noPreamble | noCalls | holdsBack},
		{"completions stream", overHTTP(chat, "/v1/completions", raw(stream)), readChatStream, noPreamble | noCalls},
		{"responses", overHTTP(resp, "/v1/responses", respBodies("")), readResponse, holdsBack},
		{"responses stream", overHTTP(resp, "/v1/responses", respBodies(stream)), readResponseStream, 0},
		{"messages", overHTTP(claude, "/v1/messages", full(claudeBodies(""))), readMessages, eitherText | holdsBack},
		{"messages stream", overHTTP(claude, "/v1/messages", full(claudeBodies(stream))), readMessagesStream,
			eitherText | holdsBack},
		{"ollama chat", overHTTP(llama, "/api/chat", llamaBodies(`,"stream":false,"logprobs":true`)), readOllama,
			holdsBack | textCalls},
		{"ollama chat stream", overHTTP(llama, "/api/chat", llamaBodies(`,"logprobs":true`)), readOllama, textCalls},
		{"ollama generate stream", overHTTP(llama, "/api/generate", threeways(`{"model":"`+wiretest.Name+`","prompt":"Two"$}`,
			"", "-", `,"think":true`)), readOllama, noCalls | textCalls},
		{"ag-ui", overHTTP(ag, "/agui", agBodies(`"reasoning_seal":true,`)), readAGUI, 0},
		{"ag-ui in chunks", overHTTP(ag, "/agui", agBodies(`"reasoning_seal":true,"chunks":true,`)), readAGUI, 0},
		{"ag-ui as before 1.0", overHTTP(ag, "/agui", agBodies(`"legacy_thinking":true,`)), readAGUI, 0},
		{"text in a pipe", inTerminal(func(s render.Streams, _ func() bool) render.Renderer { return render.NewPipe(s) }),
			readPipe, noEnding | noThoughts | noSummary | noPreamble},
		{"text in a terminal", inTerminal(func(s render.Streams, _ func() bool) render.Renderer {
			s.OutTerminal, s.ErrTerminal, s.Color = true, true, true
			return render.NewTerminal(s)
		}), readTerminal, noEnding | noThoughts | noSummary | noCalls | noText},
		{"json", inTerminal(func(s render.Streams, _ func() bool) render.Renderer { return render.NewJSON(s) }), readObject,
			noEnding | holdsBack},
		{"events", inTerminal(func(s render.Streams, _ func() bool) render.Renderer { return render.NewEvents(s) }),
			readEvents, noEnding},
		{"decision trace", inTerminal(func(s render.Streams, cancelled func() bool) render.Renderer {
			return render.NewTrace(s, decision.Config{RunID: "run", Goal: "What is 2 + 2?"}, cancelled)
		}), readTrace, noThoughts | noSummary | noText},
		{"ag-ui lines", inTerminal(func(s render.Streams, cancelled func() bool) render.Renderer {
			return outputNamed("agui").New(s, Asked{Run: "run", Model: "demo", Interrupted: cancelled})
		}), readAGUI, 0},
		{"mew lines", inTerminal(func(s render.Streams, cancelled func() bool) render.Renderer {
			return outputNamed("mew").New(s, Asked{Prompt: "What is 2 + 2?", Interrupted: cancelled})
		}), readMEW, eitherText | noCalls | holdsBack},
	}
}

// secrets lists what output with a visibility must not contain: the hidden texts, as they are and in hexadecimal and
// base64.
func secrets(v reasoning.Visibility) (list []string) {
	hidden := []string{wiretest.Canary, wiretest.SummaryCanary}
	switch v {
	case reasoning.VisibilitySummary:
		hidden = hidden[:1]
	case reasoning.VisibilityFull:
		return nil
	}
	for _, text := range hidden {
		list = append(list, text, fmt.Sprintf("%x", text))
		for shift := range 3 { // base64 depends on the position modulo 3
			coded := base64.RawStdEncoding.EncodeToString([]byte("xxx"[:shift] + text))
			list = append(list, coded[4:len(coded)-4])
		}
	}
	return list
}

// squeezed returns a text without white space, because formats add some between its parts.
func squeezed(s string) string { return strings.Join(strings.Fields(s), "") }

// want returns what a format must say about a run with a visibility.
func want(r *wiretest.Recording, v reasoning.Visibility, lacks part) outcome {
	w := outcome{ending: "done"}
	var name, arguments string
	for e, err := range r.Play(&generation.Request{Visibility: v}, generation.Unobserved{}) {
		switch {
		case err != nil:
			w.ending = "error"
		case e.Kind == reasoning.SegmentStart && e.Segment == reasoning.ToolCall:
			if name, arguments = e.Call.Name, ""; lacks&noCalls == 0 {
				w.calls = append(w.calls, name)
			}
		case e.Kind == reasoning.SegmentEnd && e.Segment == reasoning.ToolCall && lacks&textCalls != 0:
			if json.Unmarshal([]byte(cmp.Or(arguments, "{}")), &map[string]any{}) != nil {
				w.said += name + arguments
				w.calls = w.calls[:max(0, len(w.calls)-1)]
			}
		case e.Kind != reasoning.SegmentDelta:
		case e.Segment == reasoning.ToolCall:
			arguments += e.Text
		case e.Segment == reasoning.Reasoning:
			w.thoughts += e.Text
		case e.Segment == reasoning.Summary:
			w.summary += e.Text
		case e.Segment == reasoning.Answer || e.Segment == reasoning.Preamble && lacks&noPreamble == 0:
			w.said += e.Text
		}
	}
	if lacks&eitherText != 0 {
		w.thoughts, w.summary = w.thoughts+w.summary, ""
	}
	return w
}

// Every format says the same about a run, in order and to the end. None shows more than its visibility allows.
func TestEveryEncoderShowsTheSameRun(t *testing.T) {
	recordings := wiretest.Recordings()
	names := map[string]bool{}
	for i := range recordings {
		names[recordings[i].Name] = true
	}
	if len(names) < 50 || len(names) != len(recordings) {
		t.Fatalf("%d recordings have %d names", len(recordings), len(names))
	}
	for _, enc := range encodings() {
		t.Run(enc.name, func(t *testing.T) {
			var shown, summarized bool
			for i := range recordings {
				for _, v := range everyVisibility {
					out, ok := enc.encode(t, &recordings[i], v)
					if !ok {
						continue
					}
					shown = shown || strings.Contains(out, wiretest.Canary)
					summarized = summarized || strings.Contains(out, wiretest.SummaryCanary)
					for _, problem := range problems(&enc, &recordings[i], v, out) {
						t.Errorf("%s, visibility %s: %s\n%s", recordings[i].Name, v, problem, out)
					}
				}
			}
			// The canaries must appear where they are allowed. Otherwise their absence elsewhere would prove nothing.
			if _, ok := enc.encode(t, &recordings[1], reasoning.VisibilityFull); ok && !shown {
				t.Error("the reasoning never shows")
			}
			if _, ok := enc.encode(t, &recordings[1], reasoning.VisibilitySummary); ok && !summarized &&
				enc.name != "decision trace" {
				t.Error("the summary never shows")
			}
		})
	}
}

// problems lists what is wrong with an encoder's output.
func problems(enc *encoding, r *wiretest.Recording, v reasoning.Visibility, out string) (list []string) {
	for _, secret := range secrets(v) {
		if strings.Contains(out, secret) {
			list = append(list, "it contains "+secret)
		}
	}
	got, want := enc.read(out), want(r, v, enc.lacks)
	list = append(list, got.wrong...)
	if enc.lacks&noEnding == 0 && got.ending != want.ending {
		list = append(list, fmt.Sprintf("the run ended with %q, not %q", got.ending, want.ending))
	}
	if r.Err != nil {
		want.cut(&got, enc.lacks)
	}
	for _, text := range []struct {
		name      string
		lacks     part
		got, want string
	}{{"answer", noText, got.said, want.said}, {"reasoning", noThoughts, got.thoughts, want.thoughts},
		{"summary", noSummary, got.summary, want.summary}} {
		if enc.lacks&text.lacks == 0 && squeezed(text.got) != squeezed(text.want) {
			list = append(list, fmt.Sprintf("the %s is %q, not %q", text.name, text.got, text.want))
		}
	}
	if enc.lacks&noCalls == 0 && !slices.Equal(got.calls, want.calls) {
		list = append(list, fmt.Sprintf("the calls are %q, not %q", got.calls, want.calls))
	}
	return list
}

// cut shortens the expectation for a run that broke off to what was shown, if the format may miss the rest. An
// incomplete call may always be missing.
func (t *outcome) cut(got *outcome, lacks part) {
	if n := len(got.calls); n == len(t.calls)-1 || n < len(t.calls) && lacks&holdsBack != 0 {
		t.calls = t.calls[:n]
	}
	if lacks&holdsBack == 0 {
		return
	}
	for _, pair := range [][2]*string{{&t.said, &got.said}, {&t.thoughts, &got.thoughts}, {&t.summary, &got.summary}} {
		if strings.HasPrefix(squeezed(*pair[0]), squeezed(*pair[1])) {
			*pair[0] = *pair[1]
		}
	}
}
