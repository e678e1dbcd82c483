package families_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/tokenizer/o200ktest"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/reasoning"
	"runner/reasoning/filter"
)

// o200k returns the vocabulary of o200k_harmony.
func o200k(t testing.TB) *backend.Vocab {
	t.Helper()
	return o200ktest.Tokenizer(t).Vocab()
}

// benchTurn returns a long harmony turn of o200k tokens: reasoning and an answer. One token in forty holds part of a
// rune, one in ten another script, and one in eight a comma. The frequency of tokens falls with their rank as in real
// text (Zipf).
func benchTurn(b testing.TB) ([]backend.Token, int) {
	v, r := o200k(b), rand.New(rand.NewPCG(1, 2))
	var ascii, other, partial []backend.Token
	for t := range backend.Token(199998) {
		p := v.Piece(t)
		switch {
		case string([]rune(p)) != p:
			partial = append(partial, t)
		case len(p) == len([]rune(p)):
			if len(p) > 1 && p[0] == ' ' && p[1] >= 'a' {
				ascii = append(ascii, t)
			}
		default:
			other = append(other, t)
		}
	}
	pick := func(from []backend.Token) func() backend.Token {
		z := rand.NewZipf(r, 1.05, 8, uint64(len(from)-1))
		return func() backend.Token { return from[z.Uint64()] }
	}
	nextASCII, nextOther, nextPartial := pick(ascii), pick(other), pick(partial)
	special := func(name string) backend.Token {
		t, ok := v.Special(name)
		if !ok {
			b.Fatal(name)
		}
		return t
	}
	var turn []backend.Token
	text := func(s string) backend.Token {
		for t := range backend.Token(199998) {
			if v.Piece(t) == s {
				return t
			}
		}
		b.Fatal(s)
		return 0
	}
	comma := text(",")
	words := func(n int) {
		for i := range n {
			switch {
			case i%40 == 7:
				turn = append(turn, nextPartial())
			case i%8 == 1:
				turn = append(turn, comma)
			case i%10 == 0:
				turn = append(turn, nextOther())
			default:
				turn = append(turn, nextASCII())
			}
		}
	}
	turn = append(turn, special("<|channel|>"), text("analysis"), special("<|message|>"))
	words(20000)
	turn = append(turn, special("<|end|>"), special("<|start|>"), text("assistant"), special("<|channel|>"), text("final"),
		special("<|message|>"))
	words(20000)
	turn = append(turn, special("<|return|>"))
	size := 0
	for _, t := range turn {
		size += len(v.Piece(t))
	}
	return turn, size
}

func benchSplitter(b *testing.B, cfg readertest.Config, stops ...string) {
	turn, size := benchTurn(b)
	if cfg.Format != readertest.HarmonyFormat {
		var plain []backend.Token
		size = 0
		for _, t := range turn {
			if o200k(b).Kind(t) == backend.Normal {
				plain = append(plain, t)
				size += len(o200k(b).Piece(t))
			}
		}
		turn = plain
	}
	if cfg.JSON != nil {
		turn, size = inObject(b, turn)
	}
	if cfg.Format.Calls != nil {
		turn = inCall(b, turn)
	}
	n := 0
	cfg.Vocab, cfg.Emit = o200k(b), func(e reasoning.Event) { n += len(e.Text) }
	if stops != nil {
		cfg.Emit = filter.NewStopFilter(stops, readertest.Shown(reasoning.VisibilitySummary, cfg.Emit), reasoning.Answer).Push
	}
	s, err := readertest.NewReader(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	pushed := 0
	for b.Loop() {
		for _, t := range turn {
			s.Push(t)
		}
		pushed++
	}
	b.SetBytes(int64(size))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(pushed*len(turn)), "ns/token")
	b.ReportMetric(0, "ns/op")
	if n == 0 {
		b.Fatal("nothing came out")
	}
}

// inObject puts the text of a turn into the object of strategy json. The first half is the reasoning, in which one
// token in thirty is a newline.
func inObject(b testing.TB, text []backend.Token) (turn []backend.Token, size int) {
	v := o200k(b)
	x := map[string]backend.Token{}
	for t := range backend.Token(199998) {
		x[v.Piece(t)] = t
	}
	half := len(text) / 2
	turn = append(turn, x["{\""], x["reason"], x["ing"], x["\":"], x[" \""])
	for i, t := range text {
		switch p := v.Piece(t); {
		case i == half:
			turn = append(turn, x["\","], x[" \""], x["answer"], x["\":"], x[" \""])
		case i%30 == 0:
			turn = append(turn, x["\\n"])
		case strings.ContainsAny(p, "\"\\"):
		default:
			turn = append(turn, t)
		}
	}
	turn = append(turn, x["\"}"], v.EOS())
	for _, t := range turn {
		size += len(v.Piece(t))
	}
	return turn, size
}

// inCall puts the text of a turn into the arguments of a call.
func inCall(b testing.TB, text []backend.Token) (turn []backend.Token) {
	v := o200k(b)
	x := map[string]backend.Token{}
	for t := range backend.Token(199998) {
		x[v.Piece(t)] = t
	}
	spell := func(s string) {
		for i := range len(s) {
			turn = append(turn, x[s[i:i+1]])
		}
	}
	spell(`<tool_call>{"name": "f", "arguments": {"a": "`)
	for _, t := range text {
		if !strings.ContainsAny(v.Piece(t), "\"\\\n\r\t") && v.Kind(t) == backend.Normal {
			turn = append(turn, t)
		}
	}
	spell(`"}}</tool_call>`)
	return turn
}

// BenchmarkSplitter pushes tokens through readers. One case adds the filter of stop strings and the visibility policy.
// One operation is a turn of 40,000 tokens.
func BenchmarkSplitter(b *testing.B) {
	b.Run("harmony", func(b *testing.B) { benchSplitter(b, readertest.Config{Format: readertest.HarmonyFormat}) })
	b.Run("harmony_stops_policy", func(b *testing.B) {
		benchSplitter(b, readertest.Config{Format: readertest.HarmonyFormat}, "\n\nUser:", "</answer>", "STOP HERE")
	})
	b.Run("think", func(b *testing.B) {
		benchSplitter(b, readertest.Config{Format: think, Config: reader.Config{Start: chattemplate.StartAnswer}})
	})
	b.Run("json", func(b *testing.B) {
		benchSplitter(b, readertest.Config{Config: reader.Config{JSON: decodedAnswer, Markers: true}})
	})
	b.Run("call", func(b *testing.B) {
		benchSplitter(b, readertest.Config{Format: markup.Format{Calls: readertest.CallStyle("hermes")},
			Config: reader.Config{Tools: []string{"f"}}})
	})
	b.Run("plain_tools", func(b *testing.B) {
		benchSplitter(b,
			readertest.Config{Config: reader.Config{Tools: []string{"f"}}})
	})
}

// TestAllocations checks that a token of plain text costs no allocation, in any family, with stop strings and policy.
func TestAllocations(t *testing.T) {
	turn, _ := benchTurn(t)
	for name, cfg := range map[string]readertest.Config{
		"harmony": {Format: readertest.HarmonyFormat}, "think": {Format: think}, "plain": {},
		"json": {Config: reader.Config{JSON: decodedAnswer}}, "call": {Config: reader.Config{Tools: []string{"f"}}},
	} {
		turn := turn
		if cfg.JSON != nil {
			turn, _ = inObject(t, turn[3:])
		}
		if cfg.Tools != nil {
			turn = inCall(t, turn)
		}
		stop := filter.NewStopFilter([]string{"STOP"}, readertest.Shown(reasoning.VisibilityFull, func(reasoning.Event) {}),
			reasoning.Answer)
		cfg.Vocab, cfg.Emit = o200k(t), stop.Push
		s, err := readertest.NewReader(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, tok := range turn { // the buffers grow to their size
			s.Push(tok)
		}
		perTurn := testing.AllocsPerRun(3, func() {
			for _, tok := range turn {
				s.Push(tok)
			}
		})
		// Not quite zero: runes that are cut between tokens share blocks of memory, and a turn has a few headers.
		if perToken := perTurn / float64(len(turn)); perToken > 0.005 {
			t.Errorf("%s: %.4f allocations per token", name, perToken)
		}
	}
}
