package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/cmd/runner/cli"
	"runner/generation/delegation"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/server/wiretest"
)

const (
	work   = "12+3: 2+3=5, 1+0=1, so 15"
	answer = "12 + 3 = 15."
	// asked and given are the ends of the prompt after a question and after a function's result.
	asked = "?<|end|><|start|>assistant"
	given = "<|message|>15<|end|><|start|>assistant"
	// inside begins an answer that the runner has opened.
	inside = asked + "<|channel|>final<|message|>"
	plus   = `{"a":12,"b":3}`
)

// scripted is a model whose answer depends on the last word of the question.
func scripted(context.Context, string, backend.Config) (backend.Model, error) {
	after := func(word, say string) fake.Reply { return fake.Reply{After: word + asked, Say: say} }
	sure := func(score string) string {
		return `{"reasoning": "` + work + `", "answer": "` + answer + `"` + score + "}<|return|>"
	}
	report := " to=functions." + reasoning.ReportReasoningName +
		`<|channel|>commentary <|constrain|>json<|message|>{"reasoning":"` + work + `"}<|call|>`
	summarize := prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>"
	long := work + ", which is what was asked for"
	why := "I call it.\n" + `<rationale call="1">{"why": "I was asked to."}</rationale>`
	v := fake.Harmony()
	return fake.New(fake.Config{Vocab: v, Script: fake.Replies(v,
		after("plain", wiretest.Think(work, answer)), after("wrong", wiretest.Think(work, "12 + 3 = 16.")),
		fake.Reply{After: "2+3=0", Say: ", 1+0=1, so 10<|end|><|start|>assistant<|channel|>final<|message|>12 + 3 = " +
			"10.<|return|>"},
		after("form", wiretest.Think(work, `{"sum": 15}`)), after("misfit", wiretest.Think(work, `{"sum": "15"}`)),
		after("miscount", wiretest.Think(work, `{"sum": 16}`)),
		after("call", wiretest.Call("I call it.", "", "plus", plus)),
		after("misuse", wiretest.Call("I call it.", "", "plus", `{"a":12,"b":4}`)),
		after("reason", wiretest.Call(why, "", "plus", plus)),
		after("stray", wiretest.Call(strings.Replace(why, "1", "2", 1), "", "plus", plus)),
		fake.Reply{After: given, Say: wiretest.Think("It gives 15.", answer)},
		after("report", report),
		fake.Reply{After: "<|message|>{}<|end|><|start|>assistant", Say: wiretest.Think("", answer)},
		fake.Reply{After: "mark" + inside, Say: "<<REASONING>>\n" + work + "\n<</REASONING>>\n" + answer + "<|return|>"},
		fake.Reply{After: "bare" + inside, Say: answer + "<|return|>"},
		fake.Reply{After: "object" + inside, Say: sure(`, "score": 0.9`)},
		fake.Reply{After: "unsure" + inside, Say: sure("")},
		after("around", wiretest.Call("I call it.", "", "plus", plus)),
		after("astray", wiretest.Call("I call it.", "", "plus", plus)),
		after("amiss", wiretest.Call("I call it.", "", "plus", plus)),
		after("short", wiretest.Think(long, answer)), fake.Reply{Prompt: "short", After: summarize,
			Say: "It makes 15.<|return|>"},
		after("invent", wiretest.Think(long, answer)), fake.Reply{Prompt: "invent", After: summarize,
			Say: "It makes 15, not 7.<|return|>"},
		after("wordy", wiretest.Think(work, answer)), fake.Reply{Prompt: "wordy", After: summarize,
			Say: "It makes 15.<|return|>"},
		fake.Reply{Prompt: "amiss?<|end|><|start|>assistant<|channel|>analysis<|message|>I call " +
			"it.<|end|><|start|>assistant to=", After: summarize, Say: "It gave 3.<|return|>"},
		fake.Reply{Prompt: "<|message|>15<|end|>", After: summarize, Say: "It gave 15.<|return|>"},
		fake.Reply{Prompt: "astray", After: summarize, Say: "The larger.<|return|>"},
		fake.Reply{After: summarize, Say: "A function works that out.<|return|>"},
		after("delegate", wiretest.Call("I delegate.", "", delegation.DelegateName, `{"agent_prompt":"Add."}`)),
		fake.Reply{After: "</delegate-reasoning><|end|><|start|>assistant", Say: wiretest.Think(work, answer)},
		fake.Reply{After: "<return-control>Returning to main agent</return-control><|end|><|start|>assistant",
			Say: wiretest.Think("It says so.", answer)},
	)}), nil
}

// serveScripted runs the program with the scripted model.
func serveScripted() int {
	engine := cli.Engine{
		Open: scripted, Name: "scripted",
		Choose: func(context.Context, string, string, func(string)) (string, error) { return "", nil },
		Demo:   func(context.Context) (string, error) { return os.Args[0], nil },
	}
	return cli.Main(engine, cli.Build{}, os.Args[1:])
}

// TestChecks checks what a check accepts and refuses, through the whole program.
func TestChecks(t *testing.T) {
	t.Setenv(served, scriptedModel)
	s, err := start(t.Context(), os.Args[0], "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	e := &evaluation{server: s, efforts: []string{"low", "medium", "high"}, out: io.Discard}
	base := question{Kind: "add", Expect: expect{Answer: answer, Result: "15"}}
	formed, called, report, markers, object, delegates, allows := base, base, base, base, base, base, base
	formed.Schema, formed.SchemaName,
		formed.Expect.JSON = json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}`),
		"answer", json.RawMessage(`{"sum":15}`)
	called.Tools = []json.RawMessage{json.RawMessage(
		`{"name":"plus","description":"Adds.","parameters":{"type":"object","properties":` +
			`{"a":{"type":"integer"},"b":{"type":"integer"}}}}`)}
	called.ToolResult, called.Expect.Call = "15", &expectedCall{"plus", json.RawMessage(plus)}
	reasoned := called
	reasoned.Rationale = true
	report.Strategy, markers.Strategy, object.Strategy, delegates.Delegate, allows.Allow = "tool", "markers", "json",
		"Add.", true
	other := report
	other.Expect.Answer = "12 + 3 = 16."
	for _, c := range []struct {
		word  string
		ask   check
		q     question
		right bool
	}{
		{"plain", answers, base, true}, {"wrong", answers, base, false},
		{"form", freeJSON, formed, true}, {"misfit", freeJSON, formed, false}, {"miscount", freeJSON, formed, false},
		{"plain", freeJSON, formed, false},
		{"form", heldJSON, formed, true}, {"miscount", heldJSON, formed, true},
		{"call", calls, called, true}, {"misuse", calls, called, false}, {"plain", calls, called, false},
		{"reason", rationales, reasoned, true}, {"call", rationales, reasoned, false}, {"stray", rationales, reasoned, false},
		{"report", reported, report, true}, {"report", reported, other, false}, {"mark", reported, markers, true},
		{"bare", reported, markers, false},
		{"object", reported, object, true}, {"unsure", reported, object, false}, {"object", reported, markers, false},
		{"around", summariesAround, called, true}, {"astray", summariesAround, called, false},
		{"amiss", summariesAround, called, false},
		{"short", summaries, base, true}, {"invent", summaries, base, false}, {"wordy", summaries, base, false},
		{"plain", delegations, delegates, true}, {"wrong", delegations, delegates, false},
		{"delegate", delegations, allows, true}, {"plain", delegations, allows, false},
		{"plain", corrupted, base, true},
	} {
		c.q.Messages = []message{{"user", "What is it, " + c.word + "?"}}
		got, err := c.ask(t.Context(), e, 0, &c.q)
		if err != nil {
			t.Fatal(err)
		}
		if got.skip || got.right != c.right {
			t.Errorf("%s: it is right %v (left out %v), want %v: %s", c.word, got.right, got.skip, c.right, got.said)
		}
	}
}

func TestAnswered(t *testing.T) {
	q := question{}
	q.Expect.Answer = "7 + 742 = 749. 749 - 9 = 740. The answer is 740."
	for content, want := range map[string]bool{
		q.Expect.Answer: true,
		"742 + 7 = 749. 749 - 9 = 740. The answer is 740.": true,
		"7 + 742 = 749. 9 - 749 = 740. The answer is 740.": false,
		"7 * 742 = 749. 749 - 9 = 740. The answer is 740.": false,
		"742 + 7 = 740. 749 - 9 = 740. The answer is 740.": false,
	} {
		if q.answered(content) != want {
			t.Errorf("%q: %v", content, !want)
		}
	}
}
