package llamacpp

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/models/demo"
	"runner/models/random"
	"runner/testenv"
)

// portableFlags are what make passes to the compilers with PORTABLE=1 on x86-64.
const portableFlags = "-O3 -w -march=x86-64-v3"

// checkedProgram compiles a program with the check of the processor.
func checkedProgram(t *testing.T, flags ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the check is for Linux on x86-64")
	}
	cxx := compiler(t, "CXX")
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
			if len(allKernels()) > 0 && (stdout != reached || stderr != "" || code != 0) {
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

// TestKernelsOfThisProcessor compares the kernels that can run with what the kernel of the system says about the
// processor. Other tests are skipped where none can run.
func TestKernelsOfThisProcessor(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip("this system does not describe its processors in a file: ", err)
	}
	flags := regexp.MustCompile(`(?m)^(?:flags|Features)\s*: (.*)$`).FindSubmatch(text)
	if flags == nil {
		t.Fatalf("/proc/cpuinfo lists no instructions:\n%s", text)
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	has := strings.Fields(string(flags[1]))
	for _, c := range []struct{ processor, kernels, needs string }{
		{"amd64", "AVX2", "avx2 fma f16c"},
		{"amd64", "AVX-512 VNNI", "avx512f avx512bw avx512vl avx512dq avx512_vnni fma"},
		{"amd64", "AVX-512 VBMI", "avx512f avx512bw avx512vl avx512dq avx512_vnni avx512vbmi fma"},
		{"arm64", "NEON DotProd", "asimddp"},
		{"arm64", "NEON I8MM", "asimddp i8mm"},
	} {
		if c.processor != runtime.GOARCH {
			continue
		}
		lacks := func(flag string) bool { return !slices.Contains(has, flag) }
		can := !slices.ContainsFunc(strings.Fields(c.needs), lacks)
		if got := slices.Contains(allKernels(), c.kernels); got != can {
			t.Errorf("the kernels %s can run: %v; the processor has %q: %v", c.kernels, got, c.needs, can)
		}
	}
}

// tool returns a program: the one on the PATH, or that which a script unpacks into a folder of .cache.
func tool(t *testing.T, name, folder, script string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path, err := filepath.Abs(filepath.Join("..", "..", ".cache", folder, name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skip(name + " is not on the PATH and not in .cache/" + folder + "; " + script + " unpacks Debian's where it can")
	}
	return path
}

// TestOldProcessors runs the check on emulated processors, where an unknown instruction ends the program with SIGILL.
func TestOldProcessors(t *testing.T) {
	qemu := tool(t, "qemu-x86_64", "emulator", "scripts/emulator.sh")
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

// printBits makes TestLogitsOfBuilds print the digests of this build instead of comparing them.
const printBits = "RUNNER_TEST_PRINT_BITS"

// bits prints a digest of logits for each of the package's kernels, of models whose weights they all read.
func bits(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	forEachKernels(t, func(t *testing.T, kernels string) {
		digest := func(name, path string) {
			m := openModel(t, path, backend.Config{ContextSize: 1024, Sequences: 2})
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.New()
			for i := range 4 {
				logits := logitsOf(t, m, s, someTokens(100, i), 64)
				if err := binary.Write(sum, binary.LittleEndian, logits); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprintf(&lines, "bits: %s, %s: %x\n", kernels, name, sum.Sum(nil))
		}
		models := kernelModels()
		models["llama"] = random.Config{Architecture: "llama", Layers: 2, Seed: 6}
		for _, quant := range []string{"Q4_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"} {
			models[quant] = random.Config{Architecture: "llama", Quant: quant, Layers: 2, Width: 256, FeedForward: 512,
				HeadSize: 64, Seed: 8}
		}
		models["experts"] = random.Config{Architecture: "qwen3moe", Layers: 2, Experts: 64, Used: 8, Seed: 7}
		for _, name := range slices.Sorted(maps.Keys(models)) {
			digest(name, writeModel(t, models[name]))
		}
		path, err := demo.Path(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		digest("demo", path)
	})
	return lines.String()
}

// TestLogitsOfBuilds checks that the portable program and the one for this processor compute the same logits. It
// compiles the engine once more, so it is long.
func TestLogitsOfBuilds(t *testing.T) {
	if os.Getenv(printBits) != "" {
		fmt.Print(bits(t))
		return
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the portable program is compared on x86-64")
	}
	testenv.NeedLong(t, "it compiles the engine again")
	want := bits(t)
	if want == "" {
		t.Fatal("no kernels ran")
	}
	// Paths are trimmed as make does, so that both share what is compiled.
	cmd := exec.CommandContext(t.Context(), "go", "test", "-trimpath", "-v", "-count=1", "-run", "^TestLogitsOfBuilds$",
		".")
	cmd.Env = append(os.Environ(), printBits+"=1", "CGO_CFLAGS="+portableFlags, "CGO_CXXFLAGS="+portableFlags)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got strings.Builder
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		if strings.HasPrefix(s.Text(), "bits: ") {
			fmt.Fprintln(&got, s.Text())
		}
	}
	if got.String() != want {
		t.Errorf("compiled with %s:\n%sinstead of\n%s", portableFlags, got.String(), want)
	}
}
