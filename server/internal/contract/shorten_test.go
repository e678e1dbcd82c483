package contract_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"runner/chattemplate"
	"runner/server/internal/contract"
)

// conversation returns a random conversation: turns of calls and answers, with system messages anywhere.
func conversation(rng *rand.Rand) (all []chattemplate.Message) {
	add := func(role chattemplate.Role, id string) {
		m := chattemplate.Message{Role: role, Content: fmt.Sprint(role, " ", len(all)), ToolCallID: id}
		if role == chattemplate.Assistant && id != "" {
			m.ToolCallID, m.ToolCalls = "", []chattemplate.ToolCall{{ID: id, Name: "f"}}
		}
		all = append(all, m)
	}
	for range rng.IntN(4) {
		if rng.IntN(3) == 0 {
			add(chattemplate.System, "")
		}
		if rng.IntN(8) > 0 {
			add(chattemplate.User, "")
		}
		for range rng.IntN(4) {
			id := fmt.Sprint("call ", len(all))
			add(chattemplate.Assistant, id)
			add(chattemplate.ToolRole, id)
			if rng.IntN(6) == 0 {
				add(chattemplate.Developer, "")
			}
		}
		if rng.IntN(4) > 0 {
			add(chattemplate.Assistant, "")
		}
	}
	return all
}

// Whatever is left out of a conversation, its system messages, the user's last message and the newest messages keep
// their order, and every result keeps its call.
func TestShorteningKeepsWhatMatters(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	found := 0
	for range 5000 {
		all := conversation(rng)
		var keep []string
		user := ""
		for _, m := range all {
			switch m.Role {
			case chattemplate.System, chattemplate.Developer:
				keep = append(keep, m.Content)
			case chattemplate.User:
				user = m.Content
			}
		}
		longer := len(all)
		for _, c := range contract.Cuts(all) {
			found++
			got := c.Messages()
			if len(got) > longer || len(got) >= len(all) {
				t.Fatalf("a cut of %d messages after one of %d, of %d", len(got), longer, len(all))
			}
			longer = len(got)
			at, kept, asked, calls := 0, 0, user == "", map[string]bool{}
			for _, m := range got {
				for ; at < len(all) && all[at].Content != m.Content; at++ {
				}
				if at++; at > len(all) {
					t.Fatalf("%q is not in its order in %v", m.Content, got)
				}
				asked = asked || m.Content == user
				if kept < len(keep) && m.Content == keep[kept] {
					kept++
				}
				for _, call := range m.ToolCalls {
					calls[call.ID] = true
				}
				if m.Role == chattemplate.ToolRole && !calls[m.ToolCallID] {
					t.Fatalf("%q has no call in %v", m.Content, got)
				}
			}
			if kept < len(keep) || !asked || got[len(got)-1].Content != all[len(all)-1].Content {
				t.Fatalf("%d of %d prompts, question %t, of %v stay: %v", kept, len(keep), asked, all, got)
			}
		}
	}
	if found < 5000 {
		t.Errorf("%d cuts", found)
	}
}
