package wire

import (
	"context"
	"iter"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/runner"
)

// Models gives formats the models that the server has. It may be used by several goroutines at once.
type Models interface {
	// Use returns the model called name for the principal of ctx, loading it where that is needed; "" is the first
	// that the principal may use. The caller calls Release when it is done. The errors are an [*Error].
	Use(ctx context.Context, name string) (Model, error)
	// Unload unloads the model called name when nobody uses it any more, at once where nobody does. The next
	// request for it loads it again. The errors are those of Use; the principal of ctx also needs ScopeModels.
	Unload(ctx context.Context, name string) error
	// Find describes the model called name, without loading it. ok is false where the principal of ctx may use none of
	// that name.
	Find(ctx context.Context, name string) (card Card, ok bool)
	// List describes the models that the principal of ctx may use, the default first.
	List(ctx context.Context) []Card
}

// Traces keeps sealed traces of runs whose clients ask for them. It may be used by several goroutines at once.
type Traces interface {
	// Tracer returns what records a run that a principal asks for now; how names the field that asks, and run the answer.
	Tracer(principal, how, run string) generation.Tracer
}

// Model is a loaded model that a request holds.
type Model interface {
	// Card describes it.
	Card() Card
	// Generate is [runner.Runner.Generate] within what the principal of ctx may see and use and within the server's time
	// limits, counted in its metrics.
	Generate(ctx context.Context, req generation.Request) iter.Seq2[reasoning.Event, error]
	// Embed is [runner.Runner.Embed], counted as Generate is.
	Embed(ctx context.Context, tokens []generation.Token) ([]float32, error)
	// Runner is for everything but generating: tokens, templates, checks.
	Runner() *runner.Runner
	// Release gives the model back. Calling it twice is harmless.
	Release()
}

// Card describes a model that can be used. What is only known of a loaded model is zero before that.
type Card struct {
	// Name is what requests call it.
	Name string
	// Added is when the server came to know it.
	Added time.Time
	// Loaded says whether it is in memory.
	Loaded bool
	// Expires is when it is unloaded if nobody uses it from now on; zero for never.
	Expires time.Time
	// GPULayers is how many of its layers are on a GPU.
	GPULayers int
	// Size is the length of its files in bytes, and Modified when they were last changed.
	Size     int64
	Modified time.Time
	// Context is how many tokens a sequence can hold.
	Context int
	// Digest identifies the weights.
	Digest string
	// Family and Parameters are the architecture's name and the number of weights; Quantization is their format.
	Family       string
	Parameters   int64
	Quantization string
}
