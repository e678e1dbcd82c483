package contract

import (
	"encoding/json"
	"errors"
	"fmt"

	"runner/generation"
	"runner/generation/delegation"
	"runner/server/wire"
)

// fieldDelegation is the field of a request that lets specialists reason.
const fieldDelegation = "delegation"

// Delegation is the field delegation of a request. All of its fields are optional.
//
// Lets specialists reason. A specialist is the model with another prompt, working before the model answers with its
// own. What specialists write is reasoning.
//
//openapi:request DelegationOptions
type Delegation struct {
	// Let the model hand its reasoning to specialists that it describes. The default is set by the server's operator
	// (`--allow-delegation`).
	Allow *bool `json:"allow,omitempty"`
	// Let a specialist with this prompt reason about the user's last message first. It must not be blank and has at most
	// 50,000 UTF-16 units.
	AgentPrompt *string `json:"agent_prompt,omitempty" api:"[1..50000]"`
	// With false, what that specialist writes is shown as text before the answer.
	MarkIntermediate *bool `json:"mark_intermediate,omitempty" api:"default=true"`
	// What the model gets of a specialist's work: all of it (`keep`), one message in which the specialist sums it up
	// (`squash`), or nothing (`delete`). The default is set by the server's operator (`--delegated-work`) and is
	// otherwise `keep`.
	Work *string `json:"work,omitempty" api:"=keep,squash,delete"`
}

// specialist returns the specialist that the field asks for, or nil.
func (d *Delegation) specialist() *delegation.Delegate {
	if d.AgentPrompt == nil {
		return nil
	}
	return &delegation.Delegate{Prompt: *d.AgentPrompt, Shown: d.MarkIntermediate != nil && !*d.MarkIntermediate}
}

// check returns what is wrong with the field. A nil field is right.
func (d *Delegation) check() error {
	if d == nil {
		return nil
	}
	if s := d.specialist(); s != nil {
		if err := s.Check(); err != nil {
			return instructionError(fieldDelegation+".agent_prompt", err)
		}
	} else if d.MarkIntermediate != nil {
		return wire.Invalid(fieldDelegation+".mark_intermediate", "it goes with agent_prompt only")
	}
	if d.Work != nil {
		switch generation.Work(*d.Work) {
		case generation.WorkKeep, generation.WorkSquash, generation.WorkDelete:
		default:
			return wire.Invalid(fieldDelegation+".work", "it takes keep, squash or delete")
		}
	}
	return nil
}

// apply writes the field into a request. A nil field changes nothing.
func (d *Delegation) apply(req *generation.Request) {
	if d == nil {
		return
	}
	if d.Allow != nil {
		req.Delegation.Model = *d.Allow
	}
	if d.Work != nil {
		req.Delegation.Work = generation.Work(*d.Work)
	}
	req.Delegation.Specialist = d.specialist()
}

// CodeInstructionSkipped is the code of the warning about instructions of unknown types.
const CodeInstructionSkipped = "instruction_skipped"

// Instructions reads the instructions of message i into a map. path is their place in the request. Those of unknown
// types are skipped with a warning, because newer clients have more.
func Instructions(to *map[int][]delegation.Instruction, i int, path string, raw []json.RawMessage,
	warnings *wire.Warnings) error {
	if *to == nil && len(raw) > 0 {
		*to = map[int][]delegation.Instruction{}
	}
	for n, r := range raw {
		in, err := delegation.Parse(r)
		if refused := (*delegation.Error)(nil); errors.As(err, &refused) && refused.Code == delegation.CodeUnknown {
			warnings.AddOnce(CodeInstructionSkipped, fmt.Sprintf("%s was left out: %v", wire.Index(path, n), refused))
			continue
		}
		if err != nil {
			return instructionError(wire.Index(path, n), err)
		}
		(*to)[i] = append((*to)[i], in)
	}
	return nil
}

func instructionError(path string, err error) error {
	var refused *delegation.Error
	if !errors.As(err, &refused) {
		return err
	}
	if refused.Field != "" && path != fieldDelegation+".agent_prompt" {
		path += "." + refused.Field
	}
	if hint := refused.Hint(); hint != "" {
		return wire.Invalid(path, "%v; %s", refused, hint)
	}
	return wire.Invalid(path, "%v", refused)
}
