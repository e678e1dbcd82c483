package runner

import (
	"errors"
	"testing"

	"runner/chattemplate/family"
	"runner/chattemplate/hold"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/reasoning"
)

// standing is a turn of which only the place is known.
type standing struct {
	family.Turn
	at reader.State
}

func (s *standing) State() reader.State { return s.at }

// TestErrorsOfFormsNameTheirField checks that an error of a form names the field of the request that the form is from.
func TestErrorsOfFormsNameTheirField(t *testing.T) {
	cause := errors.New("too large")
	for _, c := range []struct {
		name       string
		at         reader.State
		err        error
		field, say string
	}{
		{"an answer", reader.State{Place: reader.PlaceAnswer}, cause, "Form", "Form: too large"},
		{"a call", reader.State{Place: reader.PlaceCall, Call: reasoning.Call{Name: "add"}}, cause, "Tools",
			"Tools: add: too large"},
		{"a report", reader.State{Place: reader.PlaceCall, InObject: true}, cause, "Tools",
			"Tools: report_reasoning: too large"},
		{"a call in text", reader.State{Place: reader.PlaceAnswer}, &hold.CallError{Err: cause}, "Tools",
			"Tools: too large"},
	} {
		m := mask{turn: &turn{plan: &plan{model: &standing{at: c.at}}}}
		err := m.blame(c.err)
		var wrong *generation.RequestError
		if !errors.As(err, &wrong) || wrong.Field != c.field || err.Error() != c.say || !errors.Is(err, cause) {
			t.Errorf("%s: %v, want %q", c.name, err, c.say)
		}
	}
}
