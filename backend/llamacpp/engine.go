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
	"maps"
	"path/filepath"
	"runtime"
	"runtime/cgo"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	_ "github.com/ollama/ollama/llama/llama.cpp/src"      // llama.cpp
	_ "github.com/ollama/ollama/ml/backend/ggml/ggml/src" // ggml and its CPU backend, on macOS Metal as well

	_ "runner/backend/llamacpp/capi" // see there
	"runner/backend/llamacpp/enginefolder"
	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/plan"
)

// Engine is one llama.cpp: the compiled-in one, or one from a folder of shared libraries. Its methods may be called
// from any goroutine.
type Engine struct {
	c *C.struct_shim_engine
	// facts are what a plan depends on.
	facts plan.Engine
	// cpu is the name of the library that computes on the CPU, for an engine from a folder. It is empty if that is a
	// part of libggml.
	cpu string
	// libraries are the device libraries that were found.
	libraries []Library
}

// BuiltIn returns the compiled-in engine and starts it if necessary. The error is ErrIncompatible.
func BuiltIn() (*Engine, error) {
	if err := start(); err != nil {
		return nil, err
	}
	return &builtin, nil
}

var builtin = Engine{facts: plan.BuiltIn()}

// start starts the compiled-in engine once and checks that it is the version that capi_builtin.h describes.
var start = sync.OnceValue(func() error {
	builtin.c = C.shim_builtin()
	if !C.shim_known(builtin.c) {
		return ErrIncompatible
	}
	if builtin.facts.Kernels = kernels.Offer(); builtin.facts.Kernels != "" {
		builtin.facts.Formats = kernels.Formats()
	}
	builtin.libraries = loadLibraries(enginefolder.Places())
	return nil
})

// ErrIncompatible says that the linked engine is not the version that this package was written for.
var ErrIncompatible = errors.New("llama.cpp does not match its declarations; build with the module versions in go.mod")

// Version is the engine's version.
func (e *Engine) Version() string { return e.facts.Version }

// Kernels says which kernels compute on the CPU, for people to read.
func (e *Engine) Kernels() string {
	switch {
	case e.cpu != "":
		return e.cpu
	case e.facts.Folder != "":
		return "those in libggml"
	case e.facts.Kernels != "":
		return "the runner's own, with " + e.facts.Kernels
	}
	switch runtime.GOOS + " " + runtime.GOARCH {
	case "linux arm64":
		return "the engine's; the runner's own need 8-bit dot products (asimddp)"
	case "darwin arm64":
		return "the engine's"
	}
	return "the engine's; the runner's own need AVX2 with FMA and F16C"
}

// kernelsOf says which kernels compute a model.
func (e *Engine) kernelsOf(p *plan.Plan) string {
	switch {
	case e.facts.Folder != "" && p.GPULayers > 0:
		names := []string{}
		for _, l := range e.libraries {
			if l.Err == nil {
				names = append(names, filepath.Base(l.Path))
			}
		}
		if len(names) > 0 {
			return strings.Join(names, ", ")
		}
	case e.facts.Folder == "" && e.facts.Kernels != "" && p.GPULayers > 0:
		return "the engine's on the GPU"
	case e.facts.Folder == "" && e.facts.Kernels != "" && !p.Own:
		return e.Kernels() + "; for weights in some formats the engine's"
	}
	return e.Kernels()
}

// Architectures lists the model architectures that the engine runs, in alphabetical order.
func (e *Engine) Architectures() []string { return slices.Sorted(maps.Keys(e.facts.Generative)) }

var logger atomic.Pointer[slog.Logger]

// SetLogger sends the messages of all engines to l; nil, the default, drops them. They contain sizes, settings and
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

// Computed returns a count that grows while a model of this process computes. It may be called from any goroutine.
func Computed() uint64 { return uint64(C.shim_computed()) }
