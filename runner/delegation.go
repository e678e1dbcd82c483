package runner

import (
	"fmt"

	"runner/generation"
	"runner/generation/delegation"
)

// What was done with a specialist's work, as events of kind Curated say.
const (
	curatedSquashed = "delegation-squashed"
	curatedDeleted  = "delegation-deleted"
)

// validateDelegation reports what of a request's delegation cannot be honoured.
func validateDelegation(req *generation.Request) error {
	bad := func(format string, args ...any) error {
		return &generation.RequestError{Field: "Delegation", Err: fmt.Errorf(format, args...)}
	}
	switch req.Delegation.Work {
	case "", generation.WorkKeep, generation.WorkSquash, generation.WorkDelete:
	default:
		return &generation.RequestError{Field: "Delegation", Err: fmt.Errorf("%q is no way with a specialist's work",
			req.Delegation.Work), Advice: "use keep, squash or delete"}
	}
	for i := range req.Delegation.Instructions {
		if i < 0 || i >= len(req.Messages) {
			return bad("there is no message %d", i)
		}
	}
	for _, t := range req.Tools {
		if delegation.IsTool(t.Name) {
			return &generation.RequestError{Field: "Tools",
				Err: fmt.Errorf("%s is a function of the runner's where the model may delegate",
					t.Name), Advice: "rename the tool, or leave delegation out"}
		}
	}
	if _, at, err := delegation.Replay(req.Messages, req.Instructions()); err != nil {
		return &generation.RequestError{Field: "Delegation", Err: fmt.Errorf("message %d: %w", at, err), Advice: hint(err)}
	}
	return nil
}

// canCall reports whether the model's calls can be read.
func (r *Runner) canCall() bool {
	return r.family.About().Calls
}
