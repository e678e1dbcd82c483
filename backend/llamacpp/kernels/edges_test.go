package kernels_test

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

	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/testenv"
)

// emulatedKernels are all kernels that a program with emulated tiles can run here.
func emulatedKernels(t *testing.T) []string {
	t.Helper()
	names := kernelstest.Names()
	switch {
	case runtime.GOARCH != "amd64":
		t.Skip("these checks are for the kernels of x86-64")
	case len(names) == 0:
		t.Skip(kernelstest.Lacking)
	}
	if slices.Contains(names, "AVX-512 VNNI") && !slices.Contains(names, "AMX") {
		names = append([]string{"AMX"}, names...)
	}
	return names
}

// quickFlags compile kernels in a fourth of the time that those take that run fast.
var quickFlags = []string{"-O1", "-DRUNNER_KERNELS_CALLED", "-DRUNNER_TILES_EMULATED"}

// TestKernelsAtTheEdges checks products with matrices of every height and of any number of columns, and all kernels
// with numbers of every size. It takes a sample; RUNNER_LONG=1 checks all, and also the kernels as they are compiled
// for speed and those for arm64.
func TestKernelsAtTheEdges(t *testing.T) {
	want := emulatedKernels(t)
	seed := testenv.Seed(t)
	sample := strconv.Itoa(int(uint32(seed)))
	args := []string{sample}
	if os.Getenv("RUNNER_LONG") != "" {
		args = append(args, "all")
	}
	t.Run("compiled quickly", func(t *testing.T) {
		binary := kernelProgram(t, "edges.cpp", quickFlags)
		digests := edges(t, want, binary, args...)
		if len(args) > 1 {
			digests = edges(t, want, binary, sample)
		}
		lackingInstructions(t, binary, sample, digests)
	})
	t.Run("compiled for speed", func(t *testing.T) {
		testenv.NeedLong(t, "compiling everything into one another takes a minute")
		edges(t, want, kernelProgram(t, "edges.cpp", []string{"-O3", "-DRUNNER_TILES_EMULATED"}), args...)
	})
	t.Run("tiles", func(t *testing.T) {
		if !slices.Contains(kernelstest.Names(), "AMX") {
			t.Skip(kernelstest.LackingTiles)
		}
		edges(t, []string{"AMX"}, kernelProgram(t, "edges.cpp", []string{"-O2"}), append(args, "AMX")...)
	})
	t.Run("arm64", func(t *testing.T) {
		testenv.NeedLong(t, "an emulated processor is slow")
		qemu, binary := arm64Program(t, "edges.cpp", "-O2")
		edges(t, []string{"NEON I8MM", "NEON DotProd"}, qemu, "-cpu", "max", binary, sample)
	})
}

// edges runs testdata/edges.cpp, checks that kernels with these instructions ran, and returns the digests of their
// results. Products of quantized weights are the same with all of them.
func edges(t *testing.T, want []string, program string, args ...string) map[string]string {
	t.Helper()
	out := output(t, program, args...)
	var names []string
	digests := map[string]string{}
	for line := range strings.Lines(out) {
		instructions, digest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		names, digests[instructions] = append(names, instructions), digest
	}
	if !slices.Equal(names, want) {
		t.Fatalf("checked %q instead of %q:\n%s", names, want, out)
	}
	quantized := strings.Fields(digests[want[len(want)-1]])[0]
	for instructions, digest := range digests {
		// With AMX activations for MXFP4 have a bit more.
		if instructions != "AMX" && strings.Fields(digest)[0] != quantized {
			t.Errorf("products with %s differ:\n%s", instructions, out)
		}
	}
	return digests
}

// lackingInstructions runs the kernels of a program as on a processor that lacks some instructions: the check of what
// it has says no, and an instruction that no processor knows stands for the missing ones. Emulators that are easy to
// have do not know AVX-512. The results are as before.
func lackingInstructions(t *testing.T, binary, sample string, digests map[string]string) {
	all := emulatedKernels(t)
	if !slices.Contains(all, "AVX-512 VNNI") {
		return // nothing could be missing
	}
	for _, c := range []struct {
		feature      string // as compilers name it
		instructions string // as a disassembler prints those that need it
		best         string // what runs then
	}{
		{"avx512vbmi", `^(vpermb|vpermi2b|vpermt2b|vpmultishiftqb)\b`, "AVX-512 VNNI"},
		{"avx512vnni", `^vpdp`, "AVX2"},
		{"avx512f", `%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])`, "AVX2"},
	} {
		t.Run("without "+c.feature, func(t *testing.T) {
			replaced := withoutInstructions(t, binary, c.instructions)
			if replaced == "" {
				t.Skip("no kernel uses what would be missing")
			}
			out := output(t, replaced, sample, "-"+c.feature, "names")
			// Tiles come with all of AVX-512, but emulated ones run without some of it.
			if best := strings.TrimPrefix(out, "AMX\n"); best != c.best && !strings.HasPrefix(best, c.best+"\n") {
				t.Fatalf("the best kernels of %q are not %s", out, c.best)
			}
			for name := range strings.Lines(out) {
				name = strings.TrimSpace(name)
				if got := edges(t, []string{name}, replaced, sample, "-"+c.feature, name); got[name] != digests[name] {
					t.Errorf("the results of %s are %s instead of %s", name, got[name], digests[name])
				}
			}
		})
	}
}

// withoutInstructions returns the path of a copy of a program in which an instruction that no processor knows stands
// for those whose text matches. It returns "" if there are none.
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
