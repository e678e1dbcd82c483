package decision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"runner/grammar"
	"runner/reasoning/decision"
)

func TestParsePlan(t *testing.T) {
	tools := []string{"f", "g"}
	for _, c := range []struct {
		text    string
		ok      bool
		missing int
	}{
		{`{"steps":[{"tool":"f","purpose":"p","rationale":{"why":"w"}},{"purpose":"q"}]}`, true, 0},
		{`{"steps":[{"tool":"f","purpose":"p","rationale":{"why":" "}},{"tool":"g","purpose":"p"},{"tool":"g",` +
			`"purpose":"p","rationale":"w"}]}`, true, 3},
		{`{"steps":[{"title":"p","type":"tool_call","toolName":"g","toolArgs":{"a":1},"rationale":{"why":"w"}},` +
			`{"title":"q","type":"analysis"}]}`, true, 0},
		{`{"steps":[{"tool":"h","purpose":"p"}]}`, false, 0},
		{`{"steps":[{"purpose":""}]}`, false, 0},
		{`{"steps":[]}`, false, 0},
		{`{}`, false, 0},
		{`{"steps":[{"tool":"f"`, false, 0},
	} {
		p, err := decision.ParsePlan(c.text, tools)
		if (err == nil) != c.ok || p.Missing != c.missing {
			t.Errorf("%s: %+v %v", c.text, p, err)
		}
	}
}

// A plan is written with the names of Reactive Agents, in whose words it was read or not, and can be read again.
func TestPlanNames(t *testing.T) {
	want := `{"steps":[{"title":"p","type":"tool_call","toolName":"f","rationale":{"why":"w"}},` +
		`{"title":"q","type":"analysis"}],"plan_rationale_missing":0}`
	for _, text := range []string{
		`{"steps":[{"tool":"f","purpose":"p","rationale":{"why":"w"}},{"purpose":"q"}]}`, want,
	} {
		p, err := decision.ParsePlan(text, []string{"f"})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(p); string(got) != want {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	p, err := decision.ParsePlan(`{"steps":[{"title":"p","toolName":"f","toolArgs":{"a":1}}]}`, []string{"f"})
	if err != nil || string(p.Steps[0].ToolArgs) != `{"a":1}` {
		t.Errorf("%+v %v", p, err)
	}
}

// TestPlanSchema: the schema can be enforced, and every text that it allows can be read as a plan.
func TestPlanSchema(t *testing.T) {
	tools := []string{"f", "g"}
	schema, err := decision.PlanSchema(tools)
	if err != nil {
		t.Fatal(err)
	}
	form := grammar.JSONSchema(schema)
	if err := grammar.Check(t.Context(), form); err != nil {
		t.Fatal(err)
	}
	texts, err := grammar.Samples(t.Context(), form, 40, 1)
	if err != nil {
		t.Fatal(err)
	}
	called := 0
	for _, text := range texts {
		if p, err := decision.ParsePlan(text, tools); err != nil || len(p.Steps) == 0 {
			t.Errorf("%s: %v", text, err)
		}
		// If the schema's order differed from the prompt's, the model would have to give the purpose before it can
		// choose a function.
		for _, step := range strings.Split(text, `"tool"`)[1:] {
			purpose, rationale := strings.Index(step, `"purpose"`), strings.Index(step, `"rationale"`)
			if called++; purpose < 0 || rationale < purpose {
				t.Errorf("the members do not come as the prompt shows them: %s", text)
			}
		}
	}
	if called == 0 {
		t.Error("no plan calls a function")
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add(`{"steps":[{"tool":"f","purpose":"p","rationale":{"why":"w"}},{"purpose":"q"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := decision.ParsePlan(text, []string{"f"})
		if err != nil {
			return
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decision.ParsePlan(string(b), []string{"f"})
		if err != nil || again.Missing != p.Missing || len(again.Steps) != len(p.Steps) {
			t.Fatalf("%s: %+v %v", b, again, err)
		}
	})
}
