package plan

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"runner/backend"
	"runner/backend/gguf"
)

// ErrNewer is in the errors about models that this engine cannot run and that a newer llama.cpp may run.
var ErrNewer = errors.New("a newer llama.cpp may run this model")

// Check checks what the engine would trust or assert, so that no file can end the process. Each rule was added
// for a file that did; see TestMutatedFiles.
func (e *Engine) Check(path string, files []*gguf.File) error {
	f := files[0]
	arch := f.Architecture()
	switch {
	case arch == "":
		return &backend.LoadError{Path: path, Reason: backend.LoadCorrupt, Detail: "does not name its architecture",
			Advice: "convert the model again"}
	case arch == "gptoss": // Ollama's own store names the weights otherwise, and some have another order in each block
		return unknown(path, `is a gpt-oss model in Ollama's own layout (architecture "gptoss")`,
			"use the GGUF file of gpt-oss that llama.cpp reads (architecture \"gpt-oss\"), for instance from "+
				"ggml-org on Hugging Face")
	case arch == "clip" || arch == "mmproj":
		return unknown(path, "is an image or audio encoder, not a language model",
			"use the language model that it belongs to")
	case e.Others[arch]:
		return NotGenerative(path, arch)
	case !e.Generative[arch]:
		return e.tooOld(path, fmt.Sprintf("unknown architecture %.40q", arch))
	}
	kind, ok := f.String("tokenizer.ggml.model")
	switch {
	case !ok || kind == "gpt2" || kind == "llama" || kind == "gemma4" && e.Folder != "":
	case kind == "gemma4":
		return e.tooOld(path, fmt.Sprintf("unknown tokenizer type %q", kind))
	default:
		return unknown(path, fmt.Sprintf("the tokenizer type %.40q is not supported", kind),
			"choose a model with a byte-level (gpt2) or sentence-piece (llama) vocabulary")
	}
	err := checkNumbers(f, arch)
	if err == nil {
		err = checkVocabulary(f)
	}
	for _, part := range files {
		if err == nil {
			err = e.checkTensors(part)
		}
	}
	if errors.Is(err, ErrNewer) {
		return e.tooOld(path, err.Error())
	}
	if err != nil {
		return &backend.LoadError{Path: path, Reason: backend.LoadCorrupt, Detail: err.Error(), Err: err,
			Advice: "download or convert the model again"}
	}
	return nil
}

// tooOld refuses a file that a newer engine may run.
func (e *Engine) tooOld(path, detail string) error {
	advice := "choose a model that it supports"
	if e.Folder == "" {
		advice = "use a newer one with --engine, or " + advice
	}
	err := unknown(path, detail, "this engine is llama.cpp "+e.Version+"; "+advice)
	err.Err = ErrNewer
	return err
}

// unknown refuses a kind of model.
func unknown(path, detail, advice string) *backend.LoadError {
	return &backend.LoadError{Path: path, Reason: backend.LoadUnknownArchitecture, Detail: detail, Advice: advice}
}

func checkNumbers(f *gguf.File, arch string) error {
	for _, c := range []struct {
		name   string
		lo, hi int64
	}{{"block_count", 1, 512}, {"context_length", 1, math.MaxInt32}, {"embedding_length", 1, 1 << 20}} {
		n, ok := f.Int(arch + "." + c.name)
		if !ok {
			return fmt.Errorf("key %s.%s is missing or not a number", arch, c.name)
		}
		if n < c.lo || n > c.hi {
			return fmt.Errorf("%s.%s is %d, not between %d and %d", arch, c.name, n, c.lo, c.hi)
		}
	}
	return nil
}

// checkVocabulary checks the arrays that the engine reads without checking their length or type. It also checks
// that the vocabulary contains the ids that the engine assumes where the file names none.
func checkVocabulary(f *gguf.File) error {
	const prefix = "tokenizer.ggml."
	tokens, ok := f.Array(prefix + "tokens")
	if !ok || tokens.Type() != gguf.String {
		return fmt.Errorf("has no list of tokens")
	}
	if n := tokens.Len(); n < 256 {
		return fmt.Errorf("has a vocabulary of %d tokens, fewer than there are bytes", n)
	}
	for _, c := range []struct {
		name  string
		types []gguf.Type
		long  bool
	}{
		{"token_type", []gguf.Type{gguf.Int32, gguf.Uint32}, true}, {"scores", []gguf.Type{gguf.Float32}, true},
		{"merges", []gguf.Type{gguf.String}, false},
	} {
		v, ok := f.Lookup(prefix + c.name)
		if !ok {
			continue
		}
		a, ok := v.Array()
		typed := false
		for _, t := range c.types {
			typed = typed || ok && a.Type() == t
		}
		if !typed {
			return fmt.Errorf("%s%s is not a list of the right type", prefix, c.name)
		}
		if c.long && a.Len() != tokens.Len() {
			return fmt.Errorf("has %d tokens but %d entries in %s%s", tokens.Len(), a.Len(), prefix, c.name)
		}
	}
	return nil
}

// computable are the formats that the compiled-in engine can multiply by. The others hold intermediate results or were
// removed. computableNew are those that came with 0.5.
var computable, computableNew = set(`F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS
	IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS IQ1_M TQ1_0 TQ2_0 MXFP4`), set("NVFP4 Q1_0 Q2_0")

func (e *Engine) checkTensors(f *gguf.File) error {
	for i := range f.Tensors {
		t := &f.Tensors[i]
		name := t.Type.String()
		if computableNew[name] && e.Folder == "" {
			return &newFormatError{t.Name, name}
		}
		if !computable[name] && !computableNew[name] {
			return fmt.Errorf("tensor %.64q has the format %v, which the engine cannot compute with", t.Name, t.Type)
		}
		if t.Type != gguf.F32 && (len(t.Dims) == 1 || strings.HasSuffix(t.Name, ".bias")) {
			return fmt.Errorf("tensor %.64q has the format %v where F32 is needed", t.Name, t.Type)
		}
	}
	return nil
}

// newFormatError is about a tensor in a format that newer engines compute with.
type newFormatError struct{ tensor, format string }

func (e *newFormatError) Error() string {
	return fmt.Sprintf("tensor %.64q has the format %s, which is newer than this engine", e.tensor, e.format)
}

func (e *newFormatError) Unwrap() error { return ErrNewer }

// NotGenerative refuses a model that generates no text token by token.
func NotGenerative(path, arch string) error {
	return unknown(path, fmt.Sprintf("models of architecture %q do not generate text token by token", arch),
		"choose a decoder-only language model")
}
