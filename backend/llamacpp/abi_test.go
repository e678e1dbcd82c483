package llamacpp

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// compiler returns a command line for the C compiler that cgo uses, or skips the test.
func compiler(t *testing.T, name string) []string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Skipf("go env, which names the compiler, failed: %v", err)
	}
	cc := strings.Fields(string(out))
	if len(cc) == 0 {
		t.Skipf("go env %s names no compiler", name)
	}
	if _, err := exec.LookPath(cc[0]); err != nil {
		t.Skipf("the compiler is missing: %v", err)
	}
	return cc
}

// engineHeaders returns the -I flags for the engine's own headers.
func engineHeaders(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ollama/ollama").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dir := strings.TrimSpace(string(out))
	ggml := filepath.Join(dir, "ml", "backend", "ggml", "ggml")
	var flags []string
	for _, folder := range []string{filepath.Join(dir, "llama", "llama.cpp", "include"), filepath.Join(ggml, "include"),
		filepath.Join(ggml, "src"), filepath.Join(ggml, "src", "ggml-cpu")} {
		flags = append(flags, "-I", folder)
	}
	return flags
}

const realHeaders = "#include \"llama.h\"\n#include \"ggml-cpu.h\"\n#include \"ggml-backend.h\"\n#include " +
	"\"ggml-backend-impl.h\"\n#include \"ggml-cpu-impl.h\"\n"

var (
	comments  = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	structs   = regexp.MustCompile(`(?s)struct\s+(\w+)\s*\{(.*?)\}`)
	enums     = regexp.MustCompile(`(?s)enum\s*(\w*)\s*\{(.*?)\}`)
	fieldName = regexp.MustCompile(`(\w+)\s*(?:\[\w+\])?$`)
)

// questions returns C statements that print every size, offset and value declared in capi.h.
func questions(t *testing.T, header string) string {
	header = comments.ReplaceAllString(header, "")
	var b strings.Builder
	fields, values := 0, 0
	for _, m := range structs.FindAllStringSubmatch(header, -1) {
		fmt.Fprintf(&b, "printf(\"sizeof %s %%zu\\n\", sizeof(struct %s));\n", m[1], m[1])
		for _, f := range strings.Split(m[2], ";") {
			if name := fieldName.FindStringSubmatch(strings.TrimSpace(f)); name != nil {
				fmt.Fprintf(&b, "printf(\"%s.%s at %%zu of %%zu\\n\", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s));\n",
					m[1], name[1], m[1], name[1], m[1], name[1])
				fields++
			}
		}
	}
	for _, m := range enums.FindAllStringSubmatch(header, -1) {
		if m[1] != "" {
			fmt.Fprintf(&b, "printf(\"sizeof enum %s %%zu\\n\", sizeof(enum %s));\n", m[1], m[1])
		}
		for _, e := range strings.Split(m[2], ",") {
			if name, _, _ := strings.Cut(e, "="); strings.TrimSpace(name) != "" {
				name = strings.TrimSpace(name)
				fmt.Fprintf(&b, "printf(\"%s %%lld\\n\", (long long)%s);\n", name, name)
				values++
			}
		}
	}
	if fields < 50 || values < 30 {
		t.Fatalf("found %d fields and %d values in capi.h; the test no longer reads it right", fields, values)
	}
	return b.String()
}

// TestABI compiles capi.h and the engine's headers separately, prints every size, offset and value from both, and
// compares.
func TestABI(t *testing.T) {
	cc, include := compiler(t, "CC"), engineHeaders(t)
	header, err := os.ReadFile("capi.h")
	if err != nil {
		t.Fatal(err)
	}
	ask := questions(t, string(header))
	answers := func(name, includes string, flags []string) string {
		dir := t.TempDir()
		source, binary := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
		text := includes + "#include <stdio.h>\n#include <stddef.h>\nint main(void) {\n" + ask + "return 0;\n}\n"
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// optimized, so that unused inline functions of the headers are dropped
		args := append(append(append([]string{}, cc[1:]...), flags...), "-O1", "-w", "-o", binary, source)
		if out, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
			t.Fatalf("%s does not compile: %v\n%s", name, err, out)
		}
		out, err := exec.Command(binary).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return string(out)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.Split(answers("ours", "#include \"capi.h\"\n", []string{"-I", here}), "\n")
	theirs := strings.Split(answers("theirs", realHeaders, include), "\n")
	if len(ours) != len(theirs) {
		t.Fatalf("%d answers from capi.h and %d from the engine", len(ours), len(theirs))
	}
	for i := range ours {
		if ours[i] != theirs[i] {
			t.Errorf("capi.h: %s; the engine: %s", ours[i], theirs[i])
		}
	}
	t.Logf("%d sizes, offsets and values agree", len(ours)-1)
}

// TestPrototypes declares every function again after the engine's own declaration. C accepts that only if the types
// are the same.
func TestPrototypes(t *testing.T) {
	cc, include := compiler(t, "CC"), engineHeaders(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) (string, error) {
		args := append(append(append([]string{}, cc[1:]...), include...), "-I", here, "-w", "-x", "c", "-fsyntax-only", "-")
		c := exec.Command(cc[0], args...)
		c.Stdin = strings.NewReader(text)
		var out bytes.Buffer
		c.Stderr = &out
		err := c.Run()
		return out.String(), err
	}
	both := realHeaders + "#define RUNNER_CAPI_PROTOTYPES_ONLY\n#include \"capi.h\"\n"
	if out, err := check(both); err != nil {
		t.Errorf("the prototypes differ: %v\n%s", err, out)
	}
	if _, err := check(both + "int llama_n_ctx(const struct llama_context * ctx, int more);\n"); err == nil {
		t.Error("a wrong prototype was accepted, so this test shows nothing")
	}
}
