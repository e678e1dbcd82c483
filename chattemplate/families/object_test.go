package families_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

var (
	decodedAnswer = &reader.JSONConfig{}
	rawAnswer     = &reader.JSONConfig{RawAnswer: true}
)

// objectCases says how answers are read where strategy json expects its object.
var objectCases = []struct {
	name, in string
	raw      bool
	format   markup.Format
	start    chattemplate.Start
	tools    []string
	special  []string
	want     string
	score    float64
}{
	{name: "usual", in: `{"reasoning": "Hm.", "answer": "Hi."}`, want: `reasoning "Hm." | answer "Hi."`},
	{name: "compact_with_score", in: `{"reasoning":"Hm.","answer":"Hi.","score":0.75}`,
		want: `reasoning "Hm." | answer "Hi."`, score: 0.75},
	{name: "score_between", in: `{"reasoning":"Hm.","score": 1e-1 ,"answer":"Hi."}`,
		want: `reasoning "Hm." | answer "Hi."`, score: 0.1},
	{name: "answer_first", in: `{"answer":"Hi.","reasoning":"Hm."}`, want: `answer "Hi." | reasoning "Hm."`},
	{name: "white_space", in: "\n {\n\t\"reasoning\" : \"Hm.\" ,\r\n \"answer\" : \"Hi.\" } \n",
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "block_of_code", in: "```json\n{\"reasoning\": \"Hm.\", \"answer\": \"Hi.\"}\n```\n",
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "block_of_code_on_a_line", in: "``` {\"answer\": \"`Hi`\"}```", want: "answer \"`Hi`\""},
	{name: "empty_reasoning", in: `{"reasoning":"","answer":"Hi."}`, want: `answer "Hi."`},
	{name: "null_reasoning", in: `{"reasoning": null, "answer":"Hi."}`, want: `answer "Hi."`},
	{name: "escapes", in: `{"reasoning":"\"\\\/\b\f\n\r\té\ud83d\ude00","answer":"\u0041"}`,
		want: `reasoning "\"\\/\b\f\n\r\té😀" | answer "A"`},
	{name: "lone_surrogates", in: `{"answer":"\ud83dx\ude00\ud83d\ud83d\ude00\ud83d"}`, want: `answer "�x��😀�"`},
	{name: "lone_surrogate_before_an_escape", in: `{"answer":"\ud83d\n\ud83d\q\ud83d\u12"}`,
		want: `answer "�\n�\\q�\\u12"`},
	{name: "invalid_escapes", in: `{"answer":"\q \u12x \u \'"}`, want: `answer "\\q \\u12x \\u \\'"`},
	{name: "raw_newline", in: "{\"answer\":\"a\nb\"}", want: `answer "a\nb"`},
	{name: "names_in_capitals_and_escaped", in: `{"Reasoning":"Hm.","\u0061nswer":"Hi."}`,
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "quotes_not_escaped", in: `{"reasoning": "She said "no", "never" and left.", "answer": "The "end"."}`,
		want: `reasoning "She said \"no\", \"never\" and left." | answer "The \"end\"."`},
	{name: "commas_missing_and_too_many", in: `{"reasoning": "Hm." "answer": "Hi.",,}`,
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "number_as_answer", in: `{"reasoning":"Hm.","answer": 42}`, want: `reasoning "Hm." | answer "42"`},
	{name: "object_as_answer", in: `{"reasoning":"Hm.","answer": {"a": ["}", "\"]", {}]} , "score": 2}`,
		want: `reasoning "Hm." | answer "{\"a\": [\"}\", \"\\\"]\", {}]}"`, score: 2},
	{name: "raw_string", raw: true, in: `{"reasoning":"Hm.","answer": "a\n\"\u00e9"}`,
		want: `reasoning "Hm." | answer "\"a\\n\\\"\\u00e9\""`},
	{name: "raw_number", raw: true, in: `{"reasoning":"Hm.","answer":-1.5e3}`, want: `reasoning "Hm." | answer "-1.5e3"`},
	{name: "raw_null", raw: true, in: `{"answer":null}`, want: `answer "null"`},
	{name: "raw_array", raw: true, in: `{"answer":[1 , [ 2 ]] }`, want: `answer "[1 , [ 2 ]]"`},
	{name: "list_as_reasoning", in: `{"reasoning":["a","b"],"answer":"Hi."}`,
		want: `!malformed_object | reasoning "[\"a\",\"b\"]" | answer "Hi."`},
	{name: "word_as_score", in: `{"answer":"Hi.","score":"high"}`,
		want: `answer "Hi." | !malformed_object | reasoning "\"high\""`},
	{name: "score_out_of_range", in: `{"answer":"Hi.","score":1e999}`,
		want: `answer "Hi." | !malformed_object | reasoning "1e999"`},
	{name: "other_member", in: `{"reasoning":"Hm.", "note" : {"a": 1}, "answer":"Hi."}`,
		want: `reasoning "Hm." | !unknown_member | reasoning "\"note\" : {\"a\": 1}" | answer "Hi."`},
	{name: "other_member_first", in: `{"step": "x\n", "answer":"Hi."}`,
		want: `!unknown_member | reasoning "\"step\": \"x\\n\"" | answer "Hi."`},
	{name: "member_twice", in: `{"answer":"Hi.","answer":"Ho."}`, want: `answer "Hi." | !malformed_object | answer "Ho."`},
	{name: "empty_value", in: `{"answer":,"reasoning":}`, want: ``},
	{name: "plain_text", in: "Hi there.", want: `!not_object | answer "Hi there."`},
	{name: "another_object", in: `{"name": "Bob", "age": 4}`,
		want: `!not_object | answer "{\"name\": \"Bob\", \"age\": 4}"`},
	{name: "no_object_at_all", in: ` {"a"; 1}`, want: `!not_object | answer " {\"a\"; 1}"`},
	{name: "code_that_is_no_object", in: "```go\nx := 1\n```", want: "!not_object | answer \"```go\\nx := 1\\n```\""},
	{name: "text_before_the_object", in: `So: {"answer":"Hi."}`, want: `!not_object | answer "So: {\"answer\":\"Hi.\"}"`},
	{name: "markers_instead", in: "\n<<REASONING>>\nHm.\n<</REASONING>>\nHi.",
		want: `>markers | reasoning "Hm." | !not_object | answer "Hi."`},
	{name: "markers_inside_are_text", in: `{"reasoning":"<<REASONING>>a<</REASONING>>","answer":"<think>"}`,
		want: `reasoning "<<REASONING>>a<</REASONING>>" | answer "<think>"`},
	{name: "text_after", in: `{"answer":"Hi."} Bye.`, want: `answer "Hi." | !text_after_object | answer "Bye."`},
	{name: "markers_after", in: `{"answer":"Hi."}<<REASONING>>Hm.<</REASONING>>Bye.`,
		want: `answer "Hi." | !text_after_object | >markers | reasoning "Hm." | answer "Bye."`},
	{name: "breaks_off", in: `{"answer": 4 apples}`, want: `answer "4" | !malformed_object | answer " apples}"`},
	{name: "breaks_off_at_a_bracket", in: `{"answer": ]}`, want: `!malformed_object | answer "]}"`},
	{name: "breaks_off_before_a_colon", in: `{"answer": 4, "x" 5}`,
		want: `answer "4" | !malformed_object | answer ", \"x\" 5}"`},
	{name: "over_inside_what_looked_like_a_name", in: "{\"answer\":\"a\"\"}x\"y \n<think>Hm.</think>", format: think,
		want: `answer "a\"" | !text_after_object | answer "x\"y \n" | reasoning "Hm." | >native`},
	{name: "cut_in_reasoning", in: `{"reasoning":"Hm. So`, want: `reasoning "Hm. So" | !unfinished_object`},
	{name: "cut_in_an_escape", in: `{"answer":"a\u00`, want: `answer "a\\u00" | !unfinished_object`},
	{name: "cut_in_a_pair", in: `{"answer":"a\ud83d`, want: `answer "a�" | !unfinished_object`},
	{name: "cut_after_a_quote", in: `{"reasoning":"Hm.", "ans`, want: `reasoning "Hm." | !unfinished_object`},
	{name: "cut_in_another_name", in: `{"reasoning":"Hm.", "note`,
		want: `reasoning "Hm." | !unknown_member | reasoning "\"note" | !unfinished_object`},
	{name: "cut_in_a_raw_answer", raw: true, in: `{"answer":{"a":[`, want: `answer "{\"a\":[" | !unfinished_object`},
	{name: "cut_in_a_score", in: `{"answer":"Hi.","score":0.`, want: `answer "Hi." | !unfinished_object`},
	{name: "cut_at_the_beginning", in: `{"reaso`, want: `!unfinished_object`},
	{name: "cut_in_another_object", in: `{"name`, want: `!not_object | answer "{\"name"`},
	{name: "after_native_reasoning", format: think,
		in:   "<think>\nWell.\n</think>\n\n{\"reasoning\":\"Hm.\",\"answer\":\"Hi.\"}",
		want: `reasoning "Well." | reasoning "Hm." | answer "Hi."`},
	{name: "only_native_reasoning", format: think, start: chattemplate.StartReasoning,
		in:   "Well.</think>{\"reasoning\":\"\",\"answer\":\"Hi.\"}",
		want: `reasoning "Well." | answer "Hi." | >native`},
	{name: "native_reasoning_instead", format: think, in: "<think>Well.</think>Hi.",
		want: `reasoning "Well." | !not_object | answer "Hi." | >native`},
	{name: "reasoning_skipped", format: think, start: chattemplate.StartAnswer, in: "\n\n{\"answer\":\"Hi.\"}",
		want: `answer "Hi."`},
	{name: "reasoning_skipped_and_closed_again", format: think, start: chattemplate.StartAnswer,
		in: "</think>\n{\"answer\":\"Hi.\"}", want: `answer "Hi."`},
	{name: "in_response_tags", format: granite, in: "<think>Well.</think><response>{\"answer\":\"Hi.\"}</response>",
		want: `reasoning "Well." | answer "Hi." | !text_after_object | >native`},
	{name: "call_first", tools: []string{"f"},
		in:   "<tool_call>{\"name\":\"f\"}</tool_call>\n{\"reasoning\":\"Hm.\",\"answer\":\"Hi.\"}",
		want: `call f "{}" | reasoning "Hm." | answer "Hi."`},
	{name: "call_after", tools: []string{"f"}, in: "{\"reasoning\":\"Hm.\"}\n<tool_call>{\"name\":\"f\"}</tool_call>",
		want: `reasoning "Hm." | !text_after_object | call f "{}"`},
	{name: "bare_call", tools: []string{"f"}, special: []string{"<|python_tag|>"}, in: `{"name":"f","parameters":{"a":1}}`,
		want: `call f "{\"a\":1}"`},
}

// allShow is readertest.Show with the changes of strategy, as ">" and the new strategy.
func allShow(events []reasoning.Event) string {
	var parts []string
	from := 0
	for i, e := range events {
		if e.Kind == reasoning.StrategySwitched {
			parts = append(parts, readertest.Show(events[from:i]), ">"+string(e.Info.Strategy))
			from = i + 1
		}
	}
	parts = append(parts, readertest.Show(events[from:]))
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " | ")
}

func TestObject(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	cuts := map[string]func(string) []string{"words": readertest.ByWords, "bytes": readertest.ByBytes,
		"random": readertest.Random(r), "whole": readertest.Whole}
	for _, c := range objectCases {
		t.Run(c.name, func(t *testing.T) {
			for name, cut := range cuts {
				x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
				cfg := readertest.Config{Format: c.format, Config: reader.Config{Start: c.start, Tools: c.tools, Markers: true,
					JSON: decodedAnswer}}
				if c.raw {
					cfg.JSON = rawAnswer
				}
				tokens := append(encodeMarks(x, c.in, c.special, cut), 0)
				cfg.Vocab = x.Vocab(t)
				var rec readertest.Recorder
				cfg.Emit = rec.Emit
				s, err := readertest.NewReader(cfg)
				if err != nil {
					t.Fatal(err)
				}
				for _, tok := range tokens {
					s.Push(tok)
				}
				s.Finish()
				readertest.CheckNesting(t, rec.Events)
				if got := allShow(rec.Events); got != c.want {
					t.Errorf("cut by %s:\n got %s\nwant %s", name, got, c.want)
				}
				if score, ok := s.Score(); score != c.score || ok != (c.score != 0) {
					t.Errorf("score %g, %v; want %g", score, ok, c.score)
				}
			}
		})
	}
}

// TestObjectInHarmony reads the object in final messages. Messages on other channels are read as usual.
func TestObjectInHarmony(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`<|channel|>analysis<|message|>{"answer":1}<|end|><|start|>assistant<|channel|>final<|message|>{"reasoning":"Hm.",` +
			`"answer":"Hi."}<|return|>`,
			`reasoning "{\"answer\":1}" | reasoning "Hm." | answer "Hi."`},
		{`<|channel|>commentary<|message|>{"answer":"P"}<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>`,
			`preamble "P" | !not_object | answer "Hi."`},
		{`<|channel|>commentary<|message|>{"reasoning":"Hm.","answer":"P"}<|end|>` +
			`<|start|>assistant<|channel|>final<|message|>{"answer":"Hi."}<|return|>`,
			`reasoning "Hm." | preamble "P" | answer "Hi."`},
		{`<|channel|>commentary<|message|>Look: {1}<|end|>` +
			`<|start|>assistant<|channel|>final<|message|>{"answer":"Hi."}<|return|>`,
			`preamble "Look: {1}" | answer "Hi."`},
		{`<|channel|>final<|message|>{"reasoning":"Hm."<|constrain|>,"answer":"Hi."}<|end|>` +
			`<|start|>assistant<|channel|>final<|message|>{"answer":"Ho."}<|return|>`,
			`!stray_control | reasoning "Hm." | answer "Hi." | answer "Ho."`},
		{`<|channel|>final<|message|>{"reasoning":"Hm`, `reasoning "Hm" | !unfinished_object`},
		{`{"reasoning":"Hm.","answer":"Hi."}<|return|>`, `!bare_body | reasoning "Hm." | answer "Hi."`},
	} {
		for _, cut := range []func(string) []string{readertest.ByWords, readertest.ByBytes, readertest.Whole} {
			x := readertest.HarmonyLexicon()
			tokens := x.Encode(c.in, cut)
			got := allShow(readertest.Read(t, readertest.Config{Format: readertest.HarmonyFormat,
				Config: reader.Config{Vocab: x.Vocab(t), JSON: decodedAnswer}},
				tokens))
			if got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.in, got, c.want)
			}
		}
	}
}

// TestReport reads calls of report_reasoning in every form that readers know.
func TestReport(t *testing.T) {
	const call = `{"name": "report_reasoning", "arguments": {"reasoning": "Hm.\n", "score": 0.5}}`
	python := []string{"<|python_tag|>"}
	for _, c := range []struct {
		name, in, want string
		format         markup.Format
		tools, special []string
	}{
		{name: "hermes", in: "<tool_call>\n" + call + "\n</tool_call>\n", want: `reasoning "Hm.\n"`},
		{name: "and_an_answer", in: "<tool_call>" + call + "</tool_call>\n\nHi.", want: `reasoning "Hm.\n" | answer "Hi."`},
		{name: "and_another_call", tools: []string{"f"}, in: "<tool_call>" + call +
			"</tool_call>\n<tool_call>{\"name\":\"f\"}</tool_call>",
			want: `reasoning "Hm.\n" | call f "{}"`},
		{name: "arguments_first",
			in:   `<tool_call>{"arguments": {"reasoning": "Hm."}, "name": "report_reasoning"}</tool_call>`,
			want: `reasoning "Hm."`},
		{name: "arguments_quoted",
			in:   `<tool_call>{"name":"report_reasoning","arguments":"{\"reasoning\":\"Hm.\"}"}</tool_call>`,
			want: `reasoning "Hm."`},
		{name: "no_object", in: `<tool_call>{"name":"report_reasoning","arguments":"Hm."}</tool_call>`,
			want: `!malformed_object | reasoning "Hm."`},
		{name: "other_member", in: `<tool_call>{"name":"report_reasoning","arguments":{"answer":"Hm."}}</tool_call>`,
			want: `!unknown_member | reasoning "\"answer\":\"Hm.\""`},
		{name: "unclosed", in: `<tool_call>{"name":"report_reasoning","arguments":{"reasoning":"Hm.`,
			want: `reasoning "Hm." | !unfinished_object`},
		{name: "brace_missing", in: `<tool_call>{"name":"report_reasoning","arguments":{"reasoning":"Hm."}</tool_call>Hi.`,
			want: `reasoning "Hm." | !malformed_tool_call | answer "Hi."`},
		{name: "text_in_the_call",
			in:   `<tool_call>{"name":"report_reasoning","arguments":{"reasoning":"Hm."}, oops}</tool_call>`,
			want: `reasoning "Hm." | !malformed_tool_call | answer ", oops}"`},
		{name: "mistral", special: []string{"[TOOL_CALLS]"}, tools: []string{"f"},
			in:   `[TOOL_CALLS][{"name":"report_reasoning","arguments":{"reasoning":"Hm."}}, {"name":"f","arguments":{}}]`,
			want: `reasoning "Hm." | call f "{}"`},
		{name: "mistral_in_turn", special: []string{"[TOOL_CALLS]"}, tools: []string{"f"},
			in:   `[TOOL_CALLS][{"name":"f","arguments":{}}, {"name":"report_reasoning","arguments":{"reasoning":"Hm."}}]`,
			want: `call f "{}" | reasoning "Hm."`},
		{name: "mistral_newer", special: []string{"[TOOL_CALLS]", "[ARGS]"},
			in: `[TOOL_CALLS]report_reasoning[ARGS]{"reasoning":"Hm."}`, want: `reasoning "Hm."`},
		{name: "llama", special: python, in: `<|python_tag|>{"name":"report_reasoning","parameters":{"reasoning":"Hm."}}`,
			want: `reasoning "Hm."`},
		{name: "llama_bare", special: python, in: `{"name":"report_reasoning","parameters":{"reasoning":"Hm."}}`,
			want: `reasoning "Hm."`},
		{name: "another_function", tools: []string{"f"},
			in:   `<tool_call>{"name":"report","arguments":{"reasoning":"Hm."}}</tool_call>`,
			want: `!unknown_function | call report "{\"reasoning\":\"Hm.\"}"`},
		{name: "markers_instead", in: `<<REASONING>>Hm.<</REASONING>>Hi.`, want: `>markers | reasoning "Hm." | answer "Hi."`},
		{name: "native_instead", format: think, in: `<think>Hm.</think>Hi.`,
			want: `reasoning "Hm." | answer "Hi." | >native`},
		{name: "harmony", format: readertest.HarmonyFormat,
			in: `<|channel|>commentary to=functions.report_reasoning <|constrain|>json<|message|>{"reasoning":"Hm.\u0021"}` +
				`<|call|>`,
			want: `reasoning "Hm.!"`},
		{name: "harmony_plain_text", format: readertest.HarmonyFormat,
			in:   `<|channel|>analysis to=report_reasoning<|message|>Hm.<|call|>`,
			want: `!malformed_object | reasoning "Hm."`},
		{name: "harmony_text_after", format: readertest.HarmonyFormat,
			in:   `<|channel|>commentary to=functions.report_reasoning<|message|>{"reasoning":"Hm."} So.<|call|>`,
			want: `reasoning "Hm." | !malformed_object | reasoning "So."`},
		{name: "harmony_then_final", format: readertest.HarmonyFormat,
			in: `<|channel|>commentary to=functions.report_reasoning<|message|>{"reasoning":"Hm."}<|end|>` +
				`<|start|>assistant<|channel|>final<|message|>Hi.<|return|>`,
			want: `reasoning "Hm." | answer "Hi."`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 7))
			for name, cut := range map[string]func(string) []string{"words": readertest.ByWords, "bytes": readertest.ByBytes,
				"random": readertest.Random(r),
				"whole":  readertest.Whole} {
				x := readertest.HarmonyLexicon()
				tokens := x.Encode(c.in, cut)
				if c.format != readertest.HarmonyFormat {
					x = readertest.NewLexicon([]string{"<eos>"}, "<eos>")
					tokens = append(encodeMarks(x, c.in, c.special, cut), 0)
				}
				cfg := readertest.Config{Format: c.format, Config: reader.Config{Vocab: x.Vocab(t), Tools: c.tools, Report: true,
					Markers: true}}
				if got := allShow(readertest.Read(t, cfg, tokens)); got != c.want {
					t.Errorf("cut by %s:\n got %s\nwant %s", name, got, c.want)
				}
			}
		})
	}
}

// TestReportStreams checks that the reasoning in a call is sent as it is written, not when the call ends.
func TestReportStreams(t *testing.T) {
	for _, in := range []string{
		`<tool_call>{"name": "report_reasoning", "arguments": {"reasoning": "Hm.`,
		`[TOOL_CALLS][{"name": "report_reasoning", "arguments": {"reasoning": "Hm.`,
		`{"name":"report_reasoning","parameters":{"reasoning":"Hm.`,
	} {
		x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
		tokens := encodeMarks(x, in, []string{"[TOOL_CALLS]", "<|python_tag|>"}, readertest.ByBytes)
		var got readertest.Recorder
		s, err := readertest.NewReader(readertest.Config{Config: reader.Config{Vocab: x.Vocab(t), Emit: got.Emit,
			Report: true}})
		if err != nil {
			t.Fatal(err)
		}
		for _, tok := range tokens {
			s.Push(tok)
		}
		if readertest.Texts(got.Events)[reasoning.Reasoning] != "Hm." {
			t.Errorf("%s: %v", in, got.Events)
		}
		if st := s.State(); st.Segment != reasoning.Reasoning || !st.InObject {
			t.Errorf("%s: wrong state %+v", in, st)
		}
		if text, ok := s.CloseReasoning(); text != `"}` || !ok {
			t.Errorf("%s: the text that ends the reasoning is %q, %v", in, text, ok)
		}
	}
}

// TestObjectState checks the state, and whether the reasoning can be closed, after each byte of an object.
func TestObjectState(t *testing.T) {
	const in = "{\"reasoning\": \"a\\n\\u00e9é\", \"answer\": \"b\" , \"score\": 1}\nc"
	const want = "hhhhhhhhhhhhhhhrrrrrrrrrrrrhhhhhhhhhhhhhaahhhhhhhhhhhhhhooa"
	const closes = "...............xx.x.....x.x................................"
	x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
	tokens := x.Encode(in, readertest.ByBytes)
	s, err := readertest.NewReader(readertest.Config{Config: reader.Config{Vocab: x.Vocab(t),
		Emit: func(reasoning.Event) {}, JSON: decodedAnswer}})
	if err != nil {
		t.Fatal(err)
	}
	var got, closing strings.Builder
	note := func() {
		st := s.State()
		switch {
		case st.Segment == reasoning.Header && !st.InObject:
			got.WriteByte('o')
		case st.Segment == reasoning.Header:
			got.WriteByte('h')
		default:
			got.WriteByte(st.Segment.String()[0])
		}
		if text, ok := s.CloseReasoning(); ok && text == `", "answer": "` {
			closing.WriteByte('x')
		} else {
			closing.WriteByte('.')
		}
	}
	for _, tok := range tokens {
		note()
		s.Push(tok)
	}
	note()
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
	if closing.String() != closes {
		t.Errorf("got  %s\nwant %s", closing.String(), closes)
	}
}

// TestReported checks that State().Reported is set from the end of a call of report_reasoning to the next segment.
func TestReported(t *testing.T) {
	const report, final = `<|channel|>commentary to=functions.report_reasoning<|message|>{"reasoning":"a"}<|call|>`,
		`<|start|>assistant<|channel|>final<|message|>b`
	x := readertest.HarmonyLexicon()
	one, two := x.Encode(report, readertest.ByWords), x.Encode(final, readertest.ByWords)
	s, err := readertest.NewReader(readertest.Config{Format: readertest.HarmonyFormat,
		Config: reader.Config{Vocab: x.Vocab(t), Emit: func(reasoning.Event) {}, Report: true}})
	if err != nil {
		t.Fatal(err)
	}
	for i, tok := range one {
		if s.State().Reported {
			t.Fatalf("State().Reported is set before token %d of the call", i)
		}
		s.Push(tok)
	}
	if st := s.State(); !st.Reported || !st.Ended || st.InObject {
		t.Errorf("after the call: %+v", st)
	}
	for _, tok := range two {
		if !s.State().Reported {
			t.Error("State().Reported is not set before the answer")
		}
		s.Push(tok)
	}
	if s.State().Reported {
		t.Error("State().Reported is set in the answer")
	}
}

// TestPrompts checks that the forms which models are told to write can be read.
func TestPrompts(t *testing.T) {
	for _, prompt := range []string{prompts.JSONV1, prompts.JSONSchemaV1} {
		form := prompt[strings.IndexByte(prompt, '{') : strings.IndexByte(prompt, '}')+1]
		got, _ := readObject(t, readertest.Config{Config: reader.Config{JSON: decodedAnswer}}, form, readertest.ByWords)
		if got.Reasoning != "..." || got.Answer != "..." {
			t.Errorf("%s: %+v", form, got)
		}
	}
	var schema struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal([]byte(prompts.ReportParametersV1), &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema.Required) != 1 || len(schema.Properties) != 1 || schema.Properties[schema.Required[0]] == nil {
		t.Errorf("the parameters do not have one required property: %+v", schema)
	}
	if !strings.Contains(prompts.ReportV1, reasoning.ReportReasoningName) {
		t.Error("the instruction does not name " + reasoning.ReportReasoningName)
	}
	call := `<tool_call>{"name":"` + reasoning.ReportReasoningName + `","arguments":{"` + schema.Required[0] +
		`":"Hm."}}</tool_call>`
	cfg := readertest.Config{Config: reader.Config{Report: true}}
	if got, _ := readObject(t, cfg, call, readertest.ByWords); got.Reasoning != "Hm." {
		t.Errorf("the call is read as %+v", got)
	}
}
