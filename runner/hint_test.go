package runner

import (
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/reasoning"
)

// TestEnginesGetTheFormOfArguments checks that an engine is told the schema of a strict function where the arguments
// begin, and nowhere else. While it follows the schema, no token of the arguments is forced.
func TestEnginesGetTheFormOfArguments(t *testing.T) {
	const arguments = `{"a":2,"b":3}`
	said := "<|channel|>analysis<|message|>use it<|end|><|start|>assistant<|channel|>commentary to=functions.add " +
		"<|constrain|>json<|message|>"
	sampled := map[bool]int{}
	for _, c := range []struct{ strict, follows bool }{{true, true}, {true, false}, {false, true}} {
		var forms []backend.Form
		var before []string
		var text []backend.Token
		following, steps := false, 0
		v := fake.Harmony()
		f := start(t, fake.Config{Fail: func(_ int, inputs []backend.Input) error {
			for _, in := range inputs {
				text = append(text[:0], in.Sequence.Tokens()...)
				text = append(text, in.Tokens...)
				formed, ok := in.Constraint.(backend.Formed)
				if !ok {
					continue
				}
				if form, ok := formed.Form(); ok {
					forms, following = append(forms, form), c.follows
					before = append(before, fake.Decode(v, text))
				}
				formed.Follow(following)
				if following || len(forms) > 0 {
					steps++
				}
			}
			return nil
		}}, Config{}, fake.Reply{After: ask("2+3?"), Say: said + arguments + "<|call|>"})
		req := user("2+3?")
		req.Tools, req.Visibility = []chattemplate.Tool{adder(c.strict)}, reasoning.VisibilityFull
		g := f.must(t, req)
		g.want(t, reasoning.ToolCall, arguments)
		if !c.strict {
			if len(forms) > 0 {
				t.Errorf("a function that is not strict has the forms %q", forms)
			}
			continue
		}
		sampled[c.follows] = steps
		if len(forms) != 1 || forms[0].Kind != backend.FormJSONSchema ||
			!strings.Contains(forms[0].Text, `"required"`) || !strings.HasSuffix(before[0], said) {
			t.Errorf("%+v: the forms %q, after %q", c, forms, before)
		}
	}
	if sampled[true] <= sampled[false] {
		t.Errorf("%d tokens are sampled while the engine follows the schema, %d otherwise", sampled[true], sampled[false])
	}
}
