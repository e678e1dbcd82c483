package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPretokenizers compares the list with the engine's source.
func TestPretokenizers(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ollama/ollama").Output()
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "llama", "llama.cpp", "src", "llama-vocab.cpp"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(src), "only BPE models have pre-tokenizers")
	table, _, _ = strings.Cut(table, "unrecognized pre-tokenizer")
	engine := map[string]bool{}
	for _, m := range regexp.MustCompile(`tokenizer_pre == "([^"]+)"`).FindAllStringSubmatch(table, -1) {
		engine[m[1]] = true
		if !knownPretokenizers[m[1]] {
			t.Errorf("%q is missing here", m[1])
		}
	}
	if len(engine) < 60 {
		t.Fatalf("found %d names in the engine's source", len(engine))
	}
	for name := range knownPretokenizers {
		if !engine[name] {
			t.Errorf("%q is not in the engine's list", name)
		}
	}
}
