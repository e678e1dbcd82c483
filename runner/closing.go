package runner

import (
	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/reasoning/prompts"
)

// closing is what ends reasoning in the model's place, beside what the format has for it.
type closing struct {
	// words tell the model why, and marker ends reasoning between markers.
	words, marker []backend.Token
	// cost is the most tokens that closing takes, up to the answer's first. They count against the context alone.
	cost int
}

func newClosing(model backend.Model, template *chattemplate.Template) (c closing, err error) {
	if c.words, err = model.Tokenize(nil, prompts.BudgetV1); err != nil {
		return c, err
	}
	if c.marker, err = model.Tokenize(nil, "\n"+reader.MarkersFormat.Close+"\n"); err != nil {
		return c, err
	}
	native := len(template.EndReasoning())
	if template.Format().Family == chattemplate.Harmony {
		native += len(template.OpenAnswer(chattemplate.StartTurn))
	}
	c.cost = len(c.words) + max(native, len(c.marker))
	return c, nil
}
