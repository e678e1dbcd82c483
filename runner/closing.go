package runner

import (
	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// closing has the tokens that end reasoning for the model, apart from the format's own.
type closing struct {
	// words tell the model that its reasoning budget is used up. marker ends reasoning between markers.
	words, marker []backend.Token
	// cost is the maximum number of tokens that closing adds before the answer. They take room in the context, but do not
	// count as generated.
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
