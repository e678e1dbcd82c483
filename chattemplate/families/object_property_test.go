package families_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/filter"
)

// jsonString writes s as a JSON string in one of its many spellings.
func jsonString(r *rand.Rand, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		short := strings.IndexRune("\"\\/\b\f\n\r\t", c)
		switch {
		case short >= 0 && r.IntN(2) == 0:
			b.WriteString(`\` + `"\/bfnrt`[short:short+1])
		case c < ' ' || c == '"' || c == '\\' || r.IntN(4) == 0:
			for _, u := range utf16.AppendRune(nil, c) {
				fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], u)
			}
		default:
			b.WriteRune(c)
		}
		if r.IntN(12) == 0 {
			b.WriteString([]string{`\ud800`, `\uDFFF`, "\xff", "\xe4\xb8", "\xf0\x9f"}[r.IntN(5)])
		}
	}
	b.WriteByte('"')
	return b.String()
}

// randomText returns a text with characters of every length in UTF-8 and those that matter in JSON.
func randomText(r *rand.Rand) string {
	runes := []rune("ab \"\\/\n\t\x00{}[],:é中😀<>\u2028")
	text := make([]rune, r.IntN(12))
	for i := range text {
		text[i] = runes[r.IntN(len(runes))]
	}
	return string(text)
}

func randomValue(r *rand.Rand, depth int) string {
	switch n := r.IntN(7); {
	case n == 0 && depth > 0:
		var parts []string
		for range r.IntN(3) {
			parts = append(parts, jsonString(r, randomText(r))+":"+randomValue(r, depth-1))
		}
		return "{" + strings.Join(parts, " ,") + "}"
	case n == 1 && depth > 0:
		var parts []string
		for range r.IntN(3) {
			parts = append(parts, randomValue(r, depth-1))
		}
		return "[ " + strings.Join(parts, ",\n") + "]"
	case n < 4:
		return jsonString(r, randomText(r))
	}
	return []string{"0", "-12.5e3", "true", "false", "null", "1e999",
		"123456789012345678901234567890123456789012345678901234567890"}[r.IntN(7)]
}

// oracle reads an object with encoding/json. ok is false if text is not a JSON object, or has a value that is too long
// for the reader.
func oracle(text string, raw bool) (reply generation.Reply, score *float64, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') || !json.Valid([]byte(text)) {
		return reply, nil, false
	}
	for d.More() {
		from := int(d.InputOffset())
		from += strings.IndexByte(text[from:], '"')
		name, err := d.Token()
		if err != nil {
			return reply, nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return reply, nil, false
		}
		var decoded string
		var number float64
		isString := json.Unmarshal(value, &decoded) == nil && string(value) != "null"
		switch m := strings.ToLower(name.(string)); {
		case !isString && len(value) > 60 && (m == "score" || m == "reasoning"):
			return reply, nil, false // longer than the reader accepts
		case m == "answer":
			ok = true
			if isString && !raw {
				reply.Answer += decoded
			} else {
				reply.Answer += string(value)
			}
		case m != "reasoning" && m != "score":
			reply.Reasoning += text[from:d.InputOffset()]
		case string(value) == "null":
			ok = true
		case m == "score" && json.Unmarshal(value, &number) == nil:
			score, ok = &number, true
		case m == "reasoning" && isString:
			reply.Reasoning += decoded
			ok = true
		default:
			reply.Reasoning += string(value)
			ok = true
		}
	}
	if !ok {
		return generation.Reply{Answer: text}, nil, true
	}
	return reply, score, true
}

// readObject runs text through a reader and returns the reply and the score.
func readObject(t testing.TB, cfg readertest.Config, text string, cut func(string) []string) (generation.Reply,
	*float64) {
	t.Helper()
	x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
	tokens := x.Encode(text, cut)
	var rec readertest.Recorder
	cfg.Vocab, cfg.Emit = x.Vocab(t), rec.Emit
	s, err := readertest.NewReader(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range tokens {
		s.Push(tok)
		if st := s.State(); st.InObject && st.Segment == reasoning.ToolCall {
			t.Fatalf("the state in an object is that of a call: %+v", st)
		}
		s.CloseReasoning()
	}
	s.Finish()
	readertest.CheckNesting(t, rec.Events)
	reply := replyOf(rec.Events)
	if score, ok := s.Score(); ok {
		return reply, &score
	}
	return reply, nil
}

// validRunes replaces each invalid byte with U+FFFD, as readers do.
func validRunes(s string) string { return string([]rune(s)) }

func checkOracle(t *testing.T, text string, raw bool, got generation.Reply, score *float64) {
	t.Helper()
	want, wantScore, ok := oracle(text, raw)
	if !ok {
		return
	}
	if got.Answer != validRunes(want.Answer) || got.Reasoning != validRunes(want.Reasoning) ||
		!reflect.DeepEqual(score, wantScore) {
		t.Fatalf("%q:\n got %q, %q, %v\nwant %q, %q, %v", text, got.Reasoning, got.Answer, score, want.Reasoning,
			want.Answer, wantScore)
	}
}

// TestObjectEqualsDecoder checks that reasoning and answer are what encoding/json decodes, however the text is cut.
func TestObjectEqualsDecoder(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	space := func() string { return []string{"", "", " ", "\n ", "\t"}[r.IntN(5)] }
	for range 3000 {
		names := slices.Clone([]string{"reasoning", "answer", "score", "note", "a\"b", ""}[:2+r.IntN(5)])
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var members []string
		for _, n := range names {
			value := randomValue(r, 3)
			if n == "reasoning" || r.IntN(2) == 0 {
				value = jsonString(r, randomText(r))
			}
			name := `"` + n + `"`
			if n == `a"b` || r.IntN(8) == 0 {
				name = strings.Map(func(c rune) rune {
					if c == '\xff' {
						return -1
					}
					return c
				}, jsonString(rand.New(rand.NewPCG(1, 1)), n))
			}
			members = append(members, space()+name+space()+":"+space()+value+space())
		}
		text := space() + "{" + strings.Join(members, ",") + "}" + space()
		cfg := readertest.Config{Config: reader.Config{JSON: []*reader.JSONConfig{decodedAnswer, rawAnswer}[r.IntN(2)]}}
		for _, cut := range []func(string) []string{readertest.Whole, readertest.ByBytes, readertest.Random(r),
			readertest.Random(r)} {
			got, score := readObject(t, cfg, text, cut)
			checkOracle(t, text, cfg.JSON.RawAnswer, got, score)
		}
	}
}

// objectSoup holds pieces of objects as careless models write them.
var objectSoup = []string{
	"{", "}", "[", "]", ":", ",", `"`, `\`, `\"`, `\u`, `\ud83d`, `\ude00`, "00e9", " ", "\n", "```", "json\n", "null",
	"1.5", "true",
	`"reasoning"`, `"answer"`, `"score"`, `"note"`, `{"reasoning": "`, `", "answer": "`, `"answer": `, `"}`, "reasoning",
	"<think>", "</think>", "<<REASONING>>", "<</REASONING>>",
}

// TestObjectTextIsNeverLost mixes pieces of objects with numbered pieces of text, which must all arrive in order.
func TestObjectTextIsNeverLost(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	runes := []rune(foreign)
	for range 5000 {
		var in strings.Builder
		var want []string
		if r.IntN(2) == 0 {
			in.WriteString(`{"reasoning": "`)
		}
		for i := range r.IntN(30) {
			if r.IntN(3) > 0 {
				in.WriteString(objectSoup[r.IntN(len(objectSoup))])
				continue
			}
			p := string(runes[i%4]) + string(rune(0x4E00+i)) + string(runes[r.IntN(4)])
			want = append(want, p)
			in.WriteString(p)
		}
		cfg := readertest.Config{Format: []markup.Format{{}, think, granite, readertest.HarmonyFormat}[r.IntN(4)],
			Config: reader.Config{Start: chattemplate.Start(r.IntN(3)), Markers: r.IntN(2) == 0,
				JSON: []*reader.JSONConfig{decodedAnswer, rawAnswer}[r.IntN(2)]}}
		x := readertest.HarmonyLexicon()
		text := in.String()
		if cfg.Format == readertest.HarmonyFormat && r.IntN(2) == 0 {
			cfg.JSON, cfg.Report, cfg.Start = nil, true, chattemplate.StartTurn
			text = "<|channel|>commentary to=functions.report_reasoning<|message|>" + text
		}
		tokens := x.Encode(text, readertest.Random(r))
		cfg.Vocab = x.Vocab(t)
		if got := foreignIn(readertest.Read(t, cfg, tokens)); got != strings.Join(want, "") {
			t.Fatalf("text of %q was lost or moved:\n got %q\nwant %q", text, got, want)
		}
	}
}

// TestObjectVisibility checks that no byte of the reasoning passes the policy in any field of any event, even if the
// object is malformed.
func TestObjectVisibility(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	const secret = "κρυφό"
	objects := []string{
		`{"reasoning": "%s \"a\" %s", "answer": "Hello"}`,
		`{"reasoning": "%s "a", %s", "answer": "Hello"}`,
		"```json\n{\"answer\": \"Hello\", \"reasoning\": \"%s\\n%s\"}\n```",
		`{"%s": "%s", "answer": "Hello"}`,
		`{"reasoning": ["%s", {"%s": 1}], "answer": "Hello", "score": 1}`,
		`{"score": "%s %s" "answer": "Hello", "reasoning": "x"`,
		`<<REASONING>>%s %s<</REASONING>>Hello`,
	}
	for _, object := range objects {
		text := fmt.Sprintf(object, secret, secret)
		for range 20 {
			x := readertest.NewLexicon([]string{"<eos>"}, "<eos>")
			tokens := x.Encode(text, readertest.Random(r))
			v := x.Vocab(t)
			for vis := reasoning.VisibilityNone; vis <= reasoning.VisibilityFull; vis++ {
				var seen readertest.Recorder
				stop := filter.NewStopFilter([]string{"lo\n"}, readertest.Shown(vis, seen.Emit), reasoning.Answer)
				s, err := readertest.NewReader(readertest.Config{Config: reader.Config{Vocab: v, Emit: stop.Push,
					JSON: decodedAnswer, Markers: true, Logprobs: true}})
				if err != nil {
					t.Fatal(err)
				}
				for _, tok := range tokens {
					s.PushOutput(tok, &backend.Output{Token: tok, Top: []backend.TokenLogprob{{Token: tok}}})
				}
				s.Finish()
				stop.Finish()
				var all, answer strings.Builder
				for _, e := range seen.Events {
					b, err := e.MarshalJSON()
					if err != nil {
						t.Fatal(err)
					}
					all.Write(b)
					if e.Segment == reasoning.Answer {
						answer.WriteString(e.Text)
						for _, l := range e.Logprobs {
							if strings.ContainsAny(l.Text, "κρφ") {
								t.Fatalf("log probabilities show %q", l.Text)
							}
						}
					}
				}
				if strings.ContainsAny(all.String(), "κρφ") != (vis == reasoning.VisibilityFull) || answer.String() != "Hello" {
					t.Fatalf("%s: visibility %v, but the events are %s", text, vis, all.String())
				}
			}
		}
	}
}

func FuzzJSONReader(f *testing.F) {
	for i, c := range objectCases {
		f.Add(c.in, uint64(i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64, mode uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		cfg := readertest.Config{Format: []markup.Format{{}, think}[mode/3%2],
			Config: reader.Config{JSON: []*reader.JSONConfig{decodedAnswer, rawAnswer, nil}[mode%3], Markers: mode&64 != 0,
				Report: mode&128 != 0}}
		var first generation.Reply
		var firstScore *float64
		for i, cut := range []func(string) []string{readertest.Whole, readertest.Random(r), readertest.ByBytes} {
			got, score := readObject(t, cfg, text, cut)
			if i == 0 {
				first, firstScore = got, score
			} else if !reflect.DeepEqual(got, first) || !reflect.DeepEqual(score, firstScore) {
				t.Fatalf("cut another way:\n got %+v\nwant %+v", got, first)
			}
		}
		// Compare with the decoder only where the reader's limits do not matter and other formats cannot begin.
		if cfg.JSON != nil && cfg.Format.Open == "" && len(text) < 1000 &&
			!strings.ContainsAny(text, "<`") &&
			(!cfg.Markers || text == strings.TrimSpace(text)) { // newlines at the edges may belong to a marker
			checkOracle(t, text, cfg.JSON.RawAnswer, first, firstScore)
		}
	})
}
