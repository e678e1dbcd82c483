package space

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/server/mew/envelope"
	"runner/testenv"
)

var plenty = Config{Rate: 1e9, Burst: 1e9, Waiting: 1 << 20, WaitingBytes: 1 << 30}

func may(t testing.TB, id, kinds string) Identity {
	t.Helper()
	var list []string
	for kind := range strings.SplitSeq(kinds, " ") {
		list = append(list, `{"kind":"`+kind+`"}`)
	}
	c, err := envelope.ParseCapabilities([]byte("[" + strings.Join(list, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return Identity{ID: id, Capabilities: c}
}

func join(t testing.TB, s *Space, who Identity) *Member {
	t.Helper()
	m, err := s.Join(who)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// read returns the messages that wait for a member.
func read(t testing.TB, m *Member) []envelope.Envelope {
	t.Helper()
	var all []envelope.Envelope
	for {
		m.mu.Lock()
		n := len(m.lines)
		m.mu.Unlock()
		if n == 0 {
			return all
		}
		line, err := m.Receive(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		e, err := envelope.Parse(line)
		if err == nil {
			err = e.Validate()
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, e)
	}
}

// fault returns the name of the one error that waits for a member.
func fault(t *testing.T, m *Member) string {
	t.Helper()
	var f envelope.Fault
	for _, e := range read(t, m) {
		if e.Kind == envelope.Error {
			if f.Error != "" || !e.Read(&f) || e.From != Gateway || !slices.Equal(e.To, []string{m.who.ID}) {
				t.Fatalf("%+v %s", e, e.Payload)
			}
		}
	}
	return f.Error
}

// Everybody receives exactly the messages for them, from senders that may send them, in the same order.
func TestRandomTraffic(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := New(plenty)
		ids := []string{"a", "b", "c", "d"}
		kinds := []string{"chat", "x/y", envelope.Start, envelope.Thought, envelope.Cancel, envelope.MCPRequest,
			"system/presence", envelope.Error}
		may := map[string]Identity{"a": may(t, "a", "*"), "b": may(t, "b", "chat x/*"), "c": may(t, "c", "reasoning/*"),
			"d": may(t, "d", "mcp/request")}
		members := map[string]*Member{}
		for _, id := range ids {
			members[id] = join(t, s, may[id])
		}
		for _, m := range members {
			read(t, m)
		}
		type sent struct{ from, id string }
		var passed []sent
		for i := range 200 {
			from := ids[rng.IntN(4)]
			body := map[string]any{"id": fmt.Sprint(i), "kind": kinds[rng.IntN(len(kinds))]}
			named := ""
			if rng.IntN(3) == 0 {
				named = ids[rng.IntN(4)]
				body["to"] = []string{named}
			}
			if rng.IntN(4) == 0 {
				body["from"] = ids[rng.IntN(4)]
			}
			frame, _ := json.Marshal(body)
			if rng.IntN(20) == 0 {
				frame = frame[:rng.IntN(len(frame))]
			}
			e, err := envelope.Parse(frame)
			fine := err == nil && may[from].Capabilities.Allow(&e) && (e.From == "" || e.From == from)
			if rng.IntN(2) == 0 {
				_, err = s.Post(may[from], frame)
				var r *Refusal
				if (err == nil) != fine || err != nil && !errors.As(err, &r) {
					t.Fatalf("seed %d: %s of %s: %v", seed, frame, from, err)
				}
			} else if err := members[from].Send(ctx, frame); err != nil {
				t.Fatal(err)
			}
			if fine {
				passed = append(passed, sent{from, fmt.Sprint(i)})
			}
		}
		var orders [][]string
		for id, m := range members {
			var order []string
			for _, e := range read(t, m) {
				if e.Kind == envelope.Error && e.From == Gateway {
					continue
				}
				if !slices.Contains(passed, sent{e.From, e.ID}) {
					t.Fatalf("seed %d: %s hears %+v", seed, id, e)
				}
				if named, any := e.For(id); any && !named || !any && e.From == id {
					t.Fatalf("seed %d: %s hears what is not for it: %+v", seed, id, e)
				}
				order = append(order, e.ID)
			}
			orders = append(orders, order)
		}
		for _, a := range orders {
			for _, b := range orders {
				in := func(list []string) []string {
					return slices.DeleteFunc(slices.Clone(list), func(id string) bool {
						return !slices.Contains(a, id) || !slices.Contains(b, id)
					})
				}
				if !slices.Equal(in(a), in(b)) {
					t.Fatalf("seed %d: two hear things in different orders", seed)
				}
			}
		}
	}
}

func TestCancelIsForWhoAskedAndForHolders(t *testing.T) {
	s := New(plenty)
	ctx := context.Background()
	alice, bob := join(t, s, may(t, "alice", "chat")), join(t, s, may(t, "bob", "chat reasoning/start"))
	model, boss := join(t, s, may(t, "model", "chat reasoning/start")), join(t, s, may(t, "boss", "reasoning/cancel"))
	send := func(m *Member, frame string) {
		t.Helper()
		if err := m.Send(ctx, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	send(alice, `{"id":"q","kind":"chat","payload":{"text":"?"}}`)
	send(bob, `{"id":"bobs","kind":"chat","payload":{"text":"?"}}`)
	send(model, `{"id":"s","kind":"reasoning/start","correlation_id":["q"]}`)
	send(model, `{"id":"inner","kind":"reasoning/start","context":"s"}`)
	send(model, `{"id":"t","kind":"reasoning/start","correlation_id":["bobs"]}`)
	send(bob, `{"id":"guest","kind":"reasoning/start","context":"s"}`)
	send(model, `{"id":"forged","kind":"reasoning/start","correlation_id":["nothing"]}`)
	for _, c := range []struct {
		by      *Member
		frame   string
		allowed bool
	}{
		{alice, `{"kind":"reasoning/cancel","context":"s"}`, true},
		{alice, `{"kind":"reasoning/cancel","context":"outer/s"}`, true},
		{alice, `{"kind":"reasoning/cancel","context":"s/inner"}`, true},
		{alice, `{"kind":"reasoning/cancel","correlation_id":["s"]}`, true},
		{alice, `{"kind":"reasoning/cancel","correlation_id":["q"]}`, true},
		{alice, `{"kind":"reasoning/cancel","context":"s","correlation_id":["q","inner"]}`, true},
		{alice, `{"kind":"chat/cancel","correlation_id":["q"]}`, true},
		{alice, `{"kind":"reasoning/cancel","context":"forged"}`, false},
		{alice, `{"kind":"reasoning/cancel","context":"s/forged"}`, false},
		{alice, `{"kind":"reasoning/cancel","context":"s/guest"}`, false},
		{alice, `{"kind":"reasoning/cancel","context":"s","correlation_id":["bobs"]}`, false},
		{alice, `{"kind":"reasoning/cancel","context":"t","correlation_id":["q"]}`, false},
		{alice, `{"kind":"reasoning/cancel","correlation_id":["q","bobs"]}`, false},
		{alice, `{"kind":"reasoning/cancel","correlation_id":["q","unknown"]}`, false},
		{alice, `{"kind":"chat/cancel","correlation_id":["q","bobs"]}`, false},
		{alice, `{"kind":"chat/cancel","context":"s"}`, false},
		{alice, `{"kind":"chat/cancel"}`, false},
		{alice, `{"kind":"reasoning/cancel"}`, false},
		{bob, `{"kind":"reasoning/cancel","context":"s"}`, false},
		{bob, `{"kind":"reasoning/cancel","correlation_id":["q"]}`, false},
		{bob, `{"kind":"chat/cancel","correlation_id":["q"]}`, false},
		{model, `{"kind":"reasoning/cancel","context":"s"}`, false},
		{boss, `{"kind":"reasoning/cancel","context":"forged"}`, true},
	} {
		read(t, c.by)
		send(c.by, c.frame)
		if got := fault(t, c.by); (got == "") != c.allowed {
			t.Errorf("%s of %s: %q", c.frame, c.by.who.ID, got)
		}
	}
}

// Those who received the start of a reasoning see the calls in it, and nothing else that names others.
func TestObserversSeeCalls(t *testing.T) {
	s := New(plenty)
	ids := []string{"alice", "bob", "calc", "model"}
	members := map[string]*Member{}
	for _, id := range ids {
		members[id] = join(t, s, may(t, id, "*"))
	}
	send := func(from, frame string) {
		t.Helper()
		if err := members[from].Send(context.Background(), []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	send("model", `{"id":"open","kind":"reasoning/start","payload":{"message":"I think."}}`)
	send("model", `{"id":"private","to":["alice"],"kind":"reasoning/start","payload":{"message":"I think."}}`)
	send("model", `{"id":"hidden","kind":"reasoning/start","payload":{"message":""}}`)
	send("model", `{"id":"silent","kind":"reasoning/start"}`)
	send("model", `{"id":"inner","kind":"reasoning/start","context":"open","payload":{"message":"I ask."}}`)
	send("model", `{"id":"shut","kind":"reasoning/start","context":"open","payload":{"message":""}}`)
	send("model", `{"id":"said","kind":"reasoning/thought","context":"open","payload":{"message":"Hm."}}`)
	for _, c := range []struct{ from, frame, heard string }{
		{"model", `{"kind":"mcp/request","context":"open"`, "alice bob calc"},
		{"model", `{"kind":"mcp/proposal","context":"open"`, "alice bob calc"},
		{"model", `{"kind":"mcp/request","context":"private"`, "alice calc"},
		{"model", `{"kind":"mcp/request","context":"hidden"`, "calc"},
		{"model", `{"kind":"mcp/request","context":"silent"`, "calc"},
		{"model", `{"kind":"mcp/request","context":"open/inner"`, "alice bob calc"},
		{"model", `{"kind":"mcp/request","context":"open/shut"`, "calc"},
		{"model", `{"kind":"mcp/request","context":"open/unknown"`, "calc"},
		{"model", `{"kind":"mcp/request","context":"said"`, "calc"},
		{"model", `{"kind":"mcp/request"`, "calc"},
		{"model", `{"kind":"chat","context":"open","payload":{"text":"Psst."}`, "calc"},
		{"model", `{"kind":"reasoning/thought","context":"open","payload":{"message":"Psst."}`, "calc"},
		{"bob", `{"kind":"mcp/request","context":"open"`, "calc"},
		{"bob", `{"kind":"mcp/response","context":"open"`, "calc"},
	} {
		for _, m := range members {
			read(t, m)
		}
		send(c.from, c.frame+`,"to":["calc"]}`)
		var heard []string
		for _, id := range ids {
			if all := read(t, members[id]); len(all) > 0 {
				heard = append(heard, id)
				if len(all) > 1 || !slices.Equal(all[0].To, []string{"calc"}) {
					t.Errorf("%s: %s hears %+v", c.frame, id, all)
				}
			}
		}
		if got := strings.Join(heard, " "); got != c.heard {
			t.Errorf("%s of %s is heard by %q, not %q", c.frame, c.from, got, c.heard)
		}
	}
	// A call that nobody can answer is refused, although others would see it.
	for _, m := range members {
		read(t, m)
	}
	send("model", `{"kind":"mcp/request","context":"open","to":["nobody"]}`)
	if got := fault(t, members["model"]); got != RefusedRecipient {
		t.Errorf("a call to nobody: %q", got)
	}
	if all := read(t, members["alice"]); len(all) > 0 {
		t.Errorf("a refused call is seen: %+v", all)
	}
}

func TestMembers(t *testing.T) {
	cfg := plenty
	cfg.Members = 2
	s := New(cfg)
	a := join(t, s, may(t, "a", "chat"))
	b := join(t, s, may(t, "b", "*"))
	if _, err := s.Join(may(t, "c", "chat")); !errors.Is(err, ErrFull) {
		t.Errorf("a third: %v", err)
	}
	got := read(t, a)
	var arrival envelope.Arrival
	var move envelope.Move
	if len(got) != 2 || got[0].Kind != envelope.Welcome || !got[0].Read(&arrival) || arrival.You.ID != "a" ||
		len(arrival.Participants) != 0 ||
		got[1].Kind != envelope.Presence || !got[1].Read(&move) || move.Event != "join" || move.Participant.ID != "b" ||
		len(move.Participant.Capabilities) != 1 {
		t.Errorf("a hears %+v", got)
	}
	again := join(t, s, may(t, "b", "*"))
	read(t, b)
	if _, err := b.Receive(context.Background()); !errors.Is(err, ErrReplaced) {
		t.Errorf("the older connection: %v", err)
	}
	if err := b.Send(context.Background(), []byte(`{"kind":"chat"}`)); !errors.Is(err, ErrReplaced) {
		t.Errorf("sending through the older connection: %v", err)
	}
	_ = b.Close()
	if err := again.Send(context.Background(), []byte(`{"kind":"chat"}`)); err != nil {
		t.Errorf("the end of the older connection ends the newer one: %v", err)
	}
	_ = again.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	read(t, a)
	if _, err := a.Receive(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for nothing: %v", err)
	}
	// When the space closes, waiting messages are still received, and then the reason.
	if _, err := s.Post(may(t, "b", "chat"), []byte(`{"kind":"chat","payload":{"text":"last"}}`)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if e := read(t, a); len(e) != 1 {
		t.Errorf("the last word is lost: %+v", e)
	}
	if _, err := a.Receive(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := s.Join(may(t, "a", "chat")); !errors.Is(err, ErrClosed) {
		t.Errorf("joining after the end: %v", err)
	}
	if _, err := s.Post(may(t, "a", "chat"), []byte(`{"kind":"chat"}`)); !errors.Is(err, ErrClosed) {
		t.Errorf("posting after the end: %v", err)
	}
}

func TestIDsAreForgottenInTheirOrder(t *testing.T) {
	s := New(plenty)
	post := func(from string, id int) error {
		_, err := s.Post(may(t, from, "chat"), fmt.Appendf(nil, `{"id":"%d","kind":"chat"}`, id))
		return err
	}
	for id := range 2 * recentIDs {
		if err := errors.Join(post("a", id), post("a", id)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.recent) != recentIDs || len(s.order) != recentIDs {
		t.Errorf("%d and %d ids are kept", len(s.recent), len(s.order))
	}
	if post("b", recentIDs) == nil || post("b", 2*recentIDs-1) == nil || post("b", recentIDs-1) != nil {
		t.Error("the wrong ids are known")
	}
}

func TestRate(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s := New(Config{Rate: 2, Burst: 3, ReportAfter: time.Hour, Clock: func() time.Time { return now }})
	who := may(t, "a", "chat")
	m := join(t, s, who)
	read(t, m)
	passed := 0
	for range 100 {
		if _, err := s.Post(who, []byte(`{"kind":"chat"}`)); err == nil {
			passed++
		}
		now = now.Add(100 * time.Millisecond)
	}
	if passed < 20 || passed > 24 { // 10 s at 2 a second, and the burst
		t.Errorf("%d of 100 passed", passed)
	}
	s.report("a")
	var f envelope.Fault
	if got := read(t, m); len(got) != 1 || !got[0].Read(&f) || f.Error != RefusedRate || f.Dropped != 100-passed {
		t.Errorf("told %+v", f)
	}
}

// TestWhoKeepsSendingTooMuchHasToLeave checks that a participant whose messages are dropped is read more slowly, has to
// leave when it goes on, whatever the length of its messages, and may join again once it is calm. A participant without
// a token may stay: others make it answer.
func TestWhoKeepsSendingTooMuchHasToLeave(t *testing.T) {
	long := []byte(`{"kind":"chat","payload":{"text":"` + strings.Repeat("x", 2*brief) + `"}}`)
	for _, frame := range [][]byte{[]byte(`{"kind":"chat"}`), long, []byte("[" + string(long)), []byte(`{"kind":"no"}`)} {
		now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		s := New(Config{Rate: 1e-3, Burst: 3, ReportAfter: time.Hour, Clock: func() time.Time { return now }})
		who := may(t, "a", "chat")
		who.Grant[0] = 1
		m := join(t, s, who)
		took, sent := time.Duration(0), 0
		var err error
		for ; err == nil && sent < 1000; sent++ {
			err = m.Send(t.Context(), frame)
			wait := m.Pause()
			if dropped := sent >= 3; dropped != (wait > 0) {
				t.Fatalf("after message %d it is not read for %v", sent+1, wait)
			}
			now = now.Add(wait)
			took += wait
		}
		if !errors.Is(err, ErrRate) || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("%.20s: %v after %v and %d messages", frame, err, took, sent)
		}
		m.CloseFor(err)
		if _, err := s.Join(who); !errors.Is(err, ErrRate) {
			t.Errorf("it joins again: %v", err)
		}
		now = now.Add(calm)
		join(t, s, who)
	}
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s := New(Config{Rate: 1e-3, Burst: 3, ReportAfter: time.Hour, Clock: func() time.Time { return now }})
	m := join(t, s, may(t, "model", "chat"))
	for range 1000 {
		if err := m.Send(t.Context(), []byte(`{"kind":"chat"}`)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(m.Pause())
	}
}

// TestWhoIsCalmInBetweenStays checks that messages dropped now and then end no connection.
func TestWhoIsCalmInBetweenStays(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s := New(Config{Rate: 1, Burst: 3, ReportAfter: time.Hour, Clock: func() time.Time { return now }})
	who := may(t, "a", "chat")
	who.Grant[0] = 1
	m := join(t, s, who)
	for range 20 {
		for range 10 {
			if err := m.Send(t.Context(), []byte(`{"kind":"chat"}`)); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(3 * time.Second)
	}
}

// TestRefuseDropsBeforeReading checks that a message over the rate is refused before its body is read, and counted.
func TestRefuseDropsBeforeReading(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s := New(Config{Rate: 1, Burst: 1, ReportAfter: time.Hour, Clock: func() time.Time { return now }})
	who := may(t, "a", "chat")
	if no := s.Refuse("a"); no != nil {
		t.Fatal(no)
	}
	if _, err := s.Post(who, []byte(`{"kind":"chat"}`)); err != nil {
		t.Fatal("to ask costs nothing", err)
	}
	if no := s.Refuse("a"); no == nil || no.Fault.Error != RefusedRate || s.senders["a"].dropped != 1 {
		t.Errorf("%v, %+v", no, s.senders["a"])
	}
	now = now.Add(time.Second)
	if no := s.Refuse("a"); no != nil {
		t.Error(no)
	}
}

// Every refusal names only valid ids.
func TestRefusalsOfImpossibleIDs(t *testing.T) {
	ids := map[string]bool{
		strings.Repeat("x", envelope.MaxID+1): false, strings.Repeat("x", 10_000): false, "a\nb": false, "\x00": false,
		"a\u200fb": false, "\u0085": false,
		strings.Repeat("x", envelope.MaxID): true, "fine": true, "ä/1": true,
	}
	for _, limited := range []bool{false, true} {
		cfg, want := plenty, RefusedInvalid
		if limited {
			cfg.Rate, cfg.Burst, cfg.ReportAfter, want = 1e-9, 1, time.Hour, RefusedRate
		}
		for id, possible := range ids {
			s := New(cfg)
			who := may(t, "a", "chat")
			m := join(t, s, who)
			if limited {
				s.admit(who.ID, &envelope.Envelope{})
			}
			read(t, m)
			frame, _ := json.Marshal(map[string]any{"id": id, "kind": "no kind"})
			if err := m.Send(context.Background(), frame); err != nil {
				t.Fatal(err)
			}
			if limited {
				s.report(who.ID)
			}
			var correlation []string
			if possible {
				correlation = []string{id}
			}
			got := read(t, m)
			var f envelope.Fault
			if len(got) != 1 || !got[0].Read(&f) || f.Error != want || !slices.Equal(got[0].Correlation, correlation) {
				t.Errorf("limited %v, %q: answered %+v", limited, id, got)
			}
			var r *Refusal
			if _, err := s.Post(who, frame); !errors.As(err, &r) || r.Fault.Error != want ||
				!slices.Equal(r.Correlation, correlation) {
				t.Errorf("limited %v, %q: posted: %v", limited, id, err)
			}
		}
	}
}

// A refusal is short, however long the message's fields are.
func TestRefusalsOfLongFields(t *testing.T) {
	testenv.SkipRaced(t)
	fields := []string{"kind", "from", "protocol", "ts", "context", "to", "correlation_id", "payload", "id"}
	for _, field := range fields {
		for name, letter := range map[string]string{"short": "x", "one that grows": "\u2028"} {
			long := strings.Repeat(letter, (envelope.MaxSize-40)/len(letter))
			frame := []byte(`{"` + field + `":"` + long + `"}`)
			for _, limited := range []bool{false, true} {
				cfg := plenty
				if limited {
					cfg.Rate, cfg.Burst, cfg.ReportAfter = 1e-9, 1, time.Hour
				}
				s := New(cfg)
				who := may(t, "a", "*")
				m := join(t, s, who)
				if limited {
					s.admit(who.ID, &envelope.Envelope{})
				}
				read(t, m)
				if err := m.Send(context.Background(), frame); err != nil {
					t.Fatal(err)
				}
				if limited {
					s.report(who.ID)
				}
				got := read(t, m)
				if len(got) != 1 || got[0].Kind != envelope.Error || len(got[0].Payload) > 1000 {
					t.Errorf("%s in %s, limited %t: %d answers", name, field, limited, len(got))
				}
				if _, err := s.Post(who, frame); err == nil || len(err.Error()) > 1000 {
					t.Errorf("%s in %s, limited %t: posted: %.100v", name, field, limited, err)
				}
			}
		}
	}
}

func FuzzSend(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","kind":"chat","payload":{"text":"x"}}`,
		`{"kind":"reasoning/cancel","context":"a/b","correlation_id":["c"]}`, `{"type":"join","participantId":"b"}`,
		`{"kind":"system/error","from":"system:gateway"}`,
		`{"to":["b"],"kind":"mcp/request","payload":{"method":"tools/call"}}`, `{`,
		`{"id":"` + strings.Repeat("x", envelope.MaxID+1) + `","kind":"chat"}`, `{"id":"a\nb","kind":"chat"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		s := New(plenty)
		a, b := join(t, s, may(t, "a", "chat reasoning/cancel")), join(t, s, may(t, "b", "chat"))
		read(t, b)
		if err := a.Send(context.Background(), frame); err != nil {
			t.Fatal(err)
		}
		for _, e := range read(t, b) {
			if e.From != "a" || e.Kind != "chat" && e.Kind != envelope.Cancel {
				t.Fatalf("b hears %+v", e)
			}
		}
		read(t, a)
	})
}
