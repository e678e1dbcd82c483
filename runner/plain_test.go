package runner

import (
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
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
		"a reminder":      {[]chattemplate.Message{u, c, r, said(chattemplate.Developer, 0)}, "-rrr"},
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

// A system prompt in the middle of a conversation is shown as the user's where the template takes one at the start
// only. A warning says so.
func TestLaterPromptsAreMoved(t *testing.T) {
	const turns = `{% for m in messages %}{{ m.role }}: {{ m.content }}` + "\n" + `{% endfor %}`
	strict := `{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('first only') }}` +
		`{% endif %}{% endfor %}` + turns
	say := func(role chattemplate.Role, text string) chattemplate.Message {
		return chattemplate.Message{Role: role, Content: text}
	}
	first := []chattemplate.Message{say(chattemplate.System, "Be kind."), say(chattemplate.User, "q")}
	later := append(first, say(chattemplate.Assistant, "a"), say(chattemplate.System, "Be brief."),
		say(chattemplate.User, "r"))
	for name, c := range map[string]struct {
		template string
		messages []chattemplate.Message
		moved    bool
		prompt   string
	}{
		"strict, at the start": {strict, first, false, "system: Be kind.\nuser: q\n"},
		"strict, later": {strict, later, true,
			"system: Be kind.\nuser: q\nassistant: a\nuser: <system>\nBe brief.\n</system>\nuser: r\n"},
		"free, later": {turns, later, false, "system: Be kind.\nuser: q\nassistant: a\nsystem: Be brief.\nuser: r\n"},
	} {
		f := start(t, fake.Config{Vocab: fake.Think(), ChatTemplate: c.template}, Config{}, fake.Reply{Say: ""})
		req := generation.Request{Messages: c.messages, MaxTokens: 1, Visibility: reasoning.VisibilityFull}
		g := f.must(t, req)
		if moved := slices.Contains(g.codes, generation.CodePromptMoved); moved != c.moved {
			t.Errorf("%s: warnings %v", name, g.codes)
		}
		if p, err := f.Prompt(t.Context(), "", req); err != nil || p.Text != c.prompt {
			t.Errorf("%s: %q, %v", name, p.Text, err)
		}
	}
}
