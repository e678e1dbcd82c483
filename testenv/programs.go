package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Compiler returns the command line of the compiler that cgo uses: name is CC or CXX.
func Compiler(t testing.TB, name string) []string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Skipf("go env, which names the compiler, failed: %v", err)
	}
	line := strings.Fields(string(out))
	if len(line) == 0 {
		t.Skipf("go env %s names no compiler", name)
	}
	if _, err := exec.LookPath(line[0]); err != nil {
		t.Skipf("the compiler is missing: %v", err)
	}
	return line
}

// Tool returns the path of a program: the one on the PATH, or that which a script unpacks into a folder of .cache.
func Tool(t testing.TB, name, folder, script string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path := filepath.Join(Root(t), ".cache", folder, name)
	if _, err := os.Stat(path); err != nil {
		t.Skip(name + " is not on the PATH and not in .cache/" + folder + "; " + script + " unpacks Debian's where it can")
	}
	return path
}

// SharedLibrary compiles C into a shared library at path, with more flags for the compiler.
func SharedLibrary(t testing.TB, path, source string, flags ...string) {
	t.Helper()
	cc := Compiler(t, "CC")
	file := filepath.Join(t.TempDir(), "x.c")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(append(append([]string{}, cc[1:]...), "-shared", "-fPIC", "-o", path,
		"-Wl,-soname,"+filepath.Base(path), file), flags...)
	if out, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
