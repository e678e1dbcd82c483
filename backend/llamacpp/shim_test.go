package llamacpp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"runner/testenv"
)

// TestShimSanitized compiles shim.cpp and the engines' files with the address and undefined-behaviour sanitizers
// against a stub of the engine. The stub throws, asserts and fails in every way that the shim guards against.
// testdata/stub.cpp has the stub and the checks.
func TestShimSanitized(t *testing.T) {
	cxx := testenv.Compiler(t, "CXX")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "shim")
	args := append(append([]string{}, cxx[1:]...), "-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror",
		"-fno-omit-frame-pointer",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DRUNNER_PEER", "-I", here, "-o", binary, "shim.cpp",
		"engine_builtin.cpp", "engine_v05.cpp", "engine_folder.cpp", "-rdynamic", filepath.Join("testdata", "stub.cpp"))
	if out, err := exec.Command(cxx[0], args...).CombinedOutput(); err != nil {
		if strings.Contains(string(out), "cannot find") && strings.Contains(string(out), "san") {
			t.Skip("the compiler has no sanitizers")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binary).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("%v\n%s", err, out)
	}
}
