package generation

import "time"

// Stats says what a runner is doing and has done.
type Stats struct {
	// Waiting counts the runs, summaries and texts to embed that wait for their turn. Active counts those that are
	// computed. Idle counts the sequences that are kept because their content may be a later prompt's prefix.
	Waiting, Active, Idle int
	// Paused counts those of Waiting that were begun and then paused, and Pauses how often a run was paused.
	Paused int
	Pauses int64
	// Steps counts forward passes, and Tokens the tokens that were fed to them.
	Steps, Tokens int64
	// Drafted counts the guesses of next tokens that were fed, which Tokens includes. Accepted counts the tokens that came
	// of them: those that a step gave beyond its own one.
	Drafted, Accepted int64
	// MaskTime is the total time spent on computing token masks.
	MaskTime time.Duration
	// Violations counts answers that break a form that was enforced. A value above 0 means a bug in the program.
	Violations int64
	// Engine is about an engine in a process of its own, and zero for any other.
	Engine EngineStats
	// Remote is about an engine on another machine, and zero for any other.
	Remote RemoteStats
}

// RemoteStats says how the exchange with an engine on another machine fares.
type RemoteStats struct {
	// Streams counts the generations that were opened at the engine. Replaced counts the tokens of the engine that a form
	// did not allow.
	Streams, Replaced int64
	// Faults counts the generations that failed, and GaveUp the sequences that were given up after faults.
	Faults, GaveUp int64
	// FormsRefused counts the forms that the engine refused to follow itself.
	FormsRefused int64
	// Down says that the engine failed several times in a row and has not answered since.
	Down bool
	// Other says that the engine runs another model than the one that was loaded, so that all requests are refused.
	Other bool
}

// EngineStats says how an engine's process fares.
type EngineStats struct {
	// Crashes counts the processes that ended while the model was in use, and Hangs those of them that made no progress.
	Crashes, Hangs int64
	// Failed counts the sequences that were given up because they crash the engine.
	Failed int64
	// Memory is how many bytes the process has in memory, the pages of the model's file included; 0 means unknown.
	Memory int64
}
