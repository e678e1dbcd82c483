package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/web"
	"runner/server/wire"
	"runner/server/wiretest"
)

// event is an event as the page reads it.
type event struct {
	Type, Kind, Text, HTML, Specialist, Code, Message, Sealed string
	Part, Block                                               int
	Call                                                      *struct{ ID, Name string }
}

// shown is what a page shows: the texts of the parts by their kind, and the HTML of all blocks.
type shown struct {
	kinds map[string]string
	html  string
	types []string
}

// show reads events as the page does.
func show(t *testing.T, lines []string) shown {
	t.Helper()
	s := shown{kinds: map[string]string{}}
	open := map[int]string{}
	blocks := map[[2]int]string{}
	for _, line := range lines {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if n := len(s.types); n == 0 || s.types[n-1] != e.Type {
			s.types = append(s.types, e.Type)
		}
		switch e.Type {
		case "open":
			open[e.Part] = e.Kind
			s.kinds[e.Kind] += ""
		case "text":
			kind, ok := open[e.Part]
			if !ok {
				t.Fatalf("a text of part %d, which is not open", e.Part)
			}
			s.kinds[kind] += e.Text
			if e.HTML != "" {
				blocks[[2]int{e.Part, e.Block}] = e.HTML
			}
		case "close":
			delete(open, e.Part)
		}
	}
	if len(open) > 0 && s.types[len(s.types)-1] != "error" {
		t.Errorf("parts stay open: %v", open)
	}
	for _, html := range blocks {
		s.html += html
	}
	return s
}

// line returns an event as JSON.
func line(t *testing.T, event any) string {
	t.Helper()
	var b strings.Builder
	if err := wire.NewJSON(&b).Encode(event); err != nil {
		t.Error(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// encode encodes the events of a run.
func encode(t *testing.T, cfg web.EncoderConfig, events []reasoning.Event) []string {
	t.Helper()
	var lines []string
	e := web.NewEncoder(cfg, func(event any) error {
		lines = append(lines, line(t, event))
		return nil
	})
	defer e.End(nil)
	for i := range events {
		if err := e.Push(0, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// Whatever a run writes, the page gets all of its text in order, at any pace.
func TestEncoderKeepsAllText(t *testing.T) {
	for seed := range uint64(300) {
		for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
			events := wiretest.RandomRun(rand.New(rand.NewPCG(seed, 2)), v)
			want := map[string]string{}
			names := map[reasoning.Segment]string{reasoning.Reasoning: "reasoning", reasoning.Summary: "summary",
				reasoning.Preamble: "preamble", reasoning.ToolCall: "call", reasoning.Answer: "answer"}
			for _, e := range events {
				switch e.Kind {
				case reasoning.SegmentStart, reasoning.SegmentDelta:
					want[names[e.Segment]] += string([]rune(e.Text)) // JSON has no invalid UTF-8
				}
			}
			for _, pace := range []time.Duration{0, time.Hour} {
				got := show(t, encode(t, web.EncoderConfig{Model: "m", Pace: pace}, events))
				if fmt.Sprint(got.kinds) != fmt.Sprint(want) {
					t.Fatalf("seed %d, pace %v: %v, want %v", seed, pace, got.kinds, want)
				}
			}
		}
	}
}

// All recordings of runs reach the page, with what went wrong.
func TestRecordings(t *testing.T) {
	for _, r := range wiretest.Recordings() {
		for v := reasoning.VisibilityNone; v <= reasoning.VisibilityFull; v++ {
			m := wiretest.New(t, fake.Config{})
			m.Replay = &r
			url := wiretest.Serve(t, web.New(m, web.Config{Pace: time.Nanosecond}), wiretest.Anyone()).URL
			status, header, body := wiretest.Send(t, http.MethodPost, url+"/web/chat", fmt.Sprintf(
				`{"conversation":"c","messages":[{"role":"user","content":"q"}],"reasoning":%q}`, v), nil)
			if status != http.StatusOK {
				if !strings.Contains(body, `"message"`) {
					t.Errorf("%s: %d %s", r.Name, status, body)
				}
				continue
			}
			if kind := header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
				t.Errorf("%s: %s", r.Name, kind)
			}
			lines := dataLines(body)
			var last event
			err := json.Unmarshal([]byte(lines[len(lines)-1]), &last)
			if err != nil || last.Type != "done" && last.Type != "error" {
				t.Errorf("%s: the last event is %s", r.Name, lines[len(lines)-1])
			}
			if thoughts := r.Thoughts(); v != reasoning.VisibilityFull && thoughts != "" && strings.Contains(body, thoughts) {
				t.Errorf("%s shows its reasoning with visibility %v", r.Name, v)
			}
		}
	}
}

func dataLines(body string) (lines []string) {
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			lines = append(lines, data)
		}
	}
	return lines
}

// A reader that is gone ends the run at once.
func TestEncoderStopsAtAnError(t *testing.T) {
	gone := errors.New("gone")
	e := web.NewEncoder(web.EncoderConfig{}, func(any) error { return gone })
	defer e.End(nil)
	if err := e.Push(0, &reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{}}); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// The first text of a stretch that stalls arrives all the same, rendered by the timer.
func TestATextThatStallsIsShown(t *testing.T) {
	lines := make(chan string, 100)
	e := web.NewEncoder(web.EncoderConfig{Pace: 20 * time.Millisecond}, func(event any) error {
		lines <- line(t, event)
		return nil
	})
	defer e.End(nil)
	push := func(ev reasoning.Event) {
		if err := e.Push(0, &ev); err != nil {
			t.Fatal(err)
		}
	}
	push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Answer})
	push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "a"})
	push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "b"})
	for end := time.After(10 * time.Second); ; {
		select {
		case line := <-lines:
			if strings.Contains(line, "<p>ab</p>") {
				return
			}
		case <-end:
			t.Fatal("the second text does not come")
		}
	}
}

// The page carries sealed values: they open in their conversation only.
func TestSealedValuesAreCarried(t *testing.T) {
	m := wiretest.New(t, fake.Config{},
		fake.Reply{After: wiretest.Ask("q"), Say: wiretest.Call("because", "", "f", `{"a":1}`)},
		fake.Reply{After: "r<|end|><|start|>assistant", Say: "<|channel|>final<|message|>Done.<|return|>"})
	format := web.New(m, web.Config{Config: wire.Config{Seal: seal.NewKeyring()}})
	url := wiretest.Serve(t, format, wiretest.Anyone()).URL + "/web/chat"
	const tool = `,"tools":[{"name":"f","parameters":{"type":"object"}}],"reasoning_seal":true`
	_, _, body := wiretest.Send(t, http.MethodPost, url,
		`{"conversation":"c","messages":[{"role":"user","content":"q"}]`+tool+`}`, nil)
	var value, id string
	for _, line := range dataLines(body) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Call != nil {
			id = e.Call.ID
		}
		value += e.Sealed
	}
	if strings.Contains(body, "because") || value == "" || id == "" {
		t.Fatalf("%s", body)
	}
	for conversation, opens := range map[string]bool{"c": true, "d": false} {
		next := fmt.Sprintf(`{"conversation":%q,"messages":[{"role":"user","content":"q"},{"role":"assistant","sealed":%q,`+
			`"calls":[{"id":%q,"name":"f","arguments":"{\"a\":1}"}]},{"role":"tool","call_id":%q,"content":"r"}]%s}`,
			conversation, value, id, id, tool)
		status, _, body := wiretest.Send(t, http.MethodPost, url, next, nil)
		if got := strings.Contains(m.Prompt(t), "because"); status != http.StatusOK || got != opens {
			t.Errorf("in conversation %s: %d, opened %v: %s", conversation, status, got, body)
		}
		if strings.Contains(body, "sealed_dropped") == opens {
			t.Errorf("in conversation %s: %s", conversation, body)
		}
	}
}

// Every answer that a browser could show as a page forbids inline scripts.
func TestHeaders(t *testing.T) {
	url := wiretest.Serve(t, web.New(wiretest.New(t, fake.Config{}), web.Config{}), wiretest.Anyone()).URL
	for _, path := range []string{"/", "/web/main.js", "/web/style.css", "/web/icon.svg", "/web/index.html"} {
		status, header, body := wiretest.Send(t, http.MethodGet, url+path, "", http.Header{"Accept": {"text/html"}})
		policy := header.Get("Content-Security-Policy")
		if status != http.StatusOK || body == "" || !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(policy, "unsafe") || header.Get("X-Content-Type-Options") != "nosniff" ||
			header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %d %v", path, status, header)
		}
		if status, _, _ := wiretest.Send(t, http.MethodGet, url+path, "", http.Header{"Accept": {"text/html"},
			"If-None-Match": {header.Get("Etag")}}); status != http.StatusNotModified {
			t.Errorf("%s again: %d", path, status)
		}
		// What a policy forbids must not be in the page either.
		for _, bad := range []string{"http://", "onclick=", "<style", "javascript:", "style="} {
			if strings.Contains(strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
	if status, _, _ := wiretest.Send(t, http.MethodGet, url+"/web/..%2fweb.go", "", nil); status != http.StatusNotFound {
		t.Errorf("a path out of the folder: %d", status)
	}
}

func TestSessionAndFiguresKeepToThePermissions(t *testing.T) {
	m := wiretest.New(t, fake.Config{})
	api := web.New(m, web.Config{Figures: func() wire.Figures { return wire.Figures{Requests: 7} }})
	low := wiretest.Anyone()
	low.ID, low.Scopes, low.Reasoning = "low", []wire.Scope{wire.ScopeGenerate}, reasoning.VisibilitySummary
	url := wiretest.Serve(t, api, low).URL
	_, _, body := wiretest.Send(t, http.MethodGet, url+"/web/session", "", nil)
	want := `{"principal":"low","keys":true,"max_reasoning":"summary","reasoning":"none","admin":false,"traces":false}`
	if body != want {
		t.Errorf("%s, want %s", body, want)
	}
	if status, _, body := wiretest.Send(t, http.MethodGet, url+"/web/figures", "", nil); status != http.StatusForbidden {
		t.Errorf("%d %s", status, body)
	}
	status, _, body := wiretest.Send(t, http.MethodPost, url+"/web/chat",
		`{"conversation":"c","messages":[{"role":"user","content":"q"}],"reasoning":"full"}`, nil)
	if status != http.StatusForbidden || !strings.Contains(body, `"param":"reasoning"`) {
		t.Errorf("%d %s", status, body)
	}
	url = wiretest.Serve(t, api, wiretest.Anyone()).URL
	_, _, body = wiretest.Send(t, http.MethodGet, url+"/web/figures", "", nil)
	if !strings.Contains(body, `"requests":7`) {
		t.Errorf("%s", body)
	}
	_, _, body = wiretest.Send(t, http.MethodGet, url+"/web/session", "", nil)
	if !strings.Contains(body, wiretest.Name) || !strings.Contains(body, `"admin":true`) {
		t.Errorf("%s", body)
	}
}

// Whatever the page sends, the server answers with events or with an error that names a field.
func FuzzChat(f *testing.F) {
	for _, body := range []string{
		`{"conversation":"c","messages":[{"role":"user","content":"q"}]}`, `{}`, `[]`, `{"conversation":"c","messages":[{}]}`,
		`{"conversation":"c","messages":[{"role":"assistant","calls":[{"id":"a","name":"b","arguments":"{"}],"sealed":"x",` +
			`"instructions":[{"type":"intermediate"}]},{"role":"tool","call_id":"a","content":"r"}]}`,
		`{"conversation":"c","messages":[{"role":"user","content":"q"}],"schema":{"type":"object"},"tools":[{"name":"f"}],` +
			`"tool_choice":"required","temperature":1,"top_p":0,"min_p":0.1,"seed":1,"stop":["x"],"max_tokens":3}`,
		`{"conversation":"c","messages":[{"role":"user","content":"q"}],"schema":[],"reasoning":"full"}`,
	} {
		f.Add(body)
	}
	m := wiretest.New(f, fake.Config{}, fake.Reply{After: "<|start|>assistant", Say: wiretest.Think("Hm.", "Yes.")})
	handler := wiretest.Serve(f, web.New(m, web.Config{}), wiretest.Anyone())
	f.Fuzz(func(t *testing.T, body string) {
		status, _, answer := wiretest.Send(t, http.MethodPost, handler.URL+"/web/chat", body, nil)
		switch {
		case status == http.StatusOK:
			show(t, dataLines(answer))
		case status >= 500:
			t.Fatalf("%d %s", status, answer)
		default:
			var e wire.PlainError
			if json.Unmarshal([]byte(answer), &e) != nil || e.Message == "" || e.Code == "" {
				t.Fatalf("%d %s", status, answer)
			}
		}
	})
}
