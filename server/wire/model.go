package wire

import (
	"context"
	"iter"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
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

// Model is a loaded model that a request holds. It is all that formats know of whatever runs their requests.
type Model interface {
	// Card describes it.
	Card() Card
	Describer
	Tokenizer
	Checker
	// Generate carries out a request within what the principal of ctx may see and use and within the server's time
	// limits, and counts it in the server's metrics. An error is the last thing that it yields.
	Generate(ctx context.Context, req generation.Request) iter.Seq2[reasoning.Event, error]
	// Embed returns the embedding of tokens, a vector of length 1. It is limited and counted as Generate is.
	Embed(ctx context.Context, tokens []generation.Token) ([]float32, error)
	// Release gives the model back. Calling it twice is harmless.
	Release()
}

// Loaded is a model in memory, as package pool and the server keep it: they make a [Model] of it for each request.
type Loaded interface {
	Describer
	Tokenizer
	Checker
	// Generate carries out a request. An error is the last thing that it yields.
	Generate(ctx context.Context, req generation.Request) iter.Seq2[reasoning.Event, error]
	// Enter takes a place in the queue for all that a principal's request embeds, and returns what gives it back.
	Enter(principal string) (leave func(), err error)
	// Embed returns the embedding of tokens for a principal that has a place in the queue.
	Embed(ctx context.Context, principal string, tokens []generation.Token) ([]float32, error)
	// Stats returns the figures of now.
	Stats() generation.Stats
	// Probe computes one step to see whether the model works.
	Probe(ctx context.Context) error
	// Failure returns why the model cannot run any more, or nil.
	Failure() error
	// Fail ends all runs with an error, and every later one.
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
	// Tokenize returns the tokens of a text. With special, the names of control tokens become these tokens;
	// otherwise no text does. Whose turn it is goes by principal.
	Tokenize(ctx context.Context, principal, text string, special bool) ([]generation.Token, error)
	// WithBOS puts the token for the beginning of a text in front, if the model's prompts start with one.
	WithBOS(tokens []generation.Token) []generation.Token
	// Fits returns an error if a text is too long for any context of the model. Nil does not promise that it fits.
	Fits(text string) error
	// Detokenize returns the text of tokens, and Piece that of one. The text need not be valid UTF-8.
	Detokenize(tokens []generation.Token) (string, error)
	Piece(t generation.Token) string
	// Ends returns the texts of the tokens that begin and end a text; empty where the model has none.
	Ends() (bos, eos string)
}

// Checker looks at a request without running it.
type Checker interface {
	// Prompt renders a request as the model would get it. Whose turn it is goes by principal.
	Prompt(ctx context.Context, principal string, req generation.Request) (chattemplate.Prompt, error)
	// Validate returns what is wrong with a request.
	Validate(req *generation.Request) error
	// CheckTool returns why the arguments of a tool's calls cannot be made to match its parameters.
	CheckTool(ctx context.Context, tool chattemplate.Tool) error
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
