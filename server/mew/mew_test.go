package mew_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"runner/backend/backendtest"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/runner"
	"runner/server/mew"
	"runner/server/mew/envelope"
	"runner/server/mew/participant"
	"runner/server/mew/space"
	"runner/server/wire"
	"runner/server/wiretest"
)

const patience = 20 * time.Second

// site is a space with a local model, and the tokens of its participants.
type site struct {
	t      *testing.T
	url    string
	api    *mew.API
	tokens map[string]string
	file   string
}

// roles are the participants that may join, and what each may send.
var roles = map[string]string{
	"alice": `[{"kind":"chat"},{"kind":"reasoning/thought"}]`, "bob": `[{"kind":"chat"}]`, "boss": `[{"kind":"*"}]`,
	"calc": `[{"kind":"mcp/response"},{"kind":"chat"}]`,
	"thinker": `[{"kind":"chat"},{"kind":"reasoning/*"},{"kind":"mcp/request","payload":{"method":"tools/*"}},` +
		`{"kind":"mcp/response"}]`,
	"mute": `[]`,
}

func newSite(t *testing.T, change func(*mew.Config), engine fake.Config, replies ...fake.Reply) *site {
	t.Helper()
	s := &site{t: t, tokens: map[string]string{}, file: filepath.Join(t.TempDir(), "tokens.json")}
	for id, may := range roles {
		capabilities, err := envelope.ParseCapabilities([]byte(may))
		if err != nil {
			t.Fatal(err)
		}
		if s.tokens[id], err = mew.AddToken(s.file, id, capabilities); err != nil {
			t.Fatal(err)
		}
	}
	s.open(change, engine, replies...)
	return s
}

// open serves the space.
func (s *site) open(change func(*mew.Config), engine fake.Config, replies ...fake.Reply) *httptest.Server {
	s.t.Helper()
	tokens, err := mew.LoadTokens(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	models := wiretest.NewRunner(s.t, engine, runner.Config{CallMemory: runner.NewCallMemory(32, 0)}, replies...)
	cfg := mew.Config{Tokens: tokens, Request: generation.Request{Visibility: reasoning.VisibilityFull},
		Limits: space.Config{Rate: 1e6, Burst: 1e6}}
	if change != nil {
		change(&cfg)
	}
	s.api = mew.New(models, cfg)
	server := wiretest.Serve(s.t, s.api, wiretest.Anyone())
	s.url = server.URL
	api := s.api
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		api.Close(ctx)
		if ctx.Err() != nil {
			s.t.Error("the space does not close")
		}
	})
	return server
}

// person is a participant whose messages the test sends.
type person struct {
	t  *testing.T
	id string
	ws *websocket.Conn
	n  int

	mu    sync.Mutex
	heard []*envelope.Envelope
	err   error
	more  chan struct{}
}

// dial connects, and returns the status of the answer if there is one.
func (s *site) dial(header http.Header) (ws *websocket.Conn, status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, s.url+"/ws?space=local", &websocket.DialOptions{HTTPHeader: header})
	if resp != nil {
		status = resp.StatusCode
		if resp.Body != nil {
			_ = resp.Body.Close() // the library has read it
		}
	}
	return ws, status, err
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// join lets a participant in, which then listens.
func (s *site) join(id string) *person {
	s.t.Helper()
	ws, _, err := s.dial(bearer(s.tokens[id]))
	if err != nil {
		s.t.Fatal(err)
	}
	p := s.listen(id, ws)
	p.wait(envelope.Welcome, nil)
	return p
}

func (s *site) listen(id string, ws *websocket.Conn) *person {
	ws.SetReadLimit(envelope.MaxSize)
	p := &person{t: s.t, id: id, ws: ws, more: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, data, err := ws.Read(context.Background())
			var e envelope.Envelope
			if err == nil {
				if e, err = envelope.Parse(data); err == nil {
					err = e.Validate()
				}
			}
			p.mu.Lock()
			if p.err = err; err == nil {
				p.heard = append(p.heard, &e)
			}
			p.mu.Unlock()
			select {
			case p.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	s.t.Cleanup(func() { _ = ws.CloseNow(); <-done })
	return p
}

// all returns the messages that were received.
func (p *person) all() []*envelope.Envelope {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard)
}

// wait returns the first message of a kind for which fits is true.
func (p *person) wait(kind string, fits func(*envelope.Envelope) bool) *envelope.Envelope {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		for _, e := range p.all() {
			if e.Kind == kind && (fits == nil || fits(e)) {
				return e
			}
		}
		select {
		case <-p.more:
		case <-deadline:
			p.t.Fatalf("%s hears no %s", p.id, kind)
		}
	}
}

// ended waits for the connection's end and returns the reason.
func (p *person) ended() websocket.CloseError {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		err := p.err
		p.mu.Unlock()
		var closed websocket.CloseError
		if errors.As(err, &closed) {
			return closed
		}
		if err != nil {
			return websocket.CloseError{Reason: "lost: " + err.Error()}
		}
		select {
		case <-p.more:
		case <-deadline:
			p.t.Fatalf("%s stays connected", p.id)
		}
	}
}

// write sends a frame unchanged.
func (p *person) write(frame string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
		p.t.Fatal(err)
	}
}

// say sends a chat and returns its id.
func (p *person) say(text string, to ...string) string {
	p.t.Helper()
	p.n++
	id := fmt.Sprintf("%s-%d", p.id, p.n)
	body, err := json.Marshal(map[string]any{"protocol": envelope.Protocol, "id": id, "kind": envelope.Chat, "to": to,
		"payload": map[string]string{"text": text}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(string(body))
	return id
}

// answer waits for the answer of a participant to a message.
func (p *person) answer(from, id string) string {
	p.t.Helper()
	e := p.wait(envelope.Chat, func(e *envelope.Envelope) bool {
		return e.From == from && e.Context == "" && slices.Contains(e.Correlation, id)
	})
	var c envelope.ChatText
	e.Read(&c)
	return c.Text
}

func of(from string) func(*envelope.Envelope) bool {
	return func(e *envelope.Envelope) bool { return e.From == from }
}

func about(id string) func(*envelope.Envelope) bool {
	return func(e *envelope.Envelope) bool { return slices.Contains(e.Correlation, id) }
}

var sum = fake.Reply{After: wiretest.Ask("What is 17 + 25?"),
	Say: wiretest.Think("CANARY I add them. It is 42.", "42.")}

var told = fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>",
	Say: "Adding gives 42.<|return|>"}

func TestTheModelAnswers(t *testing.T) {
	for v, want := range map[reasoning.Visibility][]string{
		reasoning.VisibilityNone: {`reasoning/start {"message":""}`, `reasoning/conclusion {"message":""}`,
			`chat {"text":"42.","message":"42.","format":"markdown"}`},
		reasoning.VisibilitySummary: {`reasoning/start`, `reasoning/thought {"message":"Adding gives 42."}`,
			`reasoning/conclusion {"message":"42."}`, `chat`},
		reasoning.VisibilityFull: {`reasoning/start`, `reasoning/thought {"message":"CANARY I add them."}`,
			`reasoning/thought {"message":"It is 42."}`,
			`reasoning/conclusion {"message":"42."}`, `chat`},
	} {
		s := newSite(t, func(c *mew.Config) { c.Request.Visibility = v }, fake.Config{}, sum, told)
		alice := s.join("alice")
		id := alice.say("What is 17 + 25?")
		alice.answer(mew.LocalID, id)
		var got []*envelope.Envelope
		for _, e := range alice.all() {
			if e.From == mew.LocalID {
				got = append(got, e)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d messages", v, len(got))
		}
		for i, e := range got {
			if said := e.Kind + " " + string(e.Payload); !strings.HasPrefix(said, want[i]) {
				t.Errorf("%s: %s, not %s", v, said, want[i])
			}
			inside := e.Kind != envelope.Start && e.Kind != envelope.Chat
			if inside && e.Context != got[0].ID || !inside && (e.Context != "" || !slices.Equal(e.Correlation, []string{id})) {
				t.Errorf("%s: %+v", v, e)
			}
			if v == reasoning.VisibilityNone && strings.Contains(string(e.Payload), "CANARY") {
				t.Errorf("%s: %s", v, e.Payload)
			}
		}
	}
}

// agent takes part from another program, with a model of its own.
func (s *site) agent(ctx context.Context, id string, request generation.Request, engine fake.Config,
	replies ...fake.Reply) (done <-chan error) {
	s.t.Helper()
	models := wiretest.NewRunner(s.t, engine, runner.Config{CallMemory: runner.NewCallMemory(32, 0)}, replies...)
	p := participant.New(participant.Config{Generate: models.Engine.Generate, Request: request, Thoughts: 1e6,
		ThoughtBurst: 1e6})
	ended := make(chan error, 1)
	to := participant.Address{URL: s.url, Token: s.tokens[id], Space: "local", ID: id}
	go func() {
		ended <- p.Run(ctx, func(ctx context.Context) (participant.Conn, error) { return participant.Dial(ctx, to) })
	}()
	return ended
}

func slow(int) time.Duration { return time.Millisecond }

// Two agents reason about one question at once, one here and one elsewhere. Meanwhile others talk, add thoughts and
// join.
func TestTwoAgentsReasonAtOnce(t *testing.T) {
	both := "Who is right?"
	here := fake.Reply{After: wiretest.Ask(both), Say: wiretest.Think(strings.Repeat("Here it is so. ", 30), "Here.")}
	there := fake.Reply{After: wiretest.Ask(both), Say: wiretest.Think(strings.Repeat("There it is not. ", 30), "There.")}
	s := newSite(t, nil, fake.Config{Delay: slow}, here)
	ctx, cancel := context.WithCancel(context.Background())
	alice, bob := s.join("alice"), s.join("bob")
	done := s.agent(ctx, "thinker", generation.Request{Visibility: reasoning.VisibilityFull},
		fake.Config{Delay: slow}, there)
	alice.wait(envelope.Presence, func(e *envelope.Envelope) bool {
		return strings.Contains(string(e.Payload), "thinker")
	})
	id := alice.say(both)
	start := bob.wait(envelope.Start, of("thinker"))
	alice.write(`{"kind":"reasoning/thought","context":"` + start.ID + `","correlation_id":["` + start.ID +
		`"],"payload":{"message":"Mind the gap."}}`)
	if got := bob.answer(mew.LocalID, id) + bob.answer("thinker", id); got != "Here.There." {
		t.Errorf("answered %q", got)
	}
	paths := map[string]string{}
	var order []string
	thoughts := map[string]int{}
	for _, e := range bob.all() {
		switch e.Kind {
		case envelope.Start:
			paths[e.From] = e.ID
		case envelope.Thought, envelope.Conclusion:
			if e.From == "alice" {
				if e.Context != start.ID || string(e.Payload) != `{"message":"Mind the gap."}` {
					t.Errorf("alice's thought is %+v", e)
				}
				continue
			}
			if e.Context != paths[e.From] {
				t.Errorf("%s of %s is in %q", e.Kind, e.From, e.Context)
			}
			if e.Kind == envelope.Thought {
				thoughts[e.From]++
				if n := len(order); n == 0 || order[n-1] != e.From {
					order = append(order, e.From)
				}
				if strings.Contains(string(e.Payload), "Here") != (e.From == mew.LocalID) {
					t.Errorf("%s thinks %s", e.From, e.Payload)
				}
			}
		}
	}
	if len(order) < 4 || len(paths) != 2 || thoughts["thinker"] != 30 || thoughts[mew.LocalID] == 0 {
		t.Errorf("the reasonings do not run at once: %q, %v", order, thoughts)
	}
	// Nobody answers an answer.
	time.Sleep(100 * time.Millisecond)
	chats := 0
	for _, e := range bob.all() {
		if e.Kind == envelope.Chat && e.From != "alice" {
			chats++
		}
	}
	if chats != 2 {
		t.Errorf("%d answers", chats)
	}
	// Everyone sees the same order.
	a, b := ids(alice.all()), ids(bob.all())
	if a, b = common(a, b), common(b, a); !slices.Equal(a, b) {
		t.Error("alice and bob hear things in different orders")
	}
	// An agent that is told to stop says that its reasoning has ended.
	id = alice.say(both, "thinker")
	last := alice.wait(envelope.Start, about(id))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	given := alice.wait(envelope.Cancel, of("thinker"))
	if given.Context != last.ID || string(given.Payload) != `{"reason":"shutdown"}` {
		t.Errorf("given up with %+v %s", given, given.Payload)
	}
	bob.wait(envelope.Presence, func(e *envelope.Envelope) bool { return strings.Contains(string(e.Payload), `"leave"`) })
}

func ids(list []*envelope.Envelope) (out []string) {
	for _, e := range list {
		out = append(out, e.ID)
	}
	return out
}

// common returns the elements of a that are also in b.
func common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(id string) bool { return !slices.Contains(b, id) })
}

func TestCallsAndNesting(t *testing.T) {
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
		t.Run(v.String(), func(t *testing.T) { testCallsAndNesting(t, v) })
	}
}

func testCallsAndNesting(t *testing.T, v reasoning.Visibility) {
	s := newSite(t, func(c *mew.Config) { c.Request.Visibility = v }, fake.Config{},
		fake.Reply{Prompt: "type add", After: wiretest.Ask("Add them."), Say: wiretest.Call("I use the tool.", "", "add",
			`{"a":17,"b":25}`)},
		fake.Reply{Prompt: "I use the tool.", After: "sum: 42<|end|><|start|>assistant",
			Say: wiretest.Think("It says 42.", "It is 42.")})
	alice, calc, boss := s.join("alice"), s.join("calc"), s.join("boss")
	list := calc.wait(envelope.MCPRequest, nil)
	calc.write(`{"to":["runner"],"kind":"mcp/response","correlation_id":["` + list.ID +
		`"],"payload":{"jsonrpc":"2.0","id":"tools","result":{"tools":[{"name":"add"}]}}}`)
	calc.say("I add.", "alice") // comes after the response
	alice.wait(envelope.Chat, of("calc"))
	boss.write(`{"id":"q","to":["runner","alice"],"kind":"chat","context":"outer","payload":{"text":"Add them."}}`)
	call := calc.wait(envelope.MCPRequest, func(e *envelope.Envelope) bool {
		return strings.Contains(string(e.Payload), "tools/call")
	})
	start := boss.wait(envelope.Start, nil)
	if start.Context != "outer" || call.Context != "outer/"+start.ID || call.From != mew.LocalID {
		t.Errorf("the start is in %q, the call in %q", start.Context, call.Context)
	}
	calc.write(`{"to":["runner"],"kind":"mcp/response","correlationId":"` + call.ID + `","context":"` + call.Context +
		`","payload":{"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":"sum: 42"}]}}}`)
	if got := boss.answer(mew.LocalID, "q"); got != "It is 42." {
		t.Errorf("answered %q", got)
	}
	seen := slices.ContainsFunc(boss.all(), func(e *envelope.Envelope) bool { return e.ID == call.ID })
	if seen != (v == reasoning.VisibilityFull) {
		t.Errorf("the asker sees the call: %v", seen)
	}
	for _, e := range alice.all() {
		if e.From == mew.LocalID {
			t.Errorf("alice hears %s, which is for boss", e.Kind)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := newSite(t, nil, fake.Config{})
	alice, bob := s.join("alice"), s.join("bob")
	for name, c := range map[string]struct{ frame, fault, more string }{
		"a kind that she may not send": {`{"id":"v1","kind":"reasoning/start"}`, "capability_violation",
			`"attempted_kind":"reasoning/start","your_capabilities":[{"kind":"chat"},{"kind":"reasoning/thought"}]`},
		"the space's kind": {`{"id":"v2","kind":"system/presence"}`, "capability_violation",
			`"attempted_kind":"system/presence"`},
		"another's name": {`{"id":"v3","from":"bob","kind":"chat","payload":{"text":"I am bob"}}`,
			"identity_violation", "alice"},
		"nobody":          {`{"id":"v4","to":["nobody"],"kind":"chat","payload":{"text":"x"}}`, "recipient_not_found", ""},
		"a cancel":        {`{"id":"v5","kind":"reasoning/cancel","context":"x"}`, "capability_violation", ""},
		"another version": {`{"id":"v6","protocol":"mew/v0.3","kind":"chat"}`, "invalid_message", "protocol"},
		"no kind":         {`{"id":"v7"}`, "invalid_message", "kind"},
		"another's join":  {`{"type":"join","token":"x","participantId":"bob"}`, "identity_violation", ""},
		"no JSON":         {`{`, "invalid_message", ""},
	} {
		before := len(alice.all())
		alice.write(c.frame)
		e := alice.wait(envelope.Error, func(e *envelope.Envelope) bool { return slices.Index(alice.all(), e) >= before })
		if e.From != space.Gateway || !slices.Equal(e.To, []string{"alice"}) ||
			!strings.Contains(string(e.Payload), `{"error":"`+c.fault+`"`) || !strings.Contains(string(e.Payload), c.more) {
			t.Errorf("%s: %+v %s", name, e, e.Payload)
		}
		if strings.Contains(c.frame, `"id":"v`) && c.fault != "invalid_message" && !strings.HasPrefix(e.Correlation[0], "v") {
			t.Errorf("%s: about %v", name, e.Correlation)
		}
	}
	alice.say("once")
	bob.wait(envelope.Chat, of("alice"))
	boss := s.join("boss")
	boss.write(`{"id":"alice-1","kind":"chat","payload":{"text":"twice"}}`)
	boss.wait(envelope.Error, func(e *envelope.Envelope) bool {
		return strings.Contains(string(e.Payload), "duplicate_id")
	})
	for _, e := range bob.all() {
		if e.From == "bob" || e.Kind == envelope.Error || strings.Contains(string(e.Payload), "twice") ||
			strings.HasPrefix(e.ID, "v") {
			t.Errorf("bob hears %s %s", e.Kind, e.Payload)
		}
	}
	// Claims about oneself are not believed, but do no harm.
	alice.write(`{"type":"join","space":"local","token":"x","participantId":"alice","capabilities":[{"kind":"*"}]}`)
	alice.write(`{"id":"v9","kind":"mcp/request"}`)
	alice.wait(envelope.Error, about("v9"))
}

func TestJoining(t *testing.T) {
	s := newSite(t, nil, fake.Config{})
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"a wrong token": {bearer("wrong"), http.StatusForbidden}, "a long token": {bearer(strings.Repeat("x", 1000)),
			http.StatusForbidden},
	} {
		if _, status, err := s.dial(c.header); err == nil || status != c.status {
			t.Errorf("%s: %v, %d", name, err, status)
		}
	}
	_, err := participant.Dial(context.Background(), participant.Address{URL: s.url, Token: "wrong"})
	if !errors.As(err, new(*participant.RejectedError)) {
		t.Errorf("dialling with a wrong token: %v", err)
	}
	if _, err := participant.Dial(context.Background(), participant.Address{URL: s.url, Token: s.tokens["bob"],
		Space: "other"}); !errors.As(err, new(*participant.RejectedError)) {
		t.Errorf("dialling another space: %v", err)
	}
	for frame, reason := range map[string]string{
		`{"type":"join","space":"local","token":"wrong"}`:                                           "unauthorized",
		`{"type":"join","space":"local"}`:                                                           "unauthorized",
		`{"type":"join","space":"other","token":"` + s.tokens["bob"] + `"}`:                         "unknown_space",
		`{"type":"join","space":"local","token":"` + s.tokens["bob"] + `","participantId":"alice"}`: "unauthorized",
		`{"kind":"chat","payload":{"text":"hi"}}`:                                                   "unauthorized",
		`{`: "unauthorized",
	} {
		ws, _, err := s.dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		p := s.listen("stranger", ws)
		p.write(frame)
		if closed := p.ended(); closed.Reason != reason || closed.Code != websocket.StatusPolicyViolation {
			t.Errorf("%s: closed with %+v", frame, closed)
		}
		if len(p.all()) > 0 {
			t.Errorf("%s: heard %+v", frame, p.all()[0])
		}
	}
	ws, _, err := s.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	bob := s.listen("bob", ws)
	bob.write(`{"type":"join","space":"local","token":"` + s.tokens["bob"] +
		`","participantId":"bob","capabilities":[{"kind":"*"}]}`)
	welcome := bob.wait(envelope.Welcome, nil)
	var a envelope.Arrival
	if !welcome.Read(&a) || a.You.ID != "bob" || len(a.You.Capabilities) != 1 || a.You.Capabilities[0].Kind != "chat" ||
		len(a.Participants) != 1 || a.Participants[0].ID != mew.LocalID {
		t.Errorf("welcomed with %s", welcome.Payload)
	}
	alice := s.join("alice")
	bob.wait(envelope.Presence, func(e *envelope.Envelope) bool {
		return strings.Contains(string(e.Payload), `"join","participant":{"id":"alice"`)
	})
	again := s.join("bob")
	if closed := bob.ended(); closed.Reason != "replaced" {
		t.Errorf("the older connection ends with %+v", closed)
	}
	alice.say("hello")
	again.wait(envelope.Chat, of("alice"))
}

// A connection that ends gets the reason as a code: one that does not send its token in time, and one that sends a
// binary message, before or after it has joined.
func TestConnectionsEndWithAReason(t *testing.T) {
	s := newSite(t, func(c *mew.Config) { c.JoinTimeout = 300 * time.Millisecond }, fake.Config{})
	bob := []byte(`{"type":"join","space":"local","token":"` + s.tokens["bob"] + `"}`)
	const text, binary, unsupported = websocket.MessageText, websocket.MessageBinary, websocket.StatusUnsupportedData
	token, long := bearer(s.tokens["bob"]), make([]byte, envelope.MaxSize+1)
	for _, c := range []struct {
		name   string
		header http.Header
		kind   websocket.MessageType
		frames [][]byte
		code   websocket.StatusCode
		reason string
	}{
		{"silence", nil, text, nil, websocket.StatusPolicyViolation, "join_timeout"},
		{"a binary join", nil, binary, [][]byte{bob}, unsupported, "binary_frame"},
		{"binary with a token", token, binary, [][]byte{{0, 1}}, unsupported, "binary_frame"},
		{"an empty binary frame", token, binary, [][]byte{{}}, unsupported, "binary_frame"},
		{"too long", token, text, [][]byte{long}, websocket.StatusMessageTooBig, ""},
	} {
		ws, _, err := s.dial(c.header)
		if err != nil {
			t.Fatal(err)
		}
		p := s.listen("bob", ws)
		for _, frame := range c.frames {
			if err := ws.Write(t.Context(), c.kind, frame); err != nil {
				t.Fatal(err)
			}
		}
		closed := p.ended()
		if closed.Code != c.code || c.reason != "" && closed.Reason != c.reason {
			t.Errorf("%s: closed with %+v", c.name, closed)
		}
	}
	// A participant that has joined in time stays.
	ws, _, err := s.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := s.listen("bob", ws)
	p.write(string(bob))
	p.wait(envelope.Welcome, nil)
	time.Sleep(500 * time.Millisecond)
	s.join("alice").say("hello", "bob")
	p.wait(envelope.Chat, of("alice"))
	// A space that closes also tells connections that have not joined.
	ws, _, err = s.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger := s.listen("stranger", ws)
	s.api.Close(t.Context())
	if closed := stranger.ended(); closed.Code != websocket.StatusGoingAway || closed.Reason != "space_closed" {
		t.Errorf("closed with %+v", closed)
	}
}

// refusing is a body that the server refuses for lack of room.
type refusing struct{}

func (refusing) Read([]byte) (int, error) {
	return 0, wire.Errorf(wire.CodeBusy, "there is no room")
}

func TestHTTP(t *testing.T) {
	s := newSite(t, nil, fake.Config{}, sum)
	alice := s.join("alice")
	post := func(id, token, body string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, s.url+"/participants/"+id+"/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header = bearer(token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		return resp.StatusCode, answer
	}
	hello := `{"kind":"chat","payload":{"text":"What is 17 + 25?"}}`
	for name, c := range map[string]struct {
		id, token, body string
		status          int
		fault           string
	}{
		"no token": {"bob", "", hello, 401, "missing_api_key"}, "a wrong token": {"bob", "wrong", hello, 403,
			"permission_denied"},
		"another's token":             {"bob", s.tokens["alice"], hello, 403, "permission_denied"},
		"another's name":              {"bob", s.tokens["bob"], `{"kind":"chat","from":"alice"}`, 403, "identity_violation"},
		"a kind that he may not send": {"bob", s.tokens["bob"], `{"kind":"reasoning/start"}`, 403, "capability_violation"},
		"no JSON":                     {"bob", s.tokens["bob"], `{`, 400, "invalid_message"},
		"no kind":                     {"bob", s.tokens["bob"], `{}`, 400, "invalid_message"},
		"nobody":                      {"bob", s.tokens["bob"], `{"kind":"chat","to":["x"]}`, 404, "recipient_not_found"},
		"a join":                      {"bob", s.tokens["bob"], `{"type":"join"}`, 400, "invalid_message"},
		"too long": {"bob", s.tokens["bob"], strings.Repeat("x", envelope.MaxSize+1), 413,
			"request_too_large"},
	} {
		if status, answer := post(c.id, c.token, c.body); status != c.status || answer["error"] != c.fault {
			t.Errorf("%s: %d, %v", name, status, answer)
		}
	}
	// An error of the server while the body is read is passed on unchanged.
	late := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "/participants/bob/messages", refusing{})
	req.Header = bearer(s.tokens["bob"])
	wiretest.Handler(s.api, wiretest.Anyone()).ServeHTTP(late, req)
	if late.Code != http.StatusServiceUnavailable {
		t.Errorf("a body that the server refuses: %d", late.Code)
	}
	status, answer := post("bob", s.tokens["bob"], hello)
	id, _ := answer["id"].(string)
	if status != 202 || answer["status"] != "accepted" || id == "" || answer["timestamp"] == "" {
		t.Fatalf("%d, %v", status, answer)
	}
	if e := alice.wait(envelope.Chat, of("bob")); e.ID != id {
		t.Errorf("heard as %s", e.ID)
	}
	if got := alice.answer(mew.LocalID, id); got != "42." {
		t.Errorf("answered %q", got)
	}
}

func TestCancelOverTheSpace(t *testing.T) {
	long := fake.Reply{After: wiretest.Ask("Think long."),
		Say: wiretest.Think(strings.Repeat("So it goes on. ", 1000), "Done.")}
	s := newSite(t, nil, fake.Config{Delay: slow}, long)
	bob, boss, alice := s.join("bob"), s.join("boss"), s.join("alice")
	for _, who := range []*person{bob, boss} { // bob asked; boss holds reasoning/cancel
		id := bob.say("Think long.")
		start := bob.wait(envelope.Start, about(id))
		bob.wait(envelope.Thought, func(e *envelope.Envelope) bool { return e.Context == start.ID })
		alice.write(`{"id":"no-` + who.id + `","kind":"reasoning/cancel","context":"` + start.ID + `"}`)
		alice.wait(envelope.Error, about("no-"+who.id))
		who.write(`{"id":"stop-` + who.id + `","kind":"reasoning/cancel","context":"` + start.ID +
			`","payload":{"reason":"enough"}}`)
		cancelled := bob.wait(envelope.Cancel, func(e *envelope.Envelope) bool {
			return e.From == mew.LocalID && e.Context == start.ID
		})
		if !slices.Equal(cancelled.Correlation, []string{"stop-" + who.id}) {
			t.Errorf("cancelled by %v", cancelled.Correlation)
		}
		time.Sleep(50 * time.Millisecond)
		all := alice.all()
		at := slices.IndexFunc(all, func(e *envelope.Envelope) bool { return e.ID == "stop-"+who.id })
		after := 0
		for _, e := range all[at:] {
			if e.From == mew.LocalID && e.Kind != envelope.Cancel {
				after++
			}
		}
		// Messages that were already on their way may arrive after the space has passed on the cancel, more of them
		// on a busy machine.
		if after > 20 {
			t.Errorf("%d messages after the cancel", after)
		}
	}
}

// Askers need no capability to cancel a question by its id, whether it is waiting or being answered.
func TestQuestionsAreTakenBack(t *testing.T) {
	long := fake.Reply{After: wiretest.Ask("Think long."),
		Say: wiretest.Think(strings.Repeat("So it goes on. ", 1000), "Done.")}
	for _, kind := range []string{envelope.Cancel, envelope.ChatCancel} {
		s := newSite(t, nil, fake.Config{Delay: slow}, long, sum)
		alice, bob := s.join("alice"), s.join("bob")
		begun, waits, bobs := alice.say("Think long."), alice.say("What is 17 + 25?"), bob.say("What is 17 + 25?")
		alice.wait(envelope.Start, about(begun))
		for id, frame := range map[string]string{"no-1": `"` + waits + `","` + bobs + `"`, "no-2": `"` + bobs + `"`} {
			alice.write(`{"id":"` + id + `","kind":"` + kind + `","correlation_id":[` + frame + `]}`)
			alice.wait(envelope.Error, about(id))
		}
		for i, question := range []string{waits, begun} {
			alice.write(fmt.Sprintf(`{"id":"yes-%d","kind":%q,"correlation_id":[%q]}`, i, kind, question))
		}
		alice.wait(envelope.Cancel, about("yes-1"))
		if got := bob.answer(mew.LocalID, bobs); got != "42." {
			t.Errorf("%s: another's question was answered %q", kind, got)
		}
		for _, e := range bob.all() {
			if e.Kind == envelope.Chat && e.From == mew.LocalID && !about(bobs)(e) {
				t.Errorf("%s: a question that was taken back was answered: %s", kind, e.Payload)
			}
		}
	}
}

func TestFlood(t *testing.T) {
	s := newSite(t, func(c *mew.Config) {
		c.Limits = space.Config{Rate: 0.001, Burst: 5, ReportAfter: 50 * time.Millisecond}
	}, fake.Config{})
	alice, bob := s.join("alice"), s.join("bob")
	for range 40 {
		alice.say("again", "bob")
	}
	dropped, told := 0, map[string]bool{}
	for dropped < 35 {
		e := alice.wait(envelope.Error, func(e *envelope.Envelope) bool { return !told[e.ID] })
		told[e.ID] = true
		var f envelope.Fault
		if !e.Read(&f) || f.Error != "rate_limited" || f.AttemptedKind != envelope.Chat || len(e.Correlation) != f.Dropped {
			t.Fatalf("%s", e.Payload)
		}
		dropped += f.Dropped
	}
	if dropped != 35 {
		t.Errorf("%d are told of", dropped)
	}
	bob.wait(envelope.Chat, func(e *envelope.Envelope) bool { return e.ID == "alice-5" })
	// Another connection of the same participant does not raise its limit.
	again := s.join("alice")
	again.say("more", "bob")
	again.wait(envelope.Error, nil)
}

func TestSlowReaderIsDropped(t *testing.T) {
	s := newSite(t, func(c *mew.Config) { c.Limits.Waiting, c.Limits.WaitingBytes = 40, 1<<20 }, fake.Config{})
	alice, bob := s.join("alice"), s.join("bob")
	ws, _, err := s.dial(bearer(s.tokens["calc"])) // does not read
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	alice.wait(envelope.Presence, func(e *envelope.Envelope) bool { return strings.Contains(string(e.Payload), `"calc"`) })
	big := strings.Repeat("x", 200<<10)
	left := func(e *envelope.Envelope) bool {
		return strings.Contains(string(e.Payload), `"leave","participant":{"id":"calc"`)
	}
	n := 0
	for ; n < 500 && !slices.ContainsFunc(bob.all(), left); n++ {
		id := alice.say(big, "bob", "calc")
		bob.wait(envelope.Chat, func(e *envelope.Envelope) bool { return e.ID == id })
	}
	bob.wait(envelope.Presence, left)
	slowly := s.listen("calc", ws)
	// On a busy machine a frame may be cut before the reason can be sent.
	if closed := slowly.ended(); closed.Reason != "slow_consumer" && !strings.Contains(closed.Reason, "unexpected EOF") {
		t.Errorf("dropped after %d messages with %+v", n, closed)
	}
	alice.say("still here", "bob")
	bob.wait(envelope.Chat, func(e *envelope.Envelope) bool { return strings.Contains(string(e.Payload), "still here") })
}

// Participants find a space again that goes away and comes back.
func TestRestart(t *testing.T) {
	s := newSite(t, nil, fake.Config{})
	first := s.api
	var mu sync.Mutex
	api := first
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := wiretest.Handler(api, wiretest.Anyone())
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	ctx, cancel := context.WithCancel(context.Background())
	done := s.agent(ctx, "thinker", generation.Request{}, fake.Config{}, sum)
	alice := s.join("alice")
	ask := func(p *person, id string) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for time.Now().Before(deadline) {
			p.write(`{"id":"` + id + `","to":["thinker"],"kind":"chat","payload":{"text":"What is 17 + 25?"}}`)
			// The question is refused until the thinker has joined. The first message about it shows which.
			var first *envelope.Envelope
			for first == nil && time.Now().Before(deadline) {
				if all := p.all(); slices.ContainsFunc(all, about(id)) {
					first = all[slices.IndexFunc(all, about(id))]
				} else {
					time.Sleep(5 * time.Millisecond)
				}
			}
			if first != nil && first.Kind != envelope.Error {
				if got := p.answer("thinker", id); got != "42." {
					t.Errorf("answered %q", got)
				}
				return
			}
			time.Sleep(20 * time.Millisecond)
			id += "'"
		}
		t.Fatal("the thinker does not come")
	}
	ask(alice, "q")
	first.Close(context.Background())
	if closed := alice.ended(); closed.Reason != "space_closed" || closed.Code != websocket.StatusGoingAway {
		t.Errorf("closed with %+v", closed)
	}
	if _, status, err := s.dial(bearer(s.tokens["alice"])); err == nil || status != http.StatusServiceUnavailable {
		t.Errorf("a closed space is joined: %v", err)
	}
	s.open(nil, fake.Config{})
	mu.Lock()
	api = s.api
	mu.Unlock()
	s.url = server.URL
	ask(s.join("alice"), "r")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens.json")
	token, err := mew.AddToken(path, "alice", envelope.Capabilities{{Kind: "chat"}})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(content), token) {
		t.Fatalf("%v, %s", err, content)
	}
	tokens, err := mew.LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	if who := tokens.Find(token); who == nil || who.ID != "alice" || len(who.Capabilities) != 1 ||
		tokens.Find(token+"x") != nil || tokens.Find("") != nil {
		t.Errorf("found %+v", who)
	}
	for _, id := range []string{"alice", mew.LocalID, "", "a b", "a/b", "system:gateway", strings.Repeat("x", 65)} {
		if _, err := mew.AddToken(path, id, nil); err == nil {
			t.Errorf("%q is added", id)
		}
	}
	hash := strings.Repeat("ab", 32)
	for name, text := range map[string]string{
		"empty": `{"participants":[]}`, "no JSON": `{`, "more": `{"participants":[]} {}`,
		"another field":   `{"participants":[],"x":1}`,
		"no capabilities": `{"participants":[{"id":"a","sha256":"` + hash + `"}]}`,
		"no hash":         `{"participants":[{"id":"a","sha256":"ab","capabilities":[]}]}`,
		"a wrong pattern": `{"participants":[{"id":"a","sha256":"` + hash + `","capabilities":[{"kind":"!chat"}]}]}`,
		"a hash twice": `{"participants":[{"id":"a","sha256":"` + hash + `","capabilities":[]},{"id":"b","sha256":"` +
			hash + `","capabilities":[]}]}`,
	} {
		bad := filepath.Join(dir, "bad.json")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := mew.LoadTokens(bad); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := mew.LoadTokens(path); err == nil {
		t.Error("a file that others may write is loaded")
	}
}

// Participants that are removed from the file or changed are disconnected. Added ones can join, and the others
// stay. A file that cannot be used changes nothing.
func TestTokensAreReadAgain(t *testing.T) {
	s := newSite(t, nil, fake.Config{}, sum)
	content, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		ID           string          `json:"id"`
		SHA256       string          `json:"sha256"`
		Capabilities json.RawMessage `json:"capabilities"`
	}
	var f struct {
		Participants []entry `json:"participants"`
	}
	if err := json.Unmarshal(content, &f); err != nil {
		t.Fatal(err)
	}
	alice, bob, boss, calc := s.join("alice"), s.join("bob"), s.join("boss"), s.join("calc")
	if err := os.WriteFile(s.file, content[:len(content)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := s.api.Source()
	if changed, err := tokens.Reread(false); changed || err == nil {
		t.Errorf("a broken file: %v, %v", changed, err)
	}
	if got := bob.answer(mew.LocalID, bob.say("What is 17 + 25?")); got != "42." {
		t.Errorf("beside a broken file: %q", got)
	}
	f.Participants = slices.DeleteFunc(f.Participants, func(e entry) bool { return e.ID == "alice" })
	for i := range f.Participants {
		switch e := &f.Participants[i]; e.ID {
		case "boss":
			e.Capabilities = json.RawMessage(`[{"kind":"chat"}]`)
		case "calc":
			e.SHA256 = strings.Repeat("ab", 32)
		}
	}
	if content, err = json.Marshal(f); err != nil { // bob's entry is written otherwise, and is the same
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.tokens["carol"], err = mew.AddToken(s.file, "carol", envelope.Capabilities{{Kind: "chat"}}); err != nil {
		t.Fatal(err)
	}
	if changed, err := tokens.Reread(false); !changed || err != nil || tokens.Len() != len(f.Participants)+1 {
		t.Errorf("a changed file: %v, %v, %d tokens", changed, err, tokens.Len())
	}
	for p, why := range map[*person]error{alice: space.ErrUnauthorized, boss: space.ErrChanged, calc: space.ErrChanged} {
		if got := p.ended(); got.Reason != why.Error() {
			t.Errorf("%s: %q", p.id, got.Reason)
		}
	}
	for _, id := range []string{"alice", "calc"} {
		if _, status, err := s.dial(bearer(s.tokens[id])); err == nil || status != http.StatusForbidden {
			t.Errorf("%s joins with a token that is gone: %v, %d", id, err, status)
		}
	}
	s.join("carol")
	again := s.join("boss")
	again.write(`{"id":"b1","kind":"reasoning/cancel","payload":{}}`)
	again.wait(envelope.Error, about("b1"))
	if got := bob.answer(mew.LocalID, bob.say("What is 17 + 25?")); got != "42." {
		t.Errorf("after the change: %q", got)
	}
}

// Connections that send nothing are not let in, and their number is limited.
func TestSilentConnections(t *testing.T) {
	s := newSite(t, nil, fake.Config{})
	var open []*websocket.Conn
	defer func() {
		for _, ws := range open {
			_ = ws.CloseNow()
		}
	}()
	for range 100 {
		ws, status, err := s.dial(nil)
		if err != nil {
			if status != http.StatusServiceUnavailable {
				t.Fatalf("%v, %d", err, status)
			}
			break
		}
		open = append(open, ws)
	}
	if n := len(open); n == 0 || n == 100 {
		t.Errorf("%d connections are open without a token", n)
	}
	s.join("alice") // with a token there is room
	_ = open[0].CloseNow()
	deadline := time.Now().Add(patience)
	for {
		ws, _, err := s.dial(nil)
		if err == nil {
			_ = ws.CloseNow()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a place is not free again")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestConnectionsOfOneToken: a token may have only a few connections, however it is sent. Closing one makes room.
// Other tokens are not affected.
func TestConnectionsOfOneToken(t *testing.T) {
	const most = 3
	s := newSite(t, func(c *mew.Config) { c.Connections = most }, fake.Config{})
	var open []*websocket.Conn // that say nothing, so that none of them is closed on both sides
	defer func() {
		for _, ws := range open {
			_ = ws.CloseNow()
		}
	}()
	for i := range most {
		ws, _, err := s.dial(bearer(s.tokens["alice"]))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		open = append(open, ws)
	}
	if _, status, err := s.dial(bearer(s.tokens["alice"])); err == nil || status != http.StatusServiceUnavailable {
		t.Errorf("one more is answered with %d, %v", status, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	late, _, err := s.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.CloseNow() }()
	join := fmt.Sprintf(`{"type":"join","space":"local","token":%q}`, s.tokens["alice"])
	if err := late.Write(ctx, websocket.MessageText, []byte(join)); err != nil {
		t.Fatal(err)
	}
	var closed websocket.CloseError
	if _, _, err := late.Read(ctx); !errors.As(err, &closed) || closed.Code != websocket.StatusTryAgainLater ||
		closed.Reason != wire.CodeConnections {
		t.Errorf("one more that joins is closed with %v", err)
	}
	s.join("bob")
	_ = open[0].CloseNow()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		ws, _, err := s.dial(bearer(s.tokens["alice"]))
		if err == nil {
			open = append(open, ws)
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("closing a connection makes no room")
		}
	}
}

// TestCloseGivesUp closes a space while a client does not end its connection. Nothing waits for it any longer when the
// time is over.
func TestCloseGivesUp(t *testing.T) {
	s := newSite(t, nil, fake.Config{}, sum)
	ws, _, err := s.dial(bearer(s.tokens["alice"])) // nothing reads it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.api.Close(ctx)
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if !bytes.Contains(stacks, []byte("(*API).take")) {
		t.Error("the connection has ended already")
	}
	if bytes.Contains(stacks, []byte("(*API).Close")) {
		t.Errorf("something still waits:\n%s", stacks)
	}
}

// TestCloseLeavesNoGoroutine closes a space in which a model here, one elsewhere, a person and a connection that has
// not joined take part. Their connections and all that they started end.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	backendtest.Goroutines(t, func() {
		t.Run("space", func(t *testing.T) { // all that the space needs is closed at the end
			s := newSite(t, nil, fake.Config{Delay: slow}, sum)
			ctx, leave := context.WithCancel(t.Context())
			alice := s.join("alice")
			agent := s.agent(ctx, "thinker", generation.Request{}, fake.Config{}, sum)
			alice.wait(envelope.Presence, func(e *envelope.Envelope) bool {
				return strings.Contains(string(e.Payload), "thinker")
			})
			alice.answer(mew.LocalID, alice.say("What is 17 + 25?", mew.LocalID))
			alice.say("What is 17 + 25?", mew.LocalID) // the space closes before the answer ends
			ws, _, err := s.dial(nil)
			if err != nil {
				t.Fatal(err)
			}
			stranger := s.listen("stranger", ws)
			s.api.Close(t.Context())
			leave()
			if err := <-agent; err != nil {
				t.Error(err)
			}
			alice.ended()
			stranger.ended()
		})
	})
}
