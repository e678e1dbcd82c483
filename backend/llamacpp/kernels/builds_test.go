package kernels_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/models/demo"
	"runner/models/random"
	"runner/testenv"
)

// portableFlags are what make passes to the compilers with PORTABLE=1 on x86-64.
const portableFlags = "-O3 -w -march=x86-64-v3"

// printBits makes TestLogitsOfBuilds print the digests of this build instead of comparing them.
const printBits = "RUNNER_TEST_PRINT_BITS"

// bits prints a digest of logits for each of the kernels, of models whose weights they all read.
func bits(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	kernelstest.ForEach(t, func(t *testing.T, instructions string) {
		digest := func(name, path string) {
			m := openModel(t, path, backend.Config{ContextSize: 1024, Sequences: 2})
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.New()
			for i := range 4 {
				logits := kernelstest.Logits(t, m, s, kernelstest.Tokens(100, i), 64)
				if err := binary.Write(sum, binary.LittleEndian, logits); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprintf(&lines, "bits: %s, %s: %x\n", instructions, name, sum.Sum(nil))
		}
		models := kernelstest.Models()
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
