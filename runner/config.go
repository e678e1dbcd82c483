package runner

import (
	"log/slog"
	"time"
)

// Config says how a Runner works. The zero value is usable.
type Config struct {
	// ChatTemplate is a Jinja template that replaces the model's own. Empty leaves it to the model's family.
	ChatTemplate string
	// Clock gives the time shown to models and used for timings; nil means time.Now. Clock and Seed are called from
	// several goroutines at once.
	Clock func() time.Time
	// Seed gives a seed for requests without one; nil draws from crypto/rand.
	Seed func() uint64
	// PrefillChunk is the most prefill tokens in a step that also decodes, so that long prompts do not stall other
	// runs; 0 means 256. A step without decode tokens is filled to the batch size.
	PrefillChunk int
	// Queue is how many requests may wait for their turn; 0 means 64. More are refused with ErrQueueFull, but for
	// one of each principal that has none, as long as there are not twice as many.
	Queue int
	// Parallel is the most runs under way at once, of the sequences that the model has; 0 means all of them. What
	// is left serves summaries and keeps the prefixes of earlier runs.
	Parallel int
	// CallMemory remembers the reasoning before tool calls; nil remembers none.
	CallMemory *CallMemory
	// Logger receives positions, counts and timings, never text; nil is silent.
	Logger *slog.Logger
}
