package reasoning

import "time"

// Timing says how long the parts of a run took.
type Timing struct {
	// Queue is the wait before the run's first step.
	Queue time.Duration
	// Prefill is the time from the first step to the first sampled token. FirstToken is the time from the request to that
	// token (TTFT).
	Prefill, FirstToken time.Duration
	// FirstAnswer is the time from the request to the first byte of the answer. It is 0 if there was no answer.
	FirstAnswer time.Duration
	// Decode is the time from the first sampled token to the last.
	Decode time.Duration
	// Drafted counts the guesses of next tokens that were fed, and Accepted the tokens that came of them. They only save
	// time. They are not encoded, because they could say something about hidden text.
	Drafted, Accepted int
}
