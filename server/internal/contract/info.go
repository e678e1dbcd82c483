package contract

import "runner/reasoning"

// ReasoningInfo is what was in effect for a run.
type ReasoningInfo struct {
	// Visibility is none, summary or full.
	Visibility string `json:"visibility"`
	// Effort is left out where it is the model's own default and that has no name.
	Effort   string `json:"effort,omitempty"`
	Strategy string `json:"strategy"`
	Seed     uint64 `json:"seed"`
	// Budget is the most reasoning tokens; left out for no limit.
	Budget int `json:"budget,omitempty"`
}

// InfoOf describes a run. Nil stays nil: nothing ran.
func InfoOf(i *reasoning.Info) *ReasoningInfo {
	if i == nil {
		return nil
	}
	return &ReasoningInfo{
		Visibility: i.Visibility.String(), Effort: string(i.Effort), Strategy: string(i.Strategy),
		Seed: i.Seed, Budget: i.Budget,
	}
}
