package agui

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"runner/reasoning"
	"runner/server/wire"
)

// subagentEvents are the events of a specialist's turn that writes, calls, and ends as outcome says.
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
		reasoning.DelegationFailed:   `{"type":"SUBAGENT_ERROR","subagentRunId":"d1","message":"the specialist failed, and the original prompt is back","code":"delegation_failed"`,
	} {
		for _, version := range []string{"1.0", ""} {
			var f frames
			cfg := config(FormStandard)
			cfg.ProtocolVersion = version
			enc := NewEncoder(cfg, f.send)
			events := append([]reasoning.Event{{Kind: reasoning.Started, Info: &reasoning.Info{}}}, subagentEvents("d1", outcome)...)
			for i := range events {
				if err := enc.Push(&events[i]); err != nil {
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
	events := append(subagentEvents("d1", reasoning.DelegationReturned), subagentEvents("d2", reasoning.DelegationReturned)...)
	for _, kind := range []reasoning.Kind{reasoning.SegmentStart, reasoning.SegmentEnd} {
		events = append(events, reasoning.Event{Kind: kind, Segment: reasoning.Reasoning})
	}
	ids := map[string]bool{}
	for i := range events {
		if err := enc.Push(&events[i]); err != nil {
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
