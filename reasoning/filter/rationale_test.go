package filter_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"runner/backend"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/reasoning"
	"runner/reasoning/filter"
	"runner/testenv"
)

func TestRationaleValidation(t *testing.T) {
	half, much := 0.5, 1.5
	long := strings.Repeat("é", 280)
	for _, c := range []struct {
		r  reasoning.Rationale
		ok bool
	}{
		{reasoning.Rationale{Why: "x"}, true},
		{reasoning.Rationale{Why: long, Refs: []string{"a"}, Alternatives: []reasoning.Rejected{{Option: "a", Because: "b"}},
			Confidence: &half}, true},
		{reasoning.Rationale{}, false},
		{reasoning.Rationale{Why: " \n"}, false},
		{reasoning.Rationale{Why: long + "x"}, false},
		{reasoning.Rationale{Why: "x", Refs: []string{""}}, false},
		{reasoning.Rationale{Why: "x", Alternatives: []reasoning.Rejected{{Option: "a"}}}, false},
		{reasoning.Rationale{Why: "x", Confidence: &much}, false},
	} {
		if err := c.r.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}

func TestParseRationale(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"why":" it adds ","refs":["a",2,""],"alternatives":[{"option":"o","rejectedBecause":"r"},` +
			`{"option":"o"},3],"confidence":0}`,
			`{"why":"it adds","refs":["a"],"alternatives":[{"option":"o","rejectedBecause":"r"}],"confidence":0}`},
		{`{"why":"w","refs":"a","alternatives":{},"confidence":2}`, `{"why":"w"}`},
		{`{"why":"w","confidence":null,"more":1}`, `{"why":"w"}`},
		{`{"why":"` + strings.Repeat("é", 300) + `"}`, `{"why":"` + strings.Repeat("é", 280) + `"}`},
		{`{"why":""}`, ""}, {`{"why":null}`, ""}, {`{"why":3}`, ""}, {`{}`, ""}, {`"w"`, ""}, {`{"why":"w"`, ""}, {``, ""},
		{`null`, ""},
	} {
		r, ok := reasoning.ParseRationale([]byte(c.text))
		if ok != (c.want != "") {
			t.Errorf("%s: %v", c.text, ok)
			continue
		}
		if b, err := json.Marshal(r); ok && (err != nil || string(b) != c.want) {
			t.Errorf("%s reads as %s, want %s", c.text, b, c.want)
		}
	}
}

func FuzzParseRationale(f *testing.F) {
	f.Add([]byte(`{"why":"w","refs":["a"],"alternatives":[{"option":"o","rejectedBecause":"r"}],"confidence":0.5}`))
	f.Add([]byte(`{"why":"\ud800","confidence":-0}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, ok := reasoning.ParseRationale(text)
		if !ok {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("%q is parsed as an invalid rationale: %v", text, err)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := reasoning.ParseRationale(b); !ok || !reflect.DeepEqual(again, r) {
			t.Fatalf("%s reads as %+v", b, again)
		}
	})
}

// filtered is the output of a RationaleFilter for one turn.
type filtered struct {
	text        map[reasoning.Segment]string
	decisions   []string // "place why"
	assumptions []reasoning.Assumption
	codes       []string
	// order lists the events that passed, without text.
	order []string
	count reasoning.RationaleCount
}

// filteredText sends segments through a filter, each with its text cut up. The text of a ToolCall segment is the
// call's name.
func filteredText(t testing.TB, cfg filter.RationaleConfig, cut func(string) []string,
	segments ...segmentText) filtered {
	t.Helper()
	out := filtered{text: map[reasoning.Segment]string{}}
	open := reasoning.Header
	f := filter.NewRationaleFilter(cfg, func(e reasoning.Event) {
		switch e.Kind {
		case reasoning.SegmentStart:
			if open != reasoning.Header {
				t.Fatalf("%v begins inside %v", e.Segment, open)
			}
			open = e.Segment
		case reasoning.SegmentDelta:
			if e.Segment != open || e.Text == "" || !utf8.ValidString(e.Text) {
				t.Fatalf("delta %q of %v inside %v", e.Text, e.Segment, open)
			}
			out.text[e.Segment] += e.Text
			return
		case reasoning.SegmentEnd:
			if e.Segment != open {
				t.Fatalf("%v ends inside %v", e.Segment, open)
			}
			open = reasoning.Header
		case reasoning.Decided:
			out.decisions = append(out.decisions, e.Call.Name+": "+e.Decision.Rationale.Why)
			if e.Decision.ToolName != e.Call.Name || e.Decision.Iteration != cfg.Iteration {
				t.Fatalf("%+v", e.Decision)
			}
		case reasoning.Assumed:
			out.assumptions = append(out.assumptions, *e.Assumption)
		case reasoning.Warning:
			out.codes = append(out.codes, e.Code)
		}
		out.order = append(out.order, e.Kind.String()+" "+e.Segment.String())
	})
	calls := 0
	for _, s := range segments {
		call := reasoning.Call{}
		if s.segment == reasoning.ToolCall {
			call = reasoning.Call{Index: calls, Name: s.text}
			calls++
		}
		f.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: s.segment, Call: call})
		for _, piece := range cut(s.text) {
			f.Push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s.segment, Call: call, Text: piece})
		}
		f.Push(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: s.segment, Call: call})
	}
	f.Finish()
	if open != reasoning.Header {
		t.Fatalf("%v is not closed", open)
	}
	out.count = f.Count()
	return out
}

type segmentText struct {
	segment reasoning.Segment
	text    string
}

// byRunes cuts between all characters.
func byRunes(s string) []string { return strings.Split(s, "") }

// TestCuration checks that a Curated event's code is split into an action and its target.
func TestCuration(t *testing.T) {
	for code, want := range map[string][2]string{
		filter.CuratedHistory: {reasoning.CuratorDropped, "history-analysis"},
		"delegation-deleted":  {reasoning.CuratorDropped, "delegation"},
		"delegation-squashed": {reasoning.CuratorCompressed, "delegation"},
		"context-truncated":   {reasoning.CuratorDropped, "context"},
		"tool-output-clipped": {reasoning.CuratorCompressed, "tool-output"},
		"something":           {reasoning.CuratorDropped, "something"},
	} {
		if action, target := reasoning.Curation(code); action != want[0] || target != want[1] {
			t.Errorf("%s: %s %s, want %s", code, action, target, want)
		}
	}
}

// TestNewRationale checks that a reason is cut to the maximum length.
func TestNewRationale(t *testing.T) {
	for why, want := range map[string]int{"": 0, " a ": 1, strings.Repeat("é", 281): 280} {
		r := reasoning.NewRationale(why)
		if n := utf8.RuneCountInString(r.Why); n != want || n > 0 && r.Validate() != nil {
			t.Errorf("%q: %q", why, r.Why)
		}
	}
}

func TestRationaleBlocks(t *testing.T) {
	block := func(n, why string) string { return `<rationale call="` + n + `">{"why":"` + why + `"}</rationale>` }
	for _, c := range []struct {
		name, text, want string
		decisions        []string
		code             string
		formed           bool
	}{
		{name: "none", text: "1 < 2 <ratio> <rationally x> </rationale>", want: "1 < 2 <ratio> <rationally x> </rationale>"},
		{name: "plain", text: "I add. " + block("1", "it adds"), want: "I add. ", decisions: []string{"f: it adds"}},
		{name: "alone", text: block("1", "it adds"), want: "", decisions: []string{"f: it adds"}},
		{name: "lines", text: "a\n\n" + block("1", "x") + "\n\r\n" + block("2", "y") + "\n\nb", want: "a\n\nb",
			decisions: []string{"f: x", "g: y"}},
		{name: "case", text: "<RATIONALE Call = '2' >{\"why\":\"y\"} </Rationale\n>!", want: "!",
			decisions: []string{"g: y"}},
		{name: "counted", text: `<rationale>{"why":"x"}</rationale><rationale>{"why":"y"}</rationale>`, want: "",
			decisions: []string{"f: x", "g: y"}},
		{name: "order", text: block("2", "y") + block("1", "x"), want: "", decisions: []string{"f: x", "g: y"}},
		{name: "twice", text: block("1", "x") + block("1", "z"), want: "", decisions: []string{"f: x"}},
		{name: "no closing tag", text: "a" + `<rationale call="1">{"why":"x"}` + " \n\nb <c", want: "a \n\nb <c",
			decisions: []string{"f: x"}},
		{name: "block after block without closing", text: `<rationale call="1">{"why":"x"}` + block("2", "y"), want: "",
			decisions: []string{"f: x", "g: y"}},
		{name: "open at the end", text: `a<rationale call="1">{"why":"x`, want: "a", code: filter.CodeUnfinishedRationale},
		{name: "open after the object", text: `a<rationale call="1">{"why":"x"} </ratio`, want: "a",
			decisions: []string{"f: x"}},
		{name: "open in the tag", text: `a<rationale call="1`, want: "a", code: filter.CodeUnfinishedRationale},
		{name: "open before the tag", text: `a<ration`, want: "a<ration"},
		{name: "no object", text: `a<rationale call="1">because</rationale>b`, want: "ab",
			code: filter.CodeMalformedRationale},
		{name: "no place", text: `a<rationale call="0">{"why":"x"}</rationale>b`, want: "ab",
			code: filter.CodeMalformedRationale},
		{name: "strange place", text: `a<rationale call="one">{"why":"x"}</rationale>b`, want: "ab",
			code: filter.CodeMalformedRationale},
		{name: "no call", text: block("7", "x"), want: "", code: filter.CodeStrayRationale},
		{name: "braces in strings", text: `<rationale>{"why":"} \" } {"}</rationale>b`, want: "b",
			decisions: []string{`f: } " } {`}},
		{name: "long", text: `<rationale>{"why":"` + strings.Repeat("x", 20000) + `"}</rationale>b`, want: "b",
			code: filter.CodeMalformedRationale},
		{name: "long tag", text: `<rationale ` + strings.Repeat("x", 80) + `>b`, want: `<rationale ` + strings.Repeat("x",
			80) + `>b`},
		{name: "formed", text: block("1", "x"), want: block("1", "x"), formed: true},
	} {
		for _, cut := range []func(string) []string{readertest.Whole, byRunes} {
			got := filteredText(t, filter.RationaleConfig{Iteration: 3, Formed: c.formed}, cut,
				segmentText{reasoning.Answer, c.text},
				segmentText{reasoning.ToolCall, "f"}, segmentText{reasoning.ToolCall, "g"})
			if got.text[reasoning.Answer] != c.want || !reflect.DeepEqual(got.decisions, c.decisions) ||
				strings.Join(got.codes, " ") != c.code {
				t.Errorf("%s: %q %v %v", c.name, got.text[reasoning.Answer], got.decisions, got.codes)
			}
			if n := len(c.decisions); got.count != (reasoning.RationaleCount{Stated: n, Missing: 2 - n}) {
				t.Errorf("%s: %+v", c.name, got.count)
			}
			if text := got.text[reasoning.Answer]; (text == "") == strings.Contains(strings.Join(got.order, " "),
				"segment_start answer") {
				t.Errorf("%s: %v", c.name, got.order)
			}
		}
	}
}

// TestRationaleCut ends a segment in what may be the beginning of a block. It is text only if the segment ends by
// itself.
func TestRationaleCut(t *testing.T) {
	for _, mark := range []string{"<", "<rat", "<rationale"} {
		for _, cut := range []bool{false, true} {
			var got readertest.Recorder
			f := filter.NewRationaleFilter(filter.RationaleConfig{}, got.Emit)
			f.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Answer})
			f.Push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "Hi " + mark})
			if cut {
				f.Cut()
			}
			f.Push(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.Answer})
			f.Finish()
			want := "Hi " + mark
			if cut {
				want = "Hi "
			}
			if text := readertest.Texts(got.Events)[reasoning.Answer]; text != want {
				t.Errorf("%q, cut %v: the text is %q", mark, cut, text)
			}
		}
	}
}

func TestRationaleAfterTheCall(t *testing.T) {
	got := filteredText(t, filter.RationaleConfig{Separator: "\n\n"}, byRunes, segmentText{reasoning.ToolCall, "f"},
		segmentText{reasoning.Answer, "a"}, segmentText{reasoning.ToolCall, "g"},
		segmentText{reasoning.Answer, `<rationale call="1">{"why":"x"}</rationale>`}, segmentText{reasoning.Answer, "b"})
	if got.text[reasoning.Answer] != "a\n\nb" || !reflect.DeepEqual(got.decisions, []string{"f: x"}) ||
		got.count != (reasoning.RationaleCount{Stated: 1, Missing: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestAssumptions(t *testing.T) {
	type a = reasoning.Assumption
	for _, c := range []struct {
		text string
		want []a
	}{
		{"I assume the file is small.", []a{{Text: "the file is small"}}},
		{"So I assume that x is 3.5 because it says so. Good.", []a{{Text: "x is 3.5", Because: "it says so"}}},
		{"I assume x (because y).", []a{{Text: "x", Because: "y"}}},
		{"I am assuming that\nx, because y.\n", []a{{Text: "x", Because: "y"}}},
		{"I am assuming that x.", nil},
		{"Hi assume x. I assumed x. I assume x", nil},
		{"I assume x. I assume x. I assume y. I assume z. I assume w.", []a{{Text: "x"}, {Text: "y"}, {Text: "z"}}},
		{"I I assume x.", []a{{Text: "x"}}},
		{"I assume x\n\nI assume y.", []a{{Text: "y"}}},
		{"I assume " + strings.Repeat("x", 700) + ". I assume y.", []a{{Text: "y"}}},
		{"I assume .", nil},
	} {
		for _, cut := range []func(string) []string{readertest.Whole, byRunes} {
			got := filteredText(t, filter.RationaleConfig{}, cut, segmentText{reasoning.Reasoning, c.text})
			if !reflect.DeepEqual(got.assumptions, c.want) || got.text[reasoning.Reasoning] != c.text {
				t.Errorf("%q: %+v", c.text, got.assumptions)
			}
		}
	}
}

// rationaleParts are the pieces of the generated texts.
var rationaleParts = []string{
	`<rationale call="1">`, `<rationale call="2">`, `<rationale>`, `<RATIONALE x>`, `<rationale`, `<ra`, `<`,
	`</rationale>`, `</rationale`, `{"why":"x"}`, `{"why":"}`,
	`{"why":"y","confidence":1}`, `{`, `}`, `"`, `\`, "\n", "\n\n", " ", "é", "word", "I assume ", "I am assuming that ",
	" because ", ".", ". ", ">",
}

func blockText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(14) {
		b.WriteString(rationaleParts[r.IntN(len(rationaleParts))])
	}
	return b.String()
}

// checkChunks checks that the way a text is cut does not change the result.
func checkChunks(t testing.TB, r *rand.Rand, segments []segmentText) {
	t.Helper()
	var full []segmentText
	for _, s := range segments {
		if s.text != "" {
			full = append(full, s)
		}
	}
	cfg := filter.RationaleConfig{Separator: "--", Iteration: 1}
	want := filteredText(t, cfg, readertest.Whole, full...)
	for _, cut := range []func(string) []string{byRunes, func(s string) []string {
		var out []string
		for _, c := range byRunes(s) {
			if len(out) == 0 || r.IntN(3) == 0 {
				out = append(out, "")
			}
			out[len(out)-1] += c
		}
		return out
	}} {
		if got := filteredText(t, cfg, cut, full...); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v:\n%+v\nwhole:\n%+v", full, got, want)
		}
	}
	for _, s := range full {
		if s.segment != reasoning.ToolCall && !strings.Contains(strings.ToLower(s.text), "<rationale") &&
			!strings.Contains(want.text[s.segment], s.text) {
			t.Fatalf("%q is lost: %+v", s.text, want)
		}
	}
}

func TestRationaleChunksMakeNoDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for range testenv.Rounds(20000) {
		checkChunks(t, r, []segmentText{
			{reasoning.Reasoning, blockText(r)}, {reasoning.Preamble, blockText(r)}, {reasoning.ToolCall, "f"},
			{reasoning.Answer, blockText(r)},
			{reasoning.ToolCall, "g"}, {reasoning.Answer, blockText(r)},
		})
	}
}

func FuzzRationaleFilter(f *testing.F) {
	f.Add("a<rationale call=\"1\">{\"why\":\"x\"}</rationale>\nb", "I assume x because y. ", uint64(1))
	f.Add("<rationale>{\"why\":\"x\"} <", "</rationale>", uint64(2))
	f.Fuzz(func(t *testing.T, first, second string, seed uint64) {
		first, second = strings.ToValidUTF8(first, "?"), strings.ToValidUTF8(second, "?")
		checkChunks(t, rand.New(rand.NewPCG(seed, 1)), []segmentText{
			{reasoning.Reasoning, first}, {reasoning.ToolCall, "f"}, {reasoning.Answer, second}, {reasoning.ToolCall, "g"},
		})
	})
}

// TestRationaleLogprobs checks that the tokens that pass are exactly those without any part of a block.
func TestRationaleLogprobs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	text := `ab <rationale call="1">{"why":"secret"}</rationale>` + "\ncd <ra ef"
	for range 300 {
		var tokens, passed []string
		cut := readertest.Random(r)(text)
		f := filter.NewRationaleFilter(filter.RationaleConfig{}, func(e reasoning.Event) {
			for _, l := range e.Logprobs {
				tokens = append(tokens, l.Text)
			}
		})
		f.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Answer})
		at, from := 0, strings.Index(text, "<rationale")
		to := strings.Index(text, "\ncd")
		for _, piece := range cut {
			f.Push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: piece,
				Logprobs: []reasoning.TokenLogprobs{{Text: piece}}})
			if at+len(piece) <= from || at >= to {
				passed = append(passed, piece)
			}
			at += len(piece)
		}
		f.Push(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.Answer})
		f.Finish()
		if !reflect.DeepEqual(tokens, passed) {
			t.Fatalf("%q: %q, want %q", cut, tokens, passed)
		}
	}
}

func TestRationaleBesideArguments(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`<tool_call>{"name":"f","arguments":{"a":1},"rationale":{"why":"x"}}</tool_call>`, "f: x"},
		{`<tool_call>{"rationale":{"why":"x"},"name":"f","arguments":{"a":1}}</tool_call>`, "f: x"},
		{`<tool_call>{"function":{"name":"f","arguments":{"a":1}},"rationale":{"why":"x"}}</tool_call>`, "f: x"},
		{`<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>`, ""},
		{`<tool_call>{"name":"f","arguments":{"a":1},"rationale":"x"}</tool_call>`, ""},
	} {
		for _, cut := range []func(string) []string{readertest.Whole, readertest.ByBytes, readertest.ByWords} {
			x := readertest.NewLexicon([]string{"<|end|>"}, "<|end|>")
			tokens := x.Encode(c.text, cut)
			var got, args string
			f := filter.NewRationaleFilter(filter.RationaleConfig{}, func(e reasoning.Event) {
				switch {
				case e.Kind == reasoning.Decided:
					got = e.Call.Name + ": " + e.Decision.Rationale.Why
				case e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.ToolCall:
					args += e.Text
				}
			})
			cfg := readertest.Config{Format: markup.Format{Open: "<think>",
				Close: "</think>"}, Config: reader.Config{Vocab: x.Vocab(t), Tools: []string{"f"}, Rationales: true, Emit: f.Push}}
			s, err := readertest.NewReader(cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, tok := range append(tokens, backend.Token(0)) {
				s.Push(tok)
			}
			s.Finish()
			f.Finish()
			if got != c.want || args != `{"a":1}` {
				t.Errorf("%s: %q, arguments %s", c.text, got, args)
			}
		}
	}
}

func TestDecisionsAreReasoning(t *testing.T) {
	for _, e := range []reasoning.Event{{Kind: reasoning.Decided, Decision: &reasoning.Decision{}},
		{Kind: reasoning.Assumed, Assumption: &reasoning.Assumption{}}} {
		for v, want := range map[reasoning.Visibility]bool{reasoning.VisibilityNone: false,
			reasoning.VisibilitySummary: false, reasoning.VisibilityFull: true} {
			if v.Shows(&e) != want {
				t.Errorf("%v under %v", e.Kind, v)
			}
		}
	}
}

// TestRationaleFilterAllocatesNothing checks that text without any marker passes without an allocation.
func TestRationaleFilterAllocatesNothing(t *testing.T) {
	f := filter.NewRationaleFilter(filter.RationaleConfig{}, func(reasoning.Event) {})
	f.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Answer})
	texts := []string{"I", " assume", " it", " is", " in", " order", "\n"}
	push := func() {
		for _, text := range texts {
			f.Push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: text})
		}
	}
	push()
	if n := testing.AllocsPerRun(100, push); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
