package wire

// Figures says what the server does, for operators.
//
//openapi:answer WebFigures
type Figures struct {
	// Seconds since the server started.
	Uptime float64 `json:"uptime"`
	// HTTP requests that are being answered.
	Requests int `json:"requests"`
	// Bytes of memory that the program has from the system, without the processes of engines.
	Memory int64 `json:"memory"`
	// Bytes of memory that it can still get; 0 if it is not known.
	Available int64 `json:"available"`
	// The models.
	Models []ModelFigures `json:"models"`
	// What each API key has used since the server started.
	Keys []KeyFigures `json:"keys"`
}

// ModelFigures says what a model does.
//
//openapi:answer WebModelFigures
type ModelFigures struct {
	// Its name in requests.
	Name string `json:"name"`
	// True if it is in memory. The figures below are 0 otherwise.
	Loaded bool `json:"loaded"`
	// The length of its files in bytes.
	Size int64 `json:"size"`
	// The size of its context in tokens.
	Context int `json:"context"`
	// Runs that wait for a sequence.
	Waiting int `json:"waiting"`
	// Runs that have a sequence.
	Active int `json:"active"`
	// Sequences that are kept for their prefixes.
	Idle int `json:"idle"`
	// Forward passes since it was loaded.
	Steps int64 `json:"steps"`
	// Tokens fed to them.
	Tokens int64 `json:"tokens"`
	// Bytes that its engine's process has in memory; 0 if it has no process of its own.
	Memory int64 `json:"memory"`
	// Processes of the engine that ended while the model was in use.
	Crashes int64 `json:"crashes"`
}

// KeyFigures says what an API key has used.
//
//openapi:answer WebKeyFigures
type KeyFigures struct {
	// The id of the key; `local` without keys.
	ID string `json:"id"`
	// Runs that have ended.
	Runs int64 `json:"runs"`
	// Tokens of prompts.
	Prompt int64 `json:"prompt_tokens"`
	// Generated tokens, those of summaries included.
	Completion int64 `json:"completion_tokens"`
}
