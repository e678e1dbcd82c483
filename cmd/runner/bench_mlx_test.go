//go:build linux || darwin

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"runner/backend/mlx/fromgguf"
	"runner/bench/results"
	"runner/testenv"
)

// TestBenchOfMLX: MLX takes turns with the engine in the program, whole answers and a server included. The rows say
// which MLX computed, and nothing of settings that it does not have.
func TestBenchOfMLX(t *testing.T) {
	testenv.NeedLong(t, "TestServerWithMLX is the short test of MLX")
	folder := mlxDemo(t)
	cmd := exec.Command("runner", "bench", "demo", folder, "--engine", "builtin", "--engine", "mlx", "-p", "16", "-n", "4",
		"-r", "2", "--answers", "--max-tokens", "8", "--serve", "-o", "json")
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+t.TempDir())
	var out, aside bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &aside
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &aside)
	}
	rows, err := results.Read(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	tests := map[string][]string{}
	for i := range rows {
		r := &rows[i]
		tests[r.Subject] = append(tests[r.Subject], r.Test())
		if r.Subject != "mlx" {
			continue
		}
		if r.File != folder || r.Model != "gpt-oss 4.2M MXFP4" || r.Size == 0 || r.Parameters == 0 || r.Threads == 0 ||
			r.Batch == 0 || r.PerToken == 0 || r.LoadNS == 0 {
			t.Errorf("the row of %s is %+v", r.Test(), r)
		}
		if !regexp.MustCompile(`^MLX \d+\.\d+`).MatchString(r.Kernels) || r.CacheKeys != "" || r.CacheValues != "" ||
			r.FlashAttn != -1 {
			t.Errorf("the kernels of %s are %q, the cache %q and %q, flash attention %d", r.Test(), r.Kernels, r.CacheKeys,
				r.CacheValues, r.FlashAttn)
		}
		if len(r.Samples) != 2 || r.Median <= 0 || r.Memory < 8<<20 { // Python alone has more
			t.Errorf("%s: speeds %v, %d bytes of memory", r.Test(), r.Samples, r.Memory)
		}
	}
	const want = "pp16 tg4 answer server, 1 client"
	for _, subject := range []string{"builtin", "mlx"} {
		if got := strings.Join(tests[subject], " "); got != want {
			t.Errorf("the tests of %s are %q, want %q", subject, got, want)
		}
	}
	compared := 0
	for _, d := range results.Within(rows) {
		if d.A.Subject == "builtin" && d.B.Subject == "mlx" && d.A.Test() == d.B.Test() {
			compared++
		}
	}
	if compared != 4 {
		t.Errorf("%d tests of MLX are compared with the engine in the program, want 4", compared)
	}
}

// TestBenchWithoutMLX: where MLX is missing, the program says how to get it, and measures nothing.
func TestBenchWithoutMLX(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "demo")
	if err := fromgguf.Convert(filepath.Join("..", "..", "models", "demo", "demo.gguf"), folder); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{folder}, {"--engine", "mlx", folder}, {"demo", folder}} {
		cmd := exec.Command("runner", append([]string{"bench", "-p", "4", "-n", "0", "-r", "1"}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir, "XDG_DATA_HOME="+dir, "HOME="+dir, "RUNNER_PYTHON=")
		var aside strings.Builder
		cmd.Stderr = &aside
		out, err := cmd.Output()
		if err == nil || cmd.ProcessState.ExitCode() != 1 || len(out) > 0 {
			t.Errorf("%q: %v, and it writes %q", args, err, out)
		}
		says(t, aside.String(), "runner: there is no Python environment for MLX; run 'runner engines setup mlx'")
	}
}
