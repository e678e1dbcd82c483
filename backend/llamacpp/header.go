package llamacpp

import (
	"fmt"
	"math"

	"runner/backend"
	"runner/backend/gguf"
)

// checkModel checks what the engine would trust or assert, so that no file can end the process.
func checkModel(path string, files []*gguf.File) error {
	f := files[0]
	arch := f.Architecture()
	if arch == "" {
		return &backend.LoadError{Path: path, Reason: backend.LoadCorrupt, Detail: "does not name its architecture",
			Advice: "convert the model again"}
	}
	if !architectures[arch] {
		return &backend.LoadError{Path: path, Reason: backend.LoadUnknownArchitecture,
			Detail: fmt.Sprintf("the architecture %q is unknown", arch),
			Advice: "this engine is llama.cpp of December 2025; look for a model of an architecture that it runs"}
	}
	if err := checkNumbers(f, arch); err != nil {
		return &backend.LoadError{Path: path, Reason: backend.LoadCorrupt, Detail: err.Error(), Err: err,
			Advice: "download or convert the model again"}
	}
	return nil
}

func checkNumbers(f *gguf.File, arch string) error {
	for _, c := range []struct {
		name     string
		required bool
		lo, hi   int64
	}{
		{"block_count", true, 1, 512}, {"context_length", true, 1, math.MaxInt32}, {"embedding_length", true, 1, 1 << 20},
	} {
		n, ok := f.Int(arch + "." + c.name)
		if !ok && !c.required {
			continue
		}
		if !ok {
			return fmt.Errorf("has no number %s.%s", arch, c.name)
		}
		if n < c.lo || n > c.hi {
			return fmt.Errorf("%s.%s is %d, not between %d and %d", arch, c.name, n, c.lo, c.hi)
		}
	}
	return nil
}
