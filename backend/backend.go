// Package backend is the contract between the runner and an engine that computes the next token.
//
// The package imports nothing else of this project. Packages above it (grammar, reasoning, runner) and engines
// below it (llamacpp, fake) meet only here. It deals in token ids; chat templates, channels and grammars live above
// it.
//
// # Rules
//
// Backends sample. [Model.Step] returns token ids, so that an engine in another process need not send its logits.
// Raw logits and embeddings are optional, see [Capabilities].
//
// Goroutines: [Model.Info], [Model.Vocab], [Model.Tokenize] and [Model.Capabilities] may be called from any
// goroutine at any time. [Model.Step], [Model.NewSequence], [Model.Close] and all methods of [Sequence] must not
// run concurrently on one model. The runner calls them from one goroutine.
//
// Cancellation: when its context ends, Step returns the context's error within one forward pass. Every sequence of
// the step is then as long as before the call.
//
// Errors: match the errors below with [errors.Is]. An error about one input of a step is an [*InputError]. A model
// that cannot be opened is a [*LoadError]. After any error from Step except [ErrBroken] the sequences are as they
// were before the call.
package backend

import (
	"context"
	"fmt"
	"os"
)

// Token is the id of a vocabulary entry, 0 to Vocab.Len()-1.
type Token int32

// NoToken means "no token", for instance where a model has no beginning-of-sequence token.
const NoToken Token = -1

// Model is a loaded model with its vocabulary and its cache of sequences.
type Model interface {
	// Info describes the model and how it was loaded.
	Info() Info
	// Vocab returns the vocabulary. It never changes and is safe to share.
	Vocab() *Vocab
	// Tokenize appends the tokens of plain text to dst. Text never becomes a control token. User-defined tokens are
	// matched in it, as the model was trained; who renders a prompt cuts the texts in which one would be a mark of the
	// prompt's structure. The tokens are those of the whole text, whatever its length. No beginning-of-sequence token is
	// added. Invalid UTF-8 is tokenized as bytes.
	Tokenize(dst []Token, text string) ([]Token, error)
	// Capabilities returns the optional parts of the contract that this model supports.
	Capabilities() Capabilities
	// NewSequence returns an empty sequence, or ErrNoSequence when all Info().Sequences are in use.
	NewSequence() (Sequence, error)
	// Step runs one forward pass over all inputs. Prefill chunks and decode tokens mix freely; a sequence appears
	// at most once. Step fills outputs[i] for inputs[i], so len(outputs) must be at least len(inputs). The inputs
	// must not hold more than Info().BatchSize tokens together (ErrBatchTooLarge). Without inputs Step does
	// nothing.
	Step(ctx context.Context, inputs []Input, outputs []Output) error
	// Close frees the model. It does not wait: no other call may be in flight. Closing twice is harmless.
	Close() error
}

// Sequence is one conversation's tokens in the model's cache.
type Sequence interface {
	// Tokens returns the tokens in the cache, oldest first. The slice is valid until the next call that changes
	// the sequence and must not be modified.
	Tokens() []Token
	// Truncate shortens the sequence to at most n tokens and returns how many it kept. A backend that cannot rewind
	// to exactly n (a sliding window that has moved on, a rotating cache) keeps the longest shorter prefix from
	// which it can continue correctly, possibly nothing.
	Truncate(n int) (kept int, err error)
	// Fork returns an independent sequence with the same tokens. It shares the cache where the backend can. Errors:
	// ErrNoSequence, ErrCacheFull where it cannot share, ErrClosed.
	Fork() (Sequence, error)
	// Close frees the sequence's place in the cache. Closing twice is harmless.
	Close()
}

// Input is one sequence's part of a step.
type Input struct {
	// Sequence must belong to the model whose Step is called and must be open.
	Sequence Sequence
	// Tokens are appended to the sequence. There must be at least one.
	Tokens []Token
	// Sampling asks for a token after the last of Tokens. Nil means prefill only.
	Sampling *Sampling
	// Constraint limits what may be sampled; nil allows everything. Step only reads it, on any goroutine.
	Constraint Constraint
	// Drafts are guesses at the tokens that follow Tokens. Step samples after Tokens. If the result is the first draft,
	// it also samples after that draft, and so on. The sequence then has Tokens and the drafts that were right; the
	// others are as if they had never been fed. So a step can give several tokens, and each is the one that a step of
	// its own would give.
	//
	// Drafts need Sampling, and exclude Logits and Hidden. A step has room for MaxTargets drafts and targets together.
	// Only for models with Capabilities().Drafts.
	Drafts []Draft
	// Targets asks for the probability of given tokens: Targets[i] is scored as the token after Tokens[i], whatever
	// token really follows. There are at most as many targets as tokens, and at most MaxTargets in one step,
	// because each needs a row of logits. A nil slice scores nothing.
	Targets []Token
	// TargetTop is how many of the most likely tokens to report with each target, from 0 to MaxTopLogprobs.
	TargetTop int
	// Logits, when not nil, receives the raw logits after the last token: Vocab.Len() values, in token order,
	// before any penalty. Only for models with Capabilities().Logits.
	Logits []float32
	// Owner names the caller for whom the sequence is computed. An engine that shares prefixes with programs that this
	// one does not control keeps those of different owners apart, if it can.
	Owner string
	// Apart asks an engine that shares prefixes to compute the whole sequence for this input alone, because what it shares
	// could show its owner a text that the owner must not know. An engine whose sequences share only by Fork ignores it.
	Apart bool
	// Hidden, when not nil, has Info().EmbeddingLength values. Step adds the last hidden state of each of Tokens to
	// them; the caller makes an embedding of the sum. After an error it is unchanged. Only for models with
	// Capabilities().Embeddings.
	Hidden []float64
}

// Draft is a guess at a token that follows in a sequence.
type Draft struct {
	Token Token
	// Constraint limits what may be sampled after Token; nil allows everything. Step asks it only if Token was right.
	Constraint Constraint
}

// Output is what a step sampled for one input.
type Output struct {
	// Token is the sampled token, or NoToken when none was asked for. It is not yet part of the sequence: feed it
	// (or another) in the next step.
	Token Token
	// Logprob is the natural logarithm of Token's probability in the model's own distribution: the softmax of the
	// raw logits, before penalties, bias, temperature, filters and Constraint. It is not set when
	// Sampling.TopLogprobs is negative.
	Logprob float32
	// Top holds the Sampling.TopLogprobs most likely tokens of that distribution, best first. Token need not be
	// among them. The slice is reused: it is valid until the next step that writes to this Output.
	Top []TokenLogprob
	// Scores has one entry for each of Input.Targets, in order. Like Top it is reused.
	Scores []TargetScore
	// More has an entry for each of Input.Drafts that was right, in order: what was sampled after it. So Token and the
	// tokens of More but the last are those drafts. A draft after which nothing can be sampled counts as wrong; the
	// error comes when its token is fed. Entries have no Scores and no More. Like Top it is reused.
	More []Output
	// Pending means that the input has no result yet. Its sequence is unchanged, and nothing else is set. Hand the same
	// input in again with the next step. Only models with Capabilities().Paced set it.
	Pending bool
}

// MaxTargets is the largest number of targets and drafts in one step. Each needs a row of logits.
const MaxTargets = 32

// TargetScore is how likely a target was, in the distribution that Output.Logprob describes.
type TargetScore struct {
	// Logprob is the natural logarithm of the target's probability.
	Logprob float32
	// Rank is 1 plus the number of tokens that are more likely.
	Rank int
	// Top holds the Input.TargetTop most likely tokens, best first.
	Top []TokenLogprob
}

// Reset empties an output for the next step and keeps its memory for reuse.
func (o *Output) Reset() {
	o.Token, o.Logprob, o.Top, o.Scores, o.More = NoToken, 0, o.Top[:0], o.Scores[:0], o.More[:0]
	o.Pending = false
}

// NextMore appends an empty entry to More and returns it. It reuses the memory of earlier entries.
func (o *Output) NextMore() *Output {
	if n := len(o.More); n < cap(o.More) {
		o.More = o.More[:n+1]
	} else {
		o.More = append(o.More, Output{})
	}
	next := &o.More[len(o.More)-1]
	next.Reset()
	return next
}

// NextScore appends a score to Scores and returns it. It reuses the memory of earlier scores.
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

// Capabilities lists the optional parts of the contract. An engine in a process of its own sends those that have names
// in JSON.
type Capabilities struct {
	// Logits: Input.Logits is supported.
	Logits bool `json:"logits"`
	// Embeddings: Input.Hidden is supported.
	Embeddings bool `json:"embeddings"`
	// ExactTruncate: Truncate(n) always keeps exactly n tokens if there are that many.
	ExactTruncate bool `json:"exact_truncate"`
	// Drafts: Input.Drafts is supported. A model supports it only if a token's logits are the same, to the bit, whatever
	// else is in its step.
	Drafts bool `json:"drafts,omitempty"`
	// Targets: Input.Targets is supported.
	Targets bool `json:"-"`
	// Paced: each sequence goes at its own pace. Step does not wait for the engine. It marks the inputs that have no
	// result yet as Output.Pending. The model is a [Paced].
	Paced bool `json:"-"`
	// MixesOwners: a sequence may continue from what the engine computed for another owner's, unless Input.Apart is set.
	MixesOwners bool `json:"-"`
}

// Constraint decides which tokens may be sampled next. Backends read it; its owner advances it between steps.
type Constraint interface {
	// Allows reports whether t may come next. It is the cheap test and is tried first, on the sampled token.
	Allows(t Token) bool
	// Fill sets the bits of the tokens that may come next and clears all others.
	Fill(m Mask)
}

// Info describes a loaded model. An engine in a process of its own sends the fields that have names in JSON.
type Info struct {
	// Name is the model's own name from its metadata, or its file's base name.
	Name string `json:"name"`
	// Architecture is the name that the file format gives it, for instance "gpt-oss".
	Architecture string `json:"architecture"`
	// Device names the hardware that the model computes on, and Backend the implementation, both for people to read.
	Device  string `json:"device"`
	Backend string `json:"engine,omitempty"`
	// Kernels says which kernels compute the model, for people to read; empty if the engine does not tell.
	Kernels string `json:"kernels,omitempty"`
	// Parameters is the number of weights, and Bytes their size in memory or on disk.
	Parameters int64 `json:"parameters"`
	Bytes      int64 `json:"bytes"`
	// Quantization is the format of the weights, for people to read, for instance "MXFP4_MOE".
	Quantization string `json:"quantization"`
	// ContextSize is how many tokens each sequence can hold. TrainedContext is what the model was trained for.
	ContextSize    int `json:"context"`
	TrainedContext int `json:"trained_context"`
	// CacheTokens is the size of the cache that all sequences share, in tokens. ContextReason explains the choice
	// of ContextSize to people.
	CacheTokens   int    `json:"cache_tokens"`
	ContextReason string `json:"context_reason"`
	// Sequences is how many sequences can be open at once. BatchSize is how many tokens one step can take.
	Sequences int `json:"sequences"`
	BatchSize int `json:"batch"`
	// Threads and GPULayers are the values in effect.
	Threads   int `json:"threads"`
	GPULayers int `json:"gpu_layers"`
	// EmbeddingLength is the width of the hidden state, and Layers is the number of layers; 0 is unknown.
	EmbeddingLength int `json:"embedding_length"`
	Layers          int `json:"layers,omitempty"`
	// WindowOnly reports that sliding-window layers keep only their window. Little of a sequence can then be
	// rewound.
	WindowOnly bool `json:"window_only"`
	// DefaultSplit says, for people to read, why texts are split into words by the engine's default rule and not by the
	// model's own, so that the model may see other tokens than in training. It is empty if they are not.
	DefaultSplit string `json:"default_split,omitempty"`
	// ChatTemplate is the model's own Jinja template; empty when it has none.
	ChatTemplate string `json:"chat_template"`
	// Header is a digest of the headers of the model's files, or of what an engine at an address says of its model.
	// Engines compute it while they load. Models with other weights can have the same.
	Header string `json:"digest"`
	// Memory is what the model was promised when it was loaded. Its Untouched is not set.
	Memory Memory `json:"memory"`
	// Path is where the model was read from; empty if it has no file.
	Path string `json:"-"`
	// Key identifies the model's files as they lie on the disk, and Header where there are none. The runner sets it.
	Key string `json:"-"`
	// Digest identifies the weights: hexadecimal SHA-256 of all that the files hold. It is empty until it is known. The
	// runner sets it, unless the model has no files and knows it.
	Digest string `json:"-"`
}

// Memory is memory that models were promised, in bytes.
type Memory struct {
	// Mapped is for the part of their files that is mapped. The system counts its pages as free.
	Mapped int64 `json:"mapped"`
	// Private is for the rest: caches, buffers, and weights that were read or copied.
	Private int64 `json:"private"`
	// Untouched is the part of Private that the system still counts as free.
	Untouched int64 `json:"untouched,omitempty"`
}

// The maximum values of a Config. A model or a machine may accept less.
const (
	MaxContextSize = 1 << 24
	MaxThreads     = 512
)

// Config says how to load a model. The zero value loads with the backend's defaults. An engine in a process of its own
// gets the fields that have names in JSON.
type Config struct {
	// ContextSize is how many tokens each sequence can hold. 0 means the trained context, as far as memory allows.
	ContextSize int `json:"context"`
	// Sequences is how many sequences can be open at once; 0 means 4.
	Sequences int `json:"sequences"`
	// CacheTokens is the size of the cache that all sequences share, in tokens. With 0 the backend chooses a size
	// from ContextSize to ContextSize*Sequences. Forks share their common prefix.
	CacheTokens int `json:"cache_tokens"`
	// BatchSize is the maximum number of tokens in one step. 0 leaves the choice to the backend. That is 512 for most
	// models, and 256 where package llamacpp computes a tiny model on the CPU.
	BatchSize int `json:"batch"`
	// Threads is the number of compute threads. 0 means one per physical core, or fewer if the model is too small
	// to use them all.
	Threads int `json:"threads"`
	// GPULayers is how many layers to offload. A negative value offloads all that fit; 0 none.
	GPULayers int `json:"gpu_layers"`
	// FlashAttention is "auto" (or empty), "on" or "off".
	FlashAttention string `json:"flash_attention"`
	// CacheType is the KV cache's element type: "f16" (or empty), "f32", "bf16", "q8_0", "q4_0".
	CacheType string `json:"cache_type"`
	// FullWindow keeps the whole context for sliding-window layers too. Every prefix can then be reused, for about
	// twice the cache memory in models that alternate. "auto" (or empty), "on" or "off".
	FullWindow string `json:"full_window"`
	// NoMemoryMap reads the weights into memory instead of mapping the file.
	NoMemoryMap bool `json:"no_memory_map"`
	// AnyPretokenizer loads a model even if the engine does not know its pre-tokenizer, which splits texts into words
	// before they are tokenized. The engine's default rule then splits them.
	AnyPretokenizer bool `json:"any_pretokenizer,omitempty"`
	// Others lists the weights, in bytes, of models that will be loaded later and stay loaded together with this
	// one. Sizes that the backend chooses leave room for them.
	Others []int64 `json:"others,omitempty"`
	// Reserved is what loaded models were promised in other processes. Package ledger counts those of this process.
	Reserved Memory `json:"reserved,omitzero"`
	// Progress, when not nil, is called with values from 0 to 1 while loading. Returning false cancels the load.
	Progress func(fraction float32) bool `json:"-"`
	// Files, when not nil, are the model's files, which were opened before. An engine loads these, or fails.
	Files Files `json:"-"`
}

// Files are the files of a model, which were opened before it is loaded and stay open until it is closed.
type Files interface {
	// Held returns the file that the engine reads, whatever has its name now. It is nil if the engine opens the files by
	// their names. Then it calls Unchanged when it has loaded them.
	Held() *os.File
	// Unchanged returns an error if the engine would now open other files, or files that were written to.
	Unchanged() error
}

// NameOf is a name by which this process can open an open file once more. Only Linux has one: elsewhere, files that are
// opened by such a name share their position.
func NameOf(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// FilesChanged returns the error of loading files that have changed meanwhile.
func FilesChanged(path string, err error) error {
	return &LoadError{Path: path, Reason: LoadFailed, Detail: "its files changed while it was loaded", Err: err,
		Advice: "load it again when nobody writes to them"}
}
