package families_test

import (
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/reasoning"
)

// TestMarkersInFormedAnswerAreText writes markers of reasoning and of calls inside an answer that is held to a form.
func TestMarkersInFormedAnswerAreText(t *testing.T) {
	v := fake.Think()
	for _, text := range []string{
		`{"a":"<<REASONING>>b<</REASONING>>c"}`, `{"a":"[TOOL_CALLS][{}]"}`, `{"a":"<response>x</response>"}`,
		`{"name": "f", "parameters": {}}`,
	} {
		for _, start := range []chattemplate.Start{chattemplate.StartTurn, chattemplate.StartAnswer} {
			answer := ""
			s, err := readertest.NewReader(readertest.Config{Format: markup.Format{Open: "<think>", Close: "</think>",
				AnswerOpen: "<response>", AnswerClose: "</response>"}, Config: reader.Config{Vocab: v, Start: start,
				Tools: []string{"f"}, Markers: true, Formed: true, Emit: func(e reasoning.Event) {
					if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer {
						answer += e.Text
					} else if e.Kind == reasoning.SegmentDelta || e.Kind == reasoning.Warning {
						t.Errorf("%q: %v %v %q", text, e.Kind, e.Segment, e.Text)
					}
				}}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range len(text) {
				s.Push(fake.Encode(v, text[i:i+1])[0])
			}
			s.Finish()
			if answer != text {
				t.Errorf("%q became %q: %v", text, answer, err)
			}
		}
	}
}

// TestBeginAnswerKeepsNewlines checks that BeginAnswer keeps newlines after a marker, but only where the answer is held
// to a form.
func TestBeginAnswerKeepsNewlines(t *testing.T) {
	v := fake.Think()
	for _, c := range []struct {
		formed, begin bool
		want          string
	}{{true, true, "\n\r\nx<think>\n"}, {true, false, "x<think>\n"}, {false, true, "x<think>\n"}} {
		answer := ""
		s, err := readertest.NewReader(readertest.Config{Format: markup.Format{Open: "<think>", Close: "</think>"},
			Config: reader.Config{Vocab: v, Start: chattemplate.StartReasoning, Formed: c.formed, Emit: func(e reasoning.Event) {
				if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer {
					answer += e.Text
				}
			}}})
		if err != nil {
			t.Fatal(err)
		}
		push := func(text string) {
			for _, tok := range fake.Encode(v, text) {
				s.Push(tok)
			}
		}
		s.BeginAnswer() // has no effect in the reasoning
		push("\nhm\n</think>\n\n")
		if c.begin {
			s.BeginAnswer()
		}
		push("\n\r\nx<think>\n")
		s.Finish()
		if answer != c.want {
			t.Errorf("%+v: answer %q, %v", c, answer, err)
		}
	}
}
