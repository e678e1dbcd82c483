package contract

import (
	"encoding/json"
	"errors"
	"strconv"

	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
	"runner/server/wire"
)

// fieldDelegation is the field of a request that lets specialists reason.
const fieldDelegation = "delegation"

// Delegation is the field that lets specialists reason. All of it may be left out.
//
// Lets specialists reason: prompts under which the model works before it answers under its own. What they write is
// reasoning.
//
//openapi:request DelegationOptions
type Delegation struct {
	// Let the model hand its reasoning to specialists that it describes. Left out, as the server's operator says
	// (`--allow-delegation`).
	Allow *bool `json:"allow,omitempty"`
	// Have a specialist with this prompt reason first about the user's last message. Not blank, at most 50,000 UTF-16
	// units.
	AgentPrompt *string `json:"agent_prompt,omitempty" api:"[1..50000]"`
	// False shows what that specialist writes as text before the answer.
	MarkIntermediate *bool `json:"mark_intermediate,omitempty" api:"default=true"`
	// What the model gets of a specialist's work: all of it, one message that the specialist makes of it, or nothing.
	// Left out, as the server's operator says (`--delegated-work`), who says `keep` unless told otherwise.
	Work *string `json:"work,omitempty" api:"=keep,squash,delete"`
}

// specialist is whom the field delegates to, nil for nobody.
func (d *Delegation) specialist() *delegation.Delegate {
	if d.AgentPrompt == nil {
		return nil
	}
	return &delegation.Delegate{Prompt: *d.AgentPrompt, Shown: d.MarkIntermediate != nil && !*d.MarkIntermediate}
}

func (d *Delegation) check() error {
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

// apply writes the field into a request; nil changes nothing.
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

// maxInstructions is the most instructions of a message.
const maxInstructions = 16

// Instructions reads the instructions that a message carries, from the place path in the request.
func Instructions(path string, raw []json.RawMessage) ([]delegation.Instruction, error) {
	if len(raw) > maxInstructions {
		return nil, wire.Invalid(path, "there are %d and at most %d are taken", len(raw), maxInstructions)
	}
	var list []delegation.Instruction
	for i, r := range raw {
		in, err := delegation.Parse(r)
		if err != nil {
			return nil, instructionError(path+"["+strconv.Itoa(i)+"]", err)
		}
		list = append(list, in)
	}
	return list, nil
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

// DelegationLog collects what a run says of its delegations. The zero value is ready.
type DelegationLog struct {
	list         []reasoning.Delegation
	last, active string
}

// Push takes the next event.
func (l *DelegationLog) Push(e *reasoning.Event) {
	switch e.Kind {
	case reasoning.Instructed:
		l.last = e.Text
	case reasoning.DelegationStart:
		if l.active = ""; e.Delegation.By == "model" {
			l.active = l.last
		}
	case reasoning.DelegationEnd:
		l.list = append(l.list, *e.Delegation)
	}
}

// Delegations lists those that have ended.
func (l *DelegationLog) Delegations() []reasoning.Delegation { return l.list }

// intermediate is the instruction that marks a message.
var intermediate = json.RawMessage(`{"type":"` + delegation.TypeIntermediate + `"}`)

// Carries returns the instructions that the message of a run carries: where it ends in a specialist's calls that it
// is intermediate, and with visibility full whom the model has delegated to.
func (l *DelegationLog) Carries(r *reasoning.Result) []json.RawMessage {
	switch {
	case !r.Specialist:
		return nil
	case l.active != "":
		return []json.RawMessage{json.RawMessage(l.active), intermediate}
	}
	return []json.RawMessage{intermediate}
}
