package remote

import (
	"context"

	"runner/backend"
)

// Engine speaks the protocol of one kind of engine. Its methods but Close may be called from any goroutine. Errors are
// those of package web, so that the model knows which can be tried again.
type Engine interface {
	// Kind names the kind of engine, for instance "llama-server".
	Kind() string
	// Describe asks the engine what it is and which model it runs.
	Describe(ctx context.Context) (Description, error)
	// Check returns a *backend.SettingError for the first setting for which the engine has no equal. It asks nobody.
	Check(p *backend.Sampling) error
	// Encode asks for the tokens of a text. With special, names of control tokens become those tokens. No token is added
	// at the beginning.
	Encode(ctx context.Context, text string, special bool) ([]backend.Token, error)
	// Decode asks for the text of ordinary tokens.
	Decode(ctx context.Context, tokens []backend.Token) (string, error)
	// Open begins a generation. It returns when the engine has taken the request. The stream may
	// keep the request's slices, which nobody changes. The generation ends when ctx ends or the stream is closed; the
	// engine must then stop at once.
	Open(ctx context.Context, r *Request) (Stream, error)
	// Close waits until the engine was told of the generations that have ended, for a second at most, and drops the
	// connections. Nothing else may be called any more.
	Close()
}

// Description says what an engine is. Unknown values are zero.
type Description struct {
	// Version is the engine's, and Model is its name for the model.
	Version, Model string
	// Names are other names that its messages may have for the same model.
	Names []string
	// Path is the file or folder of the model on the engine's machine.
	Path string
	// ContextSize is the maximum length of one sequence. TrainedContext is what the model was trained for.
	ContextSize, TrainedContext int
	// Parallel is how many sequences the engine computes at a time. Usual is how many such an engine computes at a time if
	// it is started without a number, for engines that do not say.
	Parallel, Usual int
	// Vocabulary is the number of tokens, with or without padding.
	Vocabulary int
	// Parameters is the number of weights, and Bytes their size.
	Parameters, Bytes int64
	// Quantization is the format of the weights, for people to read.
	Quantization string
	// ChatTemplate is the Jinja template that the engine would use.
	ChatTemplate string
	// Salted says that the engine keeps prefixes with different salts apart. Unsharing says that Request.NoCache has an
	// effect.
	Salted, Unsharing bool
	// Forms lists the kinds of form that the engine can enforce itself.
	Forms []FormKind
	// Notes are facts for people to read, one line each.
	Notes []string
}

// Request asks for a generation.
type Request struct {
	// ID identifies the request at the engine. It is unique and has only letters, digits and hyphens.
	ID string
	// Tokens is the whole sequence so far; there is at least one.
	Tokens []backend.Token
	// Most is the maximum number of tokens to generate, at least 1.
	Most int
	// Sampling has passed Check. Its Seed is for this request alone. Its penalties are off, because Bias has them.
	Sampling backend.Sampling
	// Allowed, when not empty, lists the only tokens that may be sampled, in ascending order. Most is then 1.
	Allowed []backend.Token
	// Form, when not nil, is what the tokens should spell. It is one of Description.Forms.
	Form *Form
	// Salt keeps the prefixes of different callers apart, if the engine can do so. Empty means that all may share.
	Salt string
	// NoCache says that the engine should neither keep nor reuse prefixes for this request.
	NoCache bool
}

// FormKind is a way to describe what a text must look like.
type FormKind = backend.FormKind

// The kinds of form.
const (
	FormJSONSchema = backend.FormJSONSchema
	FormRegex      = backend.FormRegex
	FormChoices    = backend.FormChoices
	FormGBNF       = backend.FormGBNF
)

// Form describes what a text must look like. It is a hint: the model checks every token all the same.
type Form = backend.Form

// Stream is a generation that is open at an engine. It is used by one goroutine at a time.
type Stream interface {
	// Next waits for the next token. It sets all fields of s and reuses the memory of s.Top. The error is io.EOF when
	// the engine has ended the generation properly, after the last token. A token that ends generation is a token, too.
	Next(s *Sample) error
	// Reused returns how many tokens of the prompt the engine had computed before, if it says so. It is asked after the
	// first token.
	Reused() (tokens int, ok bool)
	// Model returns the name of the model in the last message that had one, or "". It is asked after each token and at
	// the end.
	Model() string
	// Close ends the generation. It may be called twice.
	Close()
}

// Sample is a token that an engine sampled.
type Sample struct {
	Token backend.Token
	// Logprob and Top are as in backend.Output, for requests with Sampling.TopLogprobs of at least 0.
	Logprob float32
	Top     []backend.TokenLogprob
}
