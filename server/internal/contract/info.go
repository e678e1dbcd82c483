package contract

import "runner/reasoning"

// ReasoningInfo has the settings of the reasoning that were used for a run.
//
//openapi:answer ReasoningInfo
type ReasoningInfo struct {
	Visibility string `json:"visibility" api:"#Visibility"`
	// The effort that was used. Absent if it was the model's default and the default has no name.
	Effort string `json:"effort,omitempty" api:"=none,minimal,low,medium,high"`
	// Where the reasoning came from. Empty if the model does not reason.
	Strategy string `json:"strategy"`
	// The seed. The same seed gives the same output again.
	Seed uint64 `json:"seed" api:"[0..18446744073709551615]"`
	// The maximum number of reasoning tokens. Absent if there was no limit.
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
