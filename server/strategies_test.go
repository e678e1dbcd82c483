package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning/prompts"
	"runner/server/agui"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/web"
	"runner/server/wire"
	"runner/server/wiretest"
)

// strategicFormats are the formats in which a client can choose the strategy. $S is the strategy's fields and $J a
// schema's.
func strategicFormats(m wire.Models) []strategicFormat {
	const said = `"messages":[{"role":"user","content":"q"}],`
	const schema = `"schema":{"type":"object","properties":{"sum":{"const":"It is four."}},` +
		`"required":["sum"],"additionalProperties":false}`
	return []strategicFormat{
		{"chat", openai.New(m, openai.Config{}), "/v1/chat/completions", `{` + said + `$S$J"stream":$L}`,
			`"response_format":{"type":"json_schema","json_schema":{"name":"sum",` + schema + `}},`},
		{"responses", responses.New(m, responses.Config{}), "/v1/responses", `{"input":"q",$S$J"stream":$L}`,
			`"text":{"format":{"type":"json_schema","name":"sum",` + schema + `}},`},
		{"web", web.New(m, web.Config{}), "/web/chat", `{"conversation":"c",` + said + `$S$J"x":$L}`,
			schema + `,`},
		{"agui", agui.New(m, agui.Config{}), "/agui",
			`{"threadId":"t","runId":"r","protocolVersion":"1.0","forwardedProps":{$S$J"x":$L},` +
				`"messages":[{"id":"m","role":"user","content":"q"}]}`, ""},
	}
}

type strategicFormat struct {
	name   string
	format wire.Format
	path   string
	body   string
	schema string
}

// TestStrategiesHideReasoning has a model reason with every strategy. The reasoning is the same under every
// visibility, nothing of it shows under none, and with effort none there is nothing to hide.
func TestStrategiesHideReasoning(t *testing.T) {
	const canary, answer, quick = "zebra", "It is four.", "At once."
	asked := wiretest.Ask("q")
	final := "<|channel|>final<|message|>"
	for _, schema := range []bool{false, true} {
		said, hasty := answer, quick
		object := `"` + answer + `"`
		if schema {
			said = `{"sum": "` + answer + `"}`
			object, hasty = said, said
		}
		inObject, rest := prompts.JSONV1[:60], `, "answer": `+object+`, "score": 0.5}<|return|>`
		m := wiretest.New(t, fake.Config{},
			fake.Reply{Prompt: inObject, After: asked + final, Say: `{"reasoning": "` + canary + `"` + rest},
			fake.Reply{Prompt: inObject, After: `"reasoning": ""`, Say: rest},
			fake.Reply{Prompt: inObject, After: `"reasoning":""`, Say: rest},
			fake.Reply{Prompt: prompts.ReportV1, After: asked,
				Say: `<|channel|>commentary to=functions.report_reasoning <|constrain|>json<|message|>` +
					`{"reasoning":"` + canary + `"}<|call|>`},
			fake.Reply{Prompt: prompts.ReportV1, After: "{}<|end|><|start|>assistant", Say: final + said + "<|return|>"},
			fake.Reply{Prompt: prompts.MarkersV1, After: asked + final,
				Say: "<<REASONING>>" + canary + "<</REASONING>>" + said + "<|return|>"},
			fake.Reply{After: asked, Say: wiretest.Think(canary, said)},
			fake.Reply{After: asked + final, Say: hasty + "<|return|>"},
			fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant" + final, Say: "Counted.<|return|>"})
		for _, f := range strategicFormats(m) {
			if schema && f.schema == "" {
				continue // it has no place for one
			}
			url := wiretest.Serve(t, f.format, wiretest.Anyone()).URL
			for _, strategy := range []string{"native", "json", "tool", "markers"} {
				for _, stream := range []string{"true", "false"} {
					for _, effort := range []string{"", `"reasoning_effort":"low",`, `"reasoning_effort":"none",`} {
						if f.name == "responses" {
							effort = strings.Replace(effort, `"reasoning_effort":"none"`, `"reasoning":{"effort":"none"}`, 1)
							effort = strings.Replace(effort, `"reasoning_effort":"low"`, `"reasoning":{"effort":"low"}`, 1)
						}
						for _, visibility := range []string{"none", "summary", "full"} {
							fields := `"reasoning_strategy":"` + strategy + `","include_reasoning":"` + visibility + `",` + effort
							body := strings.NewReplacer("$S", fields, "$L", stream, "$J", "").Replace(f.body)
							if schema {
								body = strings.NewReplacer("$S", fields, "$L", stream, "$J", f.schema).Replace(f.body)
							}
							status, header, got := wiretest.Send(t, http.MethodPost, url+f.path, body, nil)
							all := fmt.Sprint(header) + texts(got)
							none := strings.Contains(effort, "none")
							wants := answer
							if none && !schema {
								wants = quick
							}
							if status != http.StatusOK || !strings.Contains(all, wants) {
								t.Fatalf("%s: %d, %s", body, status, got)
							}
							if shows := strings.Contains(all, canary); shows != (visibility == "full" && !none) {
								t.Errorf("%s: the reasoning shows is %v: %s", body, shows, got)
							}
							if sums := strings.Contains(all, "Counted."); sums != (visibility == "summary" && !none) {
								t.Errorf("%s: the summary shows is %v: %s", body, sums, got)
							}
						}
					}
				}
			}
		}
	}
}
