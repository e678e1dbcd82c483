package openai

import (
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/server/wiretest"
)

// TestRationale checks that the reasons for calls show only with visibility full, and that an answer and a stream have
// the same.
func TestRationale(t *testing.T) {
	f := start(t, Config{}, nil, fake.Reply{After: wiretest.Ask("q"),
		Say: wiretest.Call(`I look. <rationale call="1">{"why":"canary","confidence":0.5}</rationale>`, "", "look",
			`{"q":"a"}`)})
	const tools = `"rationale":true,"tools":[{"type":"function","function":{"name":"look"}}]`
	for _, visibility := range []string{"none", "summary", "full"} {
		fields := tools + `,"reasoning":"` + visibility + `"`
		whole := f.post("/v1/chat/completions", body("q", fields))
		stream := f.post("/v1/chat/completions", body("q", fields+`,"stream":true`))
		if visibility != "full" {
			if strings.Contains(whole.body+stream.body, "canary") || strings.Contains(whole.body+stream.body, `"rationale":[`) {
				t.Errorf("%s shows\n%s\n%s", visibility, whole.body, stream.body)
			}
			continue
		}
		var answer ChatCompletion
		decode(t, whole.body, &answer)
		for _, c := range []*ChatCompletion{&answer, assemble(t, framesOf(t, stream.body))} {
			m := c.Choices[0].Message
			if len(m.Rationale) != 2 || m.Rationale[0].ToolName != "look" || m.Rationale[0].Rationale.Why != "canary" ||
				m.Rationale[1].Decision != "termination:tool_calls" ||
				strings.Contains(m.Reasoning, "canary") || len(m.ToolCalls) != 1 {
				t.Errorf("%s", pretty(t, m))
			}
		}
	}
}
