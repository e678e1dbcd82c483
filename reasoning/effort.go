package reasoning

// Effort says how much the model should reason. The zero value is the model's own default.
type Effort string

// The efforts, in ascending order.
const (
	EffortDefault Effort = ""
	EffortNone    Effort = "none"
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
)
