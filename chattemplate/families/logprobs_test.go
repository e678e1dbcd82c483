package families_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/chattemplate/tags"
	"runner/reasoning"
)

// TestLogprobs holds that the tokens of an answer's deltas are the answer's tokens, all of them, and nothing else.
func TestLogprobs(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 500 {
		for _, c := range []struct {
			format tags.Format
			in     string
			answer string
		}{
			{readertest.HarmonyFormat,
				"<|channel|>analysis<|message|>κρυφό<|end|><|start|>assistant<|channel|>final<|message|>Grüße, " +
					"中!\n<|return|>", "Grüße, 中!\n"},
			{readertest.HarmonyFormat, "Grüße, 中!<|return|>", "Grüße, 中!"},
			{think, "<think>\nκρυφό\n</think>\n\nGrüße <b>, 中!\n", "Grüße <b>, 中!\n"},
			{tags.Format{}, "\nGrüße", "\nGrüße"},
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
						t.Fatalf("wrong token %+v", l)
					}
				}
				if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer {
					answer.WriteString(e.Text)
				}
			}
			if answer.String() != c.answer {
				t.Fatalf("answer %q, want %q", answer.String(), c.answer)
			}
			// A token that reaches over the answer's beginning is left out if it has anything but newlines there.
			if got := strings.TrimLeft(told.String(), "\n"); !strings.HasSuffix(c.answer, got) &&
				strings.TrimLeft(c.answer, "\n") != got {
				t.Fatalf("tokens %q of the answer %q", got, c.answer)
			} else if len(got) < len(strings.TrimLeft(c.answer, "\n"))-6 {
				t.Fatalf("tokens %q of the answer %q are missing", got, c.answer)
			}
		}
	}
}
