package reasoning

// Effort says how much the model is to reason. The zero value is the model's own default.
type Effort string

// The efforts, least first.
const (
	EffortDefault Effort = ""
	EffortNone    Effort = "none"
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
)
