package cli

import (
	"errors"
	"path/filepath"
	"strings"

	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/generation/delegation"
)

// delegationFlags are the delegation flags that several commands share.
func delegationFlags(d *generation.Delegation) flags.Table {
	return flags.List(
		flags.Switch("allow-delegation", &d.Model, "let the model hand its reasoning to specialists that it describes"),
		flags.Name("delegated-work", &d.Work, generation.WorkKeep,
			[]generation.Work{generation.WorkKeep, generation.WorkSquash, generation.WorkDelete},
			"what the model gets of a specialist's work: all, one message made of it, or nothing"))
}

// readSpecialist reads the file of --delegate. A file whose name ends in .json holds an instruction. Any other file
// holds a prompt.
func (a *App) readSpecialist(path string) (*delegation.Delegate, error) {
	text, err := a.ReadFile("--delegate", path)
	if err != nil {
		return nil, err
	}
	d := delegation.Delegate{Prompt: strings.TrimSpace(text)}
	err = d.Check()
	if strings.EqualFold(filepath.Ext(path), ".json") {
		var in delegation.Instruction
		in, err = delegation.Parse([]byte(text))
		ok := false
		if d, ok = in.(delegation.Delegate); err == nil && !ok {
			return nil, Input("--delegate %s holds no delegate_reasoning", path).
				Hint("give one, or a prompt in a file whose name does not end in .json")
		}
	}
	var refused *delegation.Error
	if errors.As(err, &refused) {
		return nil, Input("--delegate %s: %v", path, refused).From(err).Hint("%s", refused.Hint())
	}
	return &d, err
}
