package chattemplate

import (
	"reflect"
	"testing"
)

// Where a template takes turns, messages are joined without loss: neither their texts nor their reasoning nor who has
// seen them.
func TestTurnsLoseNothing(t *testing.T) {
	calls := []ToolCall{{Name: "f", Arguments: "{}"}}
	said := func(text string) Message {
		return Message{Role: Assistant, Content: text, Reasoning: "r" + text, Unseen: UnseenReasoning}
	}
	user, result := Message{Role: User, Content: "q"}, Message{Role: ToolRole, Content: "4"}
	call := Message{Role: Assistant, Preamble: "c", Reasoning: "rc", ToolCalls: calls}
	both := func(a, b string) string { return a + "\n\n" + b }
	for name, c := range map[string]struct {
		in, want []Message
		places   bool
	}{
		"answers": {[]Message{user, said("a"), said("b")}, []Message{user,
			{Role: Assistant, Content: both("a", "b"), Reasoning: both("ra", "rb"), Unseen: UnseenReasoning}}, true},
		"an answer and its calls": {[]Message{user, said("a"), call, result}, []Message{user,
			{Role: Assistant, Preamble: both("a", "c"), Reasoning: both("ra", "rc"), Unseen: UnseenReasoning,
				ToolCalls: calls}, result}, true},
		"a result and the user": {[]Message{user, call, result, user},
			[]Message{user, call, result, {Role: Assistant, Content: nothingSaid}, user}, true},
		"no place for calls": {[]Message{user, call, result, user}, []Message{user,
			{Role: Assistant, Content: `c[{"name":"f","arguments":{}}]`, Reasoning: "rc"},
			{Role: User, Content: both("<result>\n4\n</result>", "q")}}, false},
	} {
		var got []Message
		for _, m := range c.in {
			got = inTurns(got, m, false, c.places)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
