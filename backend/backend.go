// Package backend is the contract between the runner and an engine that turns tokens into the next token.
//
// It is a leaf: it imports nothing of this project, and everything above it (grammar, reasoning, runner) and below it
// (llamacpp, mlx, fake) agrees only on what stands here. It speaks token ids, never text formats: chat templates,
// channels and grammars live above it.
//
// # Rules
//
// Backends sample. A [Model.Step] returns token ids, because an engine in another process never ships logits; raw
// logits and embeddings are optional (see [Capabilities]).
//
// Goroutines: [Model.Info], [Model.Vocab], [Model.Tokenize] and [Model.Capabilities] may be called from any goroutine
// at any time. [Model.Step], [Model.NewSequence], [Model.Close] and every method of [Sequence] must not run at the same
// time as one another on one model; the runner calls them from one goroutine.
//
// Cancellation: a Step whose context ends returns the context's error within one forward pass, and every sequence in
// it is then as long as it was before the call.
//
// Errors: the sentinel errors below are matched with [errors.Is]; an error that concerns one input of a step is an
// [*InputError]; a model that cannot be opened is a [*LoadError]. After any error from Step the sequences are as they
// were before the call, unless the error is [ErrBroken].
package backend

import (
	"context"
)

// Token is the id of a vocabulary entry, 0 to Vocab.Len()-1.
type Token int32

// NoToken stands for the absence of a token, for instance of a beginning-of-sequence token.
const NoToken Token = -1

// Model is a loaded model with its vocabulary and its cache of sequences.
type Model interface {
	// Info describes the model and how it was loaded.
	Info() Info
	// Vocab returns the vocabulary. It never changes and is safe to share.
	Vocab() *Vocab
	// Tokenize appends the tokens of plain text to dst. No text whatever becomes a control token, nor a user-defined token
	// that looks like a tag (<think>, [TOOL_CALLS]), and no beginning-of-sequence token is added. Invalid UTF-8 is
	// tokenized as bytes.
	Tokenize(dst []Token, text string) ([]Token, error)
	// Capabilities says which optional parts of the contract this model supports.
	Capabilities() Capabilities
	// NewSequence returns an empty sequence, or ErrNoSequence when Info().Sequences are in use.
	NewSequence() (Sequence, error)
	// Step runs one forward pass over all inputs together: prefill chunks and decode tokens mix freely, and a
	// sequence appears at most once. It fills outputs[i] for inputs[i]; len(outputs) must be at least len(inputs).
	// The sum of the inputs' tokens must not exceed Info().BatchSize (ErrBatchTooLarge). No inputs is no work.
	Step(ctx context.Context, inputs []Input, outputs []Output) error
	// Close frees the model. It waits for nothing: no other call may be in flight. Closing twice is harmless.
	Close() error
}

// Sequence is one conversation's tokens in the model's cache.
type Sequence interface {
	// Tokens returns the tokens in the cache, oldest first. The slice is valid until the next call that changes
	// the sequence and must not be modified.
	Tokens() []Token
	// Truncate shortens the sequence to at most n tokens and returns how many it kept. A backend that cannot
	// rewind to n exactly (sliding-window layers that have forgotten, rotating caches) keeps the longest shorter
	// prefix that it can continue from correctly, possibly none.
	Truncate(n int) (kept int, err error)
	// Fork returns an independent sequence with the same tokens, sharing the cache where the backend can. Errors:
	// ErrNoSequence, ErrCacheFull where it cannot share, ErrClosed.
	Fork() (Sequence, error)
	// Close frees the sequence's place in the cache. Closing twice is harmless.
	Close()
}

// Input is one sequence's part of a step.
type Input struct {
	// Sequence belongs to the model whose Step is called and is not closed.
	Sequence Sequence
	// Tokens are appended to the sequence; at least one.
	Tokens []Token
	// Sampling asks for a token after the last of Tokens. Nil means prefill only: nothing is sampled.
	Sampling *Sampling
	// Constraint limits what may be sampled; nil is free. It is only read, during Step, on any goroutine.
	Constraint Constraint
	// Targets asks how likely given tokens are: Targets[i] is scored as the token after Tokens[i], whatever comes there.
	// There are at most as many targets as tokens, and at most MaxTargets in one step, because each needs a row of
	// logits. A nil slice scores nothing.
	Targets []Token
	// TargetTop is how many of the most likely tokens to report with each target; 0 to MaxTopLogprobs.
	TargetTop int
	// Logits, when not nil, receives the raw logits after the last token: Vocab.Len() values, in token order,
	// before any penalty. Only for models with Capabilities().Logits.
	Logits []float32
	// Hidden, when not nil, has Info().EmbeddingLength values. The last hidden state of each of Tokens is added to
	// them, of which an embedding is made. An error from the step leaves it as it was. Only for models with
	// Capabilities().Embeddings.
	Hidden []float64
}

// Output is what a step sampled for one input.
type Output struct {
	// Token is the sampled token, or NoToken when nothing was asked for. It is not yet part of the sequence:
	// feed it (or another) in the next step.
	Token Token
	// Logprob is the natural logarithm of Token's probability under the model's own distribution: the softmax of
	// the raw logits, before penalties, bias, temperature, the filters and Constraint. Not set when
	// Sampling.TopLogprobs is negative.
	Logprob float32
	// Top holds the Sampling.TopLogprobs most likely tokens under that distribution, best first; Token need not be among
	// them. The slice is reused: it is valid until the next step that writes to this Output.
	Top []TokenLogprob
	// Scores has one entry for each of Input.Targets, in their order. Like Top it is reused.
	Scores []TargetScore
}

// MaxTargets is the largest number of targets in one step.
const MaxTargets = 32

// TargetScore says how likely a target was, under the distribution that Output.Logprob describes.
type TargetScore struct {
	// Logprob is the natural logarithm of the target's probability.
	Logprob float32
	// Rank is 1 plus the number of tokens that are more likely.
	Rank int
	// Top holds the Input.TargetTop most likely tokens, best first.
	Top []TokenLogprob
}

// Reset empties an output for the next step and keeps its memory.
func (o *Output) Reset() {
	o.Token, o.Logprob, o.Top, o.Scores = NoToken, 0, o.Top[:0], o.Scores[:0]
}

// NextScore appends a score to Scores and returns it. It reuses the memory of an earlier one.
func (o *Output) NextScore() *TargetScore {
	if n := len(o.Scores); n < cap(o.Scores) {
		o.Scores = o.Scores[:n+1]
	} else {
		o.Scores = append(o.Scores, TargetScore{})
	}
	return &o.Scores[len(o.Scores)-1]
}

// TokenLogprob is a token with its log probability.
type TokenLogprob struct {
	Token   Token
	Logprob float32
}

// Capabilities lists the optional parts of the contract.
type Capabilities struct {
	// Logits: Input.Logits is honoured.
	Logits bool
	// Embeddings: Input.Hidden is honoured.
	Embeddings bool
	// ExactTruncate: Truncate(n) always keeps exactly n tokens, if there are as many.
	ExactTruncate bool
}

// Constraint says which tokens may be sampled next. Backends read it; its owner advances it between steps.
type Constraint interface {
	// Allows reports whether t may come next. It is the cheap test, tried first on the sampled token.
	Allows(t Token) bool
	// Fill sets the bit of every token that may come next and clears all others.
	Fill(m Mask)
}

// Info describes a loaded model.
type Info struct {
	// Name is the model's own name from its metadata, or its file's base name.
	Name string
	// Architecture is the format's name of it, for instance "gpt-oss".
	Architecture string
	// Path is where the model was read from; empty for models that have no file.
	Path string
	// Backend names the implementation and Device what it computes on, for people.
	Backend, Device string
	// Parameters is the number of weights and Bytes what they take in memory or on disk.
	Parameters, Bytes int64
	// Quantization is the weights' format, for people, for instance "MXFP4".
	Quantization string
	// ContextSize is how many tokens each sequence can hold and TrainedContext what the model was made for.
	ContextSize, TrainedContext int
	// CacheTokens is the cache that all sequences share, in tokens, and ContextReason why ContextSize is what it is, for
	// people.
	CacheTokens   int
	ContextReason string
	// Sequences is how many sequences can live at once and BatchSize how many tokens one step can take.
	Sequences, BatchSize int
	// Threads and GPULayers are the values in effect.
	Threads, GPULayers int
	// EmbeddingLength is the width of the hidden state.
	EmbeddingLength int
	// WindowOnly says that sliding-window layers keep their window and no more, so that little of a sequence can be
	// gone back to.
	WindowOnly bool
	// ChatTemplate is the model's own Jinja template; empty when it has none.
	ChatTemplate string
	// Digest identifies the weights: hexadecimal SHA-256 of the file's header and size, cheap to compute.
	Digest string
}

// The most that a Config may ask for; a model or a machine may take less.
const (
	MaxContextSize = 1 << 24
	MaxThreads     = 512
)

// Config says how to load a model. The zero value loads with the backend's defaults.
type Config struct {
	// ContextSize is the tokens each sequence can hold; 0 means the trained context as far as memory allows.
	ContextSize int
	// Sequences is how many sequences can live at once; 0 means 4.
	Sequences int
	// CacheTokens is the cache shared by all sequences, in tokens; 0 is for the backend to choose, at least ContextSize
	// and at most ContextSize*Sequences. Forks share their common prefix.
	CacheTokens int
	// Others are the weights, in bytes, of models that are still to be loaded beside this one. What the backend chooses
	// leaves them room.
	Others []int64
	// BatchSize is the most tokens in one step; 0 means 512.
	BatchSize int
	// Threads is the number of compute threads; 0 means one per physical core, or fewer where the model has no work
	// for so many.
	Threads int
	// GPULayers is how many layers to offload; negative means all that fit, 0 none.
	GPULayers int
	// FlashAttention is "auto" (or empty), "on" or "off".
	FlashAttention string
	// CacheType is the KV cache's element type: "f16" (or empty), "f32", "bf16", "q8_0", "q4_0".
	CacheType string
	// FullWindow keeps the whole context for sliding-window layers too, which makes every prefix reusable at
	// about twice the cache's memory for models that alternate. "auto" (or empty), "on" or "off".
	FullWindow string
	// NoMemoryMap reads the weights into memory instead of mapping the file.
	NoMemoryMap bool
	// Progress, when not nil, is called with 0 to 1 while loading. Returning false cancels the load.
	Progress func(fraction float32) bool
}
