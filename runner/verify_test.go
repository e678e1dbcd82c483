package runner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
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

// TestBrokenFormsAreReportedWithoutText checks a model that ignores its form. Its text must not show in logs or
// warnings.
func TestBrokenFormsAreReportedWithoutText(t *testing.T) {
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
		{"no answer", ``, grammar.JSONSchema([]byte(person))},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			v := fake.Harmony()
			m := unheld{fake.New(fake.Config{Vocab: v,
				Script: fake.Replies(v, fake.Reply{After: ask("q"), Say: think("canary thoughts", c.say)})})}
			r, err := New(m, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			req := user("q")
			req.Form, req.Logprobs = c.form, true // nothing is forced
			warnings, answer := "", ""
			for e, err := range r.Generate(t.Context(), req, generation.Unobserved{}) {
				switch {
				case err != nil:
					t.Fatal(err)
				case e.Kind == reasoning.Warning:
					warnings += e.Code + ": " + e.Text + "\n"
				case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer:
					answer += e.Text
				}
			}
			if answer != c.say || r.Stats().Violations != 1 || !strings.Contains(warnings, generation.CodeFormViolated) ||
				!strings.Contains(log.String(), "broke its form") {
				t.Errorf("answer %q, %d violations, warnings %q, log %q", answer, r.Stats().Violations, warnings, log.String())
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

// TestStopStringsCutForms checks stop strings that end answers with forms. If an answer no longer matches its form,
// the run says so.
func TestStopStringsCutForms(t *testing.T) {
	for _, c := range []struct {
		name, say, stop, want string
		form                  grammar.Source
		cut                   bool
	}{
		{"schema", `{"name":"Bob","age":42}`, `"age"`, `{"name":"Bob",`, grammar.JSONSchema([]byte(person)), true},
		{"schema, last byte", `{"name":"Bob","age":42}`, `}`, `{"name":"Bob","age":42`, grammar.JSONSchema([]byte(person)),
			true},
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
			if slices.Contains(g.codes, generation.CodeFormCut) != c.cut ||
				slices.Contains(g.codes, generation.CodeFormViolated) ||
				f.Stats().Violations != 0 {
				t.Errorf("warnings %v, %d violations", g.codes, f.Stats().Violations)
			}
			if g.result.Finish != reasoning.FinishStop || g.result.Detail != reasoning.DetailStopString ||
				g.result.StopString != c.stop {
				t.Errorf("%+v", g.result)
			}
		})
	}
}

// TestFormsKeepTheirNewlines checks forms with newlines at their ends, where formats and models add some of their own.
func TestFormsKeepTheirNewlines(t *testing.T) {
	const after, skipped = "q<|im_end|>\n<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
	full := func(r *generation.Request) { r.Visibility = reasoning.VisibilityFull }
	models := map[string]struct {
		cfg                fake.Config
		after, before, end string
		ask                func(*generation.Request)
	}{
		"harmony": {fake.Config{}, ask("q"), finalTag, "<|return|>", full},
		"harmony, markers": {fake.Config{}, ask("q") + finalTag, "<<REASONING>>so<</REASONING>>", "<|return|>",
			func(r *generation.Request) { full(r); r.Strategy = reasoning.StrategyMarkers }},
		"think":        {freeModel(), after, "<think>\nso\n</think>\n\n", "<|im_end|>", full},
		"think, tight": {freeModel(), after, "<think>so</think>", "<|im_end|>", full},
		"think, skipped": {thinkModel(), after + skipped, "", "<|im_end|>",
			func(r *generation.Request) { r.Effort = reasoning.EffortNone }},
		"think, markers": {thinkModel(), after + skipped, "<<REASONING>>\nso\n<</REASONING>>", "<|im_end|>",
			func(r *generation.Request) { full(r); r.Strategy = reasoning.StrategyMarkers }},
	}
	forms := map[string]struct {
		form grammar.Source
		text string
	}{
		"newlines before":    {grammar.Regex(`\n+x`), "\n\n\nx"},
		"one newline before": {grammar.Choices("\nyes", "\nno"), "\nno"},
		"return before":      {grammar.Choices("\r\nyes"), "\r\nyes"},
		"newlines after":     {grammar.Regex(`x\n+y?`), "x\n\n"},
		"only newlines":      {grammar.Regex(`\n{2,3}`), "\n\n\n"},
		"no newlines":        {grammar.Regex(`x+`), "xx"},
		"gbnf":               {grammar.GBNF("root ::= [\\n]* \"{\" [\\n]*"), "\n{\n"},
	}
	for name, m := range models {
		for form, c := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				f := start(t, m.cfg, Config{}, fake.Reply{After: m.after, Say: m.before + c.text + m.end})
				req := user("q")
				req.Form = c.form
				m.ask(&req)
				g := f.must(t, req)
				// Line breaks that the model puts after its tag look like line breaks of the form. Those that the form allows are
				// the form's.
				if !strings.HasSuffix(m.before, "\n") || !strings.HasPrefix(c.text, "\n") {
					g.want(t, reasoning.Answer, c.text)
				}
				if f.Stats().Violations != 0 || g.result.Finish != reasoning.FinishStop {
					t.Errorf("%+v, %d violations, answer %q", g.result, f.Stats().Violations, g.text[reasoning.Answer])
				}
			})
		}
	}
}

// TestCompilingEndsWithTheRun checks runs that end while their form is compiled. The error is the one that ended the
// run, not an error in the request.
func TestCompilingEndsWithTheRun(t *testing.T) {
	f := start(t, fake.Config{}, Config{})
	ctx, end := context.WithCancelCause(t.Context())
	end(errInjected)
	req := user("q")
	req.Form = grammar.JSONSchema([]byte(`{"type":"array","items":{"enum":["` + strings.Repeat(`a","`, 5000) + `b"]}}`))
	if g := collect(ctx, f.Runner, req); !errors.Is(g.err, errInjected) {
		t.Errorf("ended with %v", g.err)
	}
}
