package cli

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"runner/generation"
	"runner/generation/delegation"
)

// addDelegationFlags adds the delegation flags that several commands share.
func addDelegationFlags(cmd *cobra.Command, req *generation.Request) {
	cmd.Flags().BoolVar(&req.Delegation.Model, "allow-delegation", false,
		"let the model hand its reasoning to specialists that it describes")
	req.Delegation.Work = generation.WorkKeep
	addNameChoice(cmd, &req.Delegation.Work, "delegated-work",
		"what the model gets of a specialist's work: all, one message made of it, or nothing",
		generation.WorkKeep, generation.WorkSquash, generation.WorkDelete)
}

// readSpecialist reads the file of --delegate. A file whose name ends in .json holds an instruction. Any other file
// holds a prompt.
func (a *app) readSpecialist(path string) (*delegation.Delegate, error) {
	text, err := a.readFile("--delegate", path)
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
			return nil, &inputError{what: "--delegate " + path + " holds no delegate_reasoning",
				hint: "give one, or a prompt in a file whose name does not end in .json"}
		}
	}
	var refused *delegation.Error
	if errors.As(err, &refused) {
		return nil, &inputError{what: "--delegate " + path + ": " + refused.Error(), hint: refused.Hint(), err: err}
	}
	return &d, err
}
