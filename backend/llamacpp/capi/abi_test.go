package capi_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"runner/testenv"
)

// version is a llama.cpp with its real headers and with ours.
type version struct {
	name string
	// include are the -I flags for the real headers, and real the lines that include them. The real structs take the
	// names that ours have.
	include []string
	real    string
	// ours is our header that includes capi.h.
	ours string
}

const publicHeaders = "#include \"llama.h\"\n#include \"ggml-cpu.h\"\n#include \"ggml-backend.h\"\n"

// builtinHeaders are the headers of the compiled-in engine.
func builtinHeaders(t *testing.T) version {
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
	return version{"BuiltIn", flags,
		publicHeaders + "#include \"ggml-backend-impl.h\"\n#include \"ggml-cpu-impl.h\"\n", "capi_builtin.h"}
}

// folderHeaders are the headers of the versions that a folder may have.
func folderHeaders(t *testing.T) []version {
	t.Helper()
	var list []version
	for _, name := range []string{"0.5", "0.6"} {
		tree := filepath.Join(testenv.Root(t), ".cache", "engines", "headers-"+name)
		list = append(list, version{
			name:    name,
			include: []string{"-I", filepath.Join(tree, "include"), "-I", filepath.Join(tree, "ggml", "include")},
			real: publicHeaders + "#define llama_model_params_v05 llama_model_params\n" +
				"#define llama_context_params_v05 llama_context_params\n",
			ours: "capi_v05.h",
		})
	}
	return list
}

var (
	comments  = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	structs   = regexp.MustCompile(`(?s)struct\s+(\w+)\s*\{(.*?)\}`)
	enums     = regexp.MustCompile(`(?s)enum\s*(\w*)\s*\{(.*?)\}`)
	fieldName = regexp.MustCompile(`(\w+)\s*(?:\[\w+\])?$`)
)

// questions returns C statements that print every size, offset and value declared in our headers.
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
		t.Fatalf("found %d fields and %d values in our headers; the test no longer reads it right", fields, values)
	}
	return b.String()
}

// forEachVersion runs a test for the compiled-in engine and for each version of llama.cpp that a folder may have. It
// skips those whose headers are not installed.
func forEachVersion(t *testing.T, f func(t *testing.T, v version)) {
	t.Helper()
	for _, v := range append([]version{builtinHeaders(t)}, folderHeaders(t)...) {
		t.Run(v.name, func(t *testing.T) {
			if _, err := os.Stat(v.include[1]); err != nil {
				t.Skip("the headers of this version are not installed; `make engines` installs them where it can: ", err)
			}
			f(t, v)
		})
	}
}

// TestABI compiles our headers and the engine's separately, prints every size, offset and value from both, and
// compares.
func TestABI(t *testing.T) {
	cc := testenv.Compiler(t, "CC")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	forEachVersion(t, func(t *testing.T, v version) {
		var headers string
		for _, name := range []string{"capi.h", v.ours} {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			headers += string(text)
		}
		ask := questions(t, headers)
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
		ours := strings.Split(answers("ours", "#include \""+v.ours+"\"\n", []string{"-I", here}), "\n")
		theirs := strings.Split(answers("theirs", v.real, v.include), "\n")
		if len(ours) != len(theirs) {
			t.Fatalf("%d answers from our headers and %d from the engine", len(ours), len(theirs))
		}
		for i := range ours {
			if ours[i] != theirs[i] {
				t.Errorf("our header: %s; the engine: %s", ours[i], theirs[i])
			}
		}
		t.Logf("%d sizes, offsets and values agree", len(ours)-1)
	})
}

// TestPrototypes declares every function again after the engine's own declaration. C accepts that only if the types
// are the same.
func TestPrototypes(t *testing.T) {
	cc := testenv.Compiler(t, "CC")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	forEachVersion(t, func(t *testing.T, v version) {
		check := func(text string) (string, error) {
			args := append(append(append([]string{}, cc[1:]...), v.include...), "-I", here, "-w", "-x", "c", "-fsyntax-only",
				"-")
			c := exec.Command(cc[0], args...)
			c.Stdin = strings.NewReader(text)
			var out bytes.Buffer
			c.Stderr = &out
			err := c.Run()
			return out.String(), err
		}
		both := v.real + "#define RUNNER_CAPI_PROTOTYPES_ONLY\n#include \"" + v.ours + "\"\n"
		if out, err := check(both); err != nil {
			t.Errorf("the prototypes differ: %v\n%s", err, out)
		}
		if _, err := check(both + "int llama_n_ctx(const struct llama_context * ctx, int more);\n"); err == nil {
			t.Error("a wrong prototype was accepted, so this test shows nothing")
		}
	})
}
