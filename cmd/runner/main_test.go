package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"runner/cmd/runner/scripttest"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// The scripts run the whole program, including the engine: "engine" with a model with random weights, "demo" with the
// bundled model.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"runner": program})
}

// program is main. If dayVariable is set, models are told that date.
func program() {
	if day, err := time.Parse(time.DateOnly, os.Getenv(dayVariable)); err == nil {
		gone := time.Since(day)
		engine.Clock = func() time.Time { return time.Now().Add(-gone) }
	}
	if os.Getenv(poisonVariable) != "" {
		engine.Process = poisoned
	}
	main()
}

const dayVariable = "RUNNER_TEST_DAY"

func TestScripts(t *testing.T) {
	cache := t.TempDir() // shared, so that the bundled model is unpacked once
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": scripttest.Exits,
			"formats": formats},
		Setup: func(e *testscript.Env) error {
			e.Setenv("HF_HUB_CACHE", filepath.Join(e.WorkDir, "hub"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_CACHE_HOME", cache)
			return writeModels(e.WorkDir)
		},
	})
}

// writeModels writes a model with random weights, and damaged copies of it.
func writeModels(dir string) error {
	whole := filepath.Join(dir, "random.gguf")
	if err := randomtest.WriteFile(whole, random.Config{Layers: 2, Seed: 1}); err != nil {
		return err
	}
	b, err := os.ReadFile(whole)
	if err != nil {
		return err
	}
	truncated := os.WriteFile(filepath.Join(dir, "truncated.gguf"), b[:len(b)/2], 0o644)
	b[4] = 99 // the version
	return errors.Join(truncated, os.WriteFile(filepath.Join(dir, "future.gguf"), b, 0o644))
}
