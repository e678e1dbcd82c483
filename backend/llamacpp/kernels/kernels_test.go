package kernels_test

import (
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/testenv"
)

// TestKernels also checks that all kernels give the same products of quantized weights, to the bit, and that those for
// arm64 give the same results as those for AVX2. A check without a result is a failure, unless Go also finds that the
// processor lacks what the least of the kernels need. RUNNER_LONG=1 compiles with sanitizers, which takes minutes.
func TestKernels(t *testing.T) {
	flags := quickFlags
	if testenv.Long() {
		flags = sanitized("address,undefined")
	}
	out := kernelCheck(t, flags)
	switch x86 := &cpu.X86; {
	case out != "":
	case runtime.GOARCH != "amd64":
		t.Skip("the kernels of this check are for x86-64")
	case x86.HasAVX2 && x86.HasFMA:
		t.Fatal("the check printed nothing, although the processor has AVX2 and FMA")
	default:
		t.Skipf("%s: AVX2 %v, FMA %v", kernelstest.Lacking, x86.HasAVX2, x86.HasFMA)
	}
	var checked []string
	digests := map[string]string{}
	for line := range strings.Lines(out) {
		instructions, digest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		checked = append(checked, instructions)
		digests[instructions] = digest
	}
	want := kernelstest.Names()
	if slices.Contains(want, "AVX-512 VNNI") && !slices.Contains(want, "AMX") {
		want = append([]string{"AMX"}, want...) // its tiles are emulated
	}
	if !slices.Equal(checked, want) {
		t.Fatalf("checked %q instead of %q", checked, want)
	}
	quantized := func(digest string) string { return strings.Fields(digest)[0] }
	for instructions, digest := range digests {
		// With AMX activations for MXFP4 have a bit more.
		if instructions != "AMX" && quantized(digest) != quantized(digests["AVX2"]) {
			t.Errorf("products with %s differ from those with AVX2:\n%s", instructions, out)
		}
	}
	t.Run("arm64", func(t *testing.T) { checkOnArm64(t, digests["AVX2"]) })
}

// checkOnArm64 runs the check of the kernels for arm64 on emulated processors. digest is what it must print.
func checkOnArm64(t *testing.T, digest string) {
	if digest == "" {
		t.Skip("the processor lacks AVX2, whose results are compared")
	}
	qemu, binary := arm64Program(t, "kernels.cpp", "-O2")
	for _, c := range []struct {
		processor string
		kernels   []string
	}{
		{"max", []string{"NEON I8MM", "NEON DotProd"}},
		{"neoverse-n1", []string{"NEON DotProd"}},
		{"cortex-a53", nil},
	} {
		if got, want := output(t, qemu, "-cpu", c.processor, binary, "names"), strings.Join(c.kernels, "\n"); got != want {
			t.Fatalf("%s runs the kernels %q instead of %q", c.processor, got, want)
		}
	}
	processors := map[string]string{"max": "NEON I8MM"}
	if testenv.Long() {
		processors["neoverse-n1"] = "NEON DotProd"
	}
	for processor, instructions := range processors {
		if got, want := output(t, qemu, "-cpu", processor, binary, instructions), instructions+": "+digest; got != want {
			t.Errorf("%s gives %q instead of %q", processor, got, want)
		}
	}
}

// TestTiles runs the check with the processor's own tiles.
func TestTiles(t *testing.T) {
	if !slices.Contains(kernelstest.Names(), "AMX") {
		t.Skip(kernelstest.LackingTiles)
	}
	if out := kernelCheck(t, []string{"-O2"}); !strings.HasPrefix(out, "AMX: ") {
		t.Fatalf("checked %q", out)
	}
}

func TestTeamHasNoRaces(t *testing.T) {
	if out := kernelCheck(t, sanitized("thread"), "team"); out != "" {
		t.Fatal(out)
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
		if got := slices.Contains(kernelstest.Names(), c.kernels); got != can {
			t.Errorf("the kernels %s can run: %v; the processor has %q: %v", c.kernels, got, c.needs, can)
		}
	}
}
