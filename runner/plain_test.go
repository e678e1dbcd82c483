package runner

import (
	"strings"
	"testing"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

func TestPlainReasoningCountsWhileCallsArePending(t *testing.T) {
	said := func(role chattemplate.Role, calls int) chattemplate.Message {
		return chattemplate.Message{Role: role, Reasoning: "r", ToolCalls: make([]chattemplate.ToolCall, calls)}
	}
	u, a, c, r := said(chattemplate.User, 0), said(chattemplate.Assistant, 0), said(chattemplate.Assistant, 1),
		said(chattemplate.ToolRole, 0)
	for name, x := range map[string]struct {
		messages []chattemplate.Message
		kept     string
	}{
		"pending":         {[]chattemplate.Message{u, a, u, c, r}, "---rr"},
		"two in a row":    {[]chattemplate.Message{u, c, r, c, r}, "-rrrr"},
		"answered":        {[]chattemplate.Message{u, c, r, a}, "----"},
		"gone on from":    {[]chattemplate.Message{u, c, r, u}, "----"},
		"earlier and now": {[]chattemplate.Message{u, c, r, a, u, c}, "-----r"},
	} {
		of := func(set func(*generation.Request)) (got string) {
			j := &job{req: generation.Request{Messages: x.messages, Visibility: reasoning.VisibilityFull}}
			set(&j.req)
			j.weighPlain()
			for _, m := range j.req.Messages {
				got += (m.Reasoning + "-")[:1]
			}
			if dropped := strings.Count(got, "-"); dropped != j.plain {
				t.Errorf("%s: %d of %d are counted", name, j.plain, dropped)
			}
			return got
		}
		all := strings.Repeat("r", len(x.messages))
		if got := of(func(q *generation.Request) { q.KeepReasoning = true }); got != all {
			t.Errorf("%s, kept: %s", name, got)
		}
		if got := of(func(q *generation.Request) { q.Visibility = reasoning.VisibilitySummary }); strings.Contains(got, "r") {
			t.Errorf("%s, of a caller that may not see reasoning: %s", name, got)
		}
		got := of(func(*generation.Request) {})
		if got != x.kept {
			t.Errorf("%s: %s, want %s", name, got, x.kept)
		}
	}
}
