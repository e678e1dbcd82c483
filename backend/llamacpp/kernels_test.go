package llamacpp

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/cpu"

	"runner/backend"
	"runner/backend/gguf"
	"runner/models/random"
)

const (
	lacking      = "the processor can run none of the package's kernels"
	lackingTiles = "the processor lacks AMX, or the system does not grant it"
)

// forEachKernels runs f with each of the package's kernels that the processor can run.
func forEachKernels(t *testing.T, f func(t *testing.T, kernels string)) {
	t.Helper()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	if len(allKernels()) == 0 {
		t.Skip(lacking + "; the engine's own kernels add in another order for one token than for many")
	}
	defer useKernels(ownKernels)
	for _, kernels := range allKernels() {
		if !useKernels(kernels) {
			t.Fatalf("no kernels for %s", kernels)
		}
		t.Run(kernels, func(t *testing.T) { f(t, kernels) })
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" && !slices.Contains(allKernels(), "AMX") {
		t.Run("AMX", func(t *testing.T) { t.Skip(lackingTiles) })
	}
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
	sources := []string{"kernels_amx", "kernels_streamed", "kernels_vbmi", "kernels_avx512", "kernels_avx2",
		"kernels_neon", "team"} // those of other processors compile to nothing
	for _, source := range sources {
		object := filepath.Join(compiled.folder, fmt.Sprintf("%d-%s.o", len(compiled.objects), source))
		output(t, line[0], append(slices.Clone(line[1:]), "-include", filepath.Join("testdata", "features.h"),
			"-c", source+".cpp", "-o", object)...)
		objects = append(objects, object)
	}
	compiled.objects[key] = objects
	return objects
}

// kernelProgram compiles the kernels with a program in testdata, and returns its path.
func kernelProgram(t *testing.T, source string, flags []string) string {
	t.Helper()
	cxx := compiler(t, "CXX")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "kernels")
	// GCC's own header of intrinsics
	line := slices.Concat(cxx, []string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-uninitialized",
		"-Wno-maybe-uninitialized", "-pthread", "-I", here}, flags)
	objects := kernelObjects(t, line)
	line = slices.Concat(line, []string{"-o", binary, filepath.Join("testdata", source)}, objects)
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

// TestKernelsSanitized also checks that all kernels give the same products of quantized weights, to the bit, and that
// those for arm64 give the same results as those for AVX2. A check without a result is a failure, unless Go also finds
// that the processor lacks what the least of the kernels need.
func TestKernelsSanitized(t *testing.T) {
	out := kernelCheck(t, sanitized("address,undefined"))
	switch x86 := &cpu.X86; {
	case out != "":
	case runtime.GOARCH != "amd64":
		t.Skip("the kernels of this check are for x86-64")
	case x86.HasAVX2 && x86.HasFMA:
		t.Fatal("the check printed nothing, although the processor has AVX2 and FMA")
	default:
		t.Skipf("%s: AVX2 %v, FMA %v", lacking, x86.HasAVX2, x86.HasFMA)
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	var checked []string
	digests := map[string]string{}
	for line := range strings.Lines(out) {
		instructions, digest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		checked = append(checked, instructions)
		digests[instructions] = digest
	}
	want := allKernels()
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

// arm64Program compiles the kernels for arm64 with a program in testdata. It returns an emulator, and the path of the
// program.
func arm64Program(t *testing.T, source string, flags ...string) (qemu, binary string) {
	t.Helper()
	cxx := tool(t, "aarch64-linux-gnu-g++", "cross", "scripts/cross_compiler.sh")
	qemu = tool(t, "qemu-aarch64", "emulator", "scripts/emulator.sh aarch64")
	binary = filepath.Join(t.TempDir(), "kernels")
	output(t, cxx, append([]string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-I.", "-o", binary,
		"kernels_neon.cpp", "team.cpp", filepath.Join("testdata", source)}, flags...)...)
	return qemu, binary
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
	for processor, kernels := range map[string]string{"max": "NEON I8MM", "neoverse-n1": "NEON DotProd"} {
		if got, want := output(t, qemu, "-cpu", processor, binary, kernels), kernels+": "+digest; got != want {
			t.Errorf("%s gives %q instead of %q", processor, got, want)
		}
	}
}

// TestTiles runs the check with the processor's own tiles.
func TestTiles(t *testing.T) {
	if err := start(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(allKernels(), "AMX") {
		t.Skip(lackingTiles)
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

// logitsOf feeds tokens in chunks and returns the logits after the last one.
func logitsOf(t *testing.T, m *Model, s backend.Sequence, tokens []backend.Token, chunk int) []float32 {
	t.Helper()
	logits := make([]float32, m.vocab.Len())
	for len(tokens) > 0 {
		n := min(chunk, len(tokens))
		in := []backend.Input{{Sequence: s, Tokens: tokens[:n]}}
		if tokens = tokens[n:]; len(tokens) == 0 {
			in[0].Logits = logits
		}
		if err := m.Step(t.Context(), in, make([]backend.Output, 1)); err != nil {
			t.Fatal(err)
		}
	}
	return logits
}

func someTokens(n, seed int) []backend.Token {
	tokens := make([]backend.Token, n)
	for i := range tokens {
		tokens[i] = backend.Token((i*i*7 + i*13*(seed+1) + seed*31) % 500)
	}
	return tokens
}

func kernelModels() map[string]random.Config {
	return map[string]random.Config{
		"quantized": {Layers: 3, Width: 96, FeedForward: 160, Seed: 3},
		"precise":   {Layers: 3, Precise: true, Seed: 4},
		"grouped":   {Layers: 2, Heads: 8, KVHeads: 1, HeadSize: 64, Seed: 5},
	}
}

// TestKernelsAgree compares whole models with the engine's own kernels.
func TestKernelsAgree(t *testing.T) {
	forEachKernels(t, func(t *testing.T, kernels string) {
		for name, c := range kernelModels() {
			t.Run(name, func(t *testing.T) { kernelsAgree(t, kernels, c) })
		}
	})
}

func kernelsAgree(t *testing.T, kernels string, c random.Config) {
	path := writeModel(t, c)
	tokens := someTokens(200, 1)
	logits := func() []float32 {
		m := openModel(t, path, backend.Config{ContextSize: 512, Sequences: 2})
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		return logitsOf(t, m, s, tokens, 64)
	}
	got := logits()
	useKernels("")
	defer useKernels(kernels)
	want := logits()
	if slices.Equal(got, want) {
		t.Fatal("the logits are the same to the bit: the kernels did not run")
	}
	var dot, a, b float64
	for i := range got {
		dot += float64(got[i]) * float64(want[i])
		a += float64(got[i]) * float64(got[i])
		b += float64(want[i]) * float64(want[i])
	}
	least := 0.999
	if c.Precise {
		least = 0.99999 // the cache is still of half floats
	}
	if cos := dot / math.Sqrt(a*b); cos < least {
		t.Errorf("the logits' cosine is %.6f", cos)
	}
}

// TestLogitsDependOnTheSequenceAlone checks that a token's logits do not depend on the rest of the batch, the
// chunks of the prompt, the place in the cache or the number of threads.
func TestLogitsDependOnTheSequenceAlone(t *testing.T) {
	forEachKernels(t, func(t *testing.T, _ string) {
		for name, c := range kernelModels() {
			t.Run(name, func(t *testing.T) { dependOnTheSequenceAlone(t, c, 1, 3) })
		}
	})
}

func dependOnTheSequenceAlone(t *testing.T, c random.Config, threads ...int) {
	path := writeModel(t, c)
	tokens := someTokens(180, 1)
	var want []float32
	for _, threads := range threads {
		m := openModel(t, path, backend.Config{ContextSize: 512, Sequences: 12, Threads: threads})
		fresh := func() backend.Sequence {
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		check := func(how string, got []float32) {
			t.Helper()
			if want == nil {
				want = got
			}
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d threads, %s: logit %d is %.9g instead of %.9g", threads, how, i, got[i], want[i])
				}
			}
		}
		for _, chunk := range []int{180, 1, 7, 64} {
			s := fresh()
			check(fmt.Sprintf("chunks of %d", chunk), logitsOf(t, m, s, tokens, chunk))
			s.Close()
		}
		// Seven other sequences write into the cache, then all decode the last token in one step.
		all := make([]backend.Input, 8)
		for i := range all {
			all[i] = backend.Input{Sequence: fresh(), Tokens: []backend.Token{backend.Token(i)}}
		}
		for i := range all {
			for at := 0; at < 150; at += 50 {
				j := (i + at/50) % len(all)
				history := someTokens(150, j)
				if j == 5 {
					history = tokens
				}
				s := all[j].Sequence
				if n := len(s.Tokens()); n < 150 {
					logitsOf(t, m, s, history[n:n+50], 50)
				}
			}
		}
		all[5].Tokens = tokens[150:]
		all[5].Logits = make([]float32, m.vocab.Len())
		if err := m.Step(context.Background(), all, make([]backend.Output, len(all))); err != nil {
			t.Fatal(err)
		}
		check("among seven others", all[5].Logits)
	}
}

// TestWhatWakesHelpers checks that tokens of the bundled model wake the helpers where attention is large: over a long
// context, or for several sequences. A token over a short context does not, so it keeps one processor busy.
func TestWhatWakesHelpers(t *testing.T) {
	if err := start(); err != nil {
		t.Fatal(err)
	}
	if ownKernels == "" {
		t.Skip(lacking + "; helpers are for those alone")
	}
	m := openModel(t, filepath.Join("..", "..", "models", "demo", "demo.gguf"),
		backend.Config{ContextSize: 2048, Sequences: 8, Threads: 2})
	woken := func(sequences, length int, want bool) bool {
		in := make([]backend.Input, sequences)
		for i := range in {
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			logitsOf(t, m, s, someTokens(length, i), m.Info().BatchSize)
			in[i] = backend.Input{Sequence: s, Tokens: []backend.Token{1}}
		}
		// After a long wait for a helper the next steps are computed without it.
		for end := time.Now().Add(5 * time.Second); ; {
			before := helpersWoken()
			if err := m.Step(t.Context(), in, make([]backend.Output, len(in))); err != nil {
				t.Fatal(err)
			}
			if helpersWoken() > before {
				return true
			}
			if !want || time.Now().After(end) {
				return false
			}
			for i := range in {
				if _, err := in[i].Sequence.Truncate(length); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		sequences, length int
		want              bool
	}{{1, 200, false}, {1, 1500, true}, {3, 400, true}} {
		if got := woken(c.sequences, c.length, c.want); got != c.want {
			t.Errorf("%d sequences of %d tokens: helpers were woken: %v", c.sequences, c.length, got)
		}
	}
}

// TestKernelsOnTheEnginesThreads checks that the kernels give the same logits where the engine's own threads share them
// out, as they do for models that no team helps: here because of the type of the cache.
func TestKernelsOnTheEnginesThreads(t *testing.T) {
	forEachKernels(t, func(t *testing.T, _ string) {
		path := writeModel(t, random.Config{Layers: 2, Width: 96, FeedForward: 160, Seed: 3})
		tokens := someTokens(150, 1)
		var want []float32
		for _, threads := range []int{1, 3} {
			m := openModel(t, path, backend.Config{ContextSize: 512, Sequences: 1, Threads: threads, CacheType: "f32"})
			if m.threads != threads {
				t.Fatalf("the engine has %d threads instead of %d", m.threads, threads)
			}
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			got := logitsOf(t, m, s, tokens, 64)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d threads give other logits", threads)
			}
		}
	})
}

// otherFormats are those whose bits are tested besides MXFP4. The package has no kernels for the last two.
var otherFormats = []string{"Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "F32", "F16", "BF16", "Q4_1",
	"Q2_K"}

// inFormat is a small model in one of them.
func inFormat(format string) random.Config {
	c := random.Config{Architecture: "llama", Quant: format, Layers: 2, Width: 256, FeedForward: 512, HeadSize: 64,
		Seed: 6}
	if format == "F32" {
		c.Quant, c.Precise = "", true
	}
	return c
}

// TestLogitsOfOtherFormats checks the same for all formats of weights that the kernels read, and for two whose products
// are the engine's. MXFP4 is in the models of gpt-oss's kind.
func TestLogitsOfOtherFormats(t *testing.T) {
	for format := range ownFormats {
		if format != "MXFP4" && !slices.Contains(otherFormats, format) {
			t.Errorf("weights in %s are not tested", format)
		}
	}
	forEachKernels(t, func(t *testing.T, _ string) {
		for _, format := range otherFormats {
			t.Run(format, func(t *testing.T) {
				c := inFormat(format)
				requireFormat(t, c, format)
				dependOnTheSequenceAlone(t, c, 1, 2, 3)
			})
		}
	})
}

// requireFormat checks that the matrices of a model are in a format.
func requireFormat(t *testing.T, c random.Config, format string) {
	t.Helper()
	f, err := gguf.Open(writeModel(t, c))
	if err != nil {
		t.Fatal(err)
	}
	w, ok := f.Tensor("blk.0.ffn_down.weight")
	if !ok {
		t.Fatal("the model lacks a matrix")
	}
	if got := w.Type.String(); got != format {
		t.Fatalf("a matrix is in %s instead of %s", got, format)
	}
}

// TestKernelsOfFormats checks that a model says whether the package's kernels read all of its weights.
func TestKernelsOfFormats(t *testing.T) {
	forEachKernels(t, func(t *testing.T, _ string) {
		for quant, own := range map[string]bool{"Q4_K": true, "Q2_K": false} {
			path := writeModel(t, random.Config{Architecture: "llama", Quant: quant, Layers: 1, Width: 256, FeedForward: 256,
				HeadSize: 64})
			m := openModel(t, path, backend.Config{ContextSize: 256})
			if got := m.Info().Kernels; strings.Contains(got, "the engine's") == own {
				t.Errorf("%s: %q", quant, got)
			}
		}
	})
}
