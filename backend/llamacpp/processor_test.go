package llamacpp

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/testenv"
)

// checkedProgram compiles a program with the check of the processor.
func checkedProgram(t *testing.T, flags ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the check is for Linux on x86-64")
	}
	cxx := testenv.Compiler(t, "CXX")
	binary := filepath.Join(t.TempDir(), "checked")
	line := append(cxx[1:], "-std=c++17", "-O3", "-Wall", "-Wextra", "-Werror", "-o", binary, "processor.cpp",
		filepath.Join("testdata", "processor.cpp"))
	if out, err := exec.Command(cxx[0], append(line, flags...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// runChecked runs a program that checkedProgram made.
func runChecked(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

const reached = "initializer 16\nmain\n"

// TestLackingInstructionIsNamed compiles the check with another answer about one instruction set at a time. So it needs
// no other processor.
func TestLackingInstructionIsNamed(t *testing.T) {
	if err := start(); err != nil { // allKernels needs it
		t.Fatal(err)
	}
	flags := []string{"-mavx2", "-mfma", "-mbmi2"}
	for feature, name := range map[string]string{"avx2": "AVX2", "fma": "FMA", "bmi2": "BMI2", "": ""} {
		answer := `-D__builtin_cpu_supports(f)=(__builtin_strcmp(f,"` + feature + `")!=0)`
		binary := checkedProgram(t, append(flags, answer)...)
		stdout, stderr, code := runChecked(t, binary)
		if feature == "" {
			if len(kernelstest.Names()) > 0 && (stdout != reached || stderr != "" || code != 0) {
				t.Errorf("a processor that has all of them: %q, %q, exit code %d", stdout, stderr, code)
			}
			continue
		}
		want := "runner: this processor does not have " + name + ", "
		if stdout != "" || !strings.HasPrefix(stderr, want) || code != 1 {
			t.Errorf("without %s: %q, %q, exit code %d", name, stdout, stderr, code)
		}
	}
}

// TestOldProcessors runs the check on emulated processors, where an unknown instruction ends the program with SIGILL.
func TestOldProcessors(t *testing.T) {
	qemu := testenv.Tool(t, "qemu-x86_64", "emulator", "scripts/emulator.sh")
	for _, c := range []struct{ flags, processor, lacks string }{
		{"x86-64-v3", "Haswell", ""},
		{"x86-64-v3", "EPYC", ""},
		{"x86-64-v3", "IvyBridge", "AVX2"},
		{"x86-64-v3", "Nehalem", "AVX"},
		{"x86-64-v3", "core2duo", "SSE4.1"},
		{"x86-64-v3", "qemu64", "SSSE3"},
		{"skylake-avx512", "Haswell", "AVX-512 F"},
		{"skylake-avx512", "qemu64", "SSSE3"},
		{"x86-64", "qemu64", ""},
	} {
		binary := checkedProgram(t, "-march="+c.flags)
		stdout, stderr, code := runChecked(t, qemu, "-cpu", c.processor, binary)
		if c.lacks == "" {
			if stdout != reached || code != 0 {
				t.Errorf("%s on %s: %q, %q, exit code %d", c.flags, c.processor, stdout, stderr, code)
			}
		} else if stdout != "" || !strings.Contains(stderr, "does not have "+c.lacks+", ") || code != 1 {
			t.Errorf("%s on %s: %q, %q, exit code %d", c.flags, c.processor, stdout, stderr, code)
		}
	}
}
