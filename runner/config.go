package runner

import (
	"log/slog"
	"time"

	"runner/generation"
	"runner/generation/slots"
)

// Weights says which weights a model has. Its methods may be called from any goroutine.
type Weights interface {
	// Key identifies the model's files, whose headers have a digest. It is known at once.
	Key(header string) string
	// Digest is the SHA-256 of what the files hold. It is empty until it is known, and then stays the same.
	Digest() string
	// Touched reports whether somebody may have written to the files, and nobody has compared them since.
	Touched() bool
	// Close is called when the model is closed.
	Close() error
}

// Config configures a Runner. The zero value is usable.
type Config struct {
	// Weights identifies the model; nil leaves that to what the model says of itself.
	Weights Weights
	// ChatTemplate is a Jinja template that replaces the model's own. Empty leaves it to the model's family.
	ChatTemplate string
	// Clock returns the time. Models are told the time, and timings use it. Nil means time.Now. Clock and Seed are called
	// from several goroutines at once.
	Clock func() time.Time
	// Seed returns a seed for a request without one. Nil means crypto/rand.
	Seed func() uint64
	// PrefillChunk is the maximum number of prefill tokens in a step that also decodes, so that long prompts do not stall
	// other runs. 0 means 256. A step that does not decode is filled to the batch size.
	PrefillChunk int
	// Queue is the maximum number of requests that wait for their turn; 0 means 64. Further requests fail with
	// ErrQueueFull. A principal with less than its share of them may still add some, until there are twice as many.
	Queue int
	// Parallel is the maximum number of runs at a time; 0 means the number of sequences that the model has. The other
	// sequences serve summaries and keep the prefixes of earlier runs.
	Parallel int
	// Slots are those that requests share while they are prepared. Nil makes some for this model alone.
	Slots *slots.Slots
	// Loops carry out the requests that take several turns.
	Loops []generation.Loop
	// CallMemory remembers the reasoning before tool calls. Nil remembers nothing.
	CallMemory *CallMemory
	// Crossings remembers for an engine at an address what it may still have of earlier runners. Nil begins a new one.
	// It is not used for other engines.
	Crossings *Crossings
	// Drafts says when guesses of the next tokens are fed. They change no answer. Models that cannot check them get none.
	Drafts Drafts
	// MeasureCosts measures what guesses cost, right after New. It steps the model until the first request comes, and
	// slows no request down. It does nothing if Drafts is on or off, or if the model takes no guesses.
	MeasureCosts bool
	// Logger receives positions, counts and timings, but no text. Nil logs nothing.
	Logger *slog.Logger
}

// Drafts says when guesses of the next tokens are fed.
type Drafts uint8

const (
	// DraftsAuto feeds guesses where they probably make an answer faster.
	DraftsAuto Drafts = iota
	// DraftsOff feeds none.
	DraftsOff
	// DraftsOn feeds all guesses, whatever they cost.
	DraftsOn
)
