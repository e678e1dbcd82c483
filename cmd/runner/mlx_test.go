//go:build linux || darwin

package main

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"runner/backend/mlx"
	"runner/testenv"
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
		`model +demo, gpt-oss, 4\.2M parameters, MXFP4`,
		`computed by +MLX in a process of its own; kernels: MLX [\d.]+$`, `steps +\d+ prompt`} {
		if !regexp.MustCompile(`(?m)^ok +` + want).Match(out) {
			t.Errorf("no line is like %q in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "llama.cpp") || strings.Contains(string(out), "ok  kernels") {
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
}

// TestMLXEndsWithTheServer is TestTheEngineEndsWithTheServer for MLX.
func TestMLXEndsWithTheServer(t *testing.T) {
	testenv.NeedLong(t, "TestServerWithMLX is the short test of MLX")
	endsWithTheServer(t, mlxDemo(t))
}

// TestMLXModelIsTruncatedUnderTheServer cuts the weights of a model off and ends its engine's process. No process can
// load the model again, and the server says so. Another model is not touched.
func TestMLXModelIsTruncatedUnderTheServer(t *testing.T) {
	testenv.NeedLong(t, "TestServerWithMLX is the short test of MLX")
	folder := mlxDemo(t)
	s := serve(t, "demo", "cut="+folder)
	s.healthy()
	if status, body := s.say("cut"); status != http.StatusOK {
		t.Fatalf("status %d %s", status, body)
	}
	path := filepath.Join(folder, "model.safetensors")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(whole)/8)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.engine(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.fails("cut", "model_unavailable")
	if status, body := send(t, http.MethodGet, s.url+"/health", "", ""); status != http.StatusServiceUnavailable {
		t.Errorf("the health is %d %s", status, body)
	}
	s.fails("cut", "model_unusable", "model_changed")
	if some(0, 1) == 0 {
		return // each start of MLX takes a second and more
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s.until("the model is not used again", func() bool {
		status, _ := s.say("cut")
		return status == http.StatusOK
	})
}

// poisonedPython is a Python whose worker cannot bear some tokens in a step.
const poisonedPython = `#!/bin/sh
case "$2" in
-) shift 2; exec %[1]q -I %[2]q "$@" ;;
*) exec %[1]q "$@" ;;
esac
`

// poisonedWorker is that worker. It ends at once when the tokens come.
const poisonedWorker = `
import os, sys
exec(sys.stdin.read().removesuffix("\nmain()\n"))
from worker import steps
def step(self, head, raw, old=steps.Steps.step):
    if bytes.fromhex("%x") in raw:
        os._exit(9)
    return old(self, head, raw)
steps.Steps.step = step
main()
`

// TestPoisonedRequestFailsAloneInMLX: while clients ask for sums, a request crashes MLX each time that it is computed.
// It fails, and the sums are right.
func TestPoisonedRequestFailsAloneInMLX(t *testing.T) {
	testenv.NeedLong(t, "TestServerWithMLX is the short test of MLX")
	const poison = "qwxzvkjq"
	folder, dir := mlxDemo(t), t.TempDir()
	f, err := mlx.ReadFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := f.Tokenize(nil, " "+poison)
	if err != nil || len(tokens) < 3 {
		t.Fatal(tokens, err)
	}
	var bytes []byte
	for _, token := range tokens {
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(token))
	}
	hook, python := filepath.Join(dir, "poisoned.py"), filepath.Join(dir, "python")
	for path, text := range map[string]string{hook: fmt.Sprintf(poisonedWorker, bytes),
		python: fmt.Sprintf(poisonedPython, os.Getenv("RUNNER_PYTHON"), hook)} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("RUNNER_PYTHON", python)
	s := serve(t, "--parallel", "9", "demo="+folder)
	s.healthy()
	const clients = 8
	sums := func() {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				a, b := 17+3*i, 25+2*i
				got := s.ask(t.Context(), http.DefaultClient, fmt.Sprintf("What is %d + %d?", a, b), 0)
				if got.err != nil || !strings.Contains(got.text, fmt.Sprintf("%d + %d = %d.", a, b, a+b)) {
					t.Errorf("%d + %d is answered with %+v", a, b, got)
				}
			})
		}
		all.Wait()
	}
	sums()
	bad := some(1, 3)
	s.poisoned(t, poison, bad, sums)
	crashes, failed := s.metric(`runner_engine_crashes_total{model="demo"}`),
		s.metric(`runner_engine_failed_total{model="demo"}`)
	if int(failed) != bad || int(crashes) < 2*bad {
		t.Errorf("%v crashes were counted, and %v sequences failed, want %d", crashes, failed, bad)
	}
	if strings.Contains(s.logged(), poison) {
		t.Errorf("the log quotes the request:\n%s", s.logged())
	}
}
