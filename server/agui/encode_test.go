package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// frames keeps what a stream sends.
type frames [][]byte

func (f *frames) send(event any) error {
	var b bytes.Buffer
	if err := wire.NewJSON(&b).Encode(event); err != nil {
		return err
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if bytes.ContainsAny(data, "\r\n") {
		return fmt.Errorf("an event of several lines: %q", data)
	}
	*f = append(*f, data)
	return nil
}

func (f frames) String() string {
	var b strings.Builder
	for _, data := range f {
		fmt.Fprintf(&b, "data: %s\n\n", data)
	}
	return b.String()
}

// config has a clock that ticks each time it is read, and ids that count up.
func config(form Form) EncoderConfig {
	tick, count := int64(1_750_000_000_000), 0
	return EncoderConfig{
		ThreadID: "thread \"1\"", RunID: "run", ProtocolVersion: "1.0", Model: "demo", Form: form,
		Clock: func() time.Time { tick++; return time.UnixMilli(tick) },
		NewID: func(prefix string) string { count++; return fmt.Sprint(prefix, count) },
	}
}

func encode(t *testing.T, events []reasoning.Event, form Form) frames {
	t.Helper()
	var f frames
	e := NewEncoder(config(form), f.send)
	for i := range events {
		if err := e.Push(0, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestGolden(t *testing.T) {
	stop := reasoning.Result{Finish: reasoning.FinishStop, Usage: wiretest.Usage}
	tools := reasoning.Result{Finish: reasoning.FinishToolCalls, Usage: wiretest.Usage}
	summarized := func(r reasoning.Result) reasoning.Result {
		r.SummarySource, r.Usage.Summary = "reasoning", 9
		return r
	}
	score := 0.75
	answer := wiretest.Segment(reasoning.Answer, "It is ", "\"4\".\n")
	thoughts := wiretest.Segment(reasoning.Reasoning, "two and ", "two")
	calls := append(wiretest.CallSegment(0, "get", `{"a"`, `:1}`), wiretest.CallSegment(1, "now")...)
	beside := wiretest.SummaryBeside()
	// late is an answer whose summary begins after it, as in real runs.
	late := slices.Concat(beside[2:4], beside[:2], beside[4:])
	hidden := wiretest.Segment(reasoning.Reasoning)
	sealed, hiddenSealed := wiretest.Carried("sealed", thoughts), wiretest.Carried("sealed", hidden)
	again := wiretest.Carried("again", wiretest.Segment(reasoning.Reasoning, "four"))
	settled := []reasoning.Event{{Kind: reasoning.SummarySettled}}
	preamble := wiretest.Segment(reasoning.Preamble, "I look.")
	posthoc := wiretest.Segment(reasoning.Summary, "It is ", "even.")
	as := func(v reasoning.Visibility, result reasoning.Result, parts ...[]reasoning.Event) []reasoning.Event {
		events := wiretest.Run(result, parts...)
		events[0].Info.Visibility = v
		return events
	}
	none := func(result reasoning.Result, parts ...[]reasoning.Event) []reasoning.Event {
		return as(reasoning.VisibilityNone, result, parts...)
	}
	summary := func(result reasoning.Result, parts ...[]reasoning.Event) []reasoning.Event {
		return as(reasoning.VisibilitySummary, summarized(result), parts...)
	}
	for name, g := range map[string]struct {
		form   Form
		events []reasoning.Event
	}{
		"hidden":          {FormStandard, none(stop, hidden, answer)},
		"hidden_calls":    {FormStandard, none(tools, hiddenSealed, preamble, hidden, calls)},
		"hidden_chunked":  {FormChunked, none(stop, hiddenSealed, answer)},
		"hidden_legacy":   {FormLegacy, none(stop, hidden, answer)},
		"hidden_sealed":   {FormStandard, none(stop, hiddenSealed, answer)},
		"unmarked_sealed": {FormStandard, none(stop, wiretest.Carried("sealed", nil), answer)},
		"full":            {FormStandard, wiretest.Run(stop, thoughts, answer)},
		"full_sealed":     {FormStandard, wiretest.Run(stop, sealed, answer)},
		"summary":         {FormStandard, summary(stop, hiddenSealed, late)},
		"summary_calls":   {FormStandard, summary(tools, hiddenSealed, calls[:3], posthoc, settled, calls[3:])},
		"summary_early":   {FormStandard, summary(stop, hidden, beside)},
		"summary_legacy":  {FormLegacy, summary(stop, hidden, late)},
		"summary_missing": {FormStandard, summary(stop, hiddenSealed, answer[:1], settled, answer[1:])},
		"summary_posthoc": {FormStandard, summary(stop, answer[:1], settled, answer[1:], posthoc)},
		"calls":           {FormStandard, wiretest.Run(tools, calls)},
		"calls_sealed": {FormStandard, wiretest.Run(tools, sealed,
			wiretest.Segment(reasoning.Preamble, "I look."), again, calls)},
		"nothing_visible": {FormStandard, none(reasoning.Result{Finish: reasoning.FinishLength,
			Detail: reasoning.DetailContextFull, Usage: wiretest.Usage}, hiddenSealed)},
		"nothing_chunked": {FormChunked, none(reasoning.Result{Finish: reasoning.FinishLength,
			Usage: wiretest.Usage}, hiddenSealed)},
		"chunked":         {FormChunked, wiretest.Run(stop, sealed, answer)},
		"chunked_summary": {FormChunked, summary(stop, hiddenSealed, late)},
		"chunked_calls":   {FormChunked, summary(tools, hidden, calls[:3], posthoc, settled, calls[3:])},
		"chunked_missing": {FormChunked, summary(stop, hiddenSealed, answer[:2], settled, answer[2:])},
		"chunked_posthoc": {FormChunked, summary(stop, answer[:1], settled, answer[1:], posthoc)},
		"legacy":          {FormLegacy, wiretest.Run(stop, thoughts, answer)},
		"blank": {FormStandard, wiretest.Run(stop,
			wiretest.Carried("sealed", wiretest.Segment(reasoning.Reasoning, "\n", "\n\n")),
			wiretest.Segment(reasoning.Answer, "\n", "\n4", "\n\n"))},
		"blank_before": {FormStandard, wiretest.Run(stop,
			wiretest.Segment(reasoning.Reasoning, "\r\n\ntwo", "\n\ntwo"), answer)},
		"blank_chunked": {FormChunked, wiretest.Run(stop, wiretest.Segment(reasoning.Reasoning, "\n"), answer)},
		"blank_legacy":  {FormLegacy, wiretest.Run(stop, wiretest.Segment(reasoning.Reasoning, "\n"), answer)},
		"empty": {FormStandard, wiretest.Run(reasoning.Result{Finish: reasoning.FinishLength,
			ReasoningUnavailable: true, Score: &score})},
		"rationale": {FormStandard, wiretest.Run(tools, wiretest.CallSegment(0, "get", "{}"), []reasoning.Event{
			{Kind: reasoning.Decided, Call: reasoning.Call{ID: "call_0", Name: "get"}, Decision: &reasoning.Decision{
				Iteration: 1, Decision: "tool-selection", ToolName: "get", Rationale: reasoning.Rationale{Why: "It \"knows\"."},
			}},
			{Kind: reasoning.Assumed, Assumption: &reasoning.Assumption{Text: "it is there", Because: "it was"}},
			{Kind: reasoning.Curated, Code: "dropped", Text: "history"},
		})},
		"warning": {FormStandard, wiretest.Run(stop, answer, []reasoning.Event{
			{Kind: reasoning.Warning, Code: "malformed_header", Text: "a header is in an unusual form"},
			{Kind: reasoning.StrategySwitched, Info: &reasoning.Info{Strategy: reasoning.StrategyMarkers, Budget: 9}},
		})},
	} {
		t.Run(name, func(t *testing.T) {
			f := encode(t, g.events, g.form)
			c, err := fold(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.inOrder(); err != nil && !strings.HasSuffix(name, "posthoc") { // that explains the answer
				t.Error(err)
			}
			wiretest.Golden(t, filepath.Join("testdata", name+".sse"), f.String())
		})
	}
	var f frames
	e := NewEncoder(config(FormStandard), f.send)
	events := wiretest.Run(stop, answer)
	for i := range events[:3] {
		if err := e.Push(0, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Fail(&wire.Error{Status: http.StatusServiceUnavailable, Code: wire.CodeTimeout,
		Message: wire.ErrTimeout.Error()}); err != nil {
		t.Fatal(err)
	}
	wiretest.Golden(t, filepath.Join("testdata", "error.sse"), f.String())
	if _, err := fold(f); err != nil {
		t.Error(err)
	}
}

// A run that is cancelled anywhere ends with that outcome and leaves nothing open. Clients before 1.0 get an error.
func TestCancelledRuns(t *testing.T) {
	id := &reasoning.Delegation{ID: "d1"}
	events := wiretest.Run(reasoning.Result{}, []reasoning.Event{{Kind: reasoning.DelegationStart, Delegation: id}},
		wiretest.Segment(reasoning.Reasoning, "\n", "two"),
		[]reasoning.Event{{Kind: reasoning.DelegationEnd, Delegation: id}},
		wiretest.Segment(reasoning.Preamble, "I look."), wiretest.CallSegment(0, "get", `{"a"`, `:1}`),
		wiretest.Segment(reasoning.Answer, "4"))
	for n := range len(events) - 1 {
		for _, form := range []Form{FormStandard, FormChunked, FormLegacy} {
			for version, last := range map[string]string{"1.0": "RUN_FINISHED", "": "RUN_ERROR"} {
				var f frames
				cfg := config(form)
				cfg.ProtocolVersion = version
				e := NewEncoder(cfg, f.send)
				for i := range events[:n] {
					if err := e.Push(0, &events[i]); err != nil {
						t.Fatal(err)
					}
				}
				if err := e.Fail(wire.Errorf(wire.CodeClientCancelled, "stopped")); err != nil {
					t.Fatal(err)
				}
				if n == 0 { // a run that never began cannot finish
					last = "RUN_ERROR"
				}
				c, err := fold(f)
				if err != nil {
					t.Fatalf("after %d events: %v:\n%s", n, err, f)
				}
				if c.last.Type != last || last == "RUN_FINISHED" && c.last.Outcome.Type != "cancelled" {
					t.Errorf("after %d events: %+v, want %s:\n%s", n, c.last, last, f)
				}
			}
		}
	}
}

// Events that wait for a summary come before the error of a run that fails.
func TestHeldAnswersAreNotLost(t *testing.T) {
	answer := wiretest.Segment(reasoning.Answer, "It is 4.")
	events := wiretest.Run(reasoning.Result{}, wiretest.Segment(reasoning.Reasoning), answer)
	events[0].Info.Visibility = reasoning.VisibilitySummary
	var f frames
	e := NewEncoder(config(FormChunked), f.send)
	for i := range events[:len(events)-2] { // within the answer
		if err := e.Push(0, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(f.String(), "TEXT_") {
		t.Errorf("the answer does not wait:\n%s", f)
	}
	if err := e.Fail(wire.FromError(errors.New("later"), nil)); err != nil {
		t.Fatal(err)
	}
	if c, err := fold(f); err != nil || c.texts("assistant") != "It is 4." {
		t.Errorf("%v:\n%s", err, f)
	}
}

// event is an event in the form that clients read.
type event struct {
	Type, ThreadID, RunID, ParentRunID, ProtocolVersion, MessageID, Role, Delta, Code, Message, Name string
	ToolCallID, ToolCallName, ParentMessageID, Subtype, EntityID, EncryptedValue, SubagentRunID      string
	Timestamp                                                                                        int64
	Outcome                                                                                          *Outcome
	Usage                                                                                            []TokenUsage
	Result                                                                                           *RunResult
	Value                                                                                            struct {
		Code,
		Message string
	}
}

// said is a message that is built from events.
type said struct {
	role, content, value string
	calls                []string
}

// conversation is what a client has after a run.
type conversation struct {
	messages []*said
	byID     map[string]*said
	// arguments and callValues are those of calls.
	arguments, callValues map[string]string
	// values are the sealed values in the order in which they came.
	values []string
	open   map[string]bool
	last   event
}

// fold processes a stream as the protocol's clients do, and checks the order and pairing of events as they do.
func fold(f frames) (*conversation, error) {
	c := &conversation{byID: map[string]*said{}, arguments: map[string]string{}, callValues: map[string]string{},
		open: map[string]bool{}}
	for i, data := range f {
		if bytes.Contains(data, []byte(":null")) {
			return nil, fmt.Errorf("frame %d has a null: %s", i, data)
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("frame %d: %w", i, err)
		}
		switch {
		case e.Timestamp == 0:
			return nil, fmt.Errorf("frame %d has no time: %s", i, data)
		case i == 0 && e.Type != "RUN_STARTED" && e.Type != "RUN_ERROR", i > 0 && e.Type == "RUN_STARTED":
			return nil, fmt.Errorf("frame %d is %s", i, e.Type)
		case c.last.Type == "RUN_FINISHED", c.last.Type == "RUN_ERROR":
			return nil, fmt.Errorf("frame %d comes after the end: %s", i, data)
		}
		if err := c.take(&e); err != nil {
			return nil, fmt.Errorf("frame %d: %w: %s", i, err, data)
		}
		c.last = e
	}
	if c.last.Type != "RUN_FINISHED" && c.last.Type != "RUN_ERROR" {
		return nil, fmt.Errorf("the last event is %s", c.last.Type)
	}
	return c, nil
}

// begin opens something and end closes it. Both fail in the wrong place.
func (c *conversation) begin(key string) error {
	if c.open[key] {
		return errors.New("it is open")
	}
	c.open[key] = true
	return nil
}

func (c *conversation) end(key string) error {
	if !c.open[key] {
		return errors.New("it is not open")
	}
	delete(c.open, key)
	return nil
}

// message returns the message with an id, and creates a missing one.
func (c *conversation) message(id, role string) (*said, error) {
	m := c.byID[id]
	if m == nil {
		m = &said{role: role}
		c.byID[id] = m
		c.messages = append(c.messages, m)
	}
	if id == "" || m.role != role {
		return m, fmt.Errorf("a message of %s has the id of one of %s", role, m.role)
	}
	return m, nil
}

func (c *conversation) take(e *event) error {
	switch e.Type {
	case "RUN_STARTED", "RUN_ERROR", "CUSTOM":
	case "SUBAGENT_STARTED":
		return c.begin("subagent " + e.SubagentRunID)
	case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
		return c.end("subagent " + e.SubagentRunID)
	case "REASONING_START":
		return c.begin("span " + e.MessageID)
	case "REASONING_END":
		return c.end("span " + e.MessageID)
	case "REASONING_MESSAGE_START", "TEXT_MESSAGE_START":
		want := map[string]string{"REASONING_MESSAGE_START": "reasoning", "TEXT_MESSAGE_START": "assistant"}[e.Type]
		if e.Role != want {
			return errors.New("the role is wrong")
		}
		if _, err := c.message(e.MessageID, want); err != nil {
			return err
		}
		return c.begin("message " + e.MessageID)
	case "REASONING_MESSAGE_CHUNK":
		if !c.open["span "+e.MessageID] || len(c.open) > 1+c.spans() {
			return fmt.Errorf("it is out of place, among %v", c.open)
		}
		m, err := c.message(e.MessageID, "reasoning")
		m.content += e.Delta
		return err
	case "REASONING_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT":
		if !c.open["message "+e.MessageID] || e.Delta == "" {
			return errors.New("it is out of place or empty")
		}
		c.byID[e.MessageID].content += e.Delta
	case "REASONING_MESSAGE_END", "TEXT_MESSAGE_END":
		return c.end("message " + e.MessageID)
	case "THINKING_START", "THINKING_TEXT_MESSAGE_START":
		if e.Type == "THINKING_TEXT_MESSAGE_START" {
			if _, err := c.message(e.MessageID, "reasoning"); err != nil {
				return err
			}
		}
		return c.begin(e.Type + e.MessageID)
	case "THINKING_TEXT_MESSAGE_CONTENT":
		if !c.open["THINKING_TEXT_MESSAGE_START"+e.MessageID] {
			return errors.New("it is out of place")
		}
		c.byID[e.MessageID].content += e.Delta
	case "THINKING_END", "THINKING_TEXT_MESSAGE_END":
		return c.end(strings.TrimSuffix(e.Type, "END") + "START" + e.MessageID)
	case "TOOL_CALL_START":
		m, err := c.message(e.ParentMessageID, "assistant")
		if err != nil {
			return err
		}
		m.calls = append(m.calls, e.ToolCallID)
		return c.begin("call " + e.ToolCallID)
	case "TOOL_CALL_ARGS":
		if !c.open["call "+e.ToolCallID] {
			return errors.New("the call is not open")
		}
		c.arguments[e.ToolCallID] += e.Delta
	case "TOOL_CALL_END":
		return c.end("call " + e.ToolCallID)
	case "REASONING_ENCRYPTED_VALUE":
		return c.seal(e)
	case "RUN_FINISHED":
		if len(c.open) > 0 {
			return fmt.Errorf("it leaves %v open", c.open)
		}
	default:
		return errors.New("the event is not known")
	}
	return nil
}

func (c *conversation) seal(e *event) error {
	c.values = append(c.values, e.EncryptedValue)
	open := c.open["message "+e.EntityID] || c.open["span "+e.EntityID]
	switch _, called := c.arguments[e.EntityID]; {
	case e.Subtype == "message" && c.byID[e.EntityID] != nil && open:
		c.byID[e.EntityID].value = e.EncryptedValue
	case e.Subtype == "tool-call" && called && !c.open["call "+e.EntityID]:
		c.callValues[e.EntityID] = e.EncryptedValue
	default:
		return errors.New("the value names nothing that there is")
	}
	return nil
}

// spans counts the open specialists and stretches of reasoning, except one.
func (c *conversation) spans() int {
	n := -1
	for key := range c.open {
		if strings.HasPrefix(key, "span ") || strings.HasPrefix(key, "subagent ") {
			n++
		}
	}
	return n
}

// inOrder checks that the history reads user, reasoning, assistant.
func (c *conversation) inOrder() error {
	for i, m := range c.messages {
		if m.role == "reasoning" && i > 0 && c.messages[i-1].role == "assistant" {
			return fmt.Errorf("message %d is reasoning, and comes after the answer", i)
		}
	}
	return nil
}

// texts joins the contents of the messages of a role.
func (c *conversation) texts(role string) string {
	var b strings.Builder
	for _, m := range c.messages {
		if m.role == role {
			b.WriteString(m.content)
		}
	}
	return b.String()
}

// For all events of a run, the encoded events are in order and in pairs, and a client has all texts.
func TestStreamsAreWhatRunsAddUpTo(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		events, form := randomRun(rnd), Form(rnd.IntN(3))
		if form == FormLegacy { // its requests cannot ask for values
			events = slices.DeleteFunc(events, func(e reasoning.Event) bool { return e.Kind == reasoning.Sealed })
		}
		f := encode(t, events, form)
		c, err := fold(f)
		if err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, f)
		}
		var all generation.Collector
		sealed := ""
		for _, e := range events {
			if all.Push(e); e.Kind == reasoning.Sealed {
				sealed = seal.Join(sealed, e.Text)
			}
		}
		if err := c.holds(all.Reply(), sealed); err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, f)
		}
	}
}

// randomRun is [wiretest.RandomRun] with hidden reasoning before everything that is said.
func randomRun(rnd *rand.Rand) (events []reasoning.Event) {
	v := reasoning.Visibility(rnd.IntN(3))
	for _, e := range wiretest.RandomRun(rnd, v) {
		says := e.Segment != reasoning.Reasoning && e.Segment != reasoning.Summary
		if e.Kind == reasoning.SegmentStart && says {
			if v == reasoning.VisibilitySummary || v == reasoning.VisibilityNone && rnd.IntN(2) == 0 {
				events = append(events, wiretest.Segment(reasoning.Reasoning)...)
			}
		}
		events = append(events, e)
	}
	events[0].Info.Visibility = v
	return events
}

// holds compares what a client has with the content of a run and its sealed values, joined.
func (c *conversation) holds(reply generation.Reply, sealed string) error {
	valid := func(texts ...string) string {
		for i := range texts { // the messages begin without blank lines
			texts[i] = strings.TrimLeft(texts[i], "\r\n")
		}
		return strings.ReplaceAll(strings.Join(texts, ""), "\xff", "\ufffd")
	}
	if got := c.texts("reasoning"); got != valid(reply.Reasoning, reply.Summary) {
		return fmt.Errorf("the reasoning is %q", got)
	}
	said := c.texts("assistant")
	if said != valid(reply.Answer, reply.Preamble) && said != valid(reply.Preamble, reply.Answer) {
		return fmt.Errorf("the assistant says %q", said)
	}
	var ids []string
	for _, call := range reply.Calls {
		ids = append(ids, call.ID)
		if got := c.arguments[call.ID]; got != call.Arguments && (got != "{}" || call.Arguments != "") {
			return fmt.Errorf("call %s has the arguments %q", call.ID, got)
		}
	}
	if !reflect.DeepEqual(c.last.Outcome.PendingToolCallIDs, ids) {
		return fmt.Errorf("pending are %v", c.last.Outcome.PendingToolCallIDs)
	}
	last := ""
	for _, value := range c.values {
		if !strings.HasPrefix(value, last) {
			return fmt.Errorf("the values are %q", c.values)
		}
		last = value
	}
	if last != sealed {
		return fmt.Errorf("the last value is %q, want %q", last, sealed)
	}
	return nil
}

var nowhere = wire.NewJSON(io.Discard).Encode

func TestDeltasTakeNoMemory(t *testing.T) {
	for _, form := range []Form{FormStandard, FormChunked, FormLegacy} {
		for _, s := range []reasoning.Segment{reasoning.Answer, reasoning.Reasoning, reasoning.Summary, reasoning.ToolCall} {
			e := NewEncoder(config(form), nowhere)
			events := wiretest.Segment(s, " a token\n")
			events[1].Call = reasoning.Call{ID: "call_1", Name: "f"}
			_ = e.Push(0, &events[0])
			if n := testenv.Allocs(func() { _ = e.Push(0, &events[1]) }); n != 0 {
				t.Errorf("form %v, segment %v: %v allocations for a delta", form, s, n)
			}
		}
	}
}

// After a client has gone nothing more is sent, and Push returns the error.
func TestSendingFails(t *testing.T) {
	gone, calls := errors.New("gone"), 0
	e := NewEncoder(config(FormStandard), func(any) error { calls++; return gone })
	for _, ev := range wiretest.Run(reasoning.Result{}, wiretest.Segment(reasoning.Answer, "a")) {
		if err := e.Push(0, &ev); !errors.Is(err, gone) {
			t.Fatal(err)
		}
	}
	if calls != 1 {
		t.Errorf("%d events were sent", calls)
	}
}

func BenchmarkDelta(b *testing.B) {
	e := NewEncoder(config(FormStandard), nowhere)
	events := wiretest.Segment(reasoning.Answer, " token")
	_ = e.Push(0, &events[0])
	b.ReportAllocs()
	for b.Loop() {
		_ = e.Push(0, &events[1])
	}
}
