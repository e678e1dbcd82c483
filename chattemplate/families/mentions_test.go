package families_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/generation"
	"runner/reasoning"
)

// mentionKinds are the kinds of vocabulary in which a mark can be written: a control token, a user-defined token, or
// text in any tokens.
var mentionKinds = []string{"control", "user", "text"}

// mentions says what is read as a mark and what as a mention of one. want has the reading by the kind of the mark's
// token; "" stands for all kinds that are not listed. The prompt opens the reasoning in cases with inside.
//
// peers says what others make of the text, where reasoning parsers are in use: llama.cpp and ollama (l) take an opening
// mark only at the beginning of a message, vLLM (v) and SGLang (s) the first one anywhere. All four take the first
// closing mark, wherever it is, and none looks at quotes or code. In streams, vLLM compares ids of tokens, so what is
// spelled in other tokens is text there; that differs from its own whole replies.
var mentions = []struct {
	name, in string
	inside   bool
	want     map[string]string
	peers    string
}{
	{name: "a mention in code", in: "The `<think>` tag starts it. The rest is here.",
		want:  map[string]string{"": "answer \"The `<think>` tag starts it. The rest is here.\""},
		peers: "l: the same; v, s: the rest is reasoning, v loses the beginning"},
	{name: "a mention in a line", in: "The <think> tag starts it.",
		want:  map[string]string{"": `answer "The <think> tag starts it."`},
		peers: "l: the same; v, s: as in code"},
	{name: "a mention in quotes", in: "Write \"<think>\" first.",
		want:  map[string]string{"": `answer "Write \"<think>\" first."`},
		peers: "l: the same; v, s: as in code"},
	{name: "a mention of both", in: "Write <think>so</think> there.",
		want:  map[string]string{"": `answer "Write <think>so</think> there."`},
		peers: "l: the same; v, s: so is reasoning"},
	{name: "a block of code", in: "So:\n```\n<think>\nHm.\n</think>\nHi.\n```\nThat is it.",
		want:  map[string]string{"": "answer \"So:\\n```\\n<think>\\nHm.\\n</think>\\nHi.\\n```\\nThat is it.\""},
		peers: "l: the same; v, s: Hm. is reasoning"},
	{name: "indented code", in: "So:\n\n    <think>\n", want: map[string]string{"": `answer "So:\n\n    <think>\n"`},
		peers: "l: the same; v, s: the rest is reasoning"},
	{name: "a list", in: "- <think> opens\n1. </think>\n2. ends", want: map[string]string{
		"": `answer "- <think> opens\n1. </think>\n2. ends"`}, peers: "l: the same; v, s: opens is reasoning"},
	{name: "reasoning between answers", in: "First.\n<think>Hm.</think>\nSecond.",
		want:  map[string]string{"": `answer "First.\n" | reasoning "Hm." | answer "Second."`},
		peers: "l: all is the answer; v loses First.; s: the same"},
	{name: "reasoning after reasoning", in: "<think>A.</think>B.\n\n<think>C.</think>D.",
		want:  map[string]string{"": `reasoning "A." | answer "B.\n\n" | reasoning "C." | answer "D."`},
		peers: "l, v, s: the second is the answer"},
	{name: "a mention in the reasoning", in: "I write </think> when I am done. Secret.\n</think>\n\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "I write </think> when I am done. Secret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "a mention in code in the reasoning", in: "`</think>` ends it. Secret.</think>Hi.", inside: true,
		want:  map[string]string{"": "reasoning \"`</think>` ends it. Secret.\" | answer \"Hi.\""},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "a mention in quotes in the reasoning", in: "They say \"</think>\", I see. Secret.</think>Hi.", inside: true,
		want:  map[string]string{"": `reasoning "They say \"</think>\", I see. Secret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "a mention that ends a line", in: "It ends with </think>\nSecret.\n</think>\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "It ends with </think>\nSecret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "a mention that begins a line", in: "So.\n</think> is the mark. Secret.\n</think>\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "So.\n</think> is the mark. Secret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "a mention that begins a sentence", in: "So. </think> is the mark. Secret.\n</think>\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "So. </think> is the mark. Secret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "mentions of both in the reasoning", in: "As <think>...</think> Secret.\n</think>\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "As <think>...</think> Secret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "mentions of both and a closing mark", in: "Use <think>x</think> tags.</think>\n\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "Use <think>x</think> tags." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "mentions joined by a sign", in: "Their <think>/</think> tags. Secret.\n</think>\n\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "Their <think>/</think> tags. Secret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "mentions joined by a comma", in: "Of <think>,</think>, Secret.\n</think>\n\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "Of <think>,</think>, Secret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "a mention in an enumeration", in: "Of </b>,</think>, and so on. Secret.\n</think>\n\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "Of </b>,</think>, and so on. Secret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends at the mention"},
	{name: "it closes after a comma", in: "Hm,</think>Hi.", inside: true,
		want: map[string]string{"": `reasoning "Hm," | answer "Hi."`}, peers: "l, v, s: the same"},
	{name: "a list in the reasoning", in: "1. <think>\n2. </think>\nSecret.\n</think>\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "1. <think>\n2. </think>\nSecret." | answer "Hi."`},
		peers: "l, v, s: the reasoning ends in the list"},
	{name: "a block of code in the reasoning", in: "So:\n```\n<think>\nx\n</think>\n\ny\n```\nSecret.\n</think>\nHi.",
		inside: true, want: map[string]string{
			"": "reasoning \"So:\\n```\\n<think>\\nx\\n</think>\\n\\ny\\n```\\nSecret.\" | answer \"Hi.\""},
		peers: "l, v, s: the reasoning ends in the block"},
	{name: "a block of code that does not end", in: "So:\n```\nx\n</think>\n\nHi.", inside: true,
		want:  map[string]string{"": "reasoning \"So:\\n```\\nx\" | answer \"Hi.\""},
		peers: "l, v, s: the same"},
	{name: "an opening mark is mentioned", in: "I need no <think> here. Done.</think>\n\nHi.", inside: true,
		want:  map[string]string{"": `reasoning "I need no <think> here. Done." | answer "Hi."`},
		peers: "l, v, s: the same"},
	{name: "it closes in the line", in: "Done.</think>\n\nHi.", inside: true,
		want: map[string]string{"": `reasoning "Done." | answer "Hi."`}, peers: "l, v, s: the same"},
	{name: "it closes before the answer", in: "Done.</think>Hi.", inside: true,
		want: map[string]string{"": `reasoning "Done." | answer "Hi."`}, peers: "l, v, s: the same"},
	{name: "it closes after a space", in: "Done. </think> Hi.", inside: true,
		want: map[string]string{"": `reasoning "Done. " | answer " Hi."`}, peers: "l, v, s: the same"},
	{name: "it closes after a number", in: "So 42</think>The answer is 42.", inside: true,
		want: map[string]string{"": `reasoning "So 42" | answer "The answer is 42."`}, peers: "l, v, s: the same"},
	{name: "it closes before a quote", in: "Done.</think>\"Hi,\" she said.", inside: true,
		want: map[string]string{"": `reasoning "Done." | answer "\"Hi,\" she said."`}, peers: "l, v, s: the same"},
	{name: "it closes after an inch mark", in: "It is 5\" wide.</think>\nHi.", inside: true,
		want: map[string]string{"": `reasoning "It is 5\" wide." | answer "Hi."`}, peers: "l, v, s: the same"},
	{name: "it closes in Chinese", in: "先想一想。</think>答案是 42。", inside: true,
		want: map[string]string{"": `reasoning "先想一想。" | answer "答案是 42。"`}, peers: "l, v, s: the same"},
	{name: "it closes at the end", in: "Done.\n</think>", inside: true,
		want: map[string]string{"": `reasoning "Done."`}, peers: "l, v, s: the same"},
	{name: "in a word", in: "a foo</think>bar. Secret.\n</think>\nHi.", inside: true,
		want: map[string]string{"text": `reasoning "a foo</think>bar. Secret." | answer "Hi."`,
			"": `!stray_tag | reasoning "a foo" | answer "bar. Secret.\n\nHi."`},
		peers: "l, v, s: the reasoning ends at the first"},
	{name: "a call is mentioned", in: "Use <tool_call> or `<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>`.",
		want: map[string]string{"": "answer \"Use <tool_call> or `<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": " +
			"{}}</tool_call>`.\""}, peers: "l, v, s: a call, or an error in the parser"},
	{name: "a call in a sentence", in: "I write <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> to call f.",
		want: map[string]string{
			"": `answer "I write <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> to call f."`},
		peers: "l, v, s: a call"},
	{name: "a call in a block of code",
		in: "As:\n```\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n```\nDone.",
		want: map[string]string{"": "answer \"As:\\n```\\n<tool_call>\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {}}\\n" +
			"</tool_call>\\n```\\nDone.\""}, peers: "l, v, s: a call"},
	{name: "a mark that no call follows", in: "So:\n<tool_call> begins a call.",
		want:  map[string]string{"": `!malformed_tool_call | answer "So:\n<tool_call> begins a call."`},
		peers: "l: an error; v, s: the mark is lost"},
	{name: "calls", in: "Look.<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
		want: map[string]string{"": `answer "Look." | call f "{}"`}, peers: "l, v, s: the same"},
}

// TestMentions reads the table with marks that are user-defined tokens and with marks that are spelled out.
func TestMentions(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	marks := []string{"<think>", "</think>", "<tool_call>", "</tool_call>"}
	for _, c := range mentions {
		for _, kind := range mentionKinds[1:] {
			want, ok := c.want[kind]
			if !ok {
				want = c.want[""]
			}
			for name, cut := range map[string]func(string) []string{"words": readertest.ByWords,
				"bytes": readertest.ByBytes, "random": readertest.Random(r), "whole": readertest.Whole} {
				x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
				var special []string
				if kind == "user" {
					special = marks
				}
				tokens := append(encodeKind(x, c.in, special, backend.UserDefined, cut), 0)
				cfg := readertest.Config{Format: think, Config: reader.Config{Vocab: x.Vocab(t), Tools: []string{"f"}}}
				if c.inside {
					cfg.Start = chattemplate.StartReasoning
				}
				got := readertest.Show(readertest.Read(t, cfg, tokens))
				if sorted(got) != sorted(want) {
					t.Errorf("%s, mark as %s, cut by %s (others: %s):\n got %s\nwant %s", c.name, kind, name, c.peers, got, want)
				}
			}
		}
	}
}

// sorted puts warnings first, because the place of a warning among the segments depends on the cut.
func sorted(shown string) string {
	var warnings, segments []string
	for _, part := range strings.Split(shown, " | ") {
		if strings.HasPrefix(part, "!") {
			warnings = append(warnings, part)
		} else {
			segments = append(segments, part)
		}
	}
	return strings.Join(append(warnings, segments...), " | ")
}

// encodeKind is Encode for marks that are tokens of a kind.
func encodeKind(x *readertest.Lexicon, text string, marks []string, kind backend.TokenKind,
	cut func(string) []string) []backend.Token {
	for _, m := range marks {
		if _, ok := x.Ids[m]; !ok {
			x.Ids[m] = x.Add(m, kind)
		}
	}
	var tokens []backend.Token
	for text != "" {
		at, mark := len(text), ""
		for _, m := range marks {
			if i := strings.Index(text, m); i >= 0 && i < at {
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

// TestControlTokensAreMarks checks that a mark that is a control token always counts, also in code and in a line.
func TestControlTokensAreMarks(t *testing.T) {
	for in, want := range map[string]string{
		"The `<think>Hm.</think>` ends.": "answer \"The `\" | reasoning \"Hm.\" | answer \"` ends.\"",
		"A <think>Hm </think> b.":        `answer "A " | reasoning "Hm " | answer " b."`,
		"```\n<think>Hm</think>x":        "answer \"```\\n\" | reasoning \"Hm\" | answer \"x\"",
	} {
		x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
		tokens := encodeKind(x, in, []string{"<think>", "</think>"}, backend.Control, readertest.ByWords)
		cfg := readertest.Config{Format: think, Config: reader.Config{Vocab: x.Vocab(t)}}
		if got := readertest.Show(readertest.Read(t, cfg, append(tokens, 0))); got != want {
			t.Errorf("%q:\n got %s\nwant %s", in, got, want)
		}
	}
}

// TestMarksCountInLinesThatCannotEnd reads turns of a model that may not write line breaks.
func TestMarksCountInLinesThatCannotEnd(t *testing.T) {
	for in, want := range map[string]string{
		"A. <think>SECRET.</think> B.":        `answer "A. " | reasoning "SECRET." | answer " B."`,
		"The `<think>` and \"<think>\" tags.": "answer \"The `<think>` and \\\"<think>\\\" tags.\"",
	} {
		for _, special := range [][]string{nil, {"<think>", "</think>"}} {
			x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
			tokens := append(encodeKind(x, in, special, backend.UserDefined, readertest.ByBytes), 0)
			cfg := readertest.Config{Format: think, Config: reader.Config{Vocab: x.Vocab(t), Unbroken: true}}
			if got := readertest.Show(readertest.Read(t, cfg, tokens)); got != want {
				t.Errorf("%q, tokens %q:\n got %s\nwant %s", in, special, got, want)
			}
		}
	}
}

// TestMarksInCallsHideReasoning has models reason in a block of calls: before a call, after it, between calls and in
// arguments, to the end or not. None of it shows, whatever the calls become.
func TestMarksInCallsHideReasoning(t *testing.T) {
	marks := []string{"<think>", "</think>", "<tool_call>", "</tool_call>"}
	call := `{"name": "f", "arguments": {"q": "x"}}`
	for _, c := range []struct {
		in string
		// control says that the mark counts only if it is a control token.
		control bool
		calls   int
	}{
		{in: "A.\n<tool_call>\n<think>\nSECRET\n</think>\nB."},
		{in: "A.\n<tool_call><think>SECRET</think>" + call + "</tool_call>"},
		{in: "<tool_call>\n<think>\nSECRET\n</think>\n" + call + "\n</tool_call>"},
		{in: "<tool_call>\n" + call + "\n<think>\nSECRET\n</think>\n</tool_call>", calls: 1},
		{in: "<tool_call>\n" + call + "\n</tool_call>\n<think>\nSECRET\n</think>\nB.", calls: 1},
		{in: "<tool_call>\n" + call + "\n</tool_call>\n<think>\nSECRET", calls: 1},
		{in: "<tool_call>\n<think>\nSECRET"},
		{in: `<tool_call>{"name": "f", "arguments": {"q": "<think>SECRET</think>x"}}</tool_call>`, control: true, calls: 1},
		{in: `<tool_call>{"name": "f", "arguments": {"q": "<think>A \"}}</tool_call> SECRET` + "\n</think>x\"}}</tool_call>",
			control: true, calls: 1},
		{in: `<tool_call>{"name": "f", "arguments": {"q": "<think>SECRET`, control: true, calls: 1},
		{in: `<tool_call>{"name": "f", "arguments": {<think>SECRET</think>"q": "x"}}</tool_call>`, control: true, calls: 1},
		{in: `<tool_call>{"name": "f"<think>SECRET</think>, "arguments": {"q": "x"}}</tool_call>`, control: true},
	} {
		for _, kind := range []backend.TokenKind{backend.Control, backend.UserDefined} {
			if c.control && kind != backend.Control {
				continue
			}
			for name, cut := range map[string]func(string) []string{"words": readertest.ByWords, "bytes": readertest.ByBytes,
				"whole": readertest.Whole} {
				x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
				tokens := append(encodeKind(x, c.in, marks, kind, cut), 0)
				cfg := readertest.Config{Format: think, Config: reader.Config{Vocab: x.Vocab(t), Tools: []string{"f"}}}
				events := readertest.Read(t, cfg, tokens)
				calls := 0
				for _, e := range events {
					if e.Kind == reasoning.SegmentStart && e.Segment == reasoning.ToolCall {
						calls++
					}
					if e.Segment != reasoning.Reasoning && strings.Contains(e.Text, "SECRET") {
						t.Errorf("%q, kind %d, by %s: %s has %q", c.in, kind, name, e.Segment, e.Text)
					}
				}
				shown := readertest.Show(events)
				if calls != c.calls || !strings.Contains(shown, "SECRET") {
					t.Errorf("%q, kind %d, by %s: %d calls in %s", c.in, kind, name, calls, shown)
				}
				if c.control && strings.HasSuffix(c.in, "</tool_call>") && c.calls == 1 &&
					!strings.Contains(shown, `call f "{\"q\": \"x\"}"`) {
					t.Errorf("%q, by %s: %s", c.in, name, shown)
				}
			}
		}
	}
}

// TestSpelledMarksAreTextIfThereAreTokens spells out marks that the vocabulary has as tokens.
func TestSpelledMarksAreTextIfThereAreTokens(t *testing.T) {
	for _, kind := range []backend.TokenKind{backend.Control, backend.UserDefined} {
		x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
		encodeKind(x, "", []string{"<think>", "</think>"}, kind, nil)
		tokens := []backend.Token{x.Ids["<think>"]}
		for _, p := range readertest.ByWords("So.\n</think>\n\nSecret.\n") {
			tokens = append(tokens, x.Text(p))
		}
		tokens = append(tokens, x.Ids["</think>"], x.Text("Hi.\n"), x.Text("<thi"), x.Text("nk>"), x.Text("x"), 0)
		cfg := readertest.Config{Format: think, Config: reader.Config{Vocab: x.Vocab(t)}}
		got := readertest.Show(readertest.Read(t, cfg, tokens))
		if want := `reasoning "So.\n</think>\n\nSecret." | answer "Hi.\n<think>x"`; got != want {
			t.Errorf("marks of kind %d:\n got %s\nwant %s", kind, got, want)
		}
	}
}

// TestForcedMarksCount closes reasoning with tokens that the model did not write, in places where the model could only
// mention the mark.
func TestForcedMarksCount(t *testing.T) {
	for _, before := range []string{"In `code ", "```\ncode\n", "He said \"so ", "the "} {
		for _, special := range [][]string{nil, {"<think>", "</think>"}} {
			x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
			thought := encodeKind(x, before, special, backend.UserDefined, readertest.ByBytes)
			closing := encodeKind(x, "</think>", special, backend.UserDefined, readertest.ByBytes)
			answer := encodeKind(x, "and so.", special, backend.UserDefined, readertest.ByBytes)
			var seen readertest.Recorder
			s, err := readertest.NewReader(readertest.Config{Format: think, Config: reader.Config{Vocab: x.Vocab(t),
				Start: chattemplate.StartReasoning, Emit: seen.Emit}})
			if err != nil {
				t.Fatal(err)
			}
			for _, tok := range thought {
				s.Push(tok)
			}
			for _, tok := range closing {
				s.Force(tok)
			}
			for _, tok := range answer {
				s.Push(tok)
			}
			s.Finish()
			if got := replyOf(seen.Events); got.Answer != "and so." {
				t.Errorf("after %q with tokens %q: %+v", before, special, got)
			}
		}
	}
}

// TestEarlyTextIsHeld reads turns of a model that was made to reason, from an engine that cannot be made to open the
// reasoning.
func TestEarlyTextIsHeld(t *testing.T) {
	long := strings.Repeat("0123456789\n", 200)
	for _, c := range []struct {
		name, in, want string
	}{
		{"no opening mark", "Hm. So.\n</think>\n\nHi.", `reasoning "Hm. So." | answer "Hi."`},
		{"no opening mark, in a line", "\nHm.</think>Hi.", `reasoning "Hm." | answer "Hi."`},
		{"a mention", "Hm, `</think>` ends it.</think>Hi.", "reasoning \"Hm, `</think>` ends it.\" | answer \"Hi.\""},
		{"an answer", "Hi.", `answer "Hi."`},
		{"an answer with a mention", "The </think> tag.", `answer "The </think> tag."`},
		{"an answer before reasoning", "Hi.\n<think>Hm.</think>Ho.", `answer "Hi.\n" | reasoning "Hm." | answer "Ho."`},
		{"reasoning", "<think>\nHm.\n</think>\n\nHi.", `reasoning "Hm." | answer "Hi."`},
		{"a call", "Look.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", `answer "Look.\n" | call f "{}"`},
		{"much text", long + "</think>\nHi.", `!stray_tag | answer "` + strings.ReplaceAll(long, "\n", `\n`) + `\nHi."`},
	} {
		for name, cut := range map[string]func(string) []string{"words": readertest.ByWords, "bytes": readertest.ByBytes,
			"whole": readertest.Whole} {
			for _, special := range [][]string{nil, {"<think>", "</think>", "<tool_call>", "</tool_call>"}} {
				x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
				tokens := append(encodeKind(x, c.in, special, backend.UserDefined, cut), 0)
				got := readertest.Show(readertest.Read(t, readertest.Config{Format: think, Config: reader.Config{
					Vocab: x.Vocab(t), Tools: []string{"f"}, Thinks: true}}, tokens))
				if sorted(got) != c.want {
					t.Errorf("%s, cut by %s, with tokens %q:\n got %s\nwant %s", c.name, name, special, got, c.want)
				}
			}
		}
	}
}

// TestEarlyTextThatIsCutIsReasoning cuts a turn off before it is known whether its text is reasoning.
func TestEarlyTextThatIsCutIsReasoning(t *testing.T) {
	for _, in := range []string{"Hm. So", "Hm. So\n", "Hm. So</thi"} {
		x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
		tokens := x.Encode(in, readertest.ByBytes)
		got := readertest.Texts(readertest.Read(t, readertest.Config{Format: think, Config: reader.Config{Vocab: x.Vocab(t),
			Thinks: true}}, tokens))
		if got[reasoning.Answer] != "" || !strings.HasPrefix(got[reasoning.Reasoning], "Hm. So") {
			t.Errorf("%q: %v", in, got)
		}
	}
}

// TestMentionsInAnyPieces checks that marks and mentions in random order read the same however the text is cut, as text
// and as user-defined tokens.
func TestMentionsInAnyPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 2))
	parts := []string{"<think>", "</think>", "<tool_call>", `{"name":"f","arguments":{}}`, "</tool_call>", "`", "\"",
		"```", "\n", "\n\n", " ", "   ", "\t", ".", "a", "The", "42", "想", "。", "“", "”", "(", ")", "-", "1.", "...", "\r\n",
		"<", "…", "é", "<<REASONING>>", "<</REASONING>>", strings.Repeat("x", 700), "*", "~~~"}
	for range 2000 {
		var in strings.Builder
		for range 1 + r.IntN(14) {
			in.WriteString(parts[r.IntN(len(parts))])
		}
		cfg := readertest.Config{Format: []markup.Format{think, granite}[r.IntN(2)], Config: reader.Config{
			Start: chattemplate.Start(r.IntN(3)), Markers: r.IntN(4) == 0, Tools: [][]string{nil, {"f"}}[r.IntN(2)],
			Thinks: r.IntN(3) == 0, Held: r.IntN(4) == 0, Formed: r.IntN(6) == 0}}
		var special []string
		if r.IntN(2) == 0 {
			special = []string{"<think>", "</think>", "<tool_call>", "</tool_call>"}
		}
		var first generation.Reply
		for i, cut := range []func(string) []string{readertest.Whole, readertest.ByBytes, readertest.Random(r)} {
			x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
			tokens := encodeKind(x, in.String(), special, backend.UserDefined, cut)
			cfg.Vocab = x.Vocab(t)
			if got := replyOf(readertest.Read(t, cfg, tokens)); i == 0 {
				first = got
			} else if !reflect.DeepEqual(got, first) {
				t.Fatalf("%q with tokens %q, %+v, cut another way:\n got %+v\nwant %+v", in.String(), special, cfg, got, first)
			}
		}
	}
}
