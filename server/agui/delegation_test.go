package agui

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
)

// subagentEvents are the events of a specialist's turn that writes, calls, and ends with an outcome.
func subagentEvents(id string, outcome reasoning.DelegationOutcome) []reasoning.Event {
	about := &reasoning.Delegation{ID: id, By: "model", Length: 7}
	ended := *about
	ended.Outcome = outcome
	call := reasoning.Call{ID: "c1", Name: "look"}
	return []reasoning.Event{
		{Kind: reasoning.DelegationStart, Delegation: about},
		{Kind: reasoning.SegmentStart, Segment: reasoning.Reasoning, Specialist: id},
		{Kind: reasoning.SegmentDelta, Segment: reasoning.Reasoning, Specialist: id, Text: "work"},
		{Kind: reasoning.SegmentEnd, Segment: reasoning.Reasoning, Specialist: id},
		{Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Specialist: id, Call: call},
		{Kind: reasoning.SegmentEnd, Segment: reasoning.ToolCall, Specialist: id, Call: call},
		{Kind: reasoning.DelegationEnd, Delegation: &ended},
	}
}

func TestSpecialistsAreSubagents(t *testing.T) {
	for outcome, last := range map[reasoning.DelegationOutcome]string{
		reasoning.DelegationReturned: `{"type":"SUBAGENT_FINISHED","subagentRunId":"d1","outcome":{"type":"success"}`,
		reasoning.DelegationLimit:    `{"type":"SUBAGENT_FINISHED","subagentRunId":"d1","outcome":{"type":"success"}`,
		reasoning.DelegationPending:  `{"type":"SUBAGENT_FINISHED","subagentRunId":"d1","outcome":{"type":"suspended"}`,
		reasoning.DelegationFailed: `{"type":"SUBAGENT_ERROR","subagentRunId":"d1","message":"the specialist failed,` +
			` and the original prompt is back","code":"delegation_failed"`,
	} {
		for _, version := range []string{"1.0", ""} {
			var f frames
			cfg := config(FormStandard)
			cfg.ProtocolVersion = version
			enc := NewEncoder(cfg, f.send)
			events := append([]reasoning.Event{{Kind: reasoning.Started,
				Info: &reasoning.Info{Visibility: reasoning.VisibilityFull}}},
				subagentEvents("d1", outcome)...)
			for i := range events {
				if err := enc.Push(0, &events[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := enc.Fail(wire.FromError(errors.New("later"), nil)); err != nil {
				t.Fatal(err)
			}
			if version == "" {
				if strings.Contains(f.String(), "SUBAGENT") || strings.Contains(f.String(), "subagentRunId") {
					t.Errorf("an old client gets\n%s", f)
				}
				continue
			}
			if !strings.Contains(f.String(), last) {
				t.Errorf("%s: no %s in\n%s", outcome, last, f)
			}
			for _, frame := range f {
				var e struct{ Type, SubagentRunID string }
				if err := json.Unmarshal(frame, &e); err != nil {
					t.Fatal(err)
				}
				theirs := strings.HasPrefix(e.Type, "REASONING_") || strings.HasPrefix(e.Type, "SUBAGENT_")
				if (e.SubagentRunID == "d1") != theirs {
					t.Errorf("%s: %s", outcome, frame)
				}
			}
		}
	}
}

// TestSpecialistsHaveMessagesOfTheirOwn: two specialists and the run itself write three messages.
func TestSpecialistsHaveMessagesOfTheirOwn(t *testing.T) {
	var f frames
	n := 0
	cfg := config(FormStandard)
	cfg.ProtocolVersion, cfg.NewID = "1.0", func(prefix string) string { n++; return fmt.Sprint(prefix, n) }
	enc := NewEncoder(cfg, f.send)
	events := append(subagentEvents("d1", reasoning.DelegationReturned),
		subagentEvents("d2", reasoning.DelegationReturned)...)
	for _, kind := range []reasoning.Kind{reasoning.SegmentStart, reasoning.SegmentEnd} {
		events = append(events, reasoning.Event{Kind: kind, Segment: reasoning.Reasoning})
	}
	ids := map[string]bool{}
	for i := range events {
		if err := enc.Push(0, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, frame := range f {
		var e struct{ Type, MessageID string }
		if err := json.Unmarshal(frame, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "REASONING_START" {
			if ids[e.MessageID] {
				t.Errorf("%s again", e.MessageID)
			}
			ids[e.MessageID] = true
		}
	}
	if len(ids) != 3 {
		t.Errorf("messages %v", ids)
	}
}

// The reasoning of hidden specialists is a phase of its own, and the summary belongs to the run. With chunks, all
// events of a specialist that speaks wait for the summary, in order.
func TestHiddenSpecialists(t *testing.T) {
	about := &reasoning.Delegation{ID: "d1", By: "user", Shown: true}
	by := func(events []reasoning.Event) []reasoning.Event {
		for i := range events {
			events[i].Specialist = "d1"
		}
		return events
	}
	marks := func() []reasoning.Event { return wiretest.Segment(reasoning.Reasoning) }
	events := slices.Concat(
		[]reasoning.Event{{Kind: reasoning.DelegationStart, Delegation: about}},
		by(marks()), by(wiretest.Segment(reasoning.Preamble, "They say.")),
		[]reasoning.Event{{Kind: reasoning.DelegationEnd, Delegation: about}}, marks(),
	)
	answer, summary := wiretest.Segment(reasoning.Answer, "It is 4."), wiretest.Segment(reasoning.Summary, "Added.")
	const open, shut = "SUBAGENT_STARTED d1,REASONING_START d1,REASONING_END d1", "REASONING_START,REASONING_END"
	const theirs = "TEXT_MESSAGE_START d1,TEXT_MESSAGE_CONTENT d1,TEXT_MESSAGE_END d1,SUBAGENT_FINISHED d1"
	const said = "TEXT_MESSAGE_START,TEXT_MESSAGE_CONTENT,TEXT_MESSAGE_END"
	for _, c := range []struct {
		visibility reasoning.Visibility
		form       Form
		want       string
	}{
		{reasoning.VisibilityNone, FormStandard, open + "," + theirs + "," + shut + "," + said},
		{reasoning.VisibilityNone, FormChunked, open + "," + theirs + "," + shut + "," + said},
		{reasoning.VisibilitySummary, FormStandard, open + "," + theirs + "," + shut + "," + said +
			",REASONING_START,REASONING_MESSAGE_START,REASONING_MESSAGE_CONTENT,REASONING_MESSAGE_END,REASONING_END"},
		{reasoning.VisibilitySummary, FormChunked, open + "," + theirs + "," + shut + "," + said +
			",REASONING_START,REASONING_MESSAGE_CHUNK,REASONING_END"},
	} {
		parts := [][]reasoning.Event{events, answer}
		if c.visibility == reasoning.VisibilitySummary { // it is of all turns, so it comes at the end
			settled := []reasoning.Event{{Kind: reasoning.SummarySettled}}
			parts = [][]reasoning.Event{events[:2], settled, events[2:], answer, summary}
		}
		run := wiretest.Run(reasoning.Result{}, parts...)
		run[0].Info.Visibility = c.visibility
		if got := eventsOf(t, encode(t, run, c.form)); got != "RUN_STARTED,"+c.want+",RUN_FINISHED" {
			t.Errorf("%v, form %v:\n%s", c.visibility, c.form, got)
		}
	}
	// A specialist's message has its own value, and the run's has all values.
	sealed := by(wiretest.Carried("theirs", wiretest.Segment(reasoning.Reasoning, "They think.")))
	own := wiretest.Carried("ours", wiretest.Segment(reasoning.Reasoning, "I think."))
	run := wiretest.Run(reasoning.Result{}, events[:1], sealed, events[len(events)-3:len(events)-2], own, answer)
	const think = "REASONING_START,REASONING_MESSAGE_START,REASONING_MESSAGE_CONTENT,REASONING_ENCRYPTED_VALUE," +
		"REASONING_MESSAGE_END,REASONING_END"
	want := "RUN_STARTED,SUBAGENT_STARTED d1," + strings.ReplaceAll(think, ",", " d1,") + " d1,SUBAGENT_FINISHED d1," +
		think + "," + said + ",RUN_FINISHED"
	if got := eventsOf(t, encode(t, run, FormStandard)); got != want {
		t.Errorf("sealed:\n%s", got)
	}
}

// eventsOf lists the types of events, with their specialist.
func eventsOf(t *testing.T, f frames) string {
	t.Helper()
	var list []string
	for _, frame := range f {
		var e struct{ Type, SubagentRunID string }
		if err := json.Unmarshal(frame, &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, strings.TrimSpace(e.Type+" "+e.SubagentRunID))
	}
	return strings.Join(list, ",")
}
