package families_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/reasoning"
)

// TestLogprobs checks that the deltas of an answer carry log probabilities for all tokens of the answer and no others.
func TestLogprobs(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 500 {
		for _, c := range []struct {
			format markup.Format
			in     string
			answer string
		}{
			{readertest.HarmonyFormat,
				"<|channel|>analysis<|message|>κρυφό<|end|><|start|>assistant<|channel|>final<|message|>Grüße, " +
					"中!\n<|return|>", "Grüße, 中!\n"},
			{readertest.HarmonyFormat, "Grüße, 中!<|return|>", "Grüße, 中!"},
			{think, "<think>\nκρυφό\n</think>\n\nGrüße <b>, 中!\n", "Grüße <b>, 中!\n"},
			{markup.Format{}, "\nGrüße", "\nGrüße"},
		} {
			x := readertest.HarmonyLexicon()
			tokens := x.Encode(c.in, readertest.Random(r))
			v := x.Vocab(t)
			var got readertest.Recorder
			s, err := readertest.NewReader(readertest.Config{Format: c.format, Config: reader.Config{Vocab: v, Emit: got.Emit,
				Logprobs: true}})
			if err != nil {
				t.Fatal(err)
			}
			for i, tok := range tokens {
				out := &backend.Output{Token: tok, Logprob: -float32(i), Top: []backend.TokenLogprob{{Token: tok}}}
				s.PushOutput(tok, out)
			}
			s.Finish()
			var told, answer strings.Builder
			for _, e := range got.Events {
				for _, l := range e.Logprobs {
					told.WriteString(l.Text)
					if v.Piece(l.Token) != l.Text || tokens[int(-l.Logprob)] != l.Token || len(l.Top) != 1 || l.Top[0].Text != l.Text {
						t.Fatalf("wrong log probability %+v", l)
					}
				}
				if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer {
					answer.WriteString(e.Text)
				}
			}
			if answer.String() != c.answer {
				t.Fatalf("answer %q, want %q", answer.String(), c.answer)
			}
			// A token that begins before the answer is left out, unless that part of it is only newlines.
			if got := strings.TrimLeft(told.String(), "\n"); !strings.HasSuffix(c.answer, got) &&
				strings.TrimLeft(c.answer, "\n") != got {
				t.Fatalf("the answer %[2]q has tokens %[1]q", got, c.answer)
			} else if len(got) < len(strings.TrimLeft(c.answer, "\n"))-6 {
				t.Fatalf("the answer %[2]q has only tokens %[1]q", got, c.answer)
			}
		}
	}
}
