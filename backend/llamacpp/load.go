package llamacpp

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"runtime/cgo"
	"strings"
	"unsafe"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/ledger"
	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/machine"
	"runner/backend/llamacpp/plan"
	"runner/backend/sample"
	"runner/backend/tokenizer"
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
	e := Engine{facts: plan.InFolder(folder, version, architectures)}
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
	return e.facts.CheckPretokenizer(path, files[0])
}

// readChecked reads the headers of a model's parts and checks them. The file at path is opened by a name that may be
// another one.
func (e *Engine) readChecked(path, name string) ([]*gguf.File, error) {
	files, err := plan.ReadParts(path, name)
	if err != nil {
		return nil, err
	}
	return files, e.facts.Check(path, files)
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
	refused := e.facts.CheckPretokenizer(path, files[0])
	if refused != nil && !cfg.AnyPretokenizer {
		return nil, refused
	}
	p, entry, err := e.reserve(path, files, cfg)
	if err != nil {
		return nil, err
	}
	m := &Model{engine: e.c, entry: entry}
	err = m.load(ctx, path, name, files[0], p, cfg, refused != nil)
	if refused == nil && err != nil && plan.RefusesPretokenizer(err.Error()) {
		refused = e.facts.UnknownPretokenizer(path, files[0])
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
	m.info.DefaultSplit = plan.DefaultSplit(files[0], refused != nil)
	if m.info.Backend = "llama.cpp"; e.facts.Folder != "" {
		m.info.Backend += " " + e.facts.Version
	}
	m.info.Kernels = e.kernelsOf(p)
	return m, nil
}

// measure says what the machine has. Tests replace it.
var measure = machine.Measure

// reserve makes a plan and enters its memory into the ledger, so that models loaded at the same time do not count
// on that memory too.
func (e *Engine) reserve(path string, files []*gguf.File, cfg backend.Config) (p *plan.Plan, _ *ledger.Entry,
	err error) {
	entry, err := ledger.Models.Plan(nil, func(others backend.Memory) (backend.Memory, error) {
		here := measure().Without(others.Untouched + cfg.Reserved.Untouched).Limited()
		p, err = plan.New(path, files, cfg, here, others.Mapped+cfg.Reserved.Mapped, &e.facts, e.devices())
		if err != nil {
			return backend.Memory{}, err
		}
		return p.Takes, nil
	})
	return p, entry, err
}

// load makes the engine's objects from the file at path, which is opened by name. After an error the caller frees those
// that were made. With split, texts are split by the engine's default rule.
func (m *Model) load(ctx context.Context, path, name string, f *gguf.File, p *plan.Plan, cfg backend.Config,
	split bool) error {
	m.cancel = &cArray[int32](1)[0]
	m.failure = &cArray[C.struct_shim_error](1)[0]
	fail := func(what string) error {
		if backend.IsMemoryMessage(what) {
			return &backend.LoadError{Path: path, Reason: backend.LoadTooBig, Detail: what, Err: backend.ErrMemory,
				Advice: "free some memory, raise the limit of the process (--engine-memory, ulimit -v), or choose a smaller model"}
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
		return plan.NotGenerative(path, f.Architecture())
	}
	m.threads = p.EngineThreads()
	if m.pool = C.shim_pool(m.engine, C.int(m.threads)); m.pool == nil {
		return fail("the engine could not start its threads")
	}
	if p.Helped {
		kernels.Help(p.Threads - 1)
	}
	options := contextOptions(p)
	options.cancel = (*C.int32_t)(unsafe.Pointer(m.cancel))
	if m.ctx = C.shim_context(m.engine, m.model, &options, m.pool, m.failure); m.ctx == nil {
		e := &backend.LoadError{Path: path, Reason: backend.LoadFailed, Detail: "the engine could not create a context" +
			reason(m.failure),
			Err: engineError(errors.New("no context"), m.failure), Advice: "use a smaller --ctx-size or --parallel"}
		if backend.IsMemoryMessage(e.Detail) || strings.Contains(e.Detail, "alloc") {
			e.Reason, e.Err = backend.LoadTooBig, backend.ErrMemory
			e.Advice = "raise the limit of the process (--engine-memory, ulimit -v), or " + e.Advice
		}
		return e
	}
	if m.mem = C.shim_memory(m.engine, m.ctx); m.mem == nil {
		return plan.NotGenerative(path, f.Architecture())
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
	m.batch = newBatch(p.Batch, p.Sequences)
	m.sampler = sample.New(v.Len())
	m.watcher.flag = m.cancel
	for i := p.Sequences - 1; i >= 0; i-- {
		m.unused = append(m.unused, C.llama_seq_id(i))
	}
	m.window = int(facts.window)
	m.small, m.guarded = m.window > 0 && !p.FullWindow, p.Guarded
	m.caps = backend.Capabilities{Logits: true, Embeddings: true, Targets: true,
		ExactTruncate: !bool(facts.recurrent) && !m.small}
	m.caps.Drafts = m.caps.ExactTruncate && p.Exact
	m.info = p.Info(f, path)
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
func (m *Model) loadWeights(ctx context.Context, path, opened string, p *plan.Plan, cfg backend.Config,
	split bool) error {
	target := &progress{ctx: ctx, call: cfg.Progress}
	handle := cgo.NewHandle(target)
	defer handle.Delete()
	name := C.CString(opened)
	defer C.free(unsafe.Pointer(name))
	options := C.struct_shim_load_options{gpu_layers: C.int32_t(p.GPULayers), _map: C.bool(!cfg.NoMemoryMap),
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

// The engine has arrays of this length. The constant does not compile if the contract allows more.
const _ = uint(C.GGML_MAX_N_THREADS - backend.MaxThreads)

// cacheTypes and flash are the engine's names for what a plan has.
var (
	cacheTypes = map[string]C.enum_ggml_type{"f16": C.GGML_TYPE_F16, "f32": C.GGML_TYPE_F32, "bf16": C.GGML_TYPE_BF16,
		"q8_0": C.GGML_TYPE_Q8_0, "q4_0": C.GGML_TYPE_Q4_0}
	flash = map[plan.Flash]C.enum_llama_flash_attn_type{plan.FlashAuto: C.LLAMA_FLASH_ATTN_TYPE_AUTO,
		plan.FlashOn: C.LLAMA_FLASH_ATTN_TYPE_ENABLED, plan.FlashOff: C.LLAMA_FLASH_ATTN_TYPE_DISABLED}
)

// contextOptions are what the engine is told of a plan.
func contextOptions(p *plan.Plan) C.struct_shim_context_options {
	o := C.struct_shim_context_options{
		cells: C.uint32_t(p.Cells), batch: C.uint32_t(p.Batch), sequences: C.uint32_t(p.Sequences),
		threads: C.int32_t(p.EngineThreads()), flash: flash[p.Flash], cache: cacheTypes[p.CacheType],
		full_window: C.bool(p.FullWindow), offload: C.bool(p.GPULayers > 0),
	}
	if p.Guarded { // see sequence.guard
		o.sequences *= 2
	}
	return o
}
