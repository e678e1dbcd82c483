package participant

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend/fake"
	"runner/server/mew/envelope"
	"runner/server/wiretest"
)

// Thoughts that the limit holds back go through a stream, if the space opens one for those who see the answer.
func TestLongReasoningGoesThroughAStream(t *testing.T) {
	const sentences, sent = 40, 3
	reply := fake.Reply{After: wiretest.Ask("Think long."),
		Say: wiretest.Think(strings.Repeat("So it goes on. ", sentences), "Done.")}
	open := func(from, payload string) func(*line, *envelope.Envelope, string) {
		return func(w *line, request *envelope.Envelope, _ string) {
			w.say(envelope.Envelope{ID: "open", From: from, To: []string{"me"}, Kind: envelope.StreamOpen,
				Correlation: []string{request.ID}}, payload)
		}
	}
	for name, c := range map[string]struct {
		may     string // what the participant may send; empty means everything
		others  string
		private bool
		// then is what the space does about the request; late means after the answer.
		then func(w *line, request *envelope.Envelope, question string)
		late bool

		frames int
		closed string // the reason; empty if the stream is not closed
		again  bool   // whether the next answer asks for a stream
	}{
		"opened": {then: open("gateway", `{"stream_id":"s1"}`), frames: sentences - sent, closed: "complete", again: true},
		"by the space": {then: open("gate", `{"stream_id":"s1"}`), frames: sentences - sent, closed: "complete",
			again: true},
		"late": {then: open("gate", `{"stream_id":"s1"}`), late: true, frames: sentences - sent, closed: "complete",
			again: true},
		"by a participant": {then: open("bob", `{"stream_id":"s1"}`)},
		"by one so called": {others: `{"id":"gateway"}`, then: open("gateway", `{"stream_id":"s1"}`)},
		"with a bad id":    {then: open("gate", `{"stream_id":"s#1"}`)},
		"with a target":    {then: open("gate", `{"stream_id":"s1","target":["bob"]}`), closed: "error", again: true},
		"private": {private: true, then: open("gate", `{"stream_id":"s1","target":["alice"]}`), frames: sentences - sent,
			closed: "complete", again: true},
		"private, to all":   {private: true, then: open("gate", `{"stream_id":"s1"}`), closed: "error", again: true},
		"without thoughts":  {may: `[{"kind":"chat"},{"kind":"stream/*"},{"kind":"reasoning/start"}]`},
		"without streams":   {may: `[{"kind":"chat"},{"kind":"reasoning/*"}]`},
		"without closing":   {may: `[{"kind":"chat"},{"kind":"reasoning/*"},{"kind":"stream/request"}]`},
		"without an answer": {then: func(*line, *envelope.Envelope, string) {}},
		"of another request": {then: func(w *line, request *envelope.Envelope, q string) {
			open("gate", `{"stream_id":"s1"}`)(w, &envelope.Envelope{ID: "other"}, q)
		}},
		"refused": {then: func(w *line, request *envelope.Envelope, _ string) {
			w.say(envelope.Envelope{From: "gate", To: []string{"me"}, Kind: envelope.Error, Correlation: []string{request.ID}},
				`{"error":"recipient_not_found"}`)
		}},
		"closed by the space": {then: func(w *line, request *envelope.Envelope, q string) {
			open("gateway", `{"stream_id":"s1"}`)(w, request, q)
			w.say(envelope.Envelope{From: "bob", Kind: envelope.StreamClose}, `{"stream_id":"other"}`)
			w.say(envelope.Envelope{From: "gateway", Kind: envelope.StreamClose, Correlation: []string{"open"}}, `{}`)
		}, frames: 1, again: true},
		"cancelled": {then: func(w *line, request *envelope.Envelope, q string) {
			open("gate", `{"stream_id":"s1"}`)(w, request, q)
			w.say(envelope.Envelope{From: "alice", Kind: envelope.Cancel, Correlation: []string{q}}, `{}`)
		}, frames: 1, closed: "cancelled", again: true},
		"cancelled before": {then: func(w *line, request *envelope.Envelope, q string) {
			w.say(envelope.Envelope{From: "alice", Kind: envelope.Cancel, Correlation: []string{q}}, `{}`)
			open("gate", `{"stream_id":"s1"}`)(w, request, q)
		}, closed: "cancelled", again: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := wiretest.Today
				p := newParticipant(t, func(c *Config) {
					c.Thoughts, c.ThoughtBurst, c.Clock = 1, sent, func() time.Time { return now }
				}, fake.Config{Delay: slow}, reply)
				may, others := everything, []string{}
				if c.may != "" {
					may = c.may
				}
				if c.others != "" {
					others = append(others, c.others)
				}
				w := join(t, p, may, others...)
				var to []string
				if c.private {
					to = []string{"me"}
				}
				ask := func() (all []*envelope.Envelope, request *envelope.Envelope) {
					q := w.chat("alice", "Think long.", to...)
					for over := false; !over; time.Sleep(time.Millisecond) {
						synctest.Wait()
						for len(w.out) > 0 {
							e := <-w.out
							all = append(all, e)
							over = over || e.Kind == envelope.Chat || e.Kind == envelope.Cancel
							if e.Kind == envelope.StreamRequest {
								if request = e; !c.late && c.then != nil {
									c.then(w, request, q)
								}
							}
						}
					}
					time.Sleep(time.Second)
					if c.late && request != nil {
						c.then(w, request, q)
						synctest.Wait()
					}
					for len(w.out) > 0 {
						all = append(all, <-w.out)
					}
					return all, request
				}
				all, request := ask()
				if (request == nil) != (c.then == nil) {
					t.Fatalf("asked for a stream: %v", request)
				}
				thoughts, closed := 0, ""
				for _, e := range all {
					var step envelope.Step
					var end envelope.StreamOpened
					switch {
					case e.Kind == envelope.Thought:
						thoughts++
					case e.Kind == envelope.Conclusion && (!e.Read(&step) || step.Metadata.Dropped != sentences-sent):
						t.Errorf("the conclusion is %s", e.Payload)
					case e.Kind == envelope.StreamClose && e.Read(&end):
						closed = end.Reason
						if end.ID != "s1" || !slices.Equal(e.Correlation, []string{"open"}) {
							t.Errorf("closed with %+v %s", e, e.Payload)
						}
					}
				}
				if want := sent; thoughts != want && !strings.Contains(c.may, "stream/*") {
					t.Errorf("%d thoughts", thoughts)
				}
				if closed != c.closed {
					t.Errorf("closed as %q", closed)
				}
				if len(w.frames) != c.frames {
					t.Errorf("%d frames", len(w.frames))
				}
				for _, frame := range w.frames {
					want := fmt.Sprintf(`#s1#{"context":%q,"type":"thought","value":{"message":"So it goes on."}}`, all[0].ID)
					if frame != want {
						t.Fatalf("the frame is %s, want %s", frame, want)
					}
				}
				if request == nil {
					return
				}
				target := ""
				if c.private {
					target = `,"target":["alice"]`
				}
				want := fmt.Sprintf(`{"direction":"upload","description":"reasoning:%s","content_type":"application/json"%s}`,
					all[0].ID, target)
				if string(request.Payload) != want || !slices.Equal(request.Correlation, []string{all[0].ID}) {
					t.Errorf("the request is %s", request.Payload)
				}
				if _, request = ask(); (request != nil) != c.again {
					t.Errorf("the next answer asks for a stream: %v", request)
				}
			})
		})
	}
}
