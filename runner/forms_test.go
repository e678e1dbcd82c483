package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

const person = `{"type":"object","properties":{"name":{"type":"string","maxLength":8},` +
	`"age":{"type":"integer","minimum":0,"maximum":150}},` +
	`"required":["name","age"],"additionalProperties":false}`

func adder(strict bool) chattemplate.Tool {
	return chattemplate.Tool{Name: "add", Strict: strict, Parameters: json.RawMessage(
		`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},` +
			`"required":["a","b"],"additionalProperties":false}`)}
}

// obeys fails the test unless a JSON text matches a schema.
func obeys(t *testing.T, schema, text string) {
	t.Helper()
	v, err := grammar.NewValidator([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Validate([]byte(text)); err != nil {
		t.Errorf("%q breaks its schema: %v", text, err)
	}
}

func TestFormHoldsTheAnswerAndFreesTheReasoning(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("who?"),
		Say: think(`{"no": this is free}`, "It is Bob, 42.")})
	req := user("who?")
	req.Form, req.Visibility = grammar.JSONSchema([]byte(person)), reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, `{"no": this is free}`)
	obeys(t, person, g.text[reasoning.Answer])
	if g.result.Finish != reasoning.FinishStop || len(g.codes) > 0 || f.Stats().Violations != 0 {
		t.Errorf("%+v, warnings %v, %d violations", g.result, g.codes, f.Stats().Violations)
	}
}

func TestFormLeavesARightAnswerAlone(t *testing.T) {
	right := `{"name": "Bob", "age": 42}`
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("who?"), Say: think(thought, right)})
	req := user("who?")
	req.Form = grammar.JSONSchema([]byte(person))
	f.must(t, req).want(t, reasoning.Answer, right)
}

func TestForcedTokensSaveSteps(t *testing.T) {
	right := `{"first_long_property_name":1,"second_long_property_name":2}`
	schema := `{"type":"object","properties":{"first_long_property_name":{"enum":[1]},` +
		`"second_long_property_name":{"enum":[2]}},` +
		`"required":["first_long_property_name","second_long_property_name"],"additionalProperties":false}`
	steps := func(logprobs bool) (int, int) {
		f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think("", right)})
		req := user("q")
		req.Form, req.Logprobs = grammar.JSONSchema([]byte(schema)), logprobs
		g := f.must(t, req)
		obeys(t, schema, g.text[reasoning.Answer])
		return len(f.model.Steps()), g.result.Usage.Answer
	}
	few, tokens := steps(false)
	many, _ := steps(true)
	if few*2 > many || tokens == 0 {
		t.Errorf("%d steps with forced tokens, %d without", few, many)
	}
}

func TestTheTurnCannotEndBeforeItsAnswer(t *testing.T) {
	for name, say := range map[string]string{
		"in its reasoning": "<|channel|>analysis<|message|>enough<|return|>",
		"as a call":        "<|channel|>analysis<|message|>enough<|call|>",
		"after it":         "<|channel|>analysis<|message|>enough<|end|><|return|>",
		"in a preamble":    "<|channel|>commentary<|message|>wait<|return|>",
		"at once":          "<|return|>",
		"without a header": "Bob is 42<|return|>",
		"in the answer":    finalTag + `{"name":"Bob",` + "<|return|>",
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("who?"), Say: say})
			req := user("who?")
			req.Form, req.MaxTokens = grammar.JSONSchema([]byte(person)), 1000
			g := f.must(t, req)
			obeys(t, person, g.text[reasoning.Answer])
			if g.result.Finish != reasoning.FinishStop || f.Stats().Violations != 0 {
				t.Errorf("%+v", g.result)
			}
		})
	}
}

func TestFormWithBudget(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("who?"),
		Say: think(strings.Repeat("on and on ", 50), "Bob")})
	for _, tools := range [][]chattemplate.Tool{nil, {adder(false)}} {
		req := user("who?")
		req.Form, req.Budget, req.Tools, req.MaxTokens = grammar.JSONSchema([]byte(person)), 10, tools, 600
		g := f.must(t, req)
		if g.result.Detail != reasoning.DetailReasoningBudget || g.result.Usage.Reasoning > 10 {
			t.Errorf("%+v", g.result)
		}
		if len(g.calls) == 0 {
			obeys(t, person, g.text[reasoning.Answer])
		}
	}
}

// numbered returns n numbered properties.
func numbered(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"p%d":{"type":"integer"}`, i))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// TestArguments checks that the arguments of a harmony call match the function's parameters. If the function is not
// strict, only names, types and enums must match. If its schema is more complex, any object is valid.
func TestArguments(t *testing.T) {
	const call = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>"
	const known = `"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a"]`
	const closed = `{` + known + `,"additionalProperties":false}`
	const defined = `"definitions":{"in":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}`
	for _, c := range []struct {
		parameters, say, obeys, want string
		strict                       bool
	}{
		{`{` + known + `}`, `{"a": "one", b}`, closed, "", false},
		{`{` + known + `}`, `{"c":1,"a":2}`, closed, "", false},
		{`{` + known + `}`, `{"a":2,"c":1}`, "", `{"a":2,"c":1}`, true},
		{`{` + known + `,"additionalProperties":{"type":"boolean"}}`, `{"a":2,"c":true}`, "", `{"a":2,"c":true}`, false},
		{`{` + known + `}`, `{"a":2}`, "", `{"a":2}`, false},
		{closed, `{"a": "one", b}`, closed, "", true},
		{`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}`, `{"a":[2,2]}`, "", `{"a":[2,2]}`, false},
		{`{"type":"object","properties":{"a":{"type":"string","pattern":"^x$"}}}`, `{"a":"y"}`, "", `{"a":"y"}`, false},
		{`{"type":"object","properties":{"a":{"type":"string","enum":["x","y"]}},"required":["a"]}`, `{"a":"z"}`,
			`{"required":["a"],"properties":{"a":{"enum":["x","y"]}}}`, "", false},
		{`{"properties":{"a":{"type":["integer","null"]}},"required":["a","b"]}`, `{"a":null,"b":[1]}`, "",
			`{"a":null,"b":[1]}`, false},
		{`{"properties":{"a":{"type":"dict"},"b":{"type":"Number"}}}`, `{"b":{"x":1},"a":{"x":[1]}}`, "",
			`{"b":{"x":1},"a":{"x":[1]}}`, false},
		{`{` + known + `}`, `{}`, closed, "", false},
		{`{` + known + `}`, `{"b":1,"a":2}`, "", `{"b":1,"a":2}`, false},
		{`{` + known + `}`, `{"b":1}`, closed, "", false},
		{`{"properties":{"limit":{"type":"integer"},"query":{"type":"string"},"é":{"type":"boolean"}},"required":["query"]}`,
			`{"é":true,"query":"x","limit":5}`, "", `{"é":true,"query":"x","limit":5}`, false},
		{`{"properties":{"a":{"type":"integer"},"b":{"type":"number"},"c":{}}}`,
			`{"a":-9223372036854775808,"b":18446744073709551615,"c":1700000000000000000}`,
			"", `{"a":-9223372036854775808,"b":18446744073709551615,"c":1700000000000000000}`, false},
		{`{"properties":{"a":{"type":"string","nullable":true},"b":{"type":"string","default":null}}}`, `{"a":null,"b":null}`,
			"", `{"a":null,"b":null}`, false},
		{`{"properties":{"a":{"type":"array","enum":["x"]},"b":{"type":"integer","enum":["1"]},"c":{"type":[]}}}`,
			`{"a":["x"],"b":1,"c":1}`, "", `{"a":["x"],"b":1,"c":1}`, false},
		{`{"properties":{"a":{"type":["string","null"],"enum":["x",null]},"b":{"type":"integer","enum":[1,2]},` +
			`"c":{"enum":[true,"off"]}}}`, `{"a":null,"b":2,"c":"off"}`, "", `{"a":null,"b":2,"c":"off"}`, false},
		{`{"properties":{"a":{"type":"string","enum":["x",null]}}}`, `{"a":null}`, "", `{"a":null}`, false},
		{`{"properties":{"a":{"type":"integer"}},"required":["a","gone"]}`, `{"a":1}`, "", `{"a":1}`, false},
		{`{"type":"object","required":["gone"]}`, `{}`, "", `{}`, false},
		{`{"properties":{"a":{"type":"integer"},"a":{"type":"string"}}}`, `{"b":1}`, "", `{"b":1}`, false},
		{`{"properties":{"a":{"type":"integer"}},"minProperties":1}`, `{"b":1}`, "", `{"b":1}`, false},
		{`{"properties":{"a":{"type":"object","properties":{"b":{"type":"integer"}}}}}`, `{"a":{"c":[1]}}`, "",
			`{"a":{"c":[1]}}`, false},
		{`{"properties":` + numbered(grammar.MaxMembers) + `}`, `{"p127":1,"p0":2}`, "", `{"p127":1,"p0":2}`, false},
		{`{"properties":` + numbered(grammar.MaxMembers) + `}`, `{"q":1}`, `{"additionalProperties":false,"properties":` +
			numbered(grammar.MaxMembers) + `}`, "", false},
		{`{"properties":` + numbered(grammar.MaxMembers+1) + `}`, `{"q":1}`, "", `{"q":1}`, false},
		{`{"properties":{"a":{"description":"` + strings.Repeat("a", 256<<10) + `"}}}`, `{"q":1}`, "",
			`{"q":1}`, false},
		{`{"type":"string"}`, `{"q":1}`, "", `{"q":1}`, false},
		{`{"$ref":"#/definitions/in",` + defined + `}`, `{"c":1}`, "", `{"c":1}`, false},
		{`{"$ref":"#/definitions/in",` + defined + `}`, `{"c":1}`, `{"type":"object","required":["a"]}`, "", true},
		{`{"properties":{"a":{"$ref":"#/definitions/in"}},"required":["a"],` + defined + `}`, `{"a":{"a":3}}`, "",
			`{"a":{"a":3}}`, true},
		{`{"Type":"object","properties":{"a":{"type":"integer"}}}`, `5`, `{"type":"object"}`, "", true},
		{`{"type":["object","null"]}`, `null`, `{"type":"object"}`, "", true},
		{`true`, `5`, `{"type":"object"}`, "", true},
		{`true`, `Paris`, `{"type":"object"}`, "", false},
		{`{"type":"object","properties":{}}`, `{"c": [1]}`, "", `{}`, false},
		{`{"type":"object"}`, `{"c": [1]}`, "", `{"c": [1]}`, false},
		{"", `{"c": [1]}`, "", `{}`, true},
		{"", `Paris`, `{"type":"object"}`, "", false},
	} {
		f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: call + c.say + "<|call|>"})
		req := user("q")
		req.Tools = []chattemplate.Tool{{Name: "add", Parameters: json.RawMessage(c.parameters), Strict: c.strict}}
		g := f.must(t, req)
		if len(g.calls) != 1 || g.result.Finish != reasoning.FinishToolCalls {
			t.Fatalf("%+v: %+v", c, g)
		}
		if c.obeys != "" {
			obeys(t, c.obeys, g.text[reasoning.ToolCall])
		} else {
			g.want(t, reasoning.ToolCall, c.want)
		}
	}
	f := start(t, fake.Config{}, Config{})
	req := user("q")
	for _, schema := range []string{`{"properties":{"a":{"type":"array","uniqueItems":true}}}`, `{"type":"string"}`, `5`} {
		req.Tools = []chattemplate.Tool{{Name: "add", Parameters: json.RawMessage(schema), Strict: true}}
		var bad *generation.RequestError
		if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &bad) || bad.Field != "Tools" ||
			!strings.Contains(g.err.Error(), "add") {
			t.Errorf("%s, which cannot be held to, gives %v", schema, g.err)
		}
	}
}

func TestToolChoice(t *testing.T) {
	call := "<|channel|>commentary to=functions.add<|message|>{}<|call|>"
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("answer"), Say: think(thought, "42")}, fake.Reply{After: ask("call"), Say: call})
	other := chattemplate.Tool{Name: "other", Parameters: json.RawMessage(`{"type":"object"}`)}
	for _, c := range []struct {
		ask    string
		choice generation.ToolChoice
		name   string
		want   string
	}{
		{"answer", generation.ToolChoiceAuto, "", ""}, {"call", generation.ToolChoiceAuto, "", "add"},
		{"call", generation.ToolChoiceNone, "", ""},
		{"answer", generation.ToolChoiceRequired, "", "any"}, {"call", generation.ToolChoiceRequired, "", "add"},
		{"call", generation.ToolChoiceFunction, "other", "other"}, {"answer", generation.ToolChoiceFunction, "add", "add"},
	} {
		req := user(c.ask)
		req.Tools, req.ToolChoice, req.ToolName, req.MaxTokens = []chattemplate.Tool{adder(true), other}, c.choice,
			c.name, 400
		g := f.must(t, req)
		got := ""
		if len(g.calls) > 0 {
			got = g.calls[0].Name
		}
		if got != c.want && !(c.want == "any" && got != "") {
			t.Errorf("%s with %s %s: called %q, want %q", c.ask, c.choice, c.name, got, c.want)
		}
	}
}

func TestFormsOfText(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think(thought, "well, maybe")})
	for name, c := range map[string]struct {
		form  grammar.Source
		match string
	}{
		"regex":   {grammar.Regex(`[a-c]{3}-\d{2}`), `^[a-c]{3}-\d{2}$`},
		"choices": {grammar.Choices("yes", "no", "not sure"), `^(yes|no|not sure)$`},
		"object":  {grammar.AnyObject(), `^\{.*\}$`},
		"gbnf":    {grammar.GBNF(`root ::= "<" [0-9]+ ">"`), `^<\d+>$`},
	} {
		req := user("q")
		req.Form, req.MaxTokens = c.form, 2000
		g := f.must(t, req)
		if text := g.text[reasoning.Answer]; g.result.Finish == reasoning.FinishStop &&
			!regexp.MustCompile(c.match).MatchString(text) {
			t.Errorf("%s: %q", name, text)
		}
		if len(g.codes) > 0 {
			t.Errorf("%s: warnings %v", name, g.codes)
		}
	}
}

func TestFormsWithThinkTags(t *testing.T) {
	chatml := func(q string) string { return q + "<|im_end|>\n<|im_start|>assistant\n" }
	f := start(t, freeModel(), Config{},
		fake.Reply{After: chatml("open"), Say: "<think>hm {</think>\n\nBob<|im_end|>"},
		fake.Reply{After: chatml("stop"), Say: "<think>hm<|im_end|>"},
		fake.Reply{After: chatml("none"), Say: "Bob<|im_end|>"})
	for _, q := range []string{"open", "stop", "none"} {
		req := user(q)
		req.Form, req.Visibility, req.MaxTokens = grammar.JSONSchema([]byte(person)), reasoning.VisibilityFull, 1000
		g := f.must(t, req)
		obeys(t, person, g.text[reasoning.Answer])
		if q == "open" && g.text[reasoning.Reasoning] != "hm {" {
			t.Errorf("reasoning %q", g.text[reasoning.Reasoning])
		}
		if g.result.Finish != reasoning.FinishStop {
			t.Errorf("%s: %+v", q, g.result)
		}
	}
	req := user("none")
	req.Form, req.Effort = grammar.JSONSchema([]byte(person)), reasoning.EffortNone
	g := f.must(t, req)
	obeys(t, person, g.text[reasoning.Answer])
}

func TestStrategyJSON(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: finalTag +
		`{"reasoning": "two \ud83d\ude42 \"and\" two", "answer": "it is 4", "score": 0.5}<|return|>`})
	req := user("q")
	req.Strategy, req.Visibility, req.Score, req.MaxTokens = reasoning.StrategyJSON, reasoning.VisibilityFull, true, 400
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, `two 🙂 "and" two`)
	g.want(t, reasoning.Answer, "it is 4")
	if g.result.Score == nil || *g.result.Score != 0.5 || g.info.Strategy != reasoning.StrategyJSON || len(g.codes) > 0 {
		t.Errorf("%+v, warnings %v", g.result, g.codes)
	}

	req.Score, req.Form = false, grammar.JSONSchema([]byte(person))
	g = f.must(t, req)
	g.want(t, reasoning.Reasoning, `two 🙂 "and" two`)
	obeys(t, person, g.text[reasoning.Answer])
	if f.Stats().Violations != 0 {
		t.Error("violations")
	}
}

// TestScoresAreRead checks a score with more digits than the runner reads.
func TestScoresAreRead(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: finalTag +
		`{"reasoning": "two", "answer": "4", "score": 0.` + strings.Repeat("3", 200) + `}<|return|>`})
	req := user("q")
	req.Strategy, req.Visibility, req.Score, req.MaxTokens = reasoning.StrategyJSON, reasoning.VisibilityFull, true, 300
	g := f.must(t, req)
	if g.result.Score == nil || *g.result.Score < 0.3 || *g.result.Score > 0.4 || len(g.codes) > 0 ||
		g.result.Finish != reasoning.FinishStop {
		t.Errorf("%+v, warnings %v", g.result, g.codes)
	}
	g.want(t, reasoning.Reasoning, "two")
}

func TestStrategyJSONSummarizes(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("q"), Say: finalTag + `{"reasoning": "two and two", "answer": "it is 4"}<|return|>`},
		summaryReply(prompts.SummaryConciseV1, "I added."))
	req := user("q")
	req.Strategy, req.Visibility = reasoning.StrategyJSON, reasoning.VisibilitySummary
	g := f.must(t, req)
	g.want(t, reasoning.Summary, "I added.")
	g.want(t, reasoning.Answer, "it is 4")
	g.want(t, reasoning.Reasoning, "")
}

func TestBudgetInTheObject(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: finalTag +
		`{"reasoning": "on \ud83d\ude42 and` + strings.Repeat(" on and", 100) + `", "answer": "it is 4"}<|return|>`})
	for budget := 1; budget < 12; budget++ {
		req := user("q")
		req.Strategy, req.Visibility, req.Budget, req.MaxTokens = reasoning.StrategyJSON, reasoning.VisibilityFull,
			budget, 300
		req.Form = grammar.JSONSchema([]byte(person))
		g := f.must(t, req)
		if g.result.Detail != reasoning.DetailReasoningBudget || len(g.text[reasoning.Reasoning]) > 200 ||
			g.result.Finish != reasoning.FinishStop {
			t.Errorf("budget %d: %+v after %q", budget, g.result, g.text[reasoning.Reasoning])
		}
		obeys(t, person, g.text[reasoning.Answer])
	}
}

func TestStrategyTool(t *testing.T) {
	report := `{"reasoning":"two and two"}`
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("q"), Say: "<|channel|>commentary to=functions.report_reasoning <|constrain|>json<|message|>" +
			report + "<|call|>"},
		fake.Reply{Prompt: "functions.report_reasoning to=assistant", After: "{}<|end|>" + again,
			Say: finalTag + "it is 4<|return|>"},
		summaryReply(prompts.SummaryConciseV1, "I added."))
	for _, v := range []reasoning.Visibility{reasoning.VisibilityFull, reasoning.VisibilitySummary,
		reasoning.VisibilityNone} {
		req := user("q")
		req.Strategy, req.Visibility = reasoning.StrategyTool, v
		g := f.must(t, req)
		g.want(t, reasoning.Answer, "it is 4")
		want := map[reasoning.Visibility]string{reasoning.VisibilityFull: "two and two"}[v]
		g.want(t, reasoning.Reasoning, want)
		if (g.text[reasoning.Summary] == "I added.") != (v == reasoning.VisibilitySummary) {
			t.Errorf("%v: summary %q", v, g.text[reasoning.Summary])
		}
		if len(g.calls) != 0 || g.result.Finish != reasoning.FinishStop || len(g.codes) > 0 {
			t.Errorf("%v: %+v, calls %v, warnings %v", v, g.result, g.calls, g.codes)
		}
	}
}

// TestMarkersInAnAnswerAreText checks models that write the markers of reasoning and of calls inside an answer with a
// form.
func TestMarkersInAnAnswerAreText(t *testing.T) {
	schema := `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`
	chatml := "q<|im_end|>\n<|im_start|>assistant\n"
	for name, c := range map[string]struct {
		cfg  fake.Config
		text string
		ask  func(*generation.Request)
	}{
		"harmony": {fake.Config{}, "<<REASONING>>a<</REASONING>>b",
			func(r *generation.Request) { r.Visibility = reasoning.VisibilityFull }},
		"think": {freeModel(), "a< think>b<</REASONING>>",
			func(*generation.Request) {}},
		"think, effort": {fake.Config{Vocab: fake.Think(), ChatTemplate: fake.ThinkTemplate}, "<<REASONING>>",
			func(r *generation.Request) { r.Effort = reasoning.EffortNone }},
		"markers": {fake.Config{Vocab: fake.Think(), ChatTemplate: fake.ThinkTemplate}, "<<REASONING>>a<</REASONING>>b",
			func(r *generation.Request) {
				r.Strategy = reasoning.StrategyMarkers
				r.Visibility = reasoning.VisibilityFull
			}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := `{"name": "` + c.text + `"}`
			say, after := finalTag+answer+"<|return|>", ask("q")
			if c.cfg.Vocab != nil {
				say, after = answer+"<|im_end|>", chatml
			}
			if name == "think, effort" || name == "markers" {
				after += "<think>\n\n</think>\n\n"
			}
			if name == "markers" { // it must reason first
				say = "<<REASONING>>so<</REASONING>>" + say
			}
			f := start(t, c.cfg, Config{}, fake.Reply{After: after, Say: say})
			req := user("q")
			req.Form, req.MaxTokens = grammar.JSONSchema([]byte(schema)), 300
			c.ask(&req)
			g := f.must(t, req)
			g.want(t, reasoning.Answer, answer)
			if f.Stats().Violations != 0 || len(g.calls) > 0 {
				t.Errorf("%+v, calls %v, warnings %v", g.result, g.calls, g.codes)
			}
		})
	}
}

// TestReasoningEndsBeforeTheForm checks a vocabulary with tokens that both end the reasoning's marker and begin the
// answer.
func TestReasoningEndsBeforeTheForm(t *testing.T) {
	f := start(t, fake.Config{Vocab: fake.Think(), ChatTemplate: fake.ThinkTemplate}, Config{},
		fake.Reply{After: "q<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
			Say: "<<REASONING>>so<</REASONING>>\n" + `{"name":"x","age":3}<|im_end|>`})
	req := user("q")
	req.Form, req.Strategy, req.Visibility, req.MaxTokens = grammar.JSONSchema([]byte(person)), reasoning.StrategyMarkers,
		reasoning.VisibilityFull, 300
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, "so")
	obeys(t, person, g.text[reasoning.Answer])
	v := f.model.Vocab()
	text, free := hold.NewText(v), hold.NewText(v)
	text.EndsWith(reasoning.MarkerClose)
	text.Begin(true)
	for _, tok := range fake.Encode(v, "so<</REASONING") {
		text.Accept(tok)
	}
	for tok := range backend.Token(v.Len()) {
		p := v.Piece(tok)
		want := free.Allows(tok) && !(strings.HasPrefix(p, ">>") && strings.Trim(p[2:], "\n") != "")
		if text.Allows(tok) != want {
			t.Errorf("%q: allowed %t", p, !want)
		}
	}
}

func TestStrategyToolWithAForm(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("q"),
			Say: `<|channel|>commentary to=functions.report_reasoning <|constrain|>json<|message|>not {"reasoning"`},
		fake.Reply{Prompt: "functions.report_reasoning to=assistant", After: "{}<|end|>" + again,
			Say: finalTag + "Bob<|return|>"})
	for _, budget := range []int{0, 4} {
		req := user("q")
		req.Form, req.Strategy, req.Visibility = grammar.JSONSchema([]byte(person)), reasoning.StrategyTool,
			reasoning.VisibilityFull
		req.MaxTokens, req.Budget = 1500, budget
		g := f.must(t, req)
		if slices.Contains(g.codes, reader.CodeMalformedObject) || slices.Contains(g.codes, reader.CodeUnknownMember) {
			t.Errorf("the report broke its form: %v", g.codes)
		}
		if g.result.Finish == reasoning.FinishStop {
			obeys(t, person, g.text[reasoning.Answer])
		}
		if budget > 0 && (g.result.Detail != reasoning.DetailReasoningBudget || g.result.Finish != reasoning.FinishStop) {
			t.Errorf("%+v", g.result)
		}
	}
	think := start(t, fake.Config{Vocab: fake.Think(), ChatTemplate: fake.ThinkTemplate}, Config{})
	req := user("q")
	req.Form, req.Strategy = grammar.JSONSchema([]byte(person)), reasoning.StrategyTool
	var re *generation.RequestError
	if g := collect(t.Context(), think.Runner, req); !errors.As(g.err, &re) || re.Field != "Strategy" {
		t.Errorf("err = %v", g.err)
	}
}

func TestFallbackFromJSONIsAnEvent(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"),
		Say: finalTag + `<<REASONING>>two<</REASONING>>4<|return|>`})
	req := user("q")
	req.Strategy, req.Visibility, req.MaxTokens = reasoning.StrategyJSON, reasoning.VisibilityFull, 60
	// The form prevents this output, so the fallback is tested in the code that reads it.
	job := f.newJob(t.Context(), req, generation.Unobserved{})
	turn := job.newTurn(&generation.Turn{Request: job.req})
	if err := turn.prepare(); err != nil {
		t.Fatal(err)
	}
	tokens := fake.Encode(f.model.Vocab(), "<<REASONING>>two<</REASONING>>4")
	if err := f.sched.do(t.Context(), func() { // where runs are read
		for _, tok := range tokens {
			turn.model.Force(tok)
		}
		turn.output.finish()
	}); err != nil {
		t.Fatal(err)
	}
	events, _, _ := turn.events.next(nil, nil)
	switched := false
	for _, e := range events {
		switched = switched || e.Kind == reasoning.StrategySwitched && e.Info.Strategy == reasoning.StrategyMarkers &&
			e.Info.Model != ""
	}
	if !switched || turn.strategy != reasoning.StrategyMarkers {
		t.Errorf("no switch among %d events", len(events))
	}
}

func TestImpossibleForms(t *testing.T) {
	f := start(t, fake.Config{}, Config{})
	for name, form := range map[string]grammar.Source{
		"unsatisfiable": grammar.JSONSchema([]byte(`{"type":"integer","minimum":3,"maximum":2}`)),
		"unsupported":   grammar.JSONSchema([]byte(`{"$ref":"https://example.com/x"}`)),
		"no JSON":       grammar.JSONSchema([]byte(`{`)),
		"pattern":       grammar.Regex(`(`),
		"choices":       grammar.Choices(),
		"gbnf":          grammar.GBNF(`root ::= root "a"`),
	} {
		req := user("q")
		req.Form = form
		var re *generation.RequestError
		if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &re) || re.Field != "Form" || len(g.order) > 0 {
			t.Errorf("%s: %v after %v", name, g.err, g.order)
		}
	}
	req := user("q")
	tool := adder(true)
	tool.Parameters = json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`)
	req.Tools = []chattemplate.Tool{tool}
	var re *generation.RequestError
	if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &re) || re.Field != "Tools" ||
		!strings.Contains(g.err.Error(), "add") {
		t.Errorf("tools: %v", g.err)
	}
}

// TestWildModelsObeyForms checks that models that write at random, including harmony's tokens in any order, give an
// answer that matches its form, unless a limit ends the run.
func TestWildModelsObeyForms(t *testing.T) {
	forms := []struct {
		form   grammar.Source
		schema string
	}{
		{grammar.JSONSchema([]byte(person)), person},
		{grammar.JSONSchema([]byte(`{"type":"array","items":{"enum":["a","b",1,null]},"maxItems":3}`)),
			`{"type":"array","items":{"enum":["a","b",1,null]},"maxItems":3}`},
		{grammar.JSONSchema([]byte(`{"type":"boolean"}`)), `{"type":"boolean"}`},
	}
	runs := 120
	if testing.Short() {
		runs = 30
	}
	ended := 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 3))
		vocab := fake.Harmony()
		special := []string{"<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>", "<|call|>", "analysis",
			"final", "commentary", "{", "}", `"`, ","}
		script := func(tokens []backend.Token) backend.Token {
			r := rand.New(rand.NewPCG(seed, uint64(len(tokens))))
			if r.IntN(3) > 0 {
				text := special[r.IntN(len(special))]
				if t, ok := vocab.Special(text); ok {
					return t
				}
				return backend.Token(text[0])
			}
			return backend.Token(r.IntN(vocab.Len()))
		}
		f := start(t, fake.Config{Vocab: vocab, Script: script, ContextSize: 2048}, Config{})
		c := forms[rng.IntN(len(forms))]
		req := user("q")
		req.Form, req.MaxTokens = c.form, 700
		req.Budget = []int{0, 5, 50}[rng.IntN(3)]
		req.Effort = []reasoning.Effort{"", reasoning.EffortNone}[rng.IntN(2)]
		if rng.IntN(3) == 0 {
			req.Tools = []chattemplate.Tool{adder(true)}
		}
		req.Strategy = []reasoning.Strategy{"", "", reasoning.StrategyMarkers, reasoning.StrategyPosthoc}[rng.IntN(4)]
		req.Visibility = reasoning.Visibility(rng.IntN(3))
		g := f.must(t, req)
		switch {
		case len(g.calls) > 0 && g.result.Finish != reasoning.FinishLength:
			obeys(t, string(adder(true).Parameters), g.text[reasoning.ToolCall])
			ended++
		case g.result.Finish == reasoning.FinishStop:
			obeys(t, c.schema, g.text[reasoning.Answer])
			ended++
		case g.result.Finish != reasoning.FinishLength:
			t.Errorf("finish %v", g.result.Finish)
		}
		if f.Stats().Violations != 0 || slices.Contains(g.codes, generation.CodeFormViolated) || t.Failed() {
			t.Fatalf("seed %d: %+v, answer %q, calls %q, warnings %v", seed, g.result, g.text[reasoning.Answer],
				g.text[reasoning.ToolCall], g.codes)
		}
	}
	if ended < runs/3 {
		t.Errorf("only %d of %d runs came to an end", ended, runs)
	}
}
