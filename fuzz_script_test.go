package rules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A finding, a package that does not compile and a run without any target all fail scripts/fuzz.sh. Targets that find
// nothing do not.
func TestFuzzScript(t *testing.T) {
	for _, program := range []string{"bash", "xargs", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not on the PATH", program)
		}
	}
	dir := t.TempDir()
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
	script, err := os.ReadFile("scripts/fuzz.sh")
	if err != nil {
		t.Fatal(err)
	}
	write("scripts/fuzz.sh", string(script))
	write("go.mod", "module m\n\ngo 1.26\n")
	target := func(pkg, name, body string) {
		write(pkg+"/"+strings.ToLower(name)+"_test.go", "package "+pkg+"\n\nimport \"testing\"\n\nfunc Fuzz"+name+
			"(f *testing.F) {\n\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) {\n"+body+"\n\t})\n}\n")
	}
	target("fine", "Fine", "")
	target("found", "Found", `if n == 1 { t.Error("one is wrong") }`)
	target("found", "Last", "") // what follows a finding does not hide it
	target("broken", "Broken", "missing()")
	write("empty/empty_test.go", "package empty\n")
	write("skipped/skipped_test.go", "package skipped\n\nimport \"testing\"\n\nfunc FuzzSkipped(f *testing.F) {\n"+
		"\tf.Skip(\"no such system\")\n}\n")

	for _, c := range []struct {
		packages string
		passes   bool
		says     []string
	}{
		{"./fine", true, []string{"fuzz 10x ./fine FuzzFine", "fuzzed 1 targets, 0 skipped"}},
		{"./fine ./skipped", true, []string{"no such system", "fuzzed 1 targets, 1 skipped"}},
		{"./skipped", false, []string{"fuzzed 0 targets, 1 skipped"}},
		{"./found", false, []string{"one is wrong", "FuzzLast"}},
		{"./fine ./found", false, []string{"one is wrong"}},
		{"./broken", false, []string{"undefined: missing"}},
		{"./empty", false, []string{"fuzzed 0 targets"}},
		{"", false, []string{"undefined: missing"}},
	} {
		cmd := exec.Command("bash", append([]string{"scripts/fuzz.sh", "10x"}, strings.Fields(c.packages)...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if passes := err == nil; passes != c.passes {
			t.Errorf("fuzzing %q: %v\n%s", c.packages, err, out)
		}
		for _, want := range c.says {
			if !strings.Contains(string(out), want) {
				t.Errorf("fuzzing %q: no %q in\n%s", c.packages, want, out)
			}
		}
	}
}
