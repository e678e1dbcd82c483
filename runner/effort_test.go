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

// thinker is a model that follows the instructions of every strategy. Without an instruction it answers at once.
type thinker struct {
	name     string
	strategy reasoning.Strategy
	form     grammar.Source
	answer   string
	start    func(*testing.T) fixture
}

func thinkers() []thinker {
	const bob = `{"name":"Bob","age":4}`
	chatml := "q<|im_end|>\n<|im_start|>assistant\n"
	skipped := "<think>\n\n</think>\n\n"
	reported := `<|channel|>commentary to=functions.report_reasoning <|constrain|>json<|message|>` +
		`{"reasoning":"` + thought + `"}<|call|>`
	var out []thinker
	for _, form := range []struct {
		name, answer, json string
		source             grammar.Source
		asks               string // what asks for an object, if none is written without it
	}{
		{"", "four", `"four"`, grammar.Source{}, prompts.JSONV1},
		{" with a schema", bob, bob, grammar.JSONSchema([]byte(person)), ""},
	} {
		object := func(thoughts string) string { return `{"reasoning": "` + thoughts + `", "answer": ` + form.json + `}` }
		marked := "<<REASONING>>\n" + thought + "<</REASONING>>\n" + form.answer
		harmony := func(replies ...fake.Reply) func(*testing.T) fixture {
			summary := summaryReply(prompts.SummaryConciseV1, "I added.")
			return func(t *testing.T) fixture { return start(t, fake.Config{}, Config{}, append(replies, summary)...) }
		}
		tags := func(replies ...fake.Reply) func(*testing.T) fixture {
			return func(t *testing.T) fixture { return start(t, thinkModel(), Config{}, replies...) }
		}
		out = append(out,
			thinker{"native" + form.name, reasoning.StrategyNative, form.source, form.answer, harmony(
				fake.Reply{After: ask("q"), Say: think(thought, form.answer)},
				fake.Reply{After: ask("q") + finalTag, Say: form.answer + "<|return|>"})},
			thinker{"json" + form.name, reasoning.StrategyJSON, form.source, form.answer, harmony(
				fake.Reply{Prompt: form.asks, After: ask("q") + finalTag, Say: object(thought) + "<|return|>"},
				fake.Reply{After: ask("q") + finalTag, Say: form.answer + "<|return|>"},
				fake.Reply{After: `{"reasoning": ""`, Say: `, "answer": ` + form.json + `}<|return|>`},
				fake.Reply{After: `{"reasoning":""`, Say: `, "answer": ` + form.json + `}<|return|>`})},
			thinker{"tool" + form.name, reasoning.StrategyTool, form.source, form.answer, harmony(
				fake.Reply{Prompt: prompts.ReportV1, After: ask("q"), Say: reported},
				fake.Reply{Prompt: prompts.ReportV1, After: "{}<|end|>" + again, Say: finalTag + form.answer + "<|return|>"},
				fake.Reply{After: ask("q") + finalTag, Say: form.answer + "<|return|>"})},
			thinker{"markers" + form.name, reasoning.StrategyMarkers, form.source, form.answer, harmony(
				fake.Reply{Prompt: prompts.MarkersV1, After: ask("q") + finalTag, Say: marked + "<|return|>"},
				fake.Reply{After: ask("q") + finalTag, Say: form.answer + "<|return|>"})},
			thinker{"native in tags" + form.name, reasoning.StrategyNative, form.source, form.answer, tags(
				fake.Reply{After: chatml, Say: "<think>\n" + thought + "\n</think>\n\n" + form.answer + "<|im_end|>"},
				fake.Reply{After: chatml + skipped, Say: form.answer + "<|im_end|>"})},
			thinker{"markers in text" + form.name, reasoning.StrategyMarkers, form.source, form.answer, tags(
				fake.Reply{Prompt: prompts.MarkersV1, After: chatml + skipped, Say: marked + "<|im_end|>"},
				fake.Reply{After: chatml + skipped, Say: form.answer + "<|im_end|>"})},
		)
	}
	return out
}

// TestVisibilityNeverChangesEffort runs every strategy with every effort and visibility, traced or not. Only the
// effort changes how much the model reasons. Only the visibility changes whether the reasoning is shown.
func TestVisibilityNeverChangesEffort(t *testing.T) {
	for _, m := range thinkers() {
		t.Run(m.name, func(t *testing.T) {
			f := m.start(t)
			for _, effort := range []reasoning.Effort{
				"", reasoning.EffortNone, reasoning.EffortLow, reasoning.EffortHigh,
			} {
				var first reasoning.Usage
				for i, c := range []struct {
					visibility reasoning.Visibility
					traced     bool
				}{
					{reasoning.VisibilityFull, false}, {reasoning.VisibilitySummary, false}, {reasoning.VisibilityNone, false},
					{reasoning.VisibilityNone, true},
				} {
					req := user("q")
					req.Strategy, req.Effort, req.Visibility, req.Form, req.MaxTokens = m.strategy, effort, c.visibility, m.form, 400
					seed := uint64(1)
					notes, by := &notebook{}, &observes{}
					if req.Seed = &seed; c.traced {
						by.traced = notes
					}
					g := f.must(t, req, by)
					u := g.result.Usage
					u.Summary, u.Cached, u.Prompt = 0, 0, 0
					if i == 0 {
						first = u
					}
					if u != first {
						t.Errorf("effort %q, %v: %+v, but under full %+v", effort, c.visibility, u, first)
					}
					g.want(t, reasoning.Answer, m.answer)
					none := effort == reasoning.EffortNone
					thoughts := strings.TrimSpace(g.text[reasoning.Reasoning])
					want := c.visibility == reasoning.VisibilityFull && !none
					if (thoughts == thought) != want || !want && thoughts != "" {
						t.Errorf("effort %q, %v: the reader sees %q", effort, c.visibility, thoughts)
					}
					if kept := strings.TrimSpace(notes.text(reasoning.Reasoning)); c.traced && (kept == thought) == none {
						t.Errorf("effort %q: the trace holds %q", effort, kept)
					}
					if unavailable := none && c.visibility != reasoning.VisibilityNone; g.result.ReasoningUnavailable != unavailable {
						t.Errorf("effort %q, %v: reasoning is unavailable: %v", effort, c.visibility, g.result.ReasoningUnavailable)
					}
				}
				if thinks := effort != reasoning.EffortNone; (first.Reasoning > 0) != thinks {
					t.Errorf("effort %q reasons for %d tokens", effort, first.Reasoning)
				}
			}
		})
	}
}

// TestEffortNoneAsksForNoReasoning checks the prompts. None of them asks for reasoning or offers a function to report
// it.
func TestEffortNoneAsksForNoReasoning(t *testing.T) {
	f := start(t, fake.Config{}, Config{})
	for _, args := range []map[string]any{nil, {"reasoning_effort": "none"}} {
		for _, s := range []reasoning.Strategy{reasoning.StrategyMarkers, reasoning.StrategyTool} {
			for _, tools := range [][]chattemplate.Tool{nil, addTool} {
				req := user("q")
				if req.Strategy, req.Tools, req.TemplateArgs = s, tools, args; args == nil {
					req.Effort = reasoning.EffortNone
				}
				p, err := f.Prompt(t.Context(), "", req)
				if err != nil {
					t.Fatal(err)
				}
				text := fake.Decode(f.model.Vocab(), p.Tokens)
				for _, told := range []string{"REASONING", reasoning.ReportReasoningName, prompts.ReportV1} {
					if strings.Contains(text, told) {
						t.Errorf("%s with %v: the prompt has %q", s, args, told)
					}
				}
			}
		}
	}
}
