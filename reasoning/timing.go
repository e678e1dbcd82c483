package reasoning

import "time"

// Timing says how long the parts of a run took.
type Timing struct {
	// Queue is the wait before the run's first step.
	Queue time.Duration
	// Prefill is the time from there to the first sampled token, and FirstToken from the request to it (TTFT).
	Prefill, FirstToken time.Duration
	// FirstAnswer is the time from the request to the first byte of the answer; 0 when there was none.
	FirstAnswer time.Duration
	// Decode is the time from the first sampled token to the last.
	Decode time.Duration
}
