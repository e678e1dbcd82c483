package llamacpp

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/cgo"
	"strings"
	"unsafe"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/ledger"
	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/machine"
	"runner/backend/sample"
	"runner/backend/tokenizer"
	"runner/hint"
)

// Open loads the GGUF file at path into the compiled-in engine, see [Engine.Open]. The error may also be
// ErrIncompatible.
func Open(ctx context.Context, path string, cfg backend.Config) (backend.Model, error) {
	e, err := BuiltIn()
	if err != nil {
		return nil, err
	}
	return e.Open(ctx, path, cfg)
}

// Open loads the GGUF file at path. For a model in several parts, path is the first part. The error is a
// *backend.LoadError, or the context's error if it ended meanwhile. The context matters only while loading.
func (e *Engine) Open(ctx context.Context, path string, cfg backend.Config) (backend.Model, error) {
	m, err := e.open(ctx, path, cfg)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Check reports whether the compiled-in engine can run the model at path, see [Engine.Check].
func Check(path string) error { return builtin.Check(path) }

// CheckFor is Check for an engine of another process, which told its folder, version and architectures.
func CheckFor(path, folder, version string, architectures []string) error {
	e := Engine{folder: folder, version: version, generative: map[string]bool{},
		others: set(notTokenByToken + notTokenByTokenNew)}
	for _, name := range architectures {
		e.generative[name] = true
	}
	return e.Check(path)
}

// Check reads the headers of the GGUF file at path and reports whether the engine can run the model, without loading
// it. The error is a *backend.LoadError. Open makes the same checks first. An engine from a folder may still refuse the
// model's pre-tokenizer when it loads it.
func (e *Engine) Check(path string) error {
	files, err := e.readChecked(path, path)
	if err != nil {
		return err
	}
	return e.checkPretokenizer(path, files[0])
}

// readChecked reads the headers of a model's parts and checks them. The file at path is opened by a name that may be
// another one.
func (e *Engine) readChecked(path, name string) ([]*gguf.File, error) {
	files, err := readParts(path, name)
	if err != nil {
		return nil, err
	}
	return files, e.checkModel(path, files)
}

func (e *Engine) open(ctx context.Context, path string, cfg backend.Config) (*Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name := path
	if cfg.Files != nil && cfg.Files.Held() != nil {
		name = backend.NameOf(cfg.Files.Held())
	}
	files, err := e.readChecked(path, name)
	if err != nil {
		return nil, err
	}
	refused := e.checkPretokenizer(path, files[0])
	if refused != nil && !cfg.AnyPretokenizer {
		return nil, refused
	}
	p, entry, err := e.reserve(path, files, cfg)
	if err != nil {
		return nil, err
	}
	m := &Model{engine: e.c, entry: entry}
	err = m.load(ctx, path, name, files[0], p, cfg, refused != nil)
	if refused == nil && err != nil && refusesPretokenizer(err.Error()) {
		refused = e.unknownPretokenizer(path, files[0])
		if err = refused; cfg.AnyPretokenizer {
			err = m.load(ctx, path, name, files[0], p, cfg, true)
		}
	}
	if err == nil && cfg.Files != nil {
		if changed := cfg.Files.Unchanged(); changed != nil {
			err = backend.FilesChanged(path, changed)
		}
	}
	if err != nil {
		m.free()
		return nil, err
	}
	m.info.DefaultSplit = defaultSplit(files[0], refused != nil)
	if m.info.Backend = "llama.cpp"; e.folder != "" {
		m.info.Backend += " " + e.version
	}
	m.info.Kernels = e.kernelsOf(p)
	return m, nil
}

// measure says what the machine has. Tests replace it.
var measure = machine.Measure

// reserve makes a plan and enters its memory into the ledger, so that models loaded at the same time do not count
// on that memory too.
func (e *Engine) reserve(path string, files []*gguf.File, cfg backend.Config) (p *plan, _ *ledger.Entry, err error) {
	entry, err := ledger.Models.Plan(nil, func(others backend.Memory) (backend.Memory, error) {
		here := measure().Without(others.Untouched + cfg.Reserved.Untouched).Limited()
		p, err = newPlan(path, files, cfg, here, others.Mapped+cfg.Reserved.Mapped, e, e.devices())
		if err != nil {
			return backend.Memory{}, err
		}
		return p.takes, nil
	})
	return p, entry, err
}

// readParts reads the header of the file and of all other parts of the model. Their names follow from the path of the
// first, which is opened by a name of its own.
func readParts(path, name string) ([]*gguf.File, error) {
	f, err := readHeader(path, name)
	if err != nil {
		return nil, err
	}
	files := []*gguf.File{f}
	n, _ := f.Int("split.count")
	if n <= 1 {
		return files, nil
	}
	suffix := fmt.Sprintf("-%05d-of-%05d.gguf", 1, n)
	if no, _ := f.Int("split.no"); no != 0 || !strings.HasSuffix(path, suffix) || n > 1000 {
		return nil, &backend.LoadError{Path: path, Reason: backend.LoadCorrupt,
			Detail: fmt.Sprintf("is not the first of the %d parts of a model", n),
			Advice: "name the part that ends in " + suffix}
	}
	for i := int64(2); i <= n; i++ {
		other := fmt.Sprintf("%s-%05d-of-%05d.gguf", strings.TrimSuffix(path, suffix), i, n)
		part, err := readHeader(other, other)
		if err != nil {
			return nil, err
		}
		files = append(files, part)
	}
	return files, nil
}

func readHeader(path, name string) (*gguf.File, error) {
	f, err := gguf.Open(name)
	if err == nil {
		return f, nil
	}
	e := &backend.LoadError{Path: path, Reason: backend.LoadFailed, Err: err}
	var format *gguf.FormatError
	switch {
	case errors.As(err, &format):
		e.Detail, e.Advice = format.Error(), hint.Of(err)
		switch format.Kind {
		case gguf.ErrNotGGUF, gguf.ErrVersion:
			e.Reason = backend.LoadNotModel
		case gguf.ErrTruncated:
			e.Reason = backend.LoadTruncated
		default:
			e.Reason = backend.LoadCorrupt
		}
	case errors.Is(err, fs.ErrNotExist):
		e.Reason, e.Detail, e.Advice = backend.LoadMissing, "no such file", "check the path"
	case errors.Is(err, fs.ErrPermission):
		e.Reason, e.Detail, e.Advice = backend.LoadMissing, "no permission to read it", "change the file's permissions"
	default:
		e.Reason, e.Advice = backend.LoadMissing, "check that the disk is readable"
	}
	return nil, e
}

// load makes the engine's objects from the file at path, which is opened by name. After an error the caller frees those
// that were made. With split, texts are split by the engine's default rule.
func (m *Model) load(ctx context.Context, path, name string, f *gguf.File, p *plan, cfg backend.Config,
	split bool) error {
	m.cancel = &cArray[int32](1)[0]
	m.failure = &cArray[C.struct_shim_error](1)[0]
	fail := func(what string) error {
		if backend.IsMemoryMessage(what) {
			return &backend.LoadError{Path: path, Reason: backend.LoadTooBig, Detail: what, Err: backend.ErrMemory,
				Advice: "free some memory, raise the limit of the process (--engine-memory), or choose a smaller model"}
		}
		return &backend.LoadError{Path: path, Reason: backend.LoadFailed, Detail: what,
			Err:    engineError(errors.New(what), m.failure),
			Advice: "try the file with a newer version, or convert the model again"}
	}
	if err := m.loadWeights(ctx, path, name, p, cfg, split); err != nil {
		return err
	}
	if m.model == nil {
		return fail("the engine refused the model" + strings.ReplaceAll(reason(m.failure), name, path))
	}
	facts := C.shim_describe(m.engine, m.model)
	if !bool(facts.decodes) {
		return notGenerative(path, f.Architecture())
	}
	m.threads = p.engineThreads()
	if m.pool = C.shim_pool(m.engine, C.int(m.threads)); m.pool == nil {
		return fail("the engine could not start its threads")
	}
	if p.helped {
		kernels.Help(p.threads - 1)
	}
	options := p.contextOptions()
	options.cancel = (*C.int32_t)(unsafe.Pointer(m.cancel))
	if m.ctx = C.shim_context(m.engine, m.model, &options, m.pool, m.failure); m.ctx == nil {
		e := &backend.LoadError{Path: path, Reason: backend.LoadFailed, Detail: "the engine could not create a context" +
			reason(m.failure),
			Err: engineError(errors.New("no context"), m.failure), Advice: "choose a smaller context size or fewer sequences"}
		if backend.IsMemoryMessage(e.Detail) || strings.Contains(e.Detail, "alloc") {
			e.Reason, e.Err = backend.LoadTooBig, backend.ErrMemory
			e.Advice = "raise the limit of the process (--engine-memory), or " + e.Advice
		}
		return e
	}
	if m.mem = C.shim_memory(m.engine, m.ctx); m.mem == nil {
		return notGenerative(path, f.Architecture())
	}
	vocab := engineVocab{m.engine, C.shim_vocab(m.engine, m.model)}
	v, err := newVocab(vocab, f)
	if err != nil {
		return &backend.LoadError{Path: path, Reason: backend.LoadCorrupt, Detail: err.Error(), Err: err,
			Advice: "convert the model again"}
	}
	m.vocab = v
	m.text = newTextTokenizer(vocab, v)
	if m.pure, err = tokenizer.FromGGUF(f, v); err != nil &&
		C.shim_vocab_type(vocab.e, vocab.c) == C.LLAMA_VOCAB_TYPE_SPM {
		return &backend.LoadError{Path: path, Reason: backend.LoadCorrupt, Detail: err.Error(), Err: err,
			Advice: "download or convert the model again"}
	}
	m.batch = newBatch(p.batch, p.sequences)
	m.sampler = sample.New(v.Len())
	m.watcher.flag = m.cancel
	for i := p.sequences - 1; i >= 0; i-- {
		m.unused = append(m.unused, C.llama_seq_id(i))
	}
	m.window = int(facts.window)
	m.small, m.guarded = m.window > 0 && !p.fullWindow, p.guarded
	m.caps = backend.Capabilities{Logits: true, Embeddings: true, Targets: true,
		ExactTruncate: !bool(facts.recurrent) && !m.small}
	m.caps.Drafts = m.caps.ExactTruncate && p.exact
	m.info = p.info(f, path)
	m.info.WindowOnly = m.small
	m.info.TrainedContext = int(facts.trained_context)
	m.info.EmbeddingLength, m.info.Layers = int(facts.width), int(facts.layers)
	m.info.Parameters = int64(facts.parameters)
	m.info.Bytes = int64(facts.bytes)
	return nil
}

func reason(e *C.struct_shim_error) string {
	if s := strings.TrimSpace(C.GoString(&e.text[0])); s != "" {
		return ": " + s
	}
	return ""
}

// loadWeights sets m.model, or leaves it nil if the engine refused the file.
func (m *Model) loadWeights(ctx context.Context, path, opened string, p *plan, cfg backend.Config, split bool) error {
	target := &progress{ctx: ctx, call: cfg.Progress}
	handle := cgo.NewHandle(target)
	defer handle.Delete()
	name := C.CString(opened)
	defer C.free(unsafe.Pointer(name))
	options := C.struct_shim_load_options{gpu_layers: C.int32_t(p.gpuLayers), _map: C.bool(!cfg.NoMemoryMap),
		default_split: C.bool(split), progress: C.uintptr_t(handle)}
	m.model = C.shim_load(m.engine, name, &options, m.failure)
	if !target.stopped {
		return nil
	}
	if m.model != nil {
		C.shim_model_free(m.engine, m.model)
		m.model = nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return &backend.LoadError{Path: path, Reason: backend.LoadCanceled, Detail: "canceled"}
}

func notGenerative(path, arch string) error {
	return &backend.LoadError{Path: path, Reason: backend.LoadUnknownArchitecture,
		Detail: fmt.Sprintf("models of architecture %q do not generate text token by token", arch),
		Advice: "choose a decoder-only language model"}
}

// info describes the model from its header and plan.
func (p *plan) info(f *gguf.File, path string) backend.Info {
	info := backend.Info{
		Architecture: f.Architecture(), Path: path, Device: p.device,
		ContextSize: p.context, CacheTokens: p.cells, ContextReason: p.why, Sequences: p.sequences,
		BatchSize: p.batch, Threads: p.threads, GPULayers: p.gpuLayers, Memory: p.takes,
		Quantization: f.FileType(), Header: f.Digest,
	}
	if info.Name, _ = f.String("general.name"); info.Name == "" {
		info.Name = strings.TrimSuffix(filepath.Base(path), ".gguf")
	}
	info.ChatTemplate, _ = f.String("tokenizer.chat_template")
	return info
}
