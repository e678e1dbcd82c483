package llamacpp

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectures compares the list with the engine's source.
func TestArchitectures(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ollama/ollama").Output()
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "llama", "llama.cpp", "src", "llama-arch.cpp"))
	if err != nil {
		t.Fatal(err)
	}
	engine := sourceArchitectures(t, string(src))
	for name := range builtin.facts.Others {
		if !engine[name] {
			t.Errorf("%q is not in the engine's table", name)
		}
		delete(engine, name)
	}
	for name := range engine {
		if !builtin.facts.Generative[name] {
			t.Errorf("%q is missing here", name)
		}
	}
	for name := range builtin.facts.Generative {
		if !engine[name] {
			t.Errorf("%q is not in the engine's table", name)
		}
	}
}

// sourceArchitectures returns the names in llama-arch.cpp.
func sourceArchitectures(t *testing.T, source string) map[string]bool {
	t.Helper()
	_, table, _ := strings.Cut(source, "LLM_ARCH_NAMES = {")
	table, _, _ = strings.Cut(table, "};")
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{ LLM_ARCH_\w+,\s*"([^"]+)"`).FindAllStringSubmatch(table, -1) {
		names[m[1]] = true
	}
	if len(names) < 80 {
		t.Fatalf("found %d architectures in the engine's source", len(names))
	}
	return names
}
