package runner

import (
	"errors"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// closing is what ends reasoning in the model's place, beside what the format has for it.
type closing struct {
	// words tell the model why, and marker ends reasoning between markers.
	words, marker []backend.Token
	// cost is the most tokens that closing takes, up to the answer's first. They count against the context alone.
	cost int
}

func newClosing(model backend.Model, f family.Family) (c closing, err error) {
	if c.words, err = model.Tokenize(nil, prompts.BudgetV1); err != nil {
		return c, err
	}
	if c.marker, err = model.Tokenize(nil, "\n"+reasoning.MarkerClose+"\n"); err != nil {
		return c, err
	}
	c.cost = len(c.words) + max(len(f.OpenAnswer(chattemplate.StartReasoning)), len(c.marker))
	return c, nil
}

// hint is the advice of an error, if it has one.
func hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
