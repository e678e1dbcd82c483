package wire

import (
	"context"
	"iter"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

// Models is the set of models that a server has. Its methods may be called by several goroutines at once.
type Models interface {
	// Use returns the model called name, and loads it if necessary. An empty name means the first model that the
	// principal of ctx may use. The caller must call Release. Errors are an [*Error].
	Use(ctx context.Context, name string) (Model, error)
	// Unload unloads the model called name as soon as no request holds it. The next request for it loads it again. The
	// principal of ctx needs ScopeModels. Errors are those of Use.
	Unload(ctx context.Context, name string) error
	// Find describes the model called name, without loading it. ok is false if there is none that the principal of ctx
	// may use.
	Find(ctx context.Context, name string) (card Card, ok bool)
	// List describes the models that the principal of ctx may use, the default first.
	List(ctx context.Context) []Card
}

// Traces keeps sealed traces of runs. Its methods may be called by several goroutines at once.
type Traces interface {
	// Tracer returns an observer that traces a run, which a principal starts now. how is the field of the request that
	// asks for the trace, and run the id of the answer.
	Tracer(principal, how, run string) generation.Observer
}

// Model is a loaded model that a request holds. It is all that formats know of what runs their requests.
type Model interface {
	// Card describes the model.
	Card() Card
	Describer
	Tokenizer
	Checker
	// Generate carries out a request and yields its events. It keeps to what the principal of ctx may see and use and to
	// the server's time limits, and counts the run in the metrics. It yields nothing after an error.
	Generate(ctx context.Context, req generation.Request, o generation.Observer) iter.Seq2[reasoning.Event, error]
	// Embed returns the embedding of tokens, a vector of length 1. It has the same limits as Generate.
	Embed(ctx context.Context, tokens []generation.Token) ([]float32, error)
	// Release gives the model back. Calling it twice is harmless.
	Release()
}

// Loaded is a model in memory, as the pool keeps it. The server makes a [Model] of it for each request.
type Loaded interface {
	Describer
	Tokenizer
	Checker
	// Generate carries out a request and yields its events. It yields nothing after an error.
	Generate(ctx context.Context, req generation.Request, o generation.Observer) iter.Seq2[reasoning.Event, error]
	// Enter takes a place in the queue for all that one request of a principal embeds. leave gives it back.
	Enter(principal string) (leave func(), err error)
	// Embed returns the embedding of tokens, a vector of length 1. The principal must have a place in the queue.
	Embed(ctx context.Context, principal string, tokens []generation.Token) ([]float32, error)
	// Stats returns the current figures.
	Stats() generation.Stats
	// Probe computes one step to see whether the model works.
	Probe(ctx context.Context) error
	// Failure returns why the model cannot run any more, or nil.
	Failure() error
	// Fail ends all runs, and all later ones, with an error.
	Fail(ctx context.Context, why error) error
	// Close ends all runs and frees the model. Closing twice is harmless.
	Close() error
}

// Describer says what a model is and what it can do.
type Describer interface {
	Info() generation.ModelInfo
	Abilities() generation.Abilities
}

// Tokenizer turns text into a model's tokens and back.
type Tokenizer interface {
	// Tokenize returns the tokens of a text. With special, names of control tokens in the text become these tokens.
	// Callers take turns by principal.
	Tokenize(ctx context.Context, principal, text string, special bool) ([]generation.Token, error)
	// WithBOS prepends the token for the beginning of a text, if the model's prompts start with one.
	WithBOS(tokens []generation.Token) []generation.Token
	// Fits returns an error if the length of a text alone shows that it is too long for the context. A text may be too
	// long although Fits returns nil.
	Fits(text string) error
	// Detokenize returns the text of tokens, and Piece that of one token. The text may be invalid UTF-8.
	Detokenize(tokens []generation.Token) (string, error)
	Piece(t generation.Token) string
	// Ends returns the texts of the tokens for the beginning and the end of a text; empty if the model has none.
	Ends() (bos, eos string)
	// FillIn returns the tokens for filling a gap in a text. It reports false if the model has none.
	FillIn() (generation.FillIn, bool)
}

// Checker checks requests without running them.
type Checker interface {
	// Prompt checks a request and renders the prompt that the model would get. Callers take turns by principal.
	Prompt(ctx context.Context, principal string, req generation.Request) (chattemplate.Prompt, error)
	// CheckTool returns why calls of a tool cannot be made to match its parameters, or nil.
	CheckTool(ctx context.Context, tool chattemplate.Tool) error
}

// Card describes a model that can be used. Fields that are unknown until the model is loaded are zero until then.
type Card struct {
	// Name is its name in requests.
	Name string
	// Added is when it was added to the server.
	Added time.Time
	// Loaded reports whether it is in memory.
	Loaded bool
	// Expires is when it is unloaded if it is not used again; zero for never.
	Expires time.Time
	// GPULayers is how many of its layers are on a GPU.
	GPULayers int
	// Size is the length of its files in bytes, and Modified when they were last changed.
	Size     int64
	Modified time.Time
	// Context is the size of the context in tokens.
	Context int
	// Digest identifies the weights.
	Digest string
	// Family is the name of the architecture, Parameters the number of weights, Quantization their format.
	Family       string
	Parameters   int64
	Quantization string
}
