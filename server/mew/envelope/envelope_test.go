package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

var when = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func parse(t *testing.T, text string) Envelope {
	t.Helper()
	e, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func TestRoundTrip(t *testing.T) {
	e := Envelope{
		ID: "m1", Time: when, From: "a", To: []string{"b", "c"}, Kind: Thought, Correlation: []string{"m0"}, Context: "s1/s2",
		Payload: json.RawMessage(`{"message":"<b> & 1.50"}`),
	}
	line, err := e.Append([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	want := `x{"protocol":"mew/v0.4","id":"m1","ts":"2026-07-01T12:00:00Z","from":"a","to":["b","c"],` +
		`"kind":"reasoning/thought","correlation_id":["m0"],` +
		`"context":"s1/s2","payload":{"message":"<b> & 1.50"}}`
	if string(line) != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	if got := parse(t, string(line[1:])); !reflect.DeepEqual(got, e) {
		t.Errorf("read back %+v", got)
	}
}

func TestOlderSpellings(t *testing.T) {
	for _, c := range []struct{ old, now string }{
		{`{"kind":"reasoning.start"}`, `{"kind":"reasoning/start"}`},
		{`{"kind":"reasoning.conclusion"}`, `{"kind":"reasoning/conclusion"}`},
		{`{"kind":"mcp.proposal"}`, `{"kind":"mcp/proposal"}`},
		{`{"kind":"reasoning/step"}`, `{"kind":"reasoning/thought"}`},
		{`{"kind":"reasoning.step"}`, `{"kind":"reasoning/thought"}`},
		{`{"kind":"chat","correlationId":"m1"}`, `{"kind":"chat","correlation_id":["m1"]}`},
		{`{"kind":"chat","correlationId":["m1","m2"]}`, `{"kind":"chat","correlation_id":["m1","m2"]}`},
		{`{"kind":"chat","correlation_id":"m1","correlationId":"m2"}`, `{"kind":"chat","correlation_id":["m1"]}`},
		{`{"kind":"chat","to":"a"}`, `{"kind":"chat","to":["a"]}`},
		{`{"kind":"chat","payload":{"message":"hi"}}`, `{"kind":"chat","payload":{"text":"hi"}}`},
		{`{"kind":"chat","to":null,"payload":null}`, `{"kind":"chat"}`},
	} {
		if old, now := parse(t, c.old), parse(t, c.now); !reflect.DeepEqual(old, now) {
			t.Errorf("%s is %+v, not %+v", c.old, old, now)
		}
	}
	if e := parse(t, `{"kind":"reasoning/thought","payload":{"message":"hi"}}`); string(e.Payload) != `{"message":"hi"}` {
		t.Errorf("a thought's message became %s", e.Payload)
	}
	if e := parse(t, `{"Kind":"chat","KIND":"chat"}`); e.Kind != "" {
		t.Error("keys have other letters")
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxID+1)
	for text, field := range map[string]string{
		``: "", `[]`: "", `null`: "", `"a"`: "", `{`: "", `{"kind":"chat"} {}`: "", "{\"from\":\"\xff\"}": "",
		`{"kind":"chat","kind":"system/error"}`:                   "",
		`{"kind":"chat","payload":{"a":{"b":1,"b":2}}}`:           "",
		`{"payload":` + strings.Repeat(`{"a":`, maxDepth+1) + `1`: "",
		`{"kind":"` + strings.Repeat("x", MaxSize) + `"}`:         "",
		`{"protocol":"mew/v0.3"}`:                                 "protocol",
		`{"id":1}`:                                                "id",
		`{"id":"` + long + `"}`:                                   "id",
		`{"id":"a\u0000"}`:                                        "id",
		`{"id":"a\u202e"}`:                                        "id",
		`{"kind":"reasoning/start","id":"a/b"}`:                   "id",
		`{"from":"a\n"}`:                                          "from",
		`{"ts":"yesterday"}`:                                      "ts",
		`{"to":[1]}`:                                              "to",
		`{"to":{}}`:                                               "to",
		`{"to":[""]}`:                                             "to",
		`{"to":[` + strings.Repeat(`"a",`, MaxIDs) + `"a"]}`:      "to",
		`{"correlation_id":5}`:                                    "correlation_id",
		`{"correlationId":[null,3]}`:                              "correlationId",
		`{"kind":"a b"}`:                                          "kind",
		`{"kind":"/a"}`:                                           "kind",
		`{"kind":"` + strings.Repeat("x", maxKind+1) + `"}`:       "kind",
		`{"context":"a//b"}`:                                      "context",
		`{"context":"` + strings.Repeat("a/", MaxNesting) + `b"}`: "context",
		`{"payload":[]}`:                                          "payload",
		`{"payload":"text"}`:                                      "payload",
	} {
		_, err := Parse([]byte(text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%.80s gives %v", text, err)
		} else if syntax.Field != field {
			t.Errorf("%.80s is wrong at %q, not %q: %v", text, syntax.Field, field, err)
		}
	}
}

func TestOutputIsStrict(t *testing.T) {
	good := Envelope{ID: "m", Time: when, From: "a", Kind: Chat, Payload: json.RawMessage(`{"text":"x"}`)}
	for name, change := range map[string]func(*Envelope){
		"no id": func(e *Envelope) { e.ID = "" }, "no from": func(e *Envelope) { e.From = "" },
		"no kind":         func(e *Envelope) { e.Kind = "" },
		"no time":         func(e *Envelope) { e.Time = time.Time{} },
		"an old kind":     func(e *Envelope) { e.Kind = "reasoning.start" },
		"no payload":      func(e *Envelope) { e.Payload = nil },
		"a payload twice": func(e *Envelope) { e.Payload = json.RawMessage(`{"a":1,"a":2}`) },
		"a bad context":   func(e *Envelope) { e.Context = "/" },
	} {
		e := good
		change(&e)
		if line, err := e.Append(nil); err == nil {
			t.Errorf("%s: written as %s", name, line)
		}
	}
	if _, err := good.Append(nil); err != nil {
		t.Error(err)
	}
}

func TestJoin(t *testing.T) {
	want := Join{Space: "s", Token: "t", ParticipantID: "p"}
	frame, err := want.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(frame),
		`{"type":"join","space":"s","token":"t","participantId":"p","capabilities":[{"kind":"*"}]}`,
		`{"kind":"system/join","payload":{"space":"s","token":"t","participantId":"p"}}`,
	} {
		if _, join, err := ParseFrame([]byte(text)); err != nil || join == nil || *join != want {
			t.Errorf("%s is %+v, %v", text, join, err)
		}
	}
	if e, join, err := ParseFrame([]byte(`{"kind":"chat"}`)); err != nil || join != nil || e.Kind != Chat {
		t.Errorf("a chat is %+v, %+v, %v", e, join, err)
	}
	if _, join, err := ParseFrame([]byte(`{"type":"join","token":5}`)); err == nil {
		t.Errorf("a token of 5 is %+v", join)
	}
}

func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		capabilities, envelope string
		allowed                bool
	}{
		{`[{"kind":"chat"}]`, `{"kind":"chat"}`, true},
		{`[{"kind":"chat"}]`, `{"kind":"chat/cancel"}`, false},
		{`[{"kind":"chat"}]`, `{"kind":"Chat"}`, false},
		{`[]`, `{"kind":"chat"}`, false},
		{`[{"kind":"*"}]`, `{"kind":"reasoning/cancel"}`, true},
		{`[{"kind":"*"}]`, `{"kind":"system/error"}`, false},
		{`[{"kind":"system/*"}]`, `{"kind":"system/presence"}`, false},
		{`[{"kind":"reasoning/*"}]`, `{"kind":"reasoning/start"}`, true},
		{`[{"kind":"reasoning/*"}]`, `{"kind":"reasoning"}`, false},
		{`[{"kind":"reasoning/*"}]`, `{"kind":"reasoning/a/b"}`, false},
		{`[{"kind":"reasoning/**"}]`, `{"kind":"reasoning/a/b"}`, true},
		{`[{"kind":"reasoning/step"}]`, `{"kind":"reasoning/thought"}`, true},
		{`[{"kind":"reasoning.start"}]`, `{"kind":"reasoning/start"}`, true},
		{`[{"kind":"mcp/request","payload":{"method":"tools/*"}}]`,
			`{"kind":"mcp/request","payload":{"method":"tools/call"}}`, true},
		{`[{"kind":"mcp/request","payload":{"method":"*/list"}}]`, `{"kind":"mcp/request","payload":{"method":"tools/call"}}`,
			false},
		{`[{"kind":"mcp/request","payload":{"method":"*"}}]`, `{"kind":"mcp/request","payload":{}}`, false},
		{`[{"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"read_*"}}}]`,
			`{"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"read_file","arguments":{}}}}`, true},
		{`[{"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"read_*"}}}]`,
			`{"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"delete_file"}}}`, false},
		{`[{"kind":"mcp/request","payload":{"params":{"name":["a","b"]}}}]`,
			`{"kind":"mcp/request","payload":{"params":{"name":"b"}}}`, true},
		{`[{"kind":"mcp/request","payload":{"params":{"name":["a","b"]}}}]`,
			`{"kind":"mcp/request","payload":{"params":{"name":["a","b"]}}}`, false},
		{`[{"kind":"x","payload":{"n":1,"b":true,"z":null}}]`, `{"kind":"x","payload":{"n":1.0,"b":true,"z":null}}`, true},
		{`[{"kind":"x","payload":{"n":1}}]`, `{"kind":"x","payload":{"n":"1"}}`, false},
		{`[{"kind":"x","payload":{"p":"a*b*c"}}]`, `{"kind":"x","payload":{"p":"aXbbYc"}}`, true},
		{`[{"kind":"x","payload":{"p":"a*b*c"}}]`, `{"kind":"x","payload":{"p":"a/b/c"}}`, false},
		{`[{"kind":"x","payload":{"p":"a**c"}}]`, `{"kind":"x","payload":{"p":"a/b/c"}}`, true},
	} {
		list, err := ParseCapabilities([]byte(c.capabilities))
		if err != nil {
			t.Fatalf("%s: %v", c.capabilities, err)
		}
		e := parse(t, c.envelope)
		if list.Allow(&e) != c.allowed {
			t.Errorf("%s with %s is allowed: %v", c.envelope, c.capabilities, !c.allowed)
		}
	}
	for _, bad := range []string{
		`{}`, `[1]`, `[{}]`, `[{"kind":""}]`, `[{"kind":"!chat"}]`, `[{"kind":"/chat/"}]`, `[{"kind":"chat","Payload":{}}]`,
		`[{"kind":"chat","payload":null}]`,
		`[{"kind":"chat","payload":{"$.a":"b"}}]`, `[{"kind":"chat","payload":{"**":"b"}}]`, `[{"kind":"chat","kind":"*"}]`,
		`[{"kind":"chat","payload":"x"}]`,
	} {
		if list, err := ParseCapabilities([]byte(bad)); err == nil {
			t.Errorf("%s is %+v", bad, list)
		}
	}
	// A space of another program may send patterns that are not supported. They allow nothing.
	var foreign Capabilities
	if err := json.Unmarshal([]byte(`[{"kind":"!chat"},{"kind":"mcp/request",`+
		`"payload":{"$.method":"*"}}]`), &foreign); err != nil {
		t.Fatal(err)
	}
	e := parse(t, `{"kind":"mcp/request","payload":{"method":"x"}}`)
	if foreign.Allow(&e) {
		t.Error("a pattern that is not understood allows something")
	}
}

// A pattern with many stars is fast on every text.
func TestPatternsAreFast(t *testing.T) {
	began := time.Now()
	if glob(strings.Repeat("*a", maxPattern/2), strings.Repeat("a", maxGlobbed)+"b") {
		t.Error("it fits")
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %s", took)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"protocol":"mew/v0.4","id":"a","ts":"2026-07-01T12:00:00Z","from":"b","to":["c"],"kind":"chat",` +
			`"correlation_id":["d"],"context":"e/f","payload":{"text":"g"}}`,
		`{"kind":"reasoning.start","correlationId":"x","payload":{"message":"y"}}`,
		`{"type":"join","space":"s","token":"t","participantId":"p"}`,
		`{"kind":"chat","payload":{"message":"m","message":"n"}}`, `[[[[`, `{"a":{"b":[{},{"c":1}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, _, err := ParseFrame(data)
		if err != nil {
			return
		}
		if e.ID == "" {
			e.ID = "id"
		}
		if e.From == "" {
			e.From = "from"
		}
		if e.Kind == "" {
			e.Kind = "x" // not chat, whose payload was not read as one
		}
		if e.Time.IsZero() {
			e.Time = when
		}
		if e.Payload == nil {
			e.Payload = json.RawMessage("{}")
		}
		line, err := e.Append(nil)
		if err != nil {
			t.Fatalf("read, but not written: %v", err)
		}
		if bytes.ContainsAny(line, "\r\n") || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		again, err := Parse(line)
		if err != nil {
			t.Fatalf("written, but not read: %v", err)
		}
		second, err := again.Append(nil)
		if err != nil || !bytes.Equal(line, second) {
			t.Fatalf("%q became %q, %v", line, second, err)
		}
	})
}

func FuzzCapabilities(f *testing.F) {
	f.Add([]byte(`[{"kind":"mcp/*","payload":{"params":{"name":["read_*","x"]}}}]`),
		[]byte(`{"kind":"mcp/request","payload":{"params":{"name":"read_a"}}}`))
	f.Fuzz(func(t *testing.T, capabilities, data []byte) {
		list, err := ParseCapabilities(capabilities)
		if err != nil {
			return
		}
		e, err := Parse(data)
		if err != nil {
			return
		}
		if list.Allow(&e) && !list.AllowKind(e.Kind) {
			t.Error("a message is allowed, but none of its kind")
		}
		if list.Allow(&Envelope{Kind: "system/error", Payload: e.Payload}) {
			t.Error("a system message is allowed")
		}
	})
}

func TestReadThought(t *testing.T) {
	for payload, want := range map[string]string{
		`{"message":"I add."}`: "I add.",
		`{"message":"I add.","reasoning":"Other","action":"respond"}`: "I add.",
		`{"reasoning":"The sum is asked for.","action":"respond"}`:    "The sum is asked for.\nAction: respond",
		`{"message":"","reasoning":"Why","action":""}`:                "Why",
		`{"message":null,"reasoning":"Why"}`:                          "Why",
		`{"message":7,"reasoning":"Why","action":null}`:               "Why",
		`{"reasoning":"Why","action":{"tool": "add", "a": [1, 2]}}`:   "Why\nAction: {\"tool\":\"add\",\"a\":[1,2]}",
		`{"action":"respond"}`:                                        "Action: respond",
		`{"reasoning":["no"],"action":"respond"}`:                     "Action: respond",
		`{}`: "", `{"message":" "}`: "", `{"reasoning":"\n","action":" "}`: "", `[]`: "", `{"text":"a chat"}`: "",
	} {
		e := Envelope{Payload: json.RawMessage(payload)}
		if got := e.ReadThought(); got != want {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
}
