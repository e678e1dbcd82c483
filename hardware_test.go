package rules_test

import (
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hardware is a copy of the check with stand-ins for the programs that it calls.
type hardware struct {
	t   *testing.T
	dir string
}

func newHardware(t *testing.T) *hardware {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not on the PATH")
	}
	h := &hardware{t, t.TempDir()}
	script, err := os.ReadFile("scripts/check_hardware.sh")
	if err != nil {
		t.Fatal(err)
	}
	h.write("scripts/check_hardware.sh", string(script))
	h.write("scripts/mlx_environment.sh", "#!/bin/sh\nexit 1\n")
	h.write("bin/runner", "#!/bin/sh\n[ $1 = run ] && echo 42; echo \"$HOME/models is there\"\n")
	h.write("fakes/uname", "#!/bin/sh\ncase $1 in -s) echo Darwin;; -m) echo arm64;; *) echo Darwin 25 arm64;; esac\n")
	h.write("fakes/sysctl", "#!/bin/sh\necho Apple M9\n")
	h.write("fakes/make", "#!/bin/sh\necho built\n")
	h.write("fakes/go", `#!/bin/sh
case "$*" in
*Engine*) echo "ok  	runner/cmd/runner	0.1s [no tests to run]";;
*-v*IsolatedConformance*) echo "=== RUN   TestIsolatedConformance"; echo "    x_test.go:1: no room"
  echo "--- SKIP: TestIsolatedConformance"; echo "--- PASS: TestOther";;
*child*) echo "--- FAIL: TestCrash"; exit 1;;
*) echo "ok  	runner";;
esac
`)
	return h
}

// write makes a program.
func (h *hardware) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

// run runs the check. It returns what it printed, its exit code and the report.
func (h *hardware) run(what string, env ...string) (out string, code int, report string) {
	h.t.Helper()
	cmd := exec.Command("bash", "scripts/check_hardware.sh", what)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(h.dir, "fakes")+":"+os.Getenv("PATH"), "HOME=/home/somebody",
		"ENGINE=")
	cmd.Env = append(cmd.Env, env...)
	b, _ := cmd.CombinedOutput() // the exit code says it
	text, _ := os.ReadFile(filepath.Join(h.dir, "check-"+what+".txt"))
	return string(b), cmd.ProcessState.ExitCode(), string(text)
}

// says checks that a report has these texts.
func (h *hardware) says(report string, wants ...string) {
	h.t.Helper()
	for _, want := range wants {
		if !strings.Contains(report, want) {
			h.t.Errorf("the report has no %q:\n%s", want, report)
		}
	}
}

// TestHardwareReport runs the check of Macs. Every check is in the report. Those that fail and those that ran nothing
// say so. The report has no path of the user.
func TestHardwareReport(t *testing.T) {
	h := newHardware(t)
	out, code, report := h.run("mac")
	if code != 1 {
		t.Errorf("exit code %d after a check that failed:\n%s", code, out)
	}
	h.says(report, "Apple M9", "== build: passed", "== crashes of a process: FAILED", "--- FAIL: TestCrash",
		"== answers outlive the engine: NOT RUN", "== MLX: NOT RUN",
		"== conformance in a process of its own: passed, but tests were SKIPPED\n    x_test.go:1: no room\n"+
			"--- SKIP: TestIsolatedConformance\n== crashes",
		"~/models is there", "== speed: passed", "== an answer: passed")
	if strings.Contains(report, "somebody") {
		t.Errorf("the report names the user:\n%s", report)
	}
	if out, code, _ := h.run("toaster"); code != 2 || !strings.Contains(out, "usage:") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// TestGPUReport runs the check of GPUs, with the engine in the program and with one in a folder. It passes only if the
// model's layers were on a GPU and the answer is right, and the tests find the library of the GPU.
func TestGPUReport(t *testing.T) {
	h := newHardware(t)
	h.write("fakes/nvidia-smi", "#!/bin/sh\necho GPU M9\n")
	h.write("fakes/go", "#!/bin/sh\necho \"ok go $RUNNER_TEST_ENGINE $*\"; echo gpu=$RUNNER_TEST_GPU\n")
	h.write("fakes/make", "#!/bin/sh\necho made $1\n")
	h.write("engine/libllama.so", "")
	engine := filepath.Join(h.dir, "engine")
	program := func(layers, answer string) {
		t.Helper()
		h.write("bin/runner", "#!/bin/sh\ncase $1 in bench) echo '[{\"n_gpu_layers\": "+layers+"}]';; run) echo \""+answer+
			"\";; esac\necho used \"$@\"\n")
	}
	const none = "== NOT RUN ON A GPU"
	for _, folder := range []string{"", engine} {
		program("3", "17 + 25 = 42.")
		out, code, report := h.run("gpu", "ENGINE="+folder)
		if code != 0 || strings.Contains(report, none) {
			t.Errorf("with a GPU, exit code %d:\n%s\n%s", code, out, report)
		}
		h.says(report, "GPU M9", "== layers on the GPU, and speed: passed", "== an answer: passed", "17 + 25 = 42.",
			"gpu=1")
		if folder == "" {
			h.says(report, "== the CUDA library: passed", "made cuda", "== answers outlive the engine: passed",
				"-X runner/backend/llamacpp/enginefolder.linkedFolder=./lib/runner")
		} else {
			h.says(report, "used bench -o json -p 256 -n 32 -r 3 --engine ./engine",
				"ok go ./engine test ./cmd/runner -run ^TestAnswersOutliveAFoldersEngine$")
			if strings.Contains(report, "made cuda") {
				t.Error("the library of the engine in the program was built")
			}
		}
		program("0", "17 + 25 = 42.")
		if _, code, report := h.run("gpu", "ENGINE="+folder); code != 1 || !strings.Contains(report, none) ||
			!strings.Contains(report, "no layer of the model was on a GPU") || strings.Contains(report, "outlive") {
			t.Errorf("without a layer on the GPU, exit code %d:\n%s", code, report)
		}
		program("3", "17 + 25 = 43.")
		if _, code, report := h.run("gpu", "ENGINE="+folder); code != 1 ||
			!strings.Contains(report, "== an answer: FAILED") {
			t.Errorf("with a wrong answer, exit code %d:\n%s", code, report)
		}
	}
	h.write("fakes/make", "#!/bin/sh\n[ $1 = build ] || { echo nvcc is not on the PATH; exit 1; }\n")
	program("0", "17 + 25 = 42.")
	_, code, report := h.run("gpu")
	if h.says(report, "== the CUDA library: FAILED", "nvcc is not on the PATH", none); code != 1 {
		t.Errorf("without a compiler for GPUs, exit code %d", code)
	}
	source, err := os.ReadFile("backend/llamacpp/enginefolder/places.go")
	if err != nil || !strings.Contains(string(source), "\nvar linkedFolder string") {
		t.Errorf("the linker has no variable to set: %v", err)
	}
}

// TestHardwareChecksExist: every test that the check names is built on a Mac.
func TestHardwareChecksExist(t *testing.T) {
	script, err := os.ReadFile("scripts/check_hardware.sh")
	if err != nil {
		t.Fatal(err)
	}
	mac := build.Default
	mac.GOOS, mac.GOARCH, mac.CgoEnabled = "darwin", "arm64", true
	var tests strings.Builder
	for _, dir := range []string{"cmd/runner", "backend/llamacpp"} {
		p, err := mac.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(text)
		}
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(script), -1)
	for _, name := range names {
		if !strings.Contains(tests.String(), "\nfunc "+name) {
			t.Errorf("a Mac has no test %s", name)
		}
	}
	if len(names) < 8 {
		t.Errorf("the check names only %d tests", len(names))
	}
}
