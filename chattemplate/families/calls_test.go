package families_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/family"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/chattemplate/vocabtest"
	"runner/conformance"
	"runner/generation"
	"runner/reasoning"
)

var markPattern = regexp.MustCompile(
	`<\|[^<>|{}\s]{1,30}\|>|</?[a-z_:|]{2,24}>|<[|｜][^<>{}\s]{1,30}[|｜]?>|<[a-z_]{2,20}\|>|\[/?[A-Z_]{2,24}\]`)

// turnEnds holds the marks that end a turn in the reference templates.
var turnEnds = []string{"<|im_end|>", "</s>", "<|eot_id|>", "<|eom_id|>", "<｜end▁of▁sentence｜>",
	"<|END_OF_TURN_TOKEN|>", "<sep>",
	"<|message_sep|>", "<|assistant_end|>", "<|user|>", "<|endoftext|>"}

// callTools holds the functions that random calls call.
var callTools = []chattemplate.Tool{
	{Name: "add_x", Description: "d", Parameters: json.RawMessage(
		`{"type": "object", "properties": {"text": {"type": "string", "description": "d"}, "n": {"type": "integer", ` +
			`"description": "d"}, "deep": {"type": "object", "description": "d"}}, "required": []}`)},
	{Name: "sub", Description: "d",
		Parameters: json.RawMessage(
			`{"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string"}, "description": "d"}}, ` +
				`"required": []}`)},
}

func isStringParam(_, parameter string) bool { return parameter == "text" }

func callString(r *rand.Rand) string {
	parts := []string{"a", " b", "\n", `"`, `\`, "<", "</", "}", "{", "é", "中", "🙂", "</tool_call", "5", "null", "]",
		"\t", "'", "&"}
	var b strings.Builder
	for range r.IntN(8) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func randomCall(r *rand.Rand) (string, map[string]any) {
	if r.IntN(3) == 0 {
		list := []any{}
		for range r.IntN(3) {
			list = append(list, callString(r))
		}
		return "sub", map[string]any{"list": list}
	}
	args := map[string]any{}
	if r.IntN(4) > 0 {
		args["text"] = callString(r)
	}
	if r.IntN(2) == 0 {
		args["n"] = float64(r.IntN(100))
	}
	if r.IntN(3) == 0 {
		args["deep"] = map[string]any{"x": []any{nil, true, callString(r)}, "y": map[string]any{}}
	}
	return "add_x", args
}

// recut cuts the text of a turn into other tokens. Marks stay as they are.
func recut(x *readertest.Lexicon, v *backend.Vocab, tokens []backend.Token, cut func(string) []string) []backend.Token {
	var out []backend.Token
	var run strings.Builder
	flush := func() {
		for _, p := range cut(run.String()) {
			out = append(out, x.Text(p))
		}
		run.Reset()
	}
	for _, tok := range tokens {
		if v.Kind(tok) != backend.Control {
			run.WriteString(v.Piece(tok))
			continue
		}
		flush()
		piece := v.Piece(tok)
		if _, ok := x.Ids[piece]; !ok {
			x.Ids[piece] = x.Add(piece, backend.Control)
		}
		out = append(out, x.Ids[piece])
	}
	flush()
	return out
}

// TestCallsRoundTrip renders calls through every reference template with a known style of calls, and reads them back.
func TestCallsRoundTrip(t *testing.T) {
	dir := conformance.Dir(t, "chat_templates")
	files, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	styles := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		marks := append([]string{"<s>", "</s>"}, markPattern.FindAllString(string(source), -1)...)
		v := vocabtest.With(t, backend.VocabConfig{BOS: 256, EOS: 257, EOG: []backend.Token{257}}, unique(marks)...)
		tmpl, err := families.Open(chattemplate.Config{Vocab: v, Tokenize: vocabtest.Tokenize, Source: string(source),
			ForceJinja: true})
		if err != nil {
			t.Fatal(err)
		}
		style := readertest.FormatOf(tmpl).Calls
		if style == nil {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jinja"), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 7))
			read := 0
			for range 60 {
				read += roundTrip(t, r, tmpl, v, style)
				if t.Failed() {
					return
				}
			}
			if read > 0 {
				styles[style.Name] = true
			}
			t.Logf("style %s: %d calls", style.Name, read)
		})
	}
	for _, s := range markup.CallStyles() {
		if !styles[s.Name] && s.Name != "granite" && s.Name != "llama-tag" {
			t.Errorf("no template writes calls in style %s", s.Name)
		}
	}
}

func unique(list []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// roundTrip writes and reads one turn and returns how many calls it had: none if the template does not write calls.
func roundTrip(t *testing.T, r *rand.Rand, tmpl family.Family, v *backend.Vocab,
	style *markup.CallStyle) int {
	t.Helper()
	ask := chattemplate.Message{Role: chattemplate.User, Content: "Q"}
	turn := chattemplate.Message{Role: chattemplate.Assistant}
	var want []map[string]any
	for i := range 1 + r.IntN(2) {
		name, args := randomCall(r)
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		turn.ToolCalls = append(turn.ToolCalls, chattemplate.ToolCall{ID: "call0000" + string(rune('1'+i)), Name: name,
			Arguments: string(text)})
		want = append(want, map[string]any{"name": name, "args": args})
	}
	c := chattemplate.Conversation{Messages: []chattemplate.Message{ask, turn}, NoGenerationPrompt: true,
		Now: time.Unix(0, 0).UTC()}
	if readertest.FormatOf(tmpl).Tools {
		c.Tools = callTools
	}
	full, err := tmpl.Render(c)
	if err != nil && len(turn.ToolCalls) > 1 { // some templates allow one call only
		turn.ToolCalls, want = turn.ToolCalls[:1], want[:1]
		c.Messages[1] = turn
		full, err = tmpl.Render(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Messages, c.NoGenerationPrompt = c.Messages[:1], false
	before, err := tmpl.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for n < len(full.Tokens) && n < len(before.Tokens) && full.Tokens[n] == before.Tokens[n] {
		n++
	}
	tokens := full.Tokens[n:]
	for i, tok := range tokens {
		for _, end := range turnEnds {
			if v.Kind(tok) == backend.Control && v.Piece(tok) == end && i > 0 {
				tokens = tokens[:i]
			}
		}
		if i >= len(tokens) {
			break
		}
	}
	if !strings.Contains(full.Text, style.Open) {
		return 0
	}
	var said strings.Builder
	for _, tok := range tokens {
		said.WriteString(v.Piece(tok))
	}
	if style.Open != "" && !strings.Contains(said.String(), style.Open) {
		return 0
	}
	for _, cut := range []func(string) []string{readertest.Random(r), readertest.ByBytes, readertest.ByWords,
		readertest.Whole} {
		x := readertest.NewLexicon([]string{"<the end>"}, "<the end>")
		again := recut(x, v, tokens, cut)
		events := readertest.Read(t, readertest.Config{Format: readertest.FormatOf(tmpl),
			Config: reader.Config{Vocab: x.Vocab(t), Tools: []string{"add_x", "sub"}, StringParam: isStringParam}}, again)
		var got []map[string]any
		var collected generation.Collector
		for _, e := range events {
			if e.Kind == reasoning.Warning {
				t.Errorf("unexpected warning %s", e.Code)
				continue
			}
			collected.Push(e)
		}
		for _, call := range collected.Reply().Calls {
			var args map[string]any
			if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
				t.Errorf("arguments %q: %v", call.Arguments, err)
			}
			got = append(got, map[string]any{"name": call.Name, "args": args})
		}
		if style.Name == "gigachat" && len(want) > 1 {
			want = want[:1] // the template writes the first call only
		}
		if !reflect.DeepEqual(got, want) || strings.TrimSpace(collected.Reply().Answer) != "" {
			t.Errorf("reading %q\n got %v, answer %q\nwant %v", said.String(), got, collected.Reply().Answer, want)
		}
	}
	return len(want)
}

// checkCallChunks checks that a text reads the same however it is cut into tokens.
func checkCallChunks(t *testing.T, cfg readertest.Config, text string, marks []string, r *rand.Rand) {
	t.Helper()
	var first generation.Reply
	for i, cut := range []func(string) []string{readertest.Whole, readertest.ByBytes, readertest.Random(r)} {
		x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
		tokens := encodeMarks(x, text, marks, cut)
		cfg.Vocab = x.Vocab(t)
		if got := replyOf(readertest.Read(t, cfg, tokens)); i == 0 {
			first = got
		} else if !reflect.DeepEqual(got, first) {
			t.Fatalf("%q cut another way:\n got %+v\nwant %+v", text, got, first)
		}
	}
}

// callSoup holds pieces of calls in text.
var callSoup = func() (out []string) {
	for _, s := range markup.CallStyles() {
		out = append(out, s.Open)
		for _, tokens := range [][]markup.CallToken{s.Head, s.Tail, s.Close, s.Param} {
			for _, t := range tokens {
				out = append(out, t.Space+t.Text)
			}
		}
	}
	return append(unique(out), "f", "report_reasoning", "é", "{}", `{"a": 1}`, `{"a":"`, "x", "\n", " ",
		`{"name": "f", "arguments": {"b": 2}}`, "<think>", "</think>",
		`{"name": "report_reasoning", "arguments": {"reasoning": "`, "\xe4\xb8", ",", "[", "]", "}", `"`, `\`)
}()

// TestCallsInAnyChunks reads random pieces of calls, cut in several ways.
func TestCallsInAnyChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	styles := markup.CallStyles()
	for range 4000 {
		s := styles[r.IntN(len(styles))]
		var in strings.Builder
		for i := range r.IntN(16) {
			if i == r.IntN(4) {
				in.WriteString(s.Open)
			}
			in.WriteString(callSoup[r.IntN(len(callSoup))])
		}
		cfg := readertest.Config{Format: []markup.Format{{}, think}[r.IntN(2)], Config: reader.Config{Tools: []string{"f"},
			Report: r.IntN(3) == 0, Separator: []string{"", "\n\n"}[r.IntN(2)], Formed: r.IntN(4) == 0}}
		cfg.Format.Calls = s
		if r.IntN(2) == 0 {
			cfg.StringParam = func(_, p string) bool { return p == "a" }
		}
		if r.IntN(3) == 0 {
			cfg.Opens = func(string) bool { return true }
		}
		var marks []string
		if r.IntN(2) == 0 && s.Open != "" {
			marks = append(marks, s.Open)
			for _, c := range s.Close {
				marks = append(marks, c.Text)
			}
		}
		checkCallChunks(t, cfg, in.String(), marks, r)
	}
}

// TestRejectedCallsAreWhole checks that a block without a call becomes text of the answer, complete.
func TestRejectedCallsAreWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, s := range markup.CallStyles() {
		if s.Open == "" {
			continue
		}
		for range 100 {
			var in strings.Builder
			in.WriteString("A " + s.Open)
			for range 1 + r.IntN(6) {
				in.WriteString([]string{"f", "é", " ", `{"a": 1}`, "x.", "!", s.Open, `"`}[r.IntN(8)])
			}
			x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
			tokens := encodeMarks(x, in.String(), nil, readertest.Random(r))
			events := readertest.Read(t, readertest.Config{Format: markup.Format{Calls: s},
				Config: reader.Config{Vocab: x.Vocab(t), Tools: []string{"f"}}}, tokens)
			got := readertest.Texts(events)
			if got[reasoning.ToolCall] == "" && got[reasoning.Answer] != in.String() {
				t.Fatalf("%s: %q became %q", s.Name, in.String(), got[reasoning.Answer])
			}
		}
	}
}

func FuzzCalls(f *testing.F) {
	for i, s := range markup.CallStyles() {
		f.Add(s.Open+`{"name": "f", "arguments": {"a": "é"}}`+"\n", uint64(i), uint8(i))
		f.Add(s.Open+"\n<function=f>\n<parameter=a>\n5\n</parameter>\n</function>\n</tool_call>", uint64(i), uint8(i))
		f.Add(s.Open+"f<arg_key>a</arg_key><arg_value>é</arg_value></tool_call>", uint64(i), uint8(i+32))
		f.Add(s.Open+`[{"name": "f", "arguments": {}}, {"name": "report_reasoning", "arguments": {"reasoning": "x"}}]`,
			uint64(i), uint8(i+64))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64, mode uint8) {
		styles := markup.CallStyles()
		cfg := readertest.Config{Config: reader.Config{Tools: []string{"f"}, Report: mode&64 != 0, Formed: mode&128 != 0}}
		cfg.Format.Calls = styles[int(mode&31)%len(styles)]
		if mode&32 != 0 {
			cfg.Opens = func(string) bool { return true }
		}
		checkCallChunks(t, cfg, text, nil, rand.New(rand.NewPCG(seed, 1)))
	})
}
