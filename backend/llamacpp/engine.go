package llamacpp

// #cgo CXXFLAGS: -std=c++17
// #cgo linux LDFLAGS: -lstdc++ -lm
// #cgo darwin LDFLAGS: -lc++
// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/cgo"
	"strings"
	"sync"
	"sync/atomic"

	_ "github.com/ollama/ollama/llama/llama.cpp/src"      // llama.cpp
	_ "github.com/ollama/ollama/ml/backend/ggml/ggml/src" // ggml and its CPU backend, on macOS Metal as well
)

// start starts the engine once and checks that it is the version that capi.h describes.
var start = sync.OnceValue(func() error {
	C.shim_start()
	if err := checkDefaults(); err != nil {
		return err
	}
	offerKernels()
	libraries = loadLibraries(libraryFolders())
	return nil
})

// ErrIncompatible says that the linked engine is not the version that this package was written for.
var ErrIncompatible = errors.New("llama.cpp does not match its declarations; build with the module versions in go.mod")

// checkDefaults compares the engine's default parameters with the known ones. A struct with a changed layout would
// show here as a wrong value, before it does harm.
func checkDefaults() error {
	m := C.llama_model_default_params()
	c := C.llama_context_default_params()
	ok := m.devices == nil && m.tensor_buft_overrides == nil && m.n_gpu_layers == 999 &&
		m.split_mode == C.LLAMA_SPLIT_MODE_LAYER && m.main_gpu == 0 && m.progress_callback == nil &&
		m.kv_overrides == nil && !bool(m.vocab_only) && bool(m.use_mmap) && !bool(m.use_mlock) &&
		!bool(m.check_tensors) && bool(m.use_extra_bufts) && !bool(m.no_host) && !bool(m.no_alloc) &&
		c.n_ctx == 512 && c.n_batch == 2048 && c.n_ubatch == 512 && c.n_seq_max == 1 &&
		c.rope_scaling_type == C.LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED && c.pooling_type == C.LLAMA_POOLING_TYPE_UNSPECIFIED &&
		c.flash_attn_type == C.LLAMA_FLASH_ATTN_TYPE_AUTO && c.rope_freq_base == 0 && c.yarn_ext_factor == -1 &&
		c.yarn_orig_ctx == 0 && c.defrag_thold == -1 && c.cb_eval == nil && c.type_k == C.GGML_TYPE_F16 &&
		c.type_v == C.GGML_TYPE_F16 && c.abort_callback == nil && !bool(c.embeddings) && bool(c.offload_kqv) &&
		bool(c.no_perf) && bool(c.op_offload) && bool(c.swa_full) && !bool(c.kv_unified)
	if !ok {
		return ErrIncompatible
	}
	return nil
}

var logger atomic.Pointer[slog.Logger]

// SetLogger sends the engine's messages to l; nil, the default, drops them. They contain sizes, settings and
// metadata of models, never prompts. It may be called from any goroutine.
func SetLogger(l *slog.Logger) {
	logger.Store(l)
	least := C.GGML_LOG_LEVEL_NONE
	if l != nil {
		for _, level := range []int{C.GGML_LOG_LEVEL_DEBUG, C.GGML_LOG_LEVEL_INFO, C.GGML_LOG_LEVEL_WARN,
			C.GGML_LOG_LEVEL_ERROR} {
			if l.Enabled(context.Background(), slogLevel(level)) {
				least = level
				break
			}
		}
	}
	C.shim_log_level(C.int(least))
}

func slogLevel(level int) slog.Level {
	switch level {
	case C.GGML_LOG_LEVEL_DEBUG:
		return slog.LevelDebug
	case C.GGML_LOG_LEVEL_WARN:
		return slog.LevelWarn
	case C.GGML_LOG_LEVEL_ERROR:
		return slog.LevelError
	}
	return slog.LevelInfo
}

//export runnerLog
func runnerLog(level C.int, text *C.char) {
	l := logger.Load()
	if l == nil || level == C.GGML_LOG_LEVEL_CONT { // continuations are the dots of a progress bar
		return
	}
	if s := strings.TrimSpace(C.GoString(text)); s != "" {
		l.Log(context.Background(), slogLevel(int(level)), s, "engine", "llama.cpp")
	}
}

// progress receives the engine's progress callbacks.
type progress struct {
	ctx  context.Context
	call func(float32) bool
	// stopped reports whether the context or Config.Progress asked to stop.
	stopped bool
}

//export runnerProgress
func runnerProgress(handle C.uintptr_t, fraction C.float) C.int {
	p := cgo.Handle(handle).Value().(*progress)
	if p.ctx.Err() != nil || p.call != nil && !p.call(float32(fraction)) {
		p.stopped = true
		return 0
	}
	return 1
}

// engineError wraps the engine's own message, which names functions and sizes.
func engineError(kind error, e *C.struct_shim_error) error {
	if s := strings.TrimSpace(C.GoString(&e.text[0])); s != "" {
		return fmt.Errorf("%w: %s", kind, s)
	}
	return kind
}
