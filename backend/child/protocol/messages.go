package protocol

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"runner/backend"
)

// Hello begins a conversation. Engine, Samples and Tokenizes come from the engine, Runner from the runner.
type Hello struct {
	Protocol int    `json:"protocol"`
	Runner   string `json:"runner,omitempty"`
	// Engine and Version name the engine's program.
	Engine  string `json:"engine,omitempty"`
	Version string `json:"version,omitempty"`
	// Samples says that the engine chooses tokens. Otherwise it returns logits.
	Samples bool `json:"samples,omitempty"`
	// Tokenizes says that the engine answers KindTokenize.
	Tokenizes bool `json:"tokenizes,omitempty"`
	About
}

// About describes an engine that has no model yet. An engine may leave all of it out.
type About struct {
	// Architectures are those of the models that it runs.
	Architectures []string `json:"architectures,omitempty"`
	// Devices are what it computes on besides the CPU, and Kernels what it computes with on the CPU, for people to read.
	Devices []string `json:"devices,omitempty"`
	Kernels string   `json:"kernels,omitempty"`
	// Missing has a line for each part of it that cannot be used, and Problem says why nothing can.
	Missing []string `json:"missing,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// Load says which model to load and how.
type Load struct {
	Path string `json:"path"`
	backend.Config
	// File is the descriptor of the file at Path, FileModel, if the engine is to read that; else 0. Something else may be
	// at Path.
	File int `json:"file,omitempty"`
}

// The largest values of a backend.Info that the runner accepts.
const (
	maxSequences = 4096
	maxBatch     = 1 << 20
	maxWidth     = 1 << 20
	maxLayers    = 1 << 12
	maxTokens    = 1 << 24
	maxMemory    = 1 << 50
)

// check returns an error for sizes that are not possible.
func check(i *backend.Info) error {
	for _, f := range []struct {
		name           string
		v, least, most int64
	}{
		{"context", int64(i.ContextSize), 1, backend.MaxContextSize}, {"sequences", int64(i.Sequences), 1, maxSequences},
		{"batch", int64(i.BatchSize), 1, maxBatch}, {"embedding_length", int64(i.EmbeddingLength), 0, maxWidth},
		{"layers", int64(i.Layers), 0, maxLayers}, {"mapped", i.Memory.Mapped, 0, maxMemory},
		{"private", i.Memory.Private, 0, maxMemory},
	} {
		if f.v < f.least || f.v > f.most {
			return bad("%s %d is not between %d and %d", f.name, f.v, f.least, f.most)
		}
	}
	return nil
}

// Loaded answers Load. The raw part has the vocabulary, see Vocabulary.
type Loaded struct {
	Info backend.Info `json:"info"`
	// Capabilities has Drafts only if the engine samples.
	backend.Capabilities
	// Parts is how many times the count of progress grows in a step at least, each time after about as much work.
	Parts      int        `json:"parts,omitempty"`
	Vocabulary Vocabulary `json:"vocabulary"`
}

// Vocabulary is the head's part of a vocabulary. -1 stands for a token that the model does not have.
type Vocabulary struct {
	// Tokens is the number of tokens in the raw part. With 0 the runner reads the vocabulary from the model's files.
	Tokens int             `json:"tokens"`
	BOS    backend.Token   `json:"bos"`
	EOS    backend.Token   `json:"eos"`
	End    []backend.Token `json:"end"`
	AddBOS bool            `json:"add_bos"`
}

// LoadedOf returns the message for a model, and its raw part.
func LoadedOf(m backend.Model) (Loaded, []byte) {
	v := m.Vocab()
	l := Loaded{Info: m.Info(), Capabilities: m.Capabilities(),
		Vocabulary: Vocabulary{Tokens: v.Len(), BOS: v.BOS(), EOS: v.EOS(), End: v.Ends(), AddBOS: v.AddBOS()}}
	var raw []byte
	for t := range backend.Token(v.Len()) {
		p := v.Piece(t)
		raw = append(raw, byte(v.Kind(t)))
		raw = binary.LittleEndian.AppendUint32(raw, uint32(len(p)))
		raw = append(raw, p...)
	}
	return l, raw
}

// Decode checks the message and returns the vocabulary in the raw part, or nil if it has none.
func (l *Loaded) Decode(raw []byte) (*backend.Vocab, error) {
	if err := check(&l.Info); err != nil {
		return nil, err
	}
	if l.Parts < 0 || l.Parts > maxLayers {
		return nil, bad("%d parts of a step, which is not between 0 and %d", l.Parts, maxLayers)
	}
	n := l.Vocabulary.Tokens
	if n == 0 && len(raw) == 0 {
		return nil, nil
	}
	if n < 1 || n > maxTokens || n > len(raw)/5 {
		return nil, bad("a vocabulary of %d tokens in %d bytes", n, len(raw))
	}
	c := backend.VocabConfig{Pieces: make([]string, n), Kinds: make([]backend.TokenKind, n), BOS: l.Vocabulary.BOS,
		EOS: l.Vocabulary.EOS, EOG: l.Vocabulary.End, AddBOS: l.Vocabulary.AddBOS}
	for i := range n {
		if len(raw) < 5 {
			return nil, bad("the vocabulary ends at token %d of %d", i, n)
		}
		kind, size := raw[0], int(binary.LittleEndian.Uint32(raw[1:]))
		if raw = raw[5:]; kind > byte(backend.Unused) || size > len(raw) {
			return nil, bad("token %d has kind %d and %d bytes", i, kind, size)
		}
		c.Kinds[i], c.Pieces[i] = backend.TokenKind(kind), string(raw[:size])
		raw = raw[size:]
	}
	if len(raw) > 0 {
		return nil, bad("%d bytes follow the vocabulary", len(raw))
	}
	v, err := backend.NewVocab(c)
	if err != nil {
		return nil, bad("%v", err)
	}
	return v, nil
}

// Progress reports Fraction, from 0 to 1, while a model loads, and Count in a step.
type Progress struct {
	Fraction float32 `json:"fraction,omitempty"`
	Count    uint64  `json:"count,omitempty"`
}

// Share tells for how many rows of logits the shared file has space.
type Share struct {
	Rows int `json:"rows"`
}

// Sequence is the head of KindNew, KindFork, KindTruncate and KindFree.
type Sequence struct {
	Sequence int `json:"sequence"`
	From     int `json:"from,omitempty"`
	Length   int `json:"length,omitempty"`
}

// Done answers requests without results. Kept is the length after KindTruncate.
type Done struct {
	Kept int `json:"kept,omitempty"`
}

// Tokenize is the head of KindTokenize and KindTokens.
type Tokenize struct {
	ID uint64 `json:"id"`
	// Error says why there are no tokens.
	Error string `json:"error,omitempty"`
}

// Error reports why a request failed. Where the runner gets it, it is an error until Backend translates it.
type Error struct {
	Code string `json:"code"`
	// Input is the index of the input that is to blame; nil blames the whole request.
	Input  *int   `json:"input,omitempty"`
	Text   string `json:"text,omitempty"`
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	Advice string `json:"advice,omitempty"`
}

// codes are the errors of package backend that have a code. An error with several has the first.
var codes = []struct {
	code string
	err  error
}{
	{"memory", backend.ErrMemory}, {"broken", backend.ErrBroken},
	{"context_full", backend.ErrContextFull}, {"cache_full", backend.ErrCacheFull},
	{"no_sequence", backend.ErrNoSequence}, {"batch_too_large", backend.ErrBatchTooLarge},
	{"no_tokens", backend.ErrNoTokens}, {"bad_token", backend.ErrBadToken}, {"repeated", backend.ErrRepeated},
	{"foreign", backend.ErrForeign}, {"nothing_allowed", backend.ErrNothingAllowed}, {"closed", backend.ErrClosed},
	{"bad_logits", backend.ErrBadLogits}, {"canceled", context.Canceled},
}

const codeLoad = "load"

// reasons are the names of backend's reasons why a model does not load.
var reasons = [...]string{
	backend.LoadFailed: "failed", backend.LoadMissing: "missing", backend.LoadNotModel: "not_a_model",
	backend.LoadTruncated: "truncated", backend.LoadCorrupt: "corrupt",
	backend.LoadUnknownArchitecture: "unknown_architecture", backend.LoadTooBig: "too_big",
	backend.LoadUnknownPretokenizer: "unknown_pretokenizer",
	backend.LoadCanceled:            "canceled",
}

// ErrorOf returns the message for an error.
func ErrorOf(err error) Error {
	e := Error{Code: "failed", Text: err.Error()}
	var load *backend.LoadError
	if errors.As(err, &load) {
		e.Code, e.Detail, e.Advice = codeLoad, load.Detail, load.Advice
		if e.Detail == "" && load.Err != nil {
			e.Detail = load.Err.Error()
		}
		if int(load.Reason) < len(reasons) {
			e.Reason = reasons[load.Reason]
		}
		return e
	}
	var in *backend.InputError
	if errors.As(err, &in) {
		e.Input, e.Text = &in.Index, in.Err.Error()
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			e.Code = c.code
			break
		}
	}
	return e
}

func (e *Error) Error() string { return e.Text + e.Detail }

// Backend returns the error as package backend has it. path is that of the model.
func (e *Error) Backend(path string) error {
	if e.Code == codeLoad {
		return &backend.LoadError{Path: path, Detail: e.Detail, Advice: e.Advice,
			Reason: backend.LoadFailure(max(0, slices.Index(reasons[:], e.Reason)))}
	}
	err := errors.New(e.Text)
	for _, c := range codes {
		if c.code == e.Code {
			err = c.err
			if e.Text != "" && e.Text != c.err.Error() {
				err = &remote{e.Text, c.err}
			}
			break
		}
	}
	if e.Input != nil {
		return &backend.InputError{Index: *e.Input, Err: err}
	}
	return err
}

// remote is an error with the text that the engine gave it.
type remote struct {
	text string
	err  error
}

func (r *remote) Error() string { return r.text }

func (r *remote) Unwrap() error { return r.err }

// String returns the name of a kind for messages.
func (k Kind) String() string { return fmt.Sprintf("kind %d", uint32(k)) }
