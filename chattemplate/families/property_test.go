package families_test

import (
	"fmt"
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

// foreign holds characters that cannot stand in a header. Tests that look for lost text write numbered pieces made of
// them.
const foreign = "⟦⟧€√"

// soup returns a vocabulary of everything that a harmony model can write in the wrong place, and its tokens with some
// invalid ones.
func soup(t testing.TB) (*backend.Vocab, []backend.Token) {
	x := readertest.HarmonyLexicon()
	for i, p := range []string{
		"assistant", "user", "commentary", "analysis", "final", " to=", "functions.f", "to=", "json", " json", " ",
		"\n", "{", "}",
		"com", "mentary", "fin", "al", "t", "o", "=", "ass", "istant", "I", " think", "\xe2", "\x9f", "\xa6", "\xff",
		"é", ":", "<",
		"<<REASONING>>", "<</REASONING>>", "code", "[", "constrain", "tool", "system", ".",
		" to=report_reasoning", `{"reasoning":"`, `","answer":"`, `"answer"`, `"`, ",", "\\", "u00",
	} {
		if x.Text(p) != backend.Token(len(readertest.HarmonySpecials)+i) {
			t.Fatal("a piece is listed twice")
		}
	}
	x.Add("<|reserved|>", backend.Control)
	x.Add("", backend.Unused)
	v := x.Vocab(t)
	var all []backend.Token
	for tok := range backend.Token(v.Len()) {
		all = append(all, tok)
	}
	return v, append(all, -5, backend.Token(v.Len()), 1<<30)
}

// TestTextIsNeverLost reads random harmony tokens. Every piece of text that cannot be part of a header must be in
// exactly one segment, in order.
func TestTextIsNeverLost(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 3000 {
		x := readertest.HarmonyLexicon()
		var in strings.Builder
		var want []string
		for i := range r.IntN(40) {
			if r.IntN(2) == 0 {
				in.WriteString(readertest.HarmonySpecials[r.IntN(len(readertest.HarmonySpecials))])
			} else if r.IntN(3) == 0 {
				in.WriteString([]string{"assistant", "analysis", "final", "commentary", " to=functions.f", " json", " "}[r.IntN(7)])
			} else {
				runes := []rune(foreign)
				p := string(runes[i%4]) + string(rune(0x4E00+i)) + string(runes[r.IntN(4)])
				want = append(want, p)
				in.WriteString(p)
			}
		}
		tokens := x.Encode(in.String(), readertest.Random(r))
		cfg := readertest.Config{Format: readertest.HarmonyFormat, Config: reader.Config{Vocab: x.Vocab(t),
			Start: chattemplate.Start(r.IntN(3)), Markers: r.IntN(4) == 0}}
		if got := foreignIn(readertest.Read(t, cfg, tokens)); got != strings.Join(want, "") {
			t.Fatalf("text of %q was lost or moved:\n got %q\nwant %q", in.String(), got, want)
		}
	}
}

// foreignIn returns the foreign text and its numbers in the deltas of events.
func foreignIn(events []reasoning.Event) string {
	var text strings.Builder
	for _, e := range events {
		if e.Kind == reasoning.SegmentDelta {
			text.WriteString(e.Text)
		}
	}
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(foreign, r) || r >= 0x4E00 && r < 0x4F00 {
			return r
		}
		return -1
	}, text.String())
}

// TestAnyChunking checks that a text reads the same however it is cut into tokens.
func TestAnyChunking(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	formats := []markup.Format{readertest.HarmonyFormat, think, granite, {}, markup.Markers}
	for range 2000 {
		in := readertest.RandomOutput(r)
		cfg := readertest.Config{Format: formats[r.IntN(len(formats))],
			Config: reader.Config{Start: chattemplate.Start(r.IntN(3)), Markers: r.IntN(3) == 0,
				Tools: [][]string{nil, {"f"}}[r.IntN(2)], Separator: []string{"", "\n\n"}[r.IntN(2)],
				JSON: []*reader.JSONConfig{nil, nil, decodedAnswer, rawAnswer}[r.IntN(4)], Report: r.IntN(3) == 0}}
		var first generation.Reply
		for i, cut := range []func(string) []string{readertest.Whole, readertest.ByBytes, readertest.Random(r),
			readertest.Random(r)} {
			x := readertest.HarmonyLexicon()
			tokens := x.Encode(in, cut)
			cfg.Vocab = x.Vocab(t)
			got := replyOf(readertest.Read(t, cfg, tokens))
			if i == 0 {
				first = got
				continue
			}
			if !reflect.DeepEqual(got, first) {
				t.Fatalf("%q in format %v cut another way:\n got %+v\nwant %+v", in, cfg.Format, got, first)
			}
		}
	}
}

// replyOf collects events, without the warnings.
func replyOf(events []reasoning.Event) generation.Reply {
	var c generation.Collector
	for _, e := range events {
		if e.Kind != reasoning.Warning {
			c.Push(e)
		}
	}
	return c.Reply()
}

// TestVisibility checks that no byte of hidden reasoning passes the policy, in any field of any event.
func TestVisibility(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	const secret, told = "κρυφό", "σύνοψη"
	for range 500 {
		x := readertest.HarmonyLexicon()
		var in strings.Builder
		for range 1 + r.IntN(6) {
			switch r.IntN(6) {
			case 0:
				in.WriteString("<|start|>assistant<|channel|>final<|message|>Hello <|end|>")
			case 1:
				in.WriteString("<|start|>assistant<|channel|>commentary<|message|>Look <|end|>")
			case 2:
				in.WriteString("<|start|>assistant<|channel|>unknown<|message|>" + secret + "<|end|>")
			case 3:
				in.WriteString("<|start|>user<|message|>" + secret + "<|end|>")
			case 4:
				in.WriteString("<|start|>assistant<|channel|>" + secret + " x <|end|>")
			default:
				in.WriteString("<|start|>assistant<|channel|>analysis<|message|>" + secret + "<|end|>")
			}
		}
		tokens := x.Encode(in.String(), readertest.Random(r))
		v := x.Vocab(t)
		for vis := reasoning.VisibilityNone; vis <= reasoning.VisibilityFull; vis++ {
			var seen readertest.Recorder
			emit := readertest.Shown(vis, seen.Emit)
			s, err := readertest.NewReader(readertest.Config{Format: readertest.HarmonyFormat,
				Config: reader.Config{Vocab: v, Emit: emit, Logprobs: true}})
			if err != nil {
				t.Fatal(err)
			}
			for _, tok := range tokens {
				s.PushOutput(tok, &backend.Output{Token: tok, Top: []backend.TokenLogprob{{Token: tok}}})
			}
			s.Finish()
			emit(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Summary})
			emit(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Summary, Text: told})
			emit(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.Summary})
			var all strings.Builder
			for _, e := range seen.Events {
				b, err := e.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				all.Write(b)
				if vis != reasoning.VisibilityFull && e.Segment == reasoning.Reasoning {
					t.Fatalf("visibility %v shows the event %s", vis, b)
				}
			}
			if strings.ContainsAny(all.String(), "κρφ") != (vis == reasoning.VisibilityFull &&
				strings.Contains(in.String(), secret)) {
				t.Fatalf("visibility %v, wrong events for the reasoning: %s", vis, all.String())
			}
			if strings.Contains(all.String(), told) != (vis != reasoning.VisibilityNone) {
				t.Fatalf("visibility %v, wrong events for the summary: %s", vis, all.String())
			}
		}
	}
}

func FuzzHarmony(f *testing.F) {
	v, all := soup(f)
	f.Add([]byte{0, 8, 3, 11, 2, 40, 1}, uint8(0))
	f.Add([]byte{3, 11, 13, 14, 4, 16, 2, 20, 21, 6}, uint8(1))
	f.Add([]byte{3, 12, 2, 48, 37, 49, 37, 51, 5}, uint8(16))
	f.Add([]byte{3, 10, 47, 2, 48, 37, 51, 21, 6}, uint8(8))
	f.Fuzz(func(t *testing.T, data []byte, mode uint8) {
		tokens := make([]backend.Token, len(data))
		for i, b := range data {
			tokens[i] = all[int(b)%len(all)]
		}
		cfg := readertest.Config{Format: readertest.HarmonyFormat,
			Config: reader.Config{Vocab: v, Start: chattemplate.Start(mode % 3), Markers: mode&4 != 0, Tools: []string{"f"},
				Report: mode&8 != 0, JSON: []*reader.JSONConfig{nil, decodedAnswer, nil, rawAnswer}[mode>>4&3]}}
		checkBytes(t, cfg, tokens, readertest.Read(t, cfg, tokens))
	})
}

// checkBytes checks that the text of the segments comes from the text of the tokens, in the same order. Only headers,
// markers and the newlines next to markers may be missing.
func checkBytes(t *testing.T, cfg readertest.Config, tokens []backend.Token, events []reasoning.Event) {
	var in, out strings.Builder
	for _, tok := range tokens {
		if k := cfg.Vocab.Kind(tok); k != backend.Control && k != backend.Unused {
			in.WriteString(cfg.Vocab.Piece(tok))
		}
	}
	for _, e := range events {
		if e.Kind == reasoning.SegmentDelta {
			out.WriteString(e.Text)
		}
	}
	if strings.Count(in.String(), "é") != strings.Count(out.String(), "é") {
		t.Fatalf("text is missing: %q of %q", out.String(), in.String())
	}
	rest := in.String()
	for _, r := range out.String() {
		if r == '\uFFFD' {
			continue
		}
		after, ok := afterRune(rest, r, cfg.JSON != nil || cfg.Report)
		if !ok {
			t.Fatalf("text that the model did not write: %q of %q", out.String(), in.String())
		}
		rest = after
	}
}

// afterRune returns what follows the first r in text. With escapes, r may also be written as a JSON escape.
func afterRune(text string, r rune, escapes bool) (after string, ok bool) {
	spellings := []string{string(r)}
	if escapes {
		spellings = append(spellings, fmt.Sprintf(`\u%04x`, r), fmt.Sprintf(`\u%04X`, r))
		if i := strings.IndexRune("\b\f\n\r\t", r); i >= 0 {
			spellings = append(spellings, `\`+"bfnrt"[i:i+1])
		}
	}
	for _, s := range spellings {
		if _, rest, found := strings.Cut(text, s); found && (!ok || len(rest) > len(after)) {
			after, ok = rest, true
		}
	}
	return after, ok
}

func FuzzTags(f *testing.F) {
	f.Add("<think>a</think>b<tool_call>{\"name\":\"f\"}</tool_call>", uint64(1), uint8(0))
	f.Add("<<REASONING>>\n\n\xe4\xb8<</REASONING>>{", uint64(2), uint8(9))
	f.Add("\r{", uint64(104), uint8('U'))
	f.Fuzz(func(t *testing.T, text string, seed uint64, mode uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		formats := []markup.Format{think, granite, {}, markup.Markers}
		var first generation.Reply
		for i, cut := range []func(string) []string{readertest.Whole, readertest.Random(r), readertest.ByBytes} {
			x := readertest.NewLexicon([]string{"<eos>", "<|python_tag|>"}, "<eos>")
			tokens := x.Encode(text, cut)
			cfg := readertest.Config{Format: formats[mode%4], Config: reader.Config{Start: chattemplate.Start(mode / 4 % 3),
				Vocab: x.Vocab(t), Markers: mode&32 != 0, Report: mode&128 != 0}}
			if mode&64 != 0 {
				cfg.Tools = []string{"f"}
			}
			if got := replyOf(readertest.Read(t, cfg, tokens)); i == 0 {
				first = got
			} else if !reflect.DeepEqual(got, first) {
				t.Fatalf("cut another way:\n got %+v\nwant %+v", got, first)
			}
		}
	})
}
