package llamacpp

import (
	"testing"

	"runner/backend"
	"runner/backend/ledger"
	"runner/models/random"
)

// TestLoadedModelsCount checks that a model is in the ledger until it is closed, and not after a failed load.
func TestLoadedModelsCount(t *testing.T) {
	entered := func() backend.Memory {
		sum := ledger.Models.Others(nil)
		sum.Untouched = 0
		return sum
	}
	path := writeModel(t, random.Config{Context: 1 << 15})
	before := entered()
	m := openModel(t, path, backend.Config{})
	if now := entered(); now.Mapped-before.Mapped != m.Info().Bytes || now.Private <= before.Private {
		t.Errorf("%+v, then %+v with weights of %d bytes", before, now, m.Info().Bytes)
	}
	if i := m.Info(); i.ContextSize != 1<<15 || i.CacheTokens < i.ContextSize || i.ContextReason == "" {
		t.Errorf("%+v", i)
	}
	for range 2 {
		m.Close()
		if now := entered(); now != before {
			t.Errorf("%+v, then %+v after closing", before, now)
		}
	}
	if m, err := Open(t.Context(), path, backend.Config{Progress: func(float32) bool { return false }}); err == nil {
		m.Close()
		t.Error("it loads")
	}
	if now := entered(); now != before {
		t.Errorf("%+v, then %+v after a load that failed", before, now)
	}
}

// TestCacheIsShared checks that one sequence can fill a whole context when the shared cache holds exactly one.
func TestCacheIsShared(t *testing.T) {
	m := openModel(t, writeModel(t, random.Config{Context: 512}), backend.Config{Sequences: 4, CacheTokens: 512})
	if i := m.Info(); i.ContextSize != 512 || i.CacheTokens != 512 {
		t.Errorf("%+v", i)
	}
}
