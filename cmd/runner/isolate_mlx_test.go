//go:build linux || darwin

package main

import (
	"path/filepath"
	"testing"

	"runner/backend/mlx"
	"runner/backend/mlx/fromgguf"
	"runner/testenv"
)

// mlxDemo returns the bundled model in MLX's format, for servers that the test starts later. It skips the test where
// MLX is not installed.
func mlxDemo(t *testing.T) (folder string) {
	t.Helper()
	path := testenv.MLX(t)
	if _, err := mlx.Find(t.Context(), mlx.Config{Python: path}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RUNNER_PYTHON", path)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	folder = filepath.Join(t.TempDir(), "demo")
	if err := fromgguf.Convert(filepath.Join("..", "..", "models", "demo", "demo.gguf"), folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestAnswersOutliveMLX is TestAnswersOutliveTheEngine for MLX, of which the logits depend a little on what else is in
// the step.
func TestAnswersOutliveMLX(t *testing.T) {
	testenv.NeedLong(t, "TestServerWithMLX is the short test of MLX")
	folder := mlxDemo(t)
	judge := leaveAlone(t, "--parallel", "8", folder).alike
	late := outlive(t, blows(1, 35), judge, "--parallel", "8", "demo="+folder)
	t.Logf("%v engines were slow for so long that they were taken for hanging", late) // on a busy machine
}
