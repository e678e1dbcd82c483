package runner

import (
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// TestSchemaOfTheWholeObject gives strategy json schemas with reasoning and an answer. Where a schema describes the
// object of the strategy, the reasoning is hidden and the answer is the answer. Another schema, or another strategy,
// makes the whole value the answer, and what stands in it is what the client asked for.
func TestSchemaOfTheWholeObject(t *testing.T) {
	object := func(properties, more string) string {
		return `{"type":"object","properties":{` + properties + `},"additionalProperties":false` + more + `}`
	}
	const text, number = `{"type":"string","maxLength":20}`, `{"enum":[4]}`
	both := `"reasoning":` + text + `,"answer":`
	person := `{"$ref":"#/$defs/person"}`
	defs := `,"$defs":{"person":{"type":"object","properties":{"name":{"enum":["four"]}},"required":["name"],` +
		`"additionalProperties":false}}`
	const whole = `{"reasoning":"two and two","answer":"four"}`
	for name, c := range map[string]struct {
		schema, value, answer string
		apart                 bool
	}{
		"a text":           {object(both+text, `,"required":["answer","reasoning"]`), `"four"`, "four", true},
		"a number":         {object(both+number, ""), `4`, "4", true},
		"a choice":         {object(both+`{"enum":["four",4]}`, ""), `"four"`, "four", true},
		"a definition":     {object(both+person, defs), `{"name":"four"}`, `{"name":"four"}`, true},
		"the answer first": {object(`"answer":`+text+`,"reasoning":`+text, ""), `"four"`, "four", true},
		"a score":          {object(both+text+`,"score":{"type":"number"}`, ""), `"four"`, "four", true},
		"a root elsewhere": {`{"$ref":"#/$defs/it","$defs":{"it":` + object(both+text, "") + `}}`, `"four"`, "four", true},
		"more":             {object(both+text+`,"more":`+number, `,"required":["reasoning","answer"]`), whole, whole, false},
		"another keyword":  {object(both+text, `,"minProperties":2`), whole, whole, false},
		"a part of itself": {object(both+`{"$ref":"#/properties/reasoning"}`, `,"required":["reasoning","answer"]`), whole,
			whole, false},
	} {
		f := start(t, fake.Config{}, Config{}, fake.Reply{Prompt: prompts.JSONSchemaV1[:40], After: ask("q") + finalTag,
			Say: `{"reasoning": "` + thought + `", "answer": ` + c.value + `, "score": 0.5}<|return|>`},
			fake.Reply{After: `"score":`, Say: "0.5}<|return|>"}, fake.Reply{After: `"score": `, Say: "0.5}<|return|>"})
		for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
			req := user("q")
			req.Strategy, req.Visibility, req.MaxTokens = reasoning.StrategyJSON, v, 300
			req.Form = grammar.JSONSchema([]byte(c.schema))
			req.ResponseFormat = &chattemplate.ResponseFormat{Name: "it", Schema: []byte(c.schema)}
			g := f.must(t, req)
			g.want(t, reasoning.Answer, c.answer)
			if shows := g.text[reasoning.Reasoning] == thought; shows != (v == reasoning.VisibilityFull) {
				t.Errorf("%s, %v: the reasoning is %q", name, v, g.text[reasoning.Reasoning])
			}
			if len(g.codes) > 0 || g.result.Usage.Reasoning == 0 || f.Stats().Violations != 0 ||
				c.apart && strings.Contains(g.text[reasoning.Answer], "two") {
				t.Errorf("%s, %v: %v, %+v", name, v, g.codes, g.result)
			}
			if (g.result.Score != nil) != strings.Contains(c.schema, "score") {
				t.Errorf("%s, %v: the score is %v", name, v, g.result.Score)
			}
		}
	}
	// Without strategy json the schema governs.
	schema := object(both+text, `,"required":["reasoning","answer"]`)
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think(thought, whole)})
	req := user("q")
	req.Form = grammar.JSONSchema([]byte(schema))
	f.must(t, req).want(t, reasoning.Answer, whole)
}
