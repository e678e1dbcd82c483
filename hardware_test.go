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

// TestHardwareReport runs the check of Macs with stand-ins for the programs that it calls. Every check is in the
// report. Those that fail and those that ran nothing say so. The report has no path of the user.
func TestHardwareReport(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not on the PATH")
	}
	dir := t.TempDir()
	script, err := os.ReadFile("scripts/check_hardware.sh")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("scripts/check_hardware.sh", string(script))
	write("scripts/mlx_environment.sh", "#!/bin/sh\nexit 1\n")
	write("bin/runner", "#!/bin/sh\necho \"$HOME/models is there\"\n")
	write("fakes/uname", "#!/bin/sh\ncase $1 in -s) echo Darwin;; -m) echo arm64;; *) echo Darwin 25 arm64;; esac\n")
	write("fakes/sysctl", "#!/bin/sh\necho Apple M9\n")
	write("fakes/make", "#!/bin/sh\necho built\n")
	write("fakes/go", `#!/bin/sh
case "$*" in
*Engine*) echo "ok  	runner/cmd/runner	0.1s [no tests to run]";;
*IsolatedConformance*) echo "--- SKIP: TestIsolatedConformance";;
*child*) echo "--- FAIL: TestCrash"; exit 1;;
*) echo "ok  	runner";;
esac
`)
	run := func(what string) (string, int) {
		cmd := exec.Command("bash", "scripts/check_hardware.sh", what)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "fakes")+":"+os.Getenv("PATH"), "HOME=/home/somebody")
		out, _ := cmd.CombinedOutput() // the exit code says it
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("mac"); code != 1 {
		t.Errorf("exit code %d after a check that failed:\n%s", code, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "check-mac.txt"))
	if err != nil {
		t.Fatal(err)
	}
	report := string(b)
	for _, want := range []string{"Apple M9", "== build: passed", "== crashes of a process: FAILED", "--- FAIL: TestCrash",
		"== answers outlive the engine: NOT RUN",
		"== conformance in a process of its own: passed, but tests were SKIPPED",
		"~/models is there", "== speed: passed"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report has no %q:\n%s", want, report)
		}
	}
	if strings.Contains(report, "somebody") {
		t.Errorf("the report names the user:\n%s", report)
	}
	if out, code := run("toaster"); code != 2 || !strings.Contains(out, "usage:") {
		t.Errorf("exit code %d, %s", code, out)
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
