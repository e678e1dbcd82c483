package runner

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/grammar"
	"runner/reasoning"
)

// unheld is a model that samples without its constraints.
type unheld struct{ *fake.Model }

func (m unheld) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	inner := slices.Clone(inputs)
	for i := range inner {
		inner[i].Constraint = nil
	}
	return m.Model.Step(ctx, inner, outputs)
}

// TestBrokenFormsAreFoundAndTellNothing has a model that nothing holds answer with text that must not show in logs or warnings.
func TestBrokenFormsAreFoundAndTellNothing(t *testing.T) {
	for _, c := range []struct {
		name, say string
		form      grammar.Source
	}{
		{"value", `{"name":"canary canary","age":1}`, grammar.JSONSchema([]byte(person))},
		{"key", `{"name":"Bob","age":1,"canary":1}`, grammar.JSONSchema([]byte(person))},
		{"no JSON", `canary`, grammar.JSONSchema([]byte(person))},
		{"object", `["canary"]`, grammar.AnyObject()},
		{"pattern", `canary`, grammar.Regex(`[0-9]+`)},
		{"choices", `canary`, grammar.Choices("yes", "no")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			v := fake.Harmony()
			m := unheld{fake.New(fake.Config{Vocab: v, Script: fake.Replies(v, fake.Reply{After: ask("q"), Say: think("canary thoughts", c.say)})})}
			r, err := New(m, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			req := user("q")
			req.Form, req.Logprobs = c.form, true // nothing is forced
			warnings, answer := "", ""
			for e, err := range r.Generate(t.Context(), req) {
				switch {
				case err != nil:
					t.Fatal(err)
				case e.Kind == reasoning.Warning:
					warnings += e.Code + ": " + e.Text + "\n"
				case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer:
					answer += e.Text
				}
			}
			if answer != c.say || r.Violations() != 1 || !strings.Contains(warnings, CodeFormViolated) || !strings.Contains(log.String(), "broke its form") {
				t.Errorf("answer %q, %d violations, warnings %q, log %q", answer, r.Violations(), warnings, log.String())
			}
			if strings.Contains(log.String()+warnings, "canary") {
				t.Errorf("the answer shows in the log or in a warning: %q, %q", log.String(), warnings)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStopStringsCutForms has stop strings end answers that are held to forms: those that lose their form by it say so.
func TestStopStringsCutForms(t *testing.T) {
	for _, c := range []struct {
		name, say, stop, want string
		form                  grammar.Source
		cut                   bool
	}{
		{"schema", `{"name":"Bob","age":42}`, `"age"`, `{"name":"Bob",`, grammar.JSONSchema([]byte(person)), true},
		{"schema, last byte", `{"name":"Bob","age":42}`, `}`, `{"name":"Bob","age":42`, grammar.JSONSchema([]byte(person)), true},
		{"schema, at once", `{"name":"Bob","age":42}`, `{"name`, ``, grammar.JSONSchema([]byte(person)), true},
		{"object", `{"a":"STOP it"}`, `STOP`, `{"a":"`, grammar.AnyObject(), true},
		{"number", `1234`, `4`, `123`, grammar.JSONSchema([]byte(`{"type":"integer"}`)), false},
		{"pattern", `aab`, `b`, `aa`, grammar.Regex(`a+b`), true},
		{"pattern that allows less", `aab`, `b`, `aa`, grammar.Regex(`a+b?`), false},
		{"choices", `yes, sure`, `, `, `yes`, grammar.Choices("yes, sure", "no"), true},
		{"choices with a prefix", `yes, sure`, `, `, `yes`, grammar.Choices("yes, sure", "yes"), false},
		{"gbnf", `<12>`, `>`, `<12`, grammar.GBNF(`root ::= "<" [0-9]+ ">"`), true},
		{"no form", `yes, sure`, `, `, `yes`, grammar.Source{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think(thought, c.say)})
			req := user("q")
			req.Form, req.Stop = c.form, []string{c.stop}
			g := f.must(t, req)
			g.want(t, reasoning.Answer, c.want)
			if slices.Contains(g.codes, CodeFormCut) != c.cut || slices.Contains(g.codes, CodeFormViolated) || f.Violations() != 0 {
				t.Errorf("warnings %v, %d violations", g.codes, f.Violations())
			}
			if g.result.Finish != reasoning.FinishStop || g.result.Detail != reasoning.DetailStopString || g.result.StopString != c.stop {
				t.Errorf("%+v", g.result)
			}
		})
	}
}
