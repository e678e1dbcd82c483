package contract

import "runner/reasoning"

// ReasoningInfo is what was in effect for a run.
//
// What was in effect.
//
//openapi:answer ReasoningInfo
type ReasoningInfo struct {
	Visibility string `json:"visibility" api:"#Visibility"`
	// Left out where it is the model's own default and that has no name.
	Effort string `json:"effort,omitempty" api:"=none,minimal,low,medium,high"`
	// Where reasoning came from; empty for a model without any.
	Strategy string `json:"strategy"`
	// The seed that repeats this.
	Seed uint64 `json:"seed" api:"[0..18446744073709551615]"`
	// The most tokens of reasoning; left out for no limit.
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
