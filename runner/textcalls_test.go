package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/testenv"
)

// styleMarks are the marks of a style.
func styleMarks(s *markup.CallStyle) []string {
	marks := []string{s.Open}
	for _, tokens := range [][]markup.CallToken{s.Head, s.Tail, s.Close, s.Param} {
		for _, t := range tokens {
			if t.Place == markup.NoPlace && len(t.Text) > 2 && strings.ContainsAny(t.Text[:1], "<[") &&
				!strings.ContainsAny(t.Text, "\"=`") {
				marks = append(marks, t.Text)
			}
		}
	}
	slices.Sort(marks)
	return slices.DeleteFunc(slices.Compact(marks), func(s string) bool { return s == "" })
}

// styleTemplate is a chat template whose model writes calls in a style. If the model thinks, the
// template names the mark that ends reasoning, without a switch for reasoning.
func styleTemplate(s *markup.CallStyle, thinks bool) string {
	places := map[markup.CallPlace]string{
		markup.NamePlace: "{{ c.function.name }}", markup.IDPlace: "{{ loop.index }}",
		markup.KeyPlace:   "{{ k }}",
		markup.ValuePlace: "{{ v if v is string else v|tojson }}",
		markup.KindPlace:  "{{ 'true' if v is string else 'false' }}",
	}
	write := func(tokens ...markup.CallToken) string {
		var b strings.Builder
		for _, t := range tokens {
			b.WriteString(`{{ '` + t.Space + `' }}`)
			if p := places[t.Place]; p != "" {
				b.WriteString(p)
			} else {
				b.WriteString(`{{ '` + t.Text + `' }}`)
			}
		}
		return b.String()
	}
	args := "{{ c.function.arguments|tojson }}"
	if s.Param != nil {
		args = "{% for k, v in c.function.arguments.items() %}" + write(s.Param...) + "{% endfor %}"
	}
	call := write(s.Head...) + args + write(s.Tail...)
	open, closing, between := write(markup.CallToken{Text: s.Open}), write(s.Close...), "{{ '"+s.Between+"' }}"
	if s.List != nil {
		open, closing, between = open+write(s.List[0]), write(s.List[2])+closing, write(s.List[1])
	} else if !s.Many {
		call, open, closing = open+call+closing, "", ""
	}
	source := ""
	if thinks {
		source = `{% set thoughts = '</think>' %}`
	}
	source += `{% if tools %}{{ tools|tojson }}{% endif %}{% for m in messages %}` +
		`{{ '<|im_start|>' + m.role + '\n' + m.content }}{% if m.tool_calls %}` +
		open + `{% for c in m.tool_calls %}{% if not loop.first %}` + between + `{% endif %}` + call +
		`{% endfor %}` + closing +
		`{% endif %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}`
	return source + `{% endif %}`
}

// styleVocab has bytes, pieces that run over the edges of marks, ChatML, and the marks of a style as tokens of a kind.
// If the kind is Normal, it has no tokens for the marks.
func styleVocab(t *testing.T, s *markup.CallStyle, kind backend.TokenKind, thinks bool) *backend.Vocab {
	t.Helper()
	c := backend.VocabConfig{BOS: backend.NoToken}
	seen := map[string]bool{}
	add := func(piece string, kind backend.TokenKind) {
		if !seen[piece] {
			seen[piece] = true
			c.Pieces, c.Kinds = append(c.Pieces, piece), append(c.Kinds, kind)
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}), backend.Normal)
	}
	// a word that is not a token in any vocabulary
	marks := slices.DeleteFunc(styleMarks(s), func(m string) bool { return m == "functools" })
	if kind != backend.Normal {
		for _, m := range marks {
			add(m, kind)
		}
	}
	if thinks {
		add("<think>", backend.UserDefined)
		if kind != backend.Normal {
			add("</think>", backend.UserDefined)
		}
	}
	for _, m := range append(marks, "</think>") {
		add(m+"\n{", backend.Normal)
		add(m+`{"`, backend.Normal)
		add("}"+m, backend.Normal)
		add(m[:len(m)-1], backend.Normal)
		add(m[1:]+"\n", backend.Normal)
		add(m+m, backend.Normal)
	}
	for _, p := range []string{`{"`, `":`, `": `, `"}`, "}}", `"name"`, `{"name": "`, "add", "other", `", "arguments": {`,
		`"a"`, `"b"`, "12", "\n", "\n\n", " the", "true", "yes", "name"} {
		add(p, backend.Normal)
	}
	add("<|im_start|>", backend.Control)
	add("<|im_end|>", backend.Control)
	c.EOS = backend.Token(len(c.Pieces) - 1)
	c.EOG = []backend.Token{c.EOS}
	v, err := backend.NewVocab(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// styled starts a runner for a style.
func styled(t *testing.T, s *markup.CallStyle, thinks bool, vocab *backend.Vocab, script fake.Script) fixture {
	t.Helper()
	f := start(t, fake.Config{Vocab: vocab, ChatTemplate: styleTemplate(s, thinks), Script: script, ContextSize: 4096},
		Config{})
	if got := readertest.FormatOf(f.family); got.Calls != s {
		t.Fatalf("style %v, want %s, from %q", got.Calls, s.Name, styleTemplate(s, thinks))
	}
	return f
}

// reply collects a run.
func reply(t *testing.T, f fixture, req generation.Request) generation.Reply {
	t.Helper()
	var c generation.Collector
	for e, err := range f.Generate(t.Context(), req, generation.Unobserved{}) {
		if err != nil {
			t.Error(err)
			break
		}
		c.Push(e)
	}
	return c.Reply()
}

func codes(r generation.Reply) (out []string) {
	for _, w := range r.Warnings {
		out = append(out, w.Code)
	}
	return out
}

func otherTool() chattemplate.Tool {
	return chattemplate.Tool{Name: "other", Parameters: json.RawMessage(`{"type":"object"}`)}
}

// stylesUnderTest are all styles that a model can be held to.
func stylesUnderTest() []*markup.CallStyle {
	return slices.DeleteFunc(slices.Clone(markup.CallStyles()), func(s *markup.CallStyle) bool {
		return s.Name == "llama-tag"
	})
}

// TestWildModelsObeyCallForms checks models of every style that write at random. If no limit ends the run, its calls
// and its answer match their forms. RUNNER_LONG=1 makes it long.
func TestWildModelsObeyCallForms(t *testing.T) {
	testenv.SkipRaced(t)
	runs := 8
	if os.Getenv("RUNNER_LONG") != "" {
		runs = 24
	}
	for _, s := range stylesUnderTest() {
		t.Run(s.Name, func(t *testing.T) {
			ended, calls := 0, 0
			for seed := range uint64(runs) {
				e, c := wildRun(t, s, seed)
				ended, calls = ended+e, calls+c
				if t.Failed() {
					return
				}
			}
			if ended < runs/4 || calls == 0 {
				t.Errorf("only %d of %d runs came to an end, with %d calls", ended, runs, calls)
			}
		})
	}
}

func wildRun(t *testing.T, s *markup.CallStyle, seed uint64) (ended, calls int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 17))
	kind := []backend.TokenKind{backend.Control, backend.UserDefined, backend.Normal}[rng.IntN(3)]
	thinks := rng.IntN(2) == 0
	vocab := styleVocab(t, s, kind, thinks)
	favourites := append(styleMarks(s), "</think>", "{", "}", `"`, ",", "1", "]", "<|im_end|>", `{"name": "`, "add", "\n")
	var likely []backend.Token
	for tok := range backend.Token(vocab.Len()) {
		if slices.Contains(favourites, vocab.Piece(tok)) || len(vocab.Piece(tok)) > 1 {
			likely = append(likely, tok)
		}
	}
	script := func(tokens []backend.Token) backend.Token {
		r := rand.New(rand.NewPCG(seed, uint64(len(tokens))))
		if r.IntN(4) > 0 {
			return likely[r.IntN(len(likely))]
		}
		return backend.Token(r.IntN(vocab.Len()))
	}
	f := styled(t, s, thinks, vocab, script)
	req := user("q")
	req.MaxTokens, req.Visibility = 900, reasoning.VisibilityFull
	req.Tools = []chattemplate.Tool{adder(true), otherTool()}
	req.SingleCall = rng.IntN(3) == 0
	req.ToolChoice = []generation.ToolChoice{generation.ToolChoiceAuto, generation.ToolChoiceRequired,
		generation.ToolChoiceFunction, generation.ToolChoiceNone}[rng.IntN(4)]
	req.ToolName = "add"
	req.Budget = []int{0, 5}[rng.IntN(2)]
	if rng.IntN(2) == 0 {
		req.Form = grammar.JSONSchema([]byte(person))
	}
	if rng.IntN(4) == 0 {
		req.Strategy = reasoning.StrategyTool
	} else if rng.IntN(4) == 0 {
		req.Strategy = reasoning.StrategyMarkers
	} else if !thinks {
		req.Strategy = reasoning.StrategyPosthoc
	}
	g := reply(t, f, req)
	if t.Failed() {
		t.Fatalf("seed %d, marks of kind %d, thinks %v: %s %s, single %v, form %v, answer %q, calls %+v", seed, kind, thinks,
			req.Strategy, req.ToolChoice, req.SingleCall, req.Form, g.Answer, g.Calls)
	}
	for i, c := range g.Calls {
		cut := i == len(g.Calls)-1 && g.Result.Finish == reasoning.FinishLength
		if c.Name == "add" && !cut {
			obeys(t, string(adder(true).Parameters), c.Arguments)
		}
		if c.Name != "add" && (c.Name != "other" || req.ToolChoice == generation.ToolChoiceFunction) {
			t.Errorf("call of %q", c.Name)
		}
		if !cut && !json.Valid([]byte(c.Arguments)) {
			t.Errorf("arguments %q", c.Arguments)
		}
	}
	must := req.ToolChoice == generation.ToolChoiceRequired || req.ToolChoice == generation.ToolChoiceFunction
	over := g.Result.Finish != reasoning.FinishLength
	switch {
	case req.SingleCall && len(g.Calls) > 1, req.ToolChoice == generation.ToolChoiceNone && len(g.Calls) > 0:
		t.Errorf("%d calls", len(g.Calls))
	case must && over && (g.Answer != "" || len(g.Calls) == 0):
		t.Errorf("%d calls, answer %q", len(g.Calls), g.Answer)
	case !req.Form.IsZero() && over && len(g.Calls) > 0 && g.Answer != "":
		t.Errorf("an answer beside calls: %q", g.Answer)
	case !req.Form.IsZero() && over && len(g.Calls) == 0:
		obeys(t, person, g.Answer)
	}
	if slices.Contains(codes(g), reader.CodeMalformedArguments) && over || f.Stats().Violations != 0 {
		t.Error("malformed")
	}
	if t.Failed() {
		t.Fatalf("seed %d, marks of kind %d, thinks %v: %s %s, single %v, form %v: %v, answer %q, reasoning %q, calls "+
			"%+v, warnings %v",
			seed, kind, thinks, req.Strategy, req.ToolChoice, req.SingleCall, req.Form, g.Result, g.Answer, g.Reasoning,
			g.Calls, codes(g))
	}
	if over {
		ended = 1
	}
	return ended, len(g.Calls)
}

// written returns a call as a model of a style writes it, after text.
func written(t *testing.T, f fixture, calls ...chattemplate.ToolCall) string {
	t.Helper()
	p, err := f.family.Render(chattemplate.Conversation{Tools: []chattemplate.Tool{adder(true), otherTool()},
		NoGenerationPrompt: true, Messages: []chattemplate.Message{
			{Role: chattemplate.User, Content: "q"}, {Role: chattemplate.Assistant, ToolCalls: calls}}})
	if err != nil {
		t.Fatal(err)
	}
	_, turn, _ := strings.Cut(p.Text, "<|im_start|>assistant\n")
	return strings.TrimSuffix(turn, "\n")
}

const chatmlAsk = "q<|im_end|>\n<|im_start|>assistant\n"

// TestCallsOfEveryStyle checks models that write calls in the style of their family. Correct calls are unchanged, and
// wrong ones are corrected.
func TestCallsOfEveryStyle(t *testing.T) {
	testenv.SkipRaced(t)
	right := chattemplate.ToolCall{ID: "call00001", Name: "add", Arguments: `{"a": 1, "b": 2}`}
	wrong := chattemplate.ToolCall{ID: "call00001", Name: "add", Arguments: `{"a": "one", "c": 2}`}
	for _, s := range stylesUnderTest() {
		for _, kind := range []backend.TokenKind{backend.Control, backend.UserDefined, backend.Normal} {
			vocab := styleVocab(t, s, kind, true)
			probe := styled(t, s, true, vocab, fake.Replies(vocab))
			for name, c := range map[string]struct {
				say string
				ask func(*generation.Request)
				two bool
			}{
				"right":             {written(t, probe, right), func(*generation.Request) {}, false},
				"right, after text": {"Look: " + written(t, probe, right), func(*generation.Request) {}, false},
				"wrong":             {written(t, probe, wrong), func(*generation.Request) {}, false},
				"two":               {written(t, probe, right, right), func(*generation.Request) {}, true},
				"two, but one":      {written(t, probe, right, right), func(r *generation.Request) { r.SingleCall = true }, false},
				"answer, required": {"Hello<|im_end|>",
					func(r *generation.Request) { r.ToolChoice = generation.ToolChoiceRequired }, false},
				"after thinking": {"<think>hm</think>\n\n" + written(t, probe, right),
					func(r *generation.Request) { r.ToolChoice, r.ToolName = generation.ToolChoiceFunction, "add" }, false},
				"no form, but call": {written(t, probe, right),
					func(r *generation.Request) { r.Form = grammar.JSONSchema([]byte(person)) },
					false},
			} {
				if kind == backend.Normal && name != "right" && s.Name != "hermes" {
					continue // pieces of the vocabulary cross marks that are spelled out
				}
				if s.Name == "llama" && (name == "right, after text" || name == "two") {
					continue // its calls are whole answers
				}
				f := styled(t, s, true, vocab, fake.Replies(vocab, fake.Reply{After: chatmlAsk, Say: c.say}))
				req := user("q")
				req.Tools, req.MaxTokens = []chattemplate.Tool{adder(true), otherTool()}, 600
				c.ask(&req)
				g := reply(t, f, req)
				want := 1
				if c.two {
					want = 2
				}
				for i, call := range g.Calls {
					if call.Name == "add" && (g.Result.Finish != reasoning.FinishLength || i < len(g.Calls)-1) {
						obeys(t, string(adder(true).Parameters), call.Arguments)
					}
				}
				if name == "wrong" || name == "answer, required" { // the model continues with noise
					if len(g.Calls) == 0 || slices.Contains(codes(g), reader.CodeMalformedToolCall) {
						t.Errorf("%s, marks of kind %d, %s: %d calls, answer %q, warnings %v", s.Name, kind, name, len(g.Calls),
							g.Answer, codes(g))
					}
					continue
				}
				if len(g.Calls) != want || len(codes(g)) > 0 || !sameJSON(g.Calls[0].Arguments, right.Arguments) {
					t.Errorf("%s, marks of kind %d, %s: %q became %+v, answer %q, warnings %v", s.Name, kind, name, c.say, g.Calls,
						g.Answer, codes(g))
				}
			}
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y map[string]any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

// TestArgumentsOneByOne checks the values of strict functions against their schemas in styles without JSON.
func TestArgumentsOneByOne(t *testing.T) {
	tool := chattemplate.Tool{Name: "add", Strict: true, Parameters: json.RawMessage(`{"type":"object","properties":{` +
		`"text":{"type":"string"},"unit":{"enum":["cm","m"],"type":"string"},` +
		`"list":{"type":"array","items":{"$ref":"#/$defs/n"},"maxItems":3}},` +
		`"required":["text","list"],"additionalProperties":false,"$defs":{"n":{"type":"integer"}}}`)}
	for _, name := range []string{"glm", "qwen-xml", "deepseek-dsml"} {
		s := readertest.CallStyle(name)
		vocab := styleVocab(t, s, backend.Normal, false)
		f := styled(t, s, false, vocab, fake.Replies(vocab))
		say := written(t, f, chattemplate.ToolCall{ID: "1", Name: "add",
			Arguments: `{"text": "5\n\"</x>", "unit": "m", "list": [1, 2]}`})
		for i, say := range []string{say, strings.ReplaceAll(say, "[1, 2]", "[1, true]"),
			strings.Replace(say, "m<", "km<", 1), strings.Replace(say, "m\n<", "km\n<", 1)} {
			f := styled(t, s, false, vocab, fake.Replies(vocab, fake.Reply{After: chatmlAsk, Say: say}))
			req := user("q")
			req.Tools, req.MaxTokens, req.SingleCall = []chattemplate.Tool{tool}, 400, true
			g := reply(t, f, req)
			if g.Result.Finish == reasoning.FinishLength && i > 0 {
				continue // noise
			}
			if len(g.Calls) != 1 || !strings.Contains(g.Calls[0].Arguments, `"5\n\"</x>"`) {
				t.Fatalf("%s: %q became %+v, %v", name, say, g.Calls, g.Result)
			}
			obeys(t, string(tool.Parameters), g.Calls[0].Arguments)
		}
		for _, bad := range []string{`{"text":{"type":"string","maxLength":3}}`, `{"text":{"type":"string","enum":[""]}}`,
			`{"a b":{}}`, `{"x":{"const":"</y>"}}`} {
			req := user("q")
			req.Tools = []chattemplate.Tool{{Name: "add", Strict: true,
				Parameters: json.RawMessage(`{"type":"object","properties":` + bad + `}`)}}
			var re *generation.RequestError
			if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &re) || re.Field != "Tools" ||
				!strings.Contains(g.err.Error(), "add") {
				t.Errorf("%s: %s: %v", name, bad, g.err)
			}
		}
	}
}

// TestCallsThatCannotBeHeld names what cannot be honoured.
func TestCallsThatCannotBeHeld(t *testing.T) {
	s := readertest.CallStyle("hermes")
	vocab := styleVocab(t, s, backend.Control, false)
	f := styled(t, s, false, vocab, fake.Replies(vocab))
	unknown := start(t, fake.Config{Vocab: vocab,
		ChatTemplate: `{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}`, Script: fake.Replies(vocab)}, Config{})
	tool := adder(true)
	tool.Name = "no good"
	for name, c := range map[string]struct {
		f     fixture
		ask   func(*generation.Request)
		field string
	}{
		"name": {f, func(r *generation.Request) { r.Tools = []chattemplate.Tool{tool} }, "Tools"},
		"schema": {f, func(r *generation.Request) { r.Tools[0].Parameters = json.RawMessage(`{"$ref":"#/x"}`) },
			"Tools"},
		"unknown":      {unknown, func(r *generation.Request) { r.ToolChoice = generation.ToolChoiceRequired }, "ToolChoice"},
		"unknown, one": {unknown, func(r *generation.Request) { r.SingleCall = true }, "SingleCall"},
		"unknown, report": {unknown, func(r *generation.Request) {
			r.Strategy, r.Form = reasoning.StrategyTool,
				grammar.AnyObject()
		},
			"Strategy"},
	} {
		req := user("q")
		req.Tools = []chattemplate.Tool{adder(true)}
		c.ask(&req)
		var re *generation.RequestError
		if g := collect(t.Context(), c.f.Runner, req); !errors.As(g.err, &re) || re.Field != c.field || re.Advice == "" {
			t.Errorf("%s: %v", name, g.err)
		}
	}
	req := user("q")
	req.Tools, req.MaxTokens = []chattemplate.Tool{adder(true)}, 5
	if g := collect(t.Context(), unknown.Runner, req); !slices.Contains(g.codes, generation.CodeStrictIgnored) {
		t.Errorf("warnings %v", g.codes)
	}
}

// TestStrategyToolOfEveryStyle checks calls of report_reasoning together with a form for the answer.
func TestStrategyToolOfEveryStyle(t *testing.T) {
	for _, s := range stylesUnderTest() {
		vocab := styleVocab(t, s, backend.Control, false)
		f := styled(t, s, false, vocab, fake.Replies(vocab))
		say := written(t, f, chattemplate.ToolCall{ID: "report", Name: reasoning.ReportReasoningName,
			Arguments: `{"reasoning": "two </x> two"}`})
		f = styled(t, s, false, vocab, fake.Replies(vocab, fake.Reply{After: chatmlAsk, Say: say},
			fake.Reply{Prompt: "report_reasoning", After: "{}<|im_end|>\n<|im_start|>assistant\n",
				Say: `{"name":"Bob","age":4}<|im_end|>`}))
		for _, form := range []grammar.Source{{}, grammar.JSONSchema([]byte(person))} {
			req := user("q")
			req.Strategy, req.Visibility, req.Form, req.MaxTokens = reasoning.StrategyTool, reasoning.VisibilityFull, form, 600
			g := reply(t, f, req)
			if g.Reasoning != "two </x> two" || g.Answer != `{"name":"Bob","age":4}` || len(codes(g)) > 0 || len(g.Calls) > 0 {
				t.Errorf("%s: reasoning %q, answer %q, calls %v, warnings %v", s.Name, g.Reasoning, g.Answer, g.Calls, codes(g))
			}
		}
	}
}
