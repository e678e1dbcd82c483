package generation

import "time"

// Stats says what a runner is doing and has done.
type Stats struct {
	// Waiting counts the runs, summaries and texts to embed that wait for a sequence. Active counts those that have one.
	// Idle counts the sequences that are kept because their content may be a later prompt's prefix.
	Waiting, Active, Idle int
	// Steps counts forward passes, and Tokens the tokens that were fed to them.
	Steps, Tokens int64
	// MaskTime is the total time spent on computing token masks.
	MaskTime time.Duration
	// Violations counts answers that break a form that was enforced. A value above 0 means a bug in the program.
	Violations int64
}
