package families_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/generation"
)

func thinkTags(open, close string) markup.Format {
	return markup.Format{Open: open, Close: close, CanSkip: true}
}

var (
	think   = thinkTags("<think>", "</think>")
	granite = markup.Format{
		Open: "<think>", Close: "</think>", AnswerOpen: "<response>",
		AnswerClose: "</response>",
	}
)

// tagCases says how output is read in which tags and marks stand in the text, as tokens or spelled out.
var tagCases = []struct {
	name, in string
	format   markup.Format
	start    chattemplate.Start
	tools    []string
	markers  bool
	want     string
	// special lists the marks that are tokens. Cases without it run with the tags as tokens and with the tags as text.
	special []string
}{
	{name: "tagged", format: think, in: "<think>\nHm.\n</think>\n\nHi.", want: `reasoning "Hm." | answer "Hi."`},
	{name: "no_tags", format: think, in: "Hi < there.", want: `answer "Hi < there."`},
	{name: "plain_keeps_everything", in: "\n<think>Hm.</think>\nHi.", want: `answer "\n<think>Hm.</think>\nHi."`},
	{name: "opened_in_prompt", format: think, start: chattemplate.StartReasoning, in: "Hm.\n</think>\n\nHi.",
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "opened_in_prompt_and_again", format: think, start: chattemplate.StartReasoning, in: "<think>\nHm.</think>Hi.",
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "skipped_in_prompt", format: think, start: chattemplate.StartAnswer, in: "\n\nHi.", want: `answer "Hi."`},
	{name: "skipped_in_prompt_but_opened", format: think, start: chattemplate.StartAnswer, in: "<think>Hm.</think>Hi.",
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "empty_reasoning", format: think, in: "<think>\n\n</think>\n\nHi.", want: `answer "Hi."`},
	{name: "close_without_open", format: think, in: "Hm.</think>Hi.", want: `!stray_tag | answer "Hm.Hi."`},
	{name: "close_at_the_beginning", format: think, in: "</think>\n\nHi.", want: `answer "Hi."`},
	{name: "close_missing", format: think, start: chattemplate.StartReasoning, in: "Hm. So",
		want: `reasoning "Hm. So" | !reasoning_unclosed`},
	{name: "close_cut_short", format: think, in: "<think>Hm.\n</thi",
		want: `reasoning "Hm.\n</thi" | !reasoning_unclosed`},
	{name: "tags_talked_about", format: think, in: "<think>Use <think> here?</think>Write <think> and </think>.",
		want: `reasoning "Use <think> here?" | answer "Write <think> and </think>."`, special: []string{"none"}},
	{name: "tags_as_tokens_always_count", format: think, in: "<think>A</think>B<think>C</think>D",
		want: `reasoning "A" | answer "B" | reasoning "C" | answer "D"`, special: []string{"<think>", "</think>"}},
	{name: "prefix_of_a_tag", format: think, in: "<think>a < b </ c <</think>< d",
		want: `reasoning "a < b </ c <" | answer "< d"`},
	{name: "brackets", format: thinkTags("[THINK]", "[/THINK]"), in: "[THINK]a[0] [/T.[/THINK]b[1]",
		want: `reasoning "a[0] [/T." | answer "b[1]"`},
	{name: "gemma", format: thinkTags("<|channel>thought", "<channel|>"), in: "<|channel>thought\nHm.\n<channel|>Hi.",
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "granite", format: granite, in: "<think>Hm.</think>\n<response>\nHi.</response>\n",
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "granite_talks_about_response", format: granite, in: "Write <response>x</response>.",
		want: `answer "Write <response>x</response>."`},
	{name: "markers", format: markup.Markers, in: "Sure.\n<<REASONING>>\nHm.\n<</REASONING>>\nHi.",
		want: `answer "Sure.\n" | reasoning "Hm." | answer "Hi."`},
	{name: "markers_in_a_plain_family", markers: true, in: "<<REASONING>>Hm.<</REASONING>>\nHi << there.",
		want: `reasoning "Hm." | answer "Hi << there."`},
	{name: "markers_again", markers: true,
		in:   "<<REASONING>>Hm.<</REASONING>>\nHi. <<REASONING>>Or?<</REASONING>>\nHo.",
		want: `reasoning "Hm." | answer "Hi. " | reasoning "Or?" | answer "Ho."`},
	{name: "markers_nested", markers: true,
		in:   "<<REASONING>>a <<REASONING>>b<</REASONING>> c<</REASONING>>Hi.",
		want: `reasoning "a <<REASONING>>b<</REASONING>> c" | answer "Hi."`},
	{name: "markers_unclosed", markers: true, in: "<<REASONING>>a <<REASONING>>b<</REASONING>>Hi.",
		want: `reasoning "a <<REASONING>>b<</REASONING>>Hi." | !reasoning_unclosed`},
	{name: "markers_closed_twice", markers: true, in: "<<REASONING>>a<</REASONING>>Hi. <</REASONING>>Ho.",
		want: `reasoning "a" | !stray_tag | answer "Hi. Ho."`},
	{name: "markers_between_calls", markers: true, tools: []string{"f"},
		in: "<<REASONING>>a<</REASONING>><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n" +
			"So <<REASONING>>b<</REASONING>><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
		want: `reasoning "a" | call f "{}" | answer "So " | reasoning "b" | call f "{}"`},
	{name: "markers_in_a_tag_family", format: think, start: chattemplate.StartAnswer, markers: true,
		in:   "<<REASONING>>Hm.<</REASONING>>Hi.",
		want: `reasoning "Hm." | answer "Hi."`},
	{name: "many_newlines", format: think, in: "<think>a\n\n\nb\n\n\n\n\n\n\n\n\n\n</think>c\n",
		want: `reasoning "a\n\n\nb\n\n" | answer "c\n"`},
	{name: "hermes_call", tools: []string{"f"},
		in:   "Look:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
		want: `answer "Look:\n" | call f "{\"a\": 1}"`},
	{name: "hermes_calls_after_reasoning", format: think, tools: []string{"f", "g"},
		in: "<think>Hm.</think>\n\n<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_call>\n<tool_call>" +
			"{\"name\":\"g\"}</tool_call>\n",
		want: `reasoning "Hm." | call f "{}" | call g "{}"`},
	{name: "hermes_call_unclosed", tools: []string{"f"}, in: `<tool_call>{"name":"f","arguments":{}}`,
		want: `call f "{}"`},
	{name: "hermes_call_malformed", tools: []string{"f"}, in: `<tool_call>{"name":"f",</tool_call> Sorry.`,
		want: `!malformed_tool_call | answer "<tool_call>{\"name\":\"f\",</tool_call> Sorry."`},
	{name: "hermes_call_malformed_with_tokens", tools: []string{"f"}, special: []string{"<tool_call>", "</tool_call>"},
		in:   `<tool_call>{"name":"f",</tool_call> Sorry.`,
		want: `!malformed_tool_call | answer "{\"name\":\"f\",</tool_call> Sorry."`},
	{name: "hermes_call_unknown", tools: []string{"f"}, in: `<tool_call>{"name":"g","arguments":"{\"a\":1}"}</tool_call>`,
		want: `!unknown_function | call g "{\"a\":1}"`},
	{name: "call_without_tools_is_text", in: `<tool_call>{"name":"f"}</tool_call>`,
		want: `answer "<tool_call>{\"name\":\"f\"}</tool_call>"`},
	{name: "mistral_calls", tools: []string{"f", "g"}, special: []string{"[TOOL_CALLS]"},
		in:   `[TOOL_CALLS][{"name":"f","arguments":{"a":1}},{"name":"g","arguments":{}}]`,
		want: `call f "{\"a\":1}" | call g "{}"`},
	{name: "mistral_newer_call", tools: []string{"f"}, special: []string{"[TOOL_CALLS]", "[ARGS]"},
		in: `[TOOL_CALLS]f[ARGS]{"a":1}`, want: `call f "{\"a\":1}"`},
	{name: "llama_call", tools: []string{"f"}, special: []string{"<|python_tag|>"},
		in: `<|python_tag|>{"name":"f","parameters":{"a":1}}`, want: `call f "{\"a\":1}"`},
	{name: "llama_bare_call", tools: []string{"f"}, special: []string{"<|python_tag|>"},
		in: `{"name":"f","parameters":{"a":1}}`, want: `call f "{\"a\":1}"`},
	{name: "llama_bare_json_is_text", tools: []string{"f"}, special: []string{"<|python_tag|>"},
		in: `{"name":"x<tool_call>"}`, want: `answer "{\"name\":\"x<tool_call>\"}"`},
}

func TestTags(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	cuts := map[string]func(string) []string{"words": readertest.ByWords, "bytes": readertest.ByBytes,
		"random": readertest.Random(r), "whole": readertest.Whole}
	for _, c := range tagCases {
		t.Run(c.name, func(t *testing.T) {
			specials := [][]string{c.special}
			if c.special == nil {
				specials = append(specials, []string{c.format.Open, c.format.Close})
			}
			if c.name == "gemma" {
				specials = append(specials, []string{"<|channel>", "<channel|>"})
			}
			for _, special := range specials {
				for name, cut := range cuts {
					x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
					tokens := encodeMarks(x, c.in, special, cut)
					tokens = append(tokens, 0)
					cfg := readertest.Config{Format: c.format, Config: reader.Config{Vocab: x.Vocab(t), Start: c.start, Tools: c.tools,
						Markers: c.markers}}
					if got := readertest.Show(readertest.Read(t, cfg, tokens)); got != c.want {
						t.Errorf("cut by %s, with tokens %q:\n got %s\nwant %s", name, special, got, c.want)
					}
				}
			}
		})
	}
}

// encodeMarks is Encode for marks of any spelling. They become control and user-defined tokens in turn.
func encodeMarks(x *readertest.Lexicon, text string, marks []string, cut func(string) []string) []backend.Token {
	for i, m := range marks {
		if m != "" {
			x.Ids[m] = x.Add(m, []backend.TokenKind{backend.Control, backend.UserDefined}[i%2])
		}
	}
	var tokens []backend.Token
	for text != "" {
		at, mark := len(text), ""
		for _, m := range marks {
			if i := strings.Index(text, m); m != "" && i >= 0 && i < at {
				at, mark = i, m
			}
		}
		for _, p := range cut(text[:at]) {
			tokens = append(tokens, x.Text(p))
		}
		if text = text[at:]; mark != "" {
			tokens = append(tokens, x.Ids[mark])
			text = text[len(mark):]
		}
	}
	return tokens
}

// TestMarkersInHarmony reads markers in every text of harmony that a caller sees.
func TestMarkersInHarmony(t *testing.T) {
	const next, final = "<|end|><|start|>assistant", "<|channel|>final<|message|>"
	const preamble, call = "<|channel|>commentary<|message|>", " to=functions.f<|channel|>commentary<|message|>{}<|call|>"
	for _, c := range []struct {
		in    string
		start chattemplate.Start
		want  string
	}{
		{"<<REASONING>>\nHm.\n<</REASONING>>\nHi.<|return|>", chattemplate.StartAnswer, `reasoning "Hm." | answer "Hi."`},
		{preamble + "<<REASONING>>\nHm.\n<</REASONING>>\n" + next + final + "Hi.<|return|>", 0,
			`reasoning "Hm." | answer "Hi."`},
		{preamble + "Look. <<REASONING>>Hm.<</REASONING>>I call." + next + call, 0,
			`preamble "Look. " | reasoning "Hm." | preamble "I call." | call f "{}"`},
		{preamble + "<<REASONING>>Hm." + next + final + "<<REASONING>>So<</REASONING>>Hi.<|return|>", 0,
			`reasoning "Hm." | !reasoning_unclosed | reasoning "So" | answer "Hi."`},
		{final + "<<REASONING>>a<</REASONING>>Hi." + next + final + "Or <<REASONING>>b<</REASONING>>Ho.<|return|>", 0,
			`reasoning "a" | answer "Hi." | answer "Or " | reasoning "b" | answer "Ho."`},
		{"<|message|><<REASONING>>Hm.<</REASONING>>Hi.<|return|>", 0, `!bare_body | reasoning "Hm." | answer "Hi."`},
	} {
		for _, cut := range []func(string) []string{readertest.ByWords, readertest.ByBytes, readertest.Whole} {
			x := readertest.HarmonyLexicon()
			tokens := x.Encode(c.in, cut)
			got := allShow(readertest.Read(t, readertest.Config{Format: readertest.HarmonyFormat,
				Config: reader.Config{Vocab: x.Vocab(t), Start: c.start, Markers: true}}, tokens))
			if got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.in, got, c.want)
			}
		}
	}
}

// TestCutMarkerOfEarlyText cuts text that may still be reasoning in the middle of the marker that would say so.
func TestCutMarkerOfEarlyText(t *testing.T) {
	for _, mark := range []string{"<", "</thi", "<think"} {
		x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
		tokens := x.Encode("Hm. "+mark, readertest.ByBytes)
		got := readertest.Show(readertest.Read(t, readertest.Config{Format: thinkTags("<think>", "</think>"),
			Config: reader.Config{Vocab: x.Vocab(t), Thinks: true}}, tokens))
		if want := `reasoning "Hm. " | !reasoning_unclosed`; got != want {
			t.Errorf("%q: got %s, want %s", mark, got, want)
		}
	}
}

// TestCutMarkers reads output that a limit cuts off. What may be the beginning of a marker is no text. Where the turn
// ends by itself, it is.
func TestCutMarkers(t *testing.T) {
	type readers struct {
		format  markup.Format
		markers bool
		before  string
	}
	all := map[string]readers{
		"tags":            {format: thinkTags("<think>", "</think>")},
		"markers":         {markers: true},
		"harmony":         {readertest.HarmonyFormat, true, "<|channel|>final<|message|>"},
		"harmony, before": {readertest.HarmonyFormat, true, "<|channel|>commentary<|message|>"},
		"other tags":      {format: thinkTags("[THINK]", "[/THINK]")},
	}
	for name, r := range all {
		mark := r.format
		if r.markers {
			mark = markup.Markers
		}
		for _, c := range []struct{ said, cut, text string }{
			{"", mark.Open[:1], ""}, {"", mark.Open[:2], ""}, {"Hi. ", mark.Open[:len(mark.Open)-1], "Hi. "},
			{"Hi. ", mark.Close[:len(mark.Close)-1], "Hi. "}, {"a < b", "", "a < b"}, {"Hi.\n", mark.Open[:1], "Hi.\n"},
			{mark.Open + "Hm.", mark.Close[:3], "Hm."}, {mark.Open, mark.Close[:1], ""},
		} {
			for _, over := range []bool{false, true} {
				x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
				if r.format == readertest.HarmonyFormat {
					x = readertest.HarmonyLexicon()
				}
				tokens := x.Encode(r.before+c.said+c.cut, readertest.ByWords)
				want := c.text
				if over {
					want += c.cut
					if r.format == readertest.HarmonyFormat {
						tokens = append(tokens, x.Encode("<|return|>", readertest.Whole)...)
					} else {
						tokens = append(tokens, 0)
					}
				}
				var text string
				for _, s := range readertest.Texts(readertest.Read(t, readertest.Config{Format: r.format,
					Config: reader.Config{Vocab: x.Vocab(t), Markers: r.markers}}, tokens)) {
					text += s
				}
				if text != want {
					t.Errorf("%s, %q, over %v: got %q, want %q", name, c.said+c.cut, over, text, want)
				}
			}
		}
	}
}

func TestSeparator(t *testing.T) {
	x := readertest.HarmonyLexicon()
	tokens := x.Encode("<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary<|message|>P<|end|>"+
		"<|start|>assistant<|channel|>analysis<|message|>B<|end|><|start|>assistant<|channel|>final<|message|>C<|return|>",
		readertest.ByWords)
	var c generation.Collector
	for _, e := range readertest.Read(t, readertest.Config{Format: readertest.HarmonyFormat,
		Config: reader.Config{Vocab: x.Vocab(t), Separator: "\n\n"}},
		tokens) {
		c.Push(e)
	}
	if r := c.Reply(); r.Reasoning != "A\n\nB" || r.Preamble != "P" || r.Answer != "C" {
		t.Errorf("the separator is in the wrong place: %+v", r)
	}
}
