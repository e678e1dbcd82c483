package llamacpp

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"runner/testenv"
)

// drawnSeed returns a seed for what a test draws. RUNNER_TEST_SEED repeats one that a failure names.
func drawnSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("RUNNER_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("RUNNER_TEST_SEED=%d", seed)
		}
	})
	return seed
}

// edgesArgs are the arguments of testdata/edges.cpp.
func edgesArgs(seed uint64, more ...string) []string {
	args := []string{strconv.Itoa(int(uint32(seed)))}
	if os.Getenv("RUNNER_LONG") != "" {
		args = append(args, "all")
	}
	return append(args, more...)
}

// digestsOf splits what testdata/edges.cpp prints: the digests by the instructions of the kernels.
func digestsOf(out string) (kernels []string, digests map[string]string) {
	digests = map[string]string{}
	for line := range strings.Lines(out) {
		instructions, digest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if instructions != "" {
			kernels, digests[instructions] = append(kernels, instructions), digest
		}
	}
	return kernels, digests
}

// emulatedKernels are all kernels that a program with emulated tiles can run here.
func emulatedKernels(t *testing.T) []string {
	t.Helper()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	kernels := allKernels()
	if len(kernels) == 0 || runtime.GOARCH != "amd64" {
		t.Skip(lacking)
	}
	if slices.Contains(kernels, "AVX-512 VNNI") && !slices.Contains(kernels, "AMX") {
		kernels = append([]string{"AMX"}, kernels...)
	}
	return kernels
}

// quickFlags compile kernels in a fourth of the time that those take that run fast.
var quickFlags = []string{"-O1", "-DRUNNER_KERNELS_CALLED", "-DRUNNER_TILES_EMULATED"}

// TestKernelsAtTheEdges checks products with matrices of every height and of any number of columns, and all kernels with
// numbers of every size. It takes a sample; RUNNER_LONG=1 checks all, and also the kernels as they are compiled for
// speed and those for arm64.
func TestKernelsAtTheEdges(t *testing.T) {
	want := emulatedKernels(t)
	seed := drawnSeed(t)
	check := func(t *testing.T, out string, want []string) {
		t.Helper()
		kernels, digests := digestsOf(out)
		if !slices.Equal(kernels, want) {
			t.Fatalf("checked %q instead of %q", kernels, want)
		}
		// With AMX activations for MXFP4 have a bit more.
		quantized := strings.Fields(digests[want[len(want)-1]])[0]
		for instructions, digest := range digests {
			if instructions != "AMX" && strings.Fields(digest)[0] != quantized {
				t.Errorf("products with %s differ:\n%s", instructions, out)
			}
		}
	}
	t.Run("compiled quickly", func(t *testing.T) {
		check(t, output(t, kernelProgram(t, "edges.cpp", quickFlags), edgesArgs(seed)...), want)
	})
	t.Run("compiled for speed", func(t *testing.T) {
		testenv.NeedLong(t, "compiling everything into one another takes a minute")
		flags := []string{"-O3", "-DRUNNER_TILES_EMULATED"}
		check(t, output(t, kernelProgram(t, "edges.cpp", flags), edgesArgs(seed)...), want)
	})
	t.Run("tiles", func(t *testing.T) {
		if !slices.Contains(allKernels(), "AMX") {
			t.Skip(lackingTiles)
		}
		out := output(t, kernelProgram(t, "edges.cpp", []string{"-O2"}), edgesArgs(seed, "AMX")...)
		check(t, out, []string{"AMX"})
	})
	t.Run("arm64", func(t *testing.T) {
		testenv.NeedLong(t, "an emulated processor is slow")
		qemu, binary := arm64Program(t, "edges.cpp", "-O2")
		sample := strconv.Itoa(int(uint32(seed)))
		check(t, output(t, qemu, "-cpu", "max", binary, sample), []string{"NEON I8MM", "NEON DotProd"})
	})
}

// without are features of a processor, as compilers name them, and which instructions need them, as a disassembler
// prints these.
var without = map[string]struct{ instructions, kernels string }{
	"avx512vbmi": {`^(vpermb|vpermi2b|vpermt2b|vpmultishiftqb)\b`, "AVX-512 VNNI"},
	"avx512vnni": {`^vpdp`, "AVX2"},
	"avx512f":    {`%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])`, "AVX2"},
}

// TestKernelsWithoutInstructions runs kernels as on a processor that lacks some instructions: the check of what it has
// says no, and those instructions are replaced by one that no processor knows. Emulators that are easy to have do not
// know AVX-512. The results are as before.
func TestKernelsWithoutInstructions(t *testing.T) {
	all := emulatedKernels(t)
	if !slices.Contains(all, "AVX-512 VNNI") {
		t.Skip("the processor has none of the instructions that could be missing")
	}
	sample := strconv.Itoa(int(uint32(drawnSeed(t))))
	binary := kernelProgram(t, "edges.cpp", quickFlags)
	_, want := digestsOf(output(t, binary, sample))
	for feature, c := range without {
		t.Run(feature, func(t *testing.T) {
			replaced := withoutInstructions(t, binary, c.instructions)
			if replaced == "" {
				t.Skip("no kernel uses them")
			}
			kernels, got := digestsOf(output(t, replaced, sample, "-"+feature))
			if got[c.kernels] != want[c.kernels] || got[c.kernels] == "" {
				t.Errorf("the results of %s are %q instead of %q", c.kernels, got[c.kernels], want[c.kernels])
			}
			if lost := len(all) - len(kernels); feature != "avx512vbmi" && lost != slices.Index(all, c.kernels) {
				t.Errorf("%q ran, of %q", kernels, all)
			}
		})
	}
}

// withoutInstructions returns the path of a copy of a program in which an instruction that no processor knows stands for
// those whose text matches. It returns "" if there are none.
func withoutInstructions(t *testing.T, program, text string) string {
	t.Helper()
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("there is no objdump")
	}
	listing := output(t, objdump, "--disassemble", "--no-show-raw-insn", "--section=.text", program)
	bytes, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	section := f.Section(".text")
	matches, replaced := regexp.MustCompile(text), 0
	for line := range strings.Lines(listing) {
		var address uint64
		at, instruction, ok := strings.Cut(strings.TrimSpace(line), ":\t")
		if !ok || !matches.MatchString(instruction) {
			continue
		}
		if _, err := fmt.Sscanf(at, "%x", &address); err != nil {
			t.Fatalf("the line %q", line)
		}
		copy(bytes[section.Offset+address-section.Addr:], "\x0f\x0b") // ud2
		replaced++
	}
	if replaced == 0 {
		return ""
	}
	path := filepath.Join(t.TempDir(), "replaced")
	if err := os.WriteFile(path, bytes, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
