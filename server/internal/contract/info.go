package contract

import "runner/reasoning"

// ReasoningInfo has the settings in effect for a run.
type ReasoningInfo struct {
	// Visibility is none, summary or full.
	Visibility string `json:"visibility"`
	// Effort is left out if it is the model's own default and has no name.
	Effort   string `json:"effort,omitempty"`
	Strategy string `json:"strategy"`
	Seed     uint64 `json:"seed"`
	// Budget is the maximum number of reasoning tokens; left out if there is no limit.
	Budget int `json:"budget,omitempty"`
}

// InfoOf converts the settings of a run. It returns nil if i is nil.
func InfoOf(i *reasoning.Info) *ReasoningInfo {
	if i == nil {
		return nil
	}
	return &ReasoningInfo{
		Visibility: i.Visibility.String(), Effort: string(i.Effort), Strategy: string(i.Strategy),
		Seed: i.Seed, Budget: i.Budget,
	}
}
