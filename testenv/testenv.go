// Package testenv has what tests of many packages need. It finds what a machine may lack: compilers, what scripts
// install in .cache, and the rights to mount file systems. It also has a buffer that goroutines share, seeds for what
// tests draw, and starts servers. It knows nothing of the packages that are tested. Only tests import it.
//
// Rule: a test is skipped if something that it needs is not there, with the reason and how to get it. What is there but
// does not work is a failure, so a skip hides none.
package testenv

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Root returns the folder of this module.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the test does not run in the module's folder")
		}
		dir = filepath.Dir(dir)
	}
}

// MLX returns a Python interpreter that has the versions of MLX in backend/mlx/requirements.txt.
func MLX(t testing.TB) string {
	t.Helper()
	root := Root(t)
	const make = "scripts/mlx_environment.sh"
	python := installed(t, filepath.Join(root, ".cache", "mlx"), "requirements.txt", "MLX", make)
	wanted, err := os.ReadFile(filepath.Join(root, "backend", "mlx", "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(root, ".cache", "mlx", "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, wanted) {
		t.Skip("the MLX in .cache/mlx is not of the versions in backend/mlx/requirements.txt; " + make + " renews it")
	}
	return python
}

// HuggingFaceHub returns a Python interpreter that has the package huggingface_hub.
func HuggingFaceHub(t testing.TB) string {
	t.Helper()
	return installed(t, filepath.Join(Root(t), ".cache", "hub"), "wanted", "huggingface_hub", "scripts/hub_environment.sh")
}

// installed returns the interpreter of a Python environment. Its script writes the file done last.
func installed(t testing.TB, environment, done, what, script string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(environment, done)); err != nil {
		t.Skipf("%s is not installed in .cache; %s installs it where it can: %v", what, script, err)
	}
	return filepath.Join(environment, "bin", "python")
}

// EngineFolder returns the folder of an engine in shared libraries: RUNNER_TEST_ENGINE, or the llama.cpp that "make
// engines" installs.
func EngineFolder(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("RUNNER_TEST_ENGINE"); path != "" {
		return path
	}
	path := filepath.Join(Root(t), ".cache", "engines", "llama.cpp-0.5.0")
	if _, err := os.Stat(path); err != nil {
		t.Skip("no shared libraries of llama.cpp are installed; \"make engines\" installs them where it can")
	}
	return path
}

// Long reports whether tests may take many minutes.
func Long() bool { return os.Getenv("RUNNER_LONG") != "" }

// Rounds returns how often a test of random cases repeats: n times if tests may take many minutes, else a fifth of it.
func Rounds(n int) int {
	if Long() {
		return n
	}
	return max(1, n/5)
}

// SkipRaced skips a long test under the race detector, which makes it ten times as long. Only tests whose goroutines
// are those of other tests of the package use it, and make test runs the package without the detector, too.
func SkipRaced(t testing.TB) {
	t.Helper()
	if raced && !Long() {
		t.Skip("it takes minutes with the race detector; make test runs it without, and RUNNER_LONG=1 with it")
	}
}

// NeedLong skips a test, or a part of it, unless tests may take many minutes. why says what is long about it.
func NeedLong(t testing.TB, why string) {
	t.Helper()
	if !Long() {
		t.Skip(why + "; RUNNER_LONG=1 runs it")
	}
}

// RealModel returns a file of a real model from the folder RUNNER_TEST_MODELS, and skips the test if it is not there.
func RealModel(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("RUNNER_TEST_MODELS")
	if dir == "" {
		t.Skip("RUNNER_TEST_MODELS does not name a folder with " + name)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no real model: %v", err)
	}
	return path
}
