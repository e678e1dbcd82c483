package kernels_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"runner/testenv"
)

func TestMain(m *testing.M) {
	code := m.Run()
	removeCompiled()
	os.Exit(code)
}

// sanitized are the compiler's flags for a check with a sanitizer. No sanitizer sees what tiles read and write, so
// plain C++ stands in for them.
func sanitized(sanitizer string) []string {
	return []string{"-g1", "-O1", "-fno-omit-frame-pointer", "-DRUNNER_KERNELS_CALLED", "-DRUNNER_TILES_EMULATED",
		"-fsanitize=" + sanitizer, "-fno-sanitize-recover=all"}
}

// compiled has the kernels that tests have compiled, by flags. Several programs are linked with the same ones.
var compiled struct {
	sync.Mutex
	folder  string
	objects map[string][]string
}

// removeCompiled removes the files of compiled.
func removeCompiled() { _ = os.RemoveAll(compiled.folder) }

// kernelObjects compiles the kernels and returns the paths of the objects.
func kernelObjects(t *testing.T, line []string) []string {
	t.Helper()
	compiled.Lock()
	defer compiled.Unlock()
	key := strings.Join(line, " ")
	if objects := compiled.objects[key]; objects != nil {
		return objects
	}
	if compiled.folder == "" {
		folder, err := os.MkdirTemp("", "runner-kernels-")
		if err != nil {
			t.Fatal(err)
		}
		compiled.folder, compiled.objects = folder, map[string][]string{}
	}
	var objects []string
	// Those of other processors compile to nothing.
	sources := []string{"amx", "streamed", "vbmi", "avx512", "avx2", "neon", "team"}
	for _, source := range sources {
		object := filepath.Join(compiled.folder, fmt.Sprintf("%d-%s.o", len(compiled.objects), source))
		output(t, line[0], append(slices.Clone(line[1:]), "-include", filepath.Join("testdata", "features.h"),
			"-c", source+".cpp", "-o", object)...)
		objects = append(objects, object)
	}
	compiled.objects[key] = objects
	return objects
}

// kernelProgram compiles the kernels with a program in testdata, and returns its path. linked are flags for the linker.
func kernelProgram(t *testing.T, source string, flags []string, linked ...string) string {
	t.Helper()
	cxx := testenv.Compiler(t, "CXX")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "kernels")
	// GCC's own header of intrinsics
	line := slices.Concat(cxx, []string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-uninitialized",
		"-Wno-maybe-uninitialized", "-pthread", "-I", here}, flags)
	objects := kernelObjects(t, line)
	line = slices.Concat(line, linked, []string{"-o", binary, filepath.Join("testdata", source)}, objects)
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		if strings.Contains(string(out), "cannot find") && strings.Contains(string(out), "san") {
			t.Skip("the compiler has no sanitizers")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// kernelCheck compiles the kernels with the check in testdata, and runs it. It returns the check's output by lines.
func kernelCheck(t *testing.T, flags []string, args ...string) string {
	t.Helper()
	return output(t, kernelProgram(t, "kernels.cpp", flags), args...)
}

// output runs a command and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// arm64Program compiles the kernels for arm64 with a program in testdata. It returns an emulator, and the path of the
// program.
func arm64Program(t *testing.T, source string, flags ...string) (qemu, binary string) {
	t.Helper()
	cxx := testenv.Tool(t, "aarch64-linux-gnu-g++", "cross", "scripts/cross_compiler.sh")
	qemu = testenv.Tool(t, "qemu-aarch64", "emulator", "scripts/emulator.sh aarch64")
	binary = filepath.Join(t.TempDir(), "kernels")
	output(t, cxx, append([]string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-I.", "-o", binary,
		"neon.cpp", "team.cpp", filepath.Join("testdata", source)}, flags...)...)
	return qemu, binary
}
