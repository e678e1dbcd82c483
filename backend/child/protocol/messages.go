package protocol

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

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

// Load says which model to load and how. The fields are those of backend.Config.
type Load struct {
	Path            string  `json:"path"`
	Context         int     `json:"context"`
	Sequences       int     `json:"sequences"`
	CacheTokens     int     `json:"cache_tokens"`
	Batch           int     `json:"batch"`
	Threads         int     `json:"threads"`
	GPULayers       int     `json:"gpu_layers"`
	FlashAttention  string  `json:"flash_attention"`
	CacheType       string  `json:"cache_type"`
	FullWindow      string  `json:"full_window"`
	NoMemoryMap     bool    `json:"no_memory_map"`
	AnyPretokenizer bool    `json:"any_pretokenizer,omitempty"`
	Others          []int64 `json:"others,omitempty"`
	// Reserved is what the runner's other models were promised, in whatever process.
	Reserved Memory `json:"reserved,omitzero"`
	// File is the descriptor of the file at Path, FileModel, if the engine is to read that; else 0. Something else may be
	// at Path.
	File int `json:"file,omitempty"`
}

// Memory is backend.Memory.
type Memory struct {
	Mapped    int64 `json:"mapped"`
	Private   int64 `json:"private"`
	Untouched int64 `json:"untouched,omitempty"`
}

// LoadOf returns the message for a path and a configuration.
func LoadOf(path string, c backend.Config) Load {
	return Load{Path: path, Context: c.ContextSize, Sequences: c.Sequences, CacheTokens: c.CacheTokens, Batch: c.BatchSize,
		Threads: c.Threads, GPULayers: c.GPULayers, FlashAttention: c.FlashAttention, CacheType: c.CacheType,
		FullWindow: c.FullWindow, NoMemoryMap: c.NoMemoryMap, Others: c.Others,
		AnyPretokenizer: c.AnyPretokenizer,
		Reserved:        Memory(c.Reserved)}
}

// Config returns the configuration without its Progress.
func (l *Load) Config() backend.Config {
	return backend.Config{ContextSize: l.Context, Sequences: l.Sequences, CacheTokens: l.CacheTokens, BatchSize: l.Batch,
		Threads: l.Threads, GPULayers: l.GPULayers, FlashAttention: l.FlashAttention, CacheType: l.CacheType,
		FullWindow: l.FullWindow, NoMemoryMap: l.NoMemoryMap, Others: l.Others,
		AnyPretokenizer: l.AnyPretokenizer,
		Reserved:        backend.Memory(l.Reserved)}
}

// Info describes a loaded model. The fields are those of backend.Info, without its path. Digest is its Header.
type Info struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Device       string `json:"device"`
	// Engine names the engine, if its hello does not say all.
	Engine          string `json:"engine,omitempty"`
	Kernels         string `json:"kernels,omitempty"`
	Parameters      int64  `json:"parameters"`
	Bytes           int64  `json:"bytes"`
	Quantization    string `json:"quantization"`
	Context         int    `json:"context"`
	TrainedContext  int    `json:"trained_context"`
	CacheTokens     int    `json:"cache_tokens"`
	ContextReason   string `json:"context_reason"`
	Sequences       int    `json:"sequences"`
	Batch           int    `json:"batch"`
	Threads         int    `json:"threads"`
	GPULayers       int    `json:"gpu_layers"`
	EmbeddingLength int    `json:"embedding_length"`
	Layers          int    `json:"layers,omitempty"`
	WindowOnly      bool   `json:"window_only"`
	DefaultSplit    string `json:"default_split,omitempty"`
	ChatTemplate    string `json:"chat_template"`
	Digest          string `json:"digest"`
	Memory          Memory `json:"memory"`
}

// InfoOf returns the message for a model.
func InfoOf(i backend.Info) Info {
	return Info{Name: i.Name, Architecture: i.Architecture, Engine: i.Backend, Device: i.Device, Kernels: i.Kernels,
		Parameters: i.Parameters, Bytes: i.Bytes, Quantization: i.Quantization, Context: i.ContextSize,
		TrainedContext: i.TrainedContext, CacheTokens: i.CacheTokens,
		ContextReason: i.ContextReason, Sequences: i.Sequences, Batch: i.BatchSize, Threads: i.Threads,
		GPULayers: i.GPULayers, EmbeddingLength: i.EmbeddingLength, Layers: i.Layers, WindowOnly: i.WindowOnly,
		DefaultSplit: i.DefaultSplit, ChatTemplate: i.ChatTemplate, Digest: i.Header, Memory: Memory(i.Memory)}
}

// Backend returns the description for a path. engine is the engine's name in its hello.
func (i *Info) Backend(engine, path string) backend.Info {
	if i.Engine != "" {
		engine = i.Engine
	}
	return backend.Info{Name: i.Name, Architecture: i.Architecture, Path: path, Backend: engine, Device: i.Device,
		Kernels: i.Kernels, Parameters: i.Parameters, Bytes: i.Bytes, Quantization: i.Quantization, ContextSize: i.Context,
		TrainedContext: i.TrainedContext, CacheTokens: i.CacheTokens, ContextReason: i.ContextReason,
		Sequences: i.Sequences, BatchSize: i.Batch, Threads: i.Threads, GPULayers: i.GPULayers,
		EmbeddingLength: i.EmbeddingLength, Layers: i.Layers, WindowOnly: i.WindowOnly, DefaultSplit: i.DefaultSplit,
		ChatTemplate: i.ChatTemplate, Header: i.Digest, Memory: backend.Memory(i.Memory)}
}

// The largest values of an Info that the runner accepts.
const (
	maxSequences = 4096
	maxBatch     = 1 << 20
	maxWidth     = 1 << 20
	maxLayers    = 1 << 12
	maxTokens    = 1 << 24
	maxMemory    = 1 << 50
)

// check returns an error for sizes that are not possible.
func (i *Info) check() error {
	for _, f := range []struct {
		name    string
		v, most int
	}{
		{"context", i.Context, backend.MaxContextSize}, {"sequences", i.Sequences, maxSequences},
		{"batch", i.Batch, maxBatch},
	} {
		if f.v < 1 || f.v > f.most {
			return bad("%s %d is not between 1 and %d", f.name, f.v, f.most)
		}
	}
	if i.EmbeddingLength < 0 || i.EmbeddingLength > maxWidth {
		return bad("embedding_length %d is not between 0 and %d", i.EmbeddingLength, maxWidth)
	}
	if i.Layers < 0 || i.Layers > maxLayers {
		return bad("%d layers, which is not between 0 and %d", i.Layers, maxLayers)
	}
	for _, n := range [2]int64{i.Memory.Mapped, i.Memory.Private} {
		if n < 0 || n > maxMemory {
			return bad("memory %d is not between 0 and %d", n, int64(maxMemory))
		}
	}
	return nil
}

// Loaded answers Load. The raw part has the vocabulary, see Vocabulary.
type Loaded struct {
	Info          Info `json:"info"`
	Logits        bool `json:"logits"`
	Embeddings    bool `json:"embeddings"`
	ExactTruncate bool `json:"exact_truncate"`
	// Drafts says that inputs may have drafts. Only an engine that samples may say so.
	Drafts bool `json:"drafts,omitempty"`
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
	c, v := m.Capabilities(), m.Vocab()
	l := Loaded{Info: InfoOf(m.Info()), Logits: c.Logits, Embeddings: c.Embeddings, ExactTruncate: c.ExactTruncate,
		Drafts:     c.Drafts,
		Vocabulary: Vocabulary{Tokens: v.Len(), BOS: v.BOS(), EOS: v.EOS(), AddBOS: v.AddBOS()}}
	var raw []byte
	for t := range backend.Token(v.Len()) {
		p := v.Piece(t)
		raw = append(raw, byte(v.Kind(t)))
		raw = binary.LittleEndian.AppendUint32(raw, uint32(len(p)))
		raw = append(raw, p...)
		if v.EndsGeneration(t) {
			l.Vocabulary.End = append(l.Vocabulary.End, t)
		}
	}
	return l, raw
}

// Decode checks the message and returns the vocabulary in the raw part, or nil if it has none.
func (l *Loaded) Decode(raw []byte) (*backend.Vocab, error) {
	if err := l.Info.check(); err != nil {
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

// Capabilities returns the optional parts that the model supports.
func (l *Loaded) Capabilities() backend.Capabilities {
	return backend.Capabilities{Logits: l.Logits, Embeddings: l.Embeddings, Targets: true, ExactTruncate: l.ExactTruncate,
		Drafts: l.Drafts}
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
}

// Error reports why a request failed.
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

// Backend returns the error as package backend has it. path is that of the model.
func (e *Error) Backend(path string) error {
	if e.Code == codeLoad {
		load := &backend.LoadError{Path: path, Detail: e.Detail, Advice: e.Advice}
		for i, name := range reasons {
			if name == e.Reason {
				load.Reason = backend.LoadFailure(i)
			}
		}
		return load
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
