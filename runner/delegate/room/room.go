// Package room adds specialists to the commands that ask a model.
package room

import (
	"errors"
	"path/filepath"
	"strings"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/generation/delegation"
	"runner/runner/delegate"
)

func init() {
	cli.Register(cli.Room{Name: "delegate", Loop: delegate.Loop{}, Ask: ask, Serve: func(h *cli.Host) cli.Serving {
		return cli.Serving{Flags: topic(shared(&h.Defaults))}
	}})
}

func topic(rows ...flags.Table) flags.Table { return flags.Topic("Delegation", rows...) }

// shared are the flags that all commands have.
func shared(q *generation.Request) flags.Table {
	return flags.List(
		flags.Switch("allow-delegation", &q.Delegation.Model,
			"let the model hand its reasoning to specialists that it describes"),
		flags.Name("delegated-work", &q.Delegation.Work,
			[]generation.Work{generation.WorkKeep, generation.WorkSquash, generation.WorkDelete},
			"what the model gets of a specialist's work: all, one message made of it, or nothing"))
}

func ask(a *cli.App, q *generation.Request) cli.Asking {
	path := ""
	return cli.Asking{
		Flags: topic(flags.Text("delegate", &path, "let a specialist reason first; `FILE` has its prompt"), shared(q)),
		Read: func() (err error) {
			if path != "" {
				q.Delegation.Specialist, err = readSpecialist(a, path)
			}
			return err
		},
	}
}

// readSpecialist reads the file of --delegate. A file whose name ends in .json holds an instruction. Any other file
// holds a prompt.
func readSpecialist(a *cli.App, path string) (*delegation.Delegate, error) {
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
			return nil, cli.Input("--delegate %s holds no delegate_reasoning", path).
				Hint("give one, or a prompt in a file whose name does not end in .json")
		}
	}
	var refused *delegation.Error
	if errors.As(err, &refused) {
		return nil, cli.Input("--delegate %s: %v", path, refused).From(err).Hint("%s", refused.Hint())
	}
	return &d, err
}
