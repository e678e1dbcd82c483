//go:build linux || darwin

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// bare is a Python without MLX. The environments that it makes have MLX.
const bare = `#!/bin/sh
case "$*" in
*"-m venv"*) for to; do :; done; mkdir -p "$to/bin" && cp "$0" "$to/bin/python" ;;
*install*) ;;
*)
	case "$0" in
	*venv*) echo '{"Version": "3.12.0", "minor": 12, "MLX": "0.32.4", "MLXLM": "0.32.2"}' ;;
	*) echo '{"Version": "3.12.0", "minor": 12}' ;;
	esac ;;
esac
`

// TestSetUpForAnotherPython: who sets up MLX while RUNNER_PYTHON names a Python without it is told that models are
// still run with that one.
func TestSetUpForAnotherPython(t *testing.T) {
	dir := t.TempDir()
	python := filepath.Join(dir, "bare")
	if err := os.WriteFile(python, []byte(bare), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("runner", "engines", "setup", "mlx")
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "RUNNER_PYTHON="+python)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	venv := filepath.Join(dir, "runner", "mlx", "venv")
	says(t, string(out), "mlx-lm 0.32.2 is in "+filepath.Join(venv, "bin", "python"),
		python+": the package mlx is missing; unset RUNNER_PYTHON, because MLX has a Python in "+venv)
}

// TestDoctorOfMLX: for a folder doctor says which MLX computes it on which device, and nothing of llama.cpp's kernels.
func TestDoctorOfMLX(t *testing.T) {
	folder := mlxDemo(t)
	cmd := exec.Command("runner", "doctor", folder)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, want := range []string{`engine +MLX [\d.]+, mlx-lm [\d.]+ in .*/bin/python`, `device +\w+`, `processor +\w+`,
		`model +demo, gpt-oss, 4\.2M parameters, MXFP4`, `computed by +MLX in a process of its own`, `steps +\d+ prompt`} {
		if !regexp.MustCompile(`(?m)^ok +` + want).Match(out) {
			t.Errorf("no line is like %q in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "llama.cpp") || strings.Contains(string(out), "kernels") {
		t.Errorf("it tells of another engine:\n%s", out)
	}
}

// TestServerWithMLX serves a folder with MLX beside a GGUF file.
func TestServerWithMLX(t *testing.T) {
	s := serve(t, "demo", "mlx="+mlxDemo(t))
	s.healthy()
	for _, model := range []string{"mlx", "demo", "mlx"} {
		status, body := send(t, http.MethodPost, s.url+"/v1/chat/completions", "", `{"model":"`+model+
			`","temperature":0,"reasoning_effort":"low","messages":[{"role":"user","content":"What is 17 + 25?"}]}`)
		if status != http.StatusOK || !strings.Contains(body, "17 + 25 = 42.") {
			t.Errorf("%s: %d %s\n%s", model, status, body, s.logged())
		}
	}
	s.engine() // MLX has a process of its own, and the program's engine has none
	if cache := os.Getenv("XDG_CACHE_HOME"); runtime.GOOS == "linux" {
		if found, err := filepath.Glob(filepath.Join(cache, "runner", "mlx", "worker-*", "worker")); len(found) != 1 {
			t.Errorf("the cache has the workers %q, %v", found, err)
		}
	}
}
