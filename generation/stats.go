package generation

import "time"

// Stats is what a runner is doing and has done.
type Stats struct {
	// Waiting counts runs, summaries and texts to embed that wait for a sequence, Active those that have one, and
	// Idle the sequences that are kept for the beginnings that they hold.
	Waiting, Active, Idle int
	// Steps counts forward passes, and Tokens what was fed to them.
	Steps, Tokens int64
	// MaskTime is how long was spent on finding out what may come next.
	MaskTime time.Duration
	// Violations counts answers that broke the form that they were held to. Any is a mistake of the program.
	Violations int64
}
