package families_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/reasoning"
)

// argumentBlocks are arguments of calls with reasoning between markers. A mark that a model forgot leaves less, and
// what is left is JSON if the model wrote JSON.
var argumentBlocks = []struct{ name, in, want, thoughts string }{
	{"none", `{"a": "x << y", "b": ["<", "\u003c", "\\"]}`, `{"a": "x << y", "b": ["<", "\u003c", "\\"]}`, ""},
	{"in a string", `{"a": "x <<REASONING>>so<</REASONING>> y"}`, `{"a": "x  y"}`, "so"},
	{"with newlines", `{"a": "<<REASONING>>\nso\n\"it\" is\n<</REASONING>>\n\nyes"}`, `{"a": "yes"}`, "so\n\"it\" is"},
	{"all of a string", `{"a": "<<REASONING>>so<</REASONING>>"}`, `{"a": ""}`, "so"},
	{"two", `{"a": "<<REASONING>>so<</REASONING>>x", "b": "y<<REASONING>>and<</REASONING>>"}`, `{"a": "x", "b": "y"}`,
		"so\n\nand"},
	{"in a name", `{"a<<REASONING>>so<</REASONING>>": 1}`, `{"a": 1}`, "so"},
	{"between values", `{"a": <<REASONING>>so "it" is<</REASONING>> 1}`, `{"a":  1}`, `so "it" is`},
	{"with escapes", `{"a": "\u003c\u003CREASONING>>so<<\/REASON\u0049NG>>x"}`, `{"a": "x"}`, "so"},
	{"nested", `{"a": "<<REASONING>>a <<REASONING>>b<</REASONING>> c<</REASONING>>x"}`, `{"a": "x"}`,
		"a <<REASONING>>b<</REASONING>> c"},
	{"more brackets", `{"a": "<<<REASONING>>so<</REASONING>>>"}`, `{"a": "<>"}`, "so"},
	{"a closing marker alone", `{"a": "x<</REASONING>>y"}`, `{"a": "x<</REASONING>>y"}`, ""},
	{"a backslash before it", `{"a": "\\<<REASONING>>so<</REASONING>>"}`, `{"a": "\\"}`, "so"},
	{"no end", `{"a": "x <<REASONING>>so", "b": 2}`, `{"a": "x ", "b": 2}`, "so"},
	{"no end twice", `{"a": "<<REASONING>>so", "b": "y<<REASONING>>and"}`, `{"a": "", "b": "y"}`, "so\n\nand"},
	{"no end, then a block", `{"a": "<<REASONING>>so", "b": "y<<REASONING>>and<</REASONING>>z"}`, `{"a": "", "b": "yz"}`,
		"so\n\nand"},
	{"over two strings", `{"a": "x<<REASONING>>so", "b": "and<</REASONING>>y"}`, `{"a": "xy"}`, `so", "b": "and`},
	{"quotes without a backslash", `{"a": "<<REASONING>>the "word" is<</REASONING>>x"}`, `{"a": "x"}`, `the "word" is`},
	{"no end and bare quotes", `{"a": "x<<REASONING>>the "word" is"}`, `{"a": "x`, `the "word" is"}`},
	{"a text inside", `{"a": "{\"b\": \"<<REASONING>>so \\\"it\\\"<</REASONING>>x\"}"}`, `{"a": "{\"b\": \"x\"}"}`,
		`so \"it\"`},
	{"other characters", `{"a": "é<<REASONING>>中<</REASONING>>\u00e9\ud83d\ude00"}`, `{"a": "é\u00e9\ud83d\ude00"}`, "中"},
}

// TestReasoningInArguments reads calls with reasoning between markers in their arguments. The arguments lose it,
// however the text is cut, and it follows as reasoning. Without strategy markers the arguments stay as they are.
func TestReasoningInArguments(t *testing.T) {
	for _, c := range argumentBlocks {
		for family, around := range map[string][2]string{
			"harmony": {"<|channel|>commentary to=functions.f<|message|>", "<|call|>"},
			"hermes":  {"<tool_call>\n{\"name\": \"f\", \"arguments\": ", "}\n</tool_call><|return|>"},
			"mistral": {"[TOOL_CALLS]f[ARGS]", "<|return|>"},
		} {
			for _, markers := range []bool{true, false} {
				cfg := readertest.Config{Config: reader.Config{Tools: []string{"f"}, Markers: markers}}
				switch family {
				case "harmony":
					cfg.Format = readertest.HarmonyFormat
				case "hermes":
					if c.name == "no end and bare quotes" || c.name == "between values" {
						continue // what is not JSON goes on to the end of the block
					}
					cfg.Format.Calls = readertest.CallStyle("hermes")
				default:
					cfg.Format.Calls = readertest.CallStyle("mistral-args")
				}
				want, thoughts := c.want, c.thoughts
				if !markers {
					want, thoughts = c.in, ""
				}
				for _, cut := range []func(string) []string{readertest.ByWords, readertest.ByBytes, readertest.Whole} {
					x := readertest.HarmonyLexicon()
					tokens := x.Encode(around[0]+c.in+around[1], cut)
					cfg.Vocab = x.Vocab(t)
					got := readertest.Texts(readertest.Read(t, cfg, tokens))
					if got[reasoning.ToolCall] != want || got[reasoning.Reasoning] != thoughts {
						t.Errorf("%s, %s:\n got %q and %q\nwant %q and %q", c.name, family, got[reasoning.ToolCall],
							got[reasoning.Reasoning], want, thoughts)
					}
				}
			}
		}
	}
}

// TestReasoningInWrittenArguments reads arguments that are written one by one, without quotes.
func TestReasoningInWrittenArguments(t *testing.T) {
	block := "<<REASONING>>\nthe \"word\" \\ is\n<</REASONING>>\n"
	for in, want := range map[string]string{
		block + "Rome":            `{"city": "Rome"}`,
		"Rome " + block + "Italy": `{"city": "Rome Italy"}`,
		"Rome " + strings.TrimSuffix(block, "\n<</REASONING>>\n"): `{"city": "Rome "}`,
	} {
		x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
		tokens := append(x.Encode("<tool_call>\n<function=f>\n<parameter=city>\n"+in+
			"\n</parameter>\n</function>\n</tool_call>", readertest.ByWords), 0)
		got := readertest.Texts(readertest.Read(t, readertest.Config{Format: markup.Format{
			Calls: readertest.CallStyle("qwen-xml")}, Config: reader.Config{Vocab: x.Vocab(t), Tools: []string{"f"},
			Markers: true}}, tokens))
		if got[reasoning.ToolCall] != want || !strings.Contains(got[reasoning.Reasoning], "the \"word\" \\ is") {
			t.Errorf("%q:\n got %q\nwant %q", in, got, want)
		}
	}
}

// TestCutArgumentsShowNoReasoning cuts calls off after each byte.
func TestCutArgumentsShowNoReasoning(t *testing.T) {
	for _, in := range []string{`{"a": "x <<REASONING>>so "it" is<</REASONING>>y", "b": "x<<REASONING>>so", "c": 1}`,
		`{"a": "x \u003c<REASONING>>so", "b": "x", "c": 1}`} {
		for n := range len(in) + 1 {
			x := readertest.HarmonyLexicon()
			tokens := x.Encode("<|channel|>commentary to=functions.f<|message|>"+in[:n], readertest.ByBytes)
			cfg := readertest.Config{Format: readertest.HarmonyFormat, Config: reader.Config{Vocab: x.Vocab(t), Markers: true}}
			if got := readertest.Texts(readertest.Read(t, cfg, tokens))[reasoning.ToolCall]; strings.ContainsAny(got, `so<\`) {
				t.Errorf("%q: the arguments are %q", in[:n], got)
			}
		}
	}
}

// TestReasoningInArgumentsInAnyPieces checks that arguments read the same however they are cut, that they stay JSON,
// and that the state says where hidden text stands.
func TestReasoningInArgumentsInAnyPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	parts := []string{"<<REASONING>>", "<</REASONING>>", `\u003c`, `<<\/REASONING>>`, "SECRET", `\"`, `\\`, `\n`, "<", "é",
		`", "b": "`, "x"}
	for range 2000 {
		in := `{"a": "`
		for range 1 + r.IntN(12) {
			in += parts[r.IntN(len(parts))]
		}
		in += `"}`
		var all []string
		for _, cut := range []func(string) []string{readertest.Whole, readertest.ByBytes, readertest.Random(r)} {
			x := readertest.HarmonyLexicon()
			tokens := x.Encode("<|channel|>commentary to=functions.f<|message|>"+in+"<|call|>", cut)
			got := readertest.Texts(readertest.Read(t, readertest.Config{Format: readertest.HarmonyFormat,
				Config: reader.Config{Vocab: x.Vocab(t), Markers: true}}, tokens))
			all = append(all, got[reasoning.ToolCall]+"|"+got[reasoning.Reasoning])
			if json.Valid([]byte(in)) && !json.Valid([]byte(got[reasoning.ToolCall])) {
				t.Fatalf("%q: the arguments are %q", in, got[reasoning.ToolCall])
			}
		}
		if len(slices.Compact(all)) != 1 {
			t.Fatalf("%q: %q", in, all)
		}
	}
}

// TestStateInArguments asks for the state inside and outside of a block.
func TestStateInArguments(t *testing.T) {
	x := readertest.HarmonyLexicon()
	var tokens []backend.Token
	tokens = append(tokens, x.Encode("<|channel|>commentary to=functions.f<|message|>", readertest.ByWords)...)
	for _, p := range []string{`{"a": "`, "<<REASON", "ING>>", "so", "<</REASONING", ">>", `x"}`} {
		tokens = append(tokens, x.Text(p))
	}
	s, err := readertest.NewReader(readertest.Config{Format: readertest.HarmonyFormat, Config: reader.Config{
		Vocab: x.Vocab(t), Markers: true, Emit: func(reasoning.Event) {}}})
	if err != nil {
		t.Fatal(err)
	}
	var marked []bool
	for _, tok := range tokens {
		s.Push(tok)
		if st := s.State(); st.Segment == reasoning.ToolCall {
			if marked = append(marked, st.Marked); st.Place != reader.PlaceCall || st.Call.Name != "f" {
				t.Errorf("the state is %+v", st)
			}
		}
	}
	if want := []bool{false, false, false, true, true, true, false, false}; !slices.Equal(marked, want) {
		t.Errorf("in a block: %v, want %v", marked, want)
	}
}

// TestTextThatIsNoCallShowsNoReasoning reads blocks that begin like calls and are none.
func TestTextThatIsNoCallShowsNoReasoning(t *testing.T) {
	block := "<<REASONING>>so<</REASONING>>"
	for style, in := range map[string]string{
		"hermes": `<tool_call>{"city": "` + block + `Rome"}</tool_call>`,
		"llama":  `{"name": "g", "city": "` + block + `Rome"}`,
	} {
		x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
		tokens := append(x.Encode(in, readertest.ByWords), 0)
		got := readertest.Texts(readertest.Read(t, readertest.Config{Format: markup.Format{
			Calls: readertest.CallStyle(style)}, Config: reader.Config{Vocab: x.Vocab(t), Tools: []string{"f"},
			Markers: true}}, tokens))
		if want := strings.ReplaceAll(in, block, ""); strings.ReplaceAll(got[reasoning.Answer], "\n", "") != want ||
			got[reasoning.Reasoning] != "so" {
			t.Errorf("%s:\n got %q\nwant %q", style, got, want)
		}
	}
}
