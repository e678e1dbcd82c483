package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

func TestPrefixesAreNotSharedBetweenPrincipals(t *testing.T) {
	r := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("a question that is long enough to share"),
		Say: think("x", "y")})
	cached := func(principal string) int {
		req := user("a question that is long enough to share")
		req.Principal = principal
		g := collect(t.Context(), r.Runner, req)
		if g.err != nil {
			t.Fatal(g.err)
		}
		return g.result.Usage.Cached
	}
	if n := cached("a"); n != 0 {
		t.Errorf("the first run found %d tokens", n)
	}
	if n := cached("b"); n != 0 {
		t.Errorf("another principal's %d tokens show", n)
	}
	if n := cached("a"); n == 0 {
		t.Error("its own prefix is lost")
	}
}

func TestPrefixesInUseAreNotSharedBetweenPrincipals(t *testing.T) {
	text := "a question that is long enough to share"
	r := start(t, fake.Config{Delay: func(int) time.Duration { return time.Millisecond }}, Config{},
		fake.Reply{After: ask(text), Say: think("x y z", "a b c d e f g h i j k l")})
	began := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		req := user(text)
		req.Principal = "a"
		for e, err := range r.Generate(t.Context(), req, generation.Unobserved{}) {
			if err != nil {
				t.Error(err)
			}
			if e.Kind == reasoning.SegmentStart {
				close(began)
			}
		}
	})
	<-began
	for principal, want := range map[string]bool{"a": true, "b": false} {
		req := user(text)
		req.Principal = principal
		if g := collect(t.Context(), r.Runner, req); g.err != nil || (g.result.Usage.Cached > 0) != want {
			t.Errorf("%s: %d cached, %v", principal, g.result.Usage.Cached, g.err)
		}
	}
	wg.Wait()
}

// TestRememberedCallsBelongToTheirMoment checks that a call is remembered only for the same principal, thread, name,
// arguments and preceding message, and only for its time.
func TestRememberedCallsBelongToTheirMoment(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := NewCallMemory(4, time.Hour)
	m.clock = func() time.Time { return now }
	r := start(t, fake.Config{}, Config{CallMemory: m})
	conversation := func() generation.Request {
		return generation.Request{Principal: "a", Thread: "thread", Messages: []chattemplate.Message{
			{Role: chattemplate.System, Content: "s"}, {Role: chattemplate.User, Content: "u"},
			{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{{ID: "call_1", Name: "f",
				Arguments: `{"a": 1, "b":[2]}`}}},
			{Role: chattemplate.ToolRole, ToolCallID: "call_1", Content: "r"},
		}}
	}
	req := conversation()
	m.keep(callKey{"a", "call_1"}, r.momentAt(&req, 2), "secret")
	for name, c := range map[string]struct {
		change func(*generation.Request)
		want   string
	}{
		"nothing":            {func(*generation.Request) {}, "secret"},
		"an earlier message": {func(q *generation.Request) { q.Messages = q.Messages[1:] }, "secret"},
		"the spelling": {func(q *generation.Request) { q.Messages[2].ToolCalls[0].Arguments = `{"b":[2.0],"a":1}` },
			"secret"},
		"the principal":      {func(q *generation.Request) { q.Principal = "b" }, ""},
		"the thread":         {func(q *generation.Request) { q.Thread = "other" }, ""},
		"no thread":          {func(q *generation.Request) { q.Thread = "" }, ""},
		"the id":             {func(q *generation.Request) { q.Messages[2].ToolCalls[0].ID = "call_2" }, ""},
		"the name":           {func(q *generation.Request) { q.Messages[2].ToolCalls[0].Name = "g" }, ""},
		"the arguments":      {func(q *generation.Request) { q.Messages[2].ToolCalls[0].Arguments = `{"a":1}` }, ""},
		"the message before": {func(q *generation.Request) { q.Messages[1].Content = "v" }, ""},
		"its role":           {func(q *generation.Request) { q.Messages[1].Role = chattemplate.System }, ""},
		"no message before":  {func(q *generation.Request) { q.Messages = q.Messages[2:] }, ""},
		"a message between": {func(q *generation.Request) {
			q.Messages = slices.Insert(q.Messages, 2, chattemplate.Message{Role: chattemplate.User, Content: "x"})
		}, ""},
		"plain reasoning": {func(q *generation.Request) { q.Messages[2].Reasoning = "." }, "secret"},
		"plain reasoning, of another call": {func(q *generation.Request) {
			q.Messages[2].Reasoning, q.Messages[2].ToolCalls[0].ID = "mine", "call_2"
		}, "mine"},
		"sealed reasoning": {func(q *generation.Request) {
			q.Messages[2].Reasoning, q.Messages[2].Unseen = "mine", chattemplate.UnseenReasoning
		}, "mine"},
	} {
		q := conversation()
		c.change(&q)
		got := ""
		for _, message := range r.restore(&q) {
			got += message.Reasoning
		}
		if got != c.want {
			t.Errorf("another %s: %q is restored", name, got)
		}
	}
	digest := r.info.Key
	r.info.Key = "another"
	if got := r.restore(&req)[2].Reasoning; got != "" {
		t.Errorf("with another model %q is restored", got)
	}
	r.info.Key = digest
	now = now.Add(time.Hour)
	if got := r.restore(&req)[2].Reasoning; got != "" {
		t.Errorf("after its time %q is restored", got)
	}
	if m.sweep(); len(m.byID) != 0 || len(m.order) != 0 || m.sweeps {
		t.Error("a call that is too old is still there")
	}
}

// TestForgottenCallsAreGone checks that Forget removes calls by id, and no calls of other principals.
func TestForgottenCallsAreGone(t *testing.T) {
	m := NewCallMemory(8, time.Hour)
	for _, id := range []callKey{{"a", "1"}, {"a", "2"}, {"b", "1"}} {
		m.keep(id, moment{}, "secret")
	}
	m.Forget("a", "1", "unknown")
	for id, want := range map[callKey]bool{{"a", "1"}: false, {"a", "2"}: true, {"b", "1"}: true} {
		if _, known := m.recall(id, func() moment { return moment{} }); known != want {
			t.Errorf("%v is known: %v", id, known)
		}
	}
	m.Forget("a", "2")
	if len(m.byID) != 1 || len(m.order) != 1 {
		t.Errorf("%v, %v", m.byID, m.order)
	}
	var none *CallMemory
	none.Forget("a", "1")
	none.keep(callKey{"a", "1"}, moment{}, "secret")
	if _, known := none.recall(callKey{"a", "1"}, func() moment { return moment{} }); known ||
		NewCallMemory(0, time.Hour) != nil {
		t.Error("no memory remembers")
	}
}

// TestCallsDisplaceOnlyTheirOwn checks that many calls of one principal displace only calls of that principal.
func TestCallsDisplaceOnlyTheirOwn(t *testing.T) {
	m := NewCallMemory(4, 0)
	known := func(principal, id string) bool {
		_, ok := m.recall(callKey{principal, id}, func() moment { return moment{} })
		return ok
	}
	m.keep(callKey{"one", "call"}, moment{}, "secret")
	for i := range 100 {
		m.keep(callKey{"many", fmt.Sprint(i)}, moment{}, "secret")
	}
	if !known("one", "call") {
		t.Error("the one call is forgotten")
	}
	for i, want := range map[int]bool{96: false, 97: true, 98: true, 99: true} {
		if known("many", fmt.Sprint(i)) != want {
			t.Errorf("call %d is known: %v", i, !want)
		}
	}
	for i := range 20 { // more principals than places
		m.keep(callKey{fmt.Sprint(i), "call"}, moment{}, "secret")
	}
	if len(m.byID) != 4 || len(m.order) > 4 || !known("19", "call") {
		t.Errorf("%d calls of %d principals", len(m.byID), len(m.order))
	}
}

// TestFirstRequestGoesNext checks that a principal with one request is served next, however many requests another made
// before.
func TestFirstRequestGoesNext(t *testing.T) {
	for _, parallel := range []int{1, 2} {
		t.Run(fmt.Sprint(parallel), func(t *testing.T) { testNobodyWaitsForAnothersMany(t, parallel) })
	}
}

func testNobodyWaitsForAnothersMany(t *testing.T, parallel int) {
	r := start(t, fake.Config{Sequences: 4, Delay: func(int) time.Duration { return time.Millisecond }},
		Config{Parallel: parallel, Queue: 100},
		fake.Reply{After: ask("q"), Say: think("x", "a b c d e f g h")})
	var mu sync.Mutex
	var ended []string
	run := func(principal string, started func()) {
		req := user("q")
		req.Principal = principal
		for e, err := range r.Generate(t.Context(), req, generation.Unobserved{}) {
			if err != nil {
				t.Error(err)
			}
			switch e.Kind {
			case reasoning.Started:
				started()
			case reasoning.Done:
				mu.Lock()
				ended = append(ended, principal)
				mu.Unlock()
			}
		}
	}
	var wg, queued sync.WaitGroup
	queued.Add(20)
	for range 20 {
		wg.Go(func() { run("many", queued.Done) })
	}
	queued.Wait()
	if s := r.Stats(); s.Active > parallel {
		t.Errorf("%d runs are active, %d may be", s.Active, parallel)
	}
	wg.Go(func() { run("one", func() {}) })
	wg.Wait()
	for i, p := range ended {
		if p == "one" {
			if i > 6 {
				t.Errorf("it came %dth of %d", i+1, len(ended))
			}
			return
		}
	}
	t.Error("it never ended")
}

// TestFullQueueAdmitsOthers checks that a principal that filled the queue is refused, but not another with one
// request.
func TestFullQueueAdmitsOthers(t *testing.T) {
	r := start(t, fake.Config{Sequences: 4, Delay: func(int) time.Duration { return time.Millisecond }},
		Config{Parallel: 1, Queue: 3},
		fake.Reply{After: ask("q"), Say: think("x", "a b c d e f g h i j k l m n o p")})
	run := func(ctx context.Context, principal string) error {
		req := user("q")
		req.Principal = principal
		return collect(ctx, r.Runner, req).err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _ = run(ctx, "many") })
	}
	for s := r.Stats(); s.Waiting+s.Active < 4; s = r.Stats() {
		time.Sleep(time.Millisecond)
	}
	if err := run(t.Context(), "many"); !errors.Is(err, generation.ErrQueueFull) {
		t.Errorf("a fifth request: %v", err)
	}
	if err := run(t.Context(), "one"); err != nil {
		t.Errorf("another's first request: %v", err)
	}
	cancel()
	wg.Wait()
}

// TestFullQueueIsShared checks that one that filled the queue leaves others their shares of as many places again.
func TestFullQueueIsShared(t *testing.T) {
	q := newQueue(12, func() {})
	fill := func(principal string) (n int) {
		for q.enter(principal) != nil {
			n++
		}
		return n
	}
	for i, want := range []int{12, 6, 4, 2, 0} { // the last but one gets what is left
		if got := fill(fmt.Sprint(i)); got != want {
			t.Errorf("principal %d gets %d places, want %d", i, got, want)
		}
	}
	if q.running.total != 24 {
		t.Errorf("%d places are taken", q.running.total)
	}
}

func TestQueueHasAnEnd(t *testing.T) {
	q := newQueue(2, func() {})
	var tickets []*ticket
	for i, enters := range []bool{true, true, true, true, false} {
		p := q.enter(fmt.Sprint(i))
		if (p != nil) != enters {
			t.Errorf("request %d: %v", i, !enters)
		}
		if enters {
			tickets = append(tickets, p)
		}
	}
	for _, p := range tickets {
		p.leave()
		p.leave()
	}
	if q.running.total != 0 || len(q.running.of) != 0 {
		t.Errorf("%d are left: %v", q.running.total, q.running.of)
	}
}

// TestFinishedRunsMakeRoom checks that finished runs with unread events make room for as many others as may run, and
// no more.
func TestFinishedRunsMakeRoom(t *testing.T) {
	q := newQueue(2, func() {})
	var tickets []*ticket
	for range 4 {
		p := q.enter("a")
		if p == nil {
			t.Fatalf("only %d have a place", len(tickets))
		}
		p.over()
		tickets = append(tickets, p)
	}
	if q.unread.total != 2 || q.running.total != 2 || q.enter("a") != nil {
		t.Errorf("%d unread, %d running", q.unread.total, q.running.total)
	}
	tickets[0].leave()
	tickets[3].over()
	if q.unread.total != 2 || q.running.total != 1 {
		t.Errorf("%d unread, %d running", q.unread.total, q.running.total)
	}
	for _, p := range tickets {
		p.over()
		p.leave()
	}
	if q.running.total+q.unread.total != 0 || len(q.running.of)+len(q.unread.of) != 0 {
		t.Errorf("%+v", q)
	}
}

func TestNoMoreRunsThanAllowed(t *testing.T) {
	model := fake.Config{Sequences: 8, Record: true, Delay: func(int) time.Duration { return 100 * time.Microsecond }}
	r := start(t, model, Config{Parallel: 3, Queue: 100},
		fake.Reply{After: ask("q"), Say: think("one two three", "a b c")},
		summaryReply(prompts.SummaryConciseV1, "short"))
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			req := user("q")
			req.Visibility = reasoning.VisibilitySummary
			if g := collect(context.Background(), r.Runner, req); g.err != nil || g.text[reasoning.Summary] == "" {
				t.Errorf("summary %q, %v", g.text[reasoning.Summary], g.err)
			}
		})
	}
	wg.Wait()
	most := 0
	for _, s := range r.model.Steps() {
		most = max(most, len(s.Inputs))
	}
	if most > 6 {
		t.Errorf("%d sequences in one step; three runs and their summaries are six", most)
	}
	if err := r.sched.do(t.Context(), func() { r.sched.counts.note(r.sched) }); err != nil {
		t.Fatal(err)
	}
	if s := r.Stats(); s.Steps == 0 || s.Tokens == 0 || s.Active != 0 || s.Waiting != 0 || s.Idle == 0 {
		t.Errorf("%+v", s)
	}
}

// TestSlowReaderKeepsNoPlace checks that a finished run leaves its place although its events are unread. They can
// still be read.
func TestSlowReaderKeepsNoPlace(t *testing.T) {
	r := start(t, fake.Config{}, Config{Parallel: 1, Queue: 1}, fake.Reply{After: ask("q"), Say: think("x", "a b c")})
	read := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 { // as many as there are places
		began := make(chan struct{})
		wg.Go(func() {
			answer := ""
			for e, err := range r.Generate(t.Context(), user("q"), generation.Unobserved{}) {
				if err != nil {
					t.Error(err)
				}
				if e.Kind == reasoning.Started {
					close(began)
					<-read
				}
				if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer {
					answer += e.Text
				}
			}
			if answer != "a b c" {
				t.Errorf("a slow reader got %q", answer)
			}
		})
		<-began
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := collect(t.Context(), r.Runner, user("q")).err
		if err == nil {
			break
		}
		if !errors.Is(err, generation.ErrQueueFull) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	close(read)
	wg.Wait()
	if q := r.queue; q.running.total+q.unread.total != 0 {
		t.Errorf("%d places are taken, %d unread", q.running.total, q.unread.total)
	}
}

// TestSlowReaderEndsWithItsContext checks that a finished run with unread events ends when its caller gives up.
func TestSlowReaderEndsWithItsContext(t *testing.T) {
	r := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think("x", "a b c")})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for e, err := range r.Generate(ctx, user("q"), generation.Unobserved{}) {
		if e.Kind == reasoning.Started {
			for s := r.Stats(); s.Tokens == 0 || s.Active > 0; s = r.Stats() {
				time.Sleep(time.Millisecond)
			}
			cancel(generation.ErrClosed)
		}
		if e.Kind == reasoning.Done {
			t.Error("it was read to its end")
		}
		last = err
	}
	if !errors.Is(last, generation.ErrClosed) {
		t.Errorf("%v", last)
	}
}
