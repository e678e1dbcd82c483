// Package rules_test checks rules about the whole tree that the compiler does not check.
package rules_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rules lists, for each package prefix, the packages of this module that non-test files may import. The longest
// matching prefix applies. Imports point down only.
var rules = []struct {
	prefix string
	may    []string
}{
	{everywhere[0], nil}, {everywhere[1], nil},
	{"runner/backend", nil},
	{"runner/backend/gguf", nil},
	{"runner/backend/safetensors", nil},
	{"runner/backend/sample", []string{"runner/backend"}},
	{"runner/backend/tokenizer", []string{"runner/backend", "runner/backend/gguf", "runner/backend/tokenizer"}},
	{"runner/backend/backendtest", []string{"runner/backend", "runner/backend/gguf", "runner/backend/sample",
		"runner/backend/tokenizer"}},
	{"runner/backend/", []string{"runner/backend", "runner/backend/gguf", "runner/backend/ledger",
		"runner/backend/sample", "runner/backend/tokenizer"}},
	{"runner/backend/child", []string{"runner/backend", "runner/backend/child/protocol", "runner/backend/ledger",
		"runner/backend/sample"}},
	{"runner/backend/ledger", []string{"runner/backend"}},
	{"runner/backend/llamacpp", []string{"runner/backend", "runner/backend/gguf", "runner/backend/ledger",
		"runner/backend/llamacpp/", "runner/backend/sample", "runner/backend/tokenizer"}},
	{"runner/backend/llamacpp/capi", nil},
	{"runner/backend/llamacpp/enginefolder", nil},
	{"runner/backend/llamacpp/kernels", []string{"runner/backend/llamacpp/capi"}},
	{"runner/backend/llamacpp/machine", nil},
	{"runner/backend/llamacpp/plan", []string{"runner/backend", "runner/backend/gguf", "runner/backend/llamacpp/machine",
		"runner/backend/tokenizer"}},
	{"runner/backend/llamacpp/kernels/kernelstest", []string{"runner/backend", "runner/backend/llamacpp/kernels",
		"runner/models/random"}},
	{"runner/backend/remote", []string{"runner/backend", "runner/backend/remote/web", "runner/backend/tokenizer"}},
	{"runner/backend/remote/", []string{"runner/backend", "runner/backend/remote", "runner/backend/remote/dialect",
		"runner/backend/remote/web"}},
	{"runner/backend/remote/dialect", []string{"runner/backend", "runner/backend/remote", "runner/backend/remote/web"}},
	{"runner/backend/remote/realtest", []string{"runner/backend", "runner/backend/backendtest", "runner/backend/gguf",
		"runner/backend/remote", "runner/backend/remote/remotetest", "runner/backend/remote/web",
		"runner/backend/tokenizer"}},
	{"runner/backend/remote/standin", []string{"runner/backend", "runner/backend/fake"}},
	{"runner/backend/remote/web", nil},
	{"runner/backend/remote/remotetest", []string{"runner/backend", "runner/backend/fake", "runner/backend/remote",
		"runner/backend/remote/web"}},
	{"runner/backend/child/protocol", []string{"runner/backend"}},
	{"runner/backend/mlx", []string{"runner/backend", "runner/backend/child", "runner/backend/safetensors",
		"runner/backend/tokenizer/folder"}},
	{"runner/backend/mlx/fromgguf", []string{"runner/backend", "runner/backend/gguf", "runner/backend/tokenizer"}},
	{"runner/chattemplate", []string{"runner/backend", "runner/reasoning", "runner/chattemplate/jinja",
		"runner/chattemplate/jinja/origin"}},
	// This is the rule of every family and of the folders in it. No family imports another.
	{"runner/chattemplate/", []string{"runner/backend", "runner/grammar", "runner/reasoning", "runner/chattemplate",
		"runner/chattemplate/family", "runner/chattemplate/hold", "runner/chattemplate/markup",
		"runner/chattemplate/parameters", "runner/chattemplate/reader"}},
	{"runner/chattemplate/channels", []string{"runner/backend", "runner/grammar", "runner/reasoning",
		"runner/chattemplate", "runner/chattemplate/channels/harmony", "runner/chattemplate/family",
		"runner/chattemplate/hold", "runner/chattemplate/markup", "runner/chattemplate/parameters",
		"runner/chattemplate/reader"}},
	{"runner/chattemplate/families", []string{"runner/chattemplate", "runner/chattemplate/"}},
	{"runner/chattemplate/jinja", []string{"runner/chattemplate/jinja/"}},
	{"runner/chattemplate/jinja/origin", nil},
	{"runner/chattemplate/parameters", []string{"runner/grammar"}},
	{"runner/chattemplate/hold", []string{"runner/backend", "runner/grammar"}},
	{"runner/chattemplate/reader", []string{"runner/backend", "runner/reasoning", "runner/reasoning/patterns",
		"runner/chattemplate"}},
	{"runner/chattemplate/markup", []string{"runner/reasoning", "runner/reasoning/patterns", "runner/chattemplate",
		"runner/chattemplate/reader"}},
	{"runner/chattemplate/family", []string{"runner/backend", "runner/grammar", "runner/reasoning",
		"runner/chattemplate", "runner/chattemplate/hold", "runner/chattemplate/reader"}},
	{"runner/chattemplate/vocabtest", []string{"runner/backend"}},
	{"runner/chattemplate/readertest", []string{"runner/backend", "runner/reasoning", "runner/chattemplate/"}},
	{"runner/bench", []string{"runner/backend", "runner/bench/machine", "runner/models/roofline"}},
	{"runner/bench/machine", []string{"runner/models/roofline"}},
	{"runner/bench/results", []string{"runner/bench"}},
	{"runner/conformance", []string{"runner/testenv"}},
	{"runner/testenv", nil},
	{"runner/grammar", []string{"runner/backend", "runner/grammar/"}},
	{"runner/grammar/suitetest", []string{"runner/conformance"}},
	{"runner/models", []string{"runner/backend", "runner/backend/gguf", "runner/backend/safetensors", "runner/models",
		"runner/models/"}},
	{"runner/models/catalog", nil},
	{"runner/models/cache", []string{"runner/models/catalog"}},
	{"runner/reasoning", []string{"runner/backend", "runner/reasoning", "runner/reasoning/"}},
	{"runner/generation/delegation", []string{"runner/chattemplate", "runner/grammar"}},
	{"runner/generation/slots", nil},
	{"runner/reasoning/trace", []string{"runner/reasoning", "runner/reasoning/internal/", "runner/reasoning/seal",
		"runner/reasoning/trace", "runner/reasoning/trace/"}},
	{"runner/reasoning/decision", []string{"runner/reasoning"}},
	{"runner/generation", []string{"runner/backend", "runner/chattemplate", "runner/grammar", "runner/reasoning",
		"runner/generation/delegation"}},
	{"runner/runner", []string{"runner/generation", "runner/generation/", "runner/backend", "runner/chattemplate",
		"runner/chattemplate/families", "runner/chattemplate/family", "runner/chattemplate/hold",
		"runner/chattemplate/reader", "runner/grammar", "runner/reasoning", "runner/reasoning/", "runner/models",
		"runner/models/", "runner/runner/drafts"}},
	{"runner/runner/delegate", []string{"runner/generation", "runner/generation/delegation", "runner/chattemplate",
		"runner/grammar", "runner/reasoning"}},
	{"runner/runner/drafts", []string{"runner/backend"}},
	{"runner/runner/tracing", []string{"runner/generation", "runner/chattemplate", "runner/grammar", "runner/reasoning",
		"runner/reasoning/decision", "runner/reasoning/trace", "runner/reasoning/trace/store"}},
	// The server knows no engine and no runner: it speaks to the interfaces of package wire.
	{"runner/server", []string{"runner/generation", "runner/generation/", "runner/reasoning", "runner/reasoning/",
		"runner/chattemplate", "runner/grammar", "runner/server/"}},
	{"runner/server/wire", []string{"runner/generation", "runner/reasoning", "runner/reasoning/seal",
		"runner/chattemplate"}},
	{"runner/server/internal", []string{"runner/generation", "runner/generation/", "runner/reasoning",
		"runner/reasoning/seal", "runner/chattemplate", "runner/grammar", "runner/grammar/", "runner/server/wire"}},
	{"runner/server/web/markdown", nil},
	{"runner/server/pool", []string{"runner/generation", "runner/server/wire"}},
	{"runner/server/wiretest", []string{"runner/backend/", "runner/chattemplate", "runner/generation", "runner/runner",
		"runner/runner/delegate", "runner/reasoning", "runner/reasoning/", "runner/server/wire"}},
	{"runner/cmd", []string{"runner/"}},
	// This is the rule of the packages that add a room to the program; [ruleOf] finds them by their names.
	{rooms, []string{"runner/"}},
	{"runner/cmd/runner/cli", []string{"runner/backend", "runner/backend/remote", "runner/backend/remote/dialect",
		"runner/backend/remote/web",
		"runner/chattemplate", "runner/chattemplate/family", "runner/grammar", "runner/reasoning",
		"runner/reasoning/decision", "runner/reasoning/prompts", "runner/reasoning/seal", "runner/reasoning/trace",
		"runner/reasoning/trace/keys", "runner/generation", "runner/generation/slots", "runner/runner", "runner/models",
		"runner/models/", "runner/server", "runner/server/keys", "runner/server/pool", "runner/server/wire",
		"runner/cmd/runner/conversation", "runner/cmd/runner/flags", "runner/cmd/runner/help",
		"runner/cmd/runner/lineeditor", "runner/cmd/runner/render", "runner/cmd/runner/settings"}},
	{"runner/cmd/runner/conversation", []string{"runner/chattemplate", "runner/reasoning/trace"}},
	{"runner/cmd/runner/lineeditor", []string{"runner/cmd/runner/render"}},
	{"runner/cmd/runner/flags", nil},
	{"runner/cmd/runner/help", []string{"runner/cmd/runner/flags", "runner/cmd/runner/render"}},
	{"runner/cmd/runner/settings", []string{"runner/cmd/runner/flags"}},
	{"runner/cmd/runner/transcript", nil},
	{"runner/cmd/runner/render", []string{"runner/generation", "runner/reasoning", "runner/reasoning/decision",
		"runner/server/wire"}},
	{"runner/scripts", []string{"runner/"}},
}

// rooms is the package that lists the rooms of the program. Nothing else imports the packages called room.
const rooms = "runner/cmd/runner/rooms"

// ruleOf returns the index in rules of the rule for a package, or -1.
func ruleOf(path string) int {
	if strings.HasSuffix(path, "/room") {
		path = rooms
	}
	best := -1
	for i, r := range rules {
		if matches(r.prefix, path) && (best < 0 || len(r.prefix) > len(rules[best].prefix)) {
			best = i
		}
	}
	return best
}

// everywhere lists the packages that every other one may import.
var everywhere = []string{"runner/hint", "runner/wholefile"}

// engineOwner is the only package that may import the engine's C++ packages and use cgo, together with the packages in
// its folder.
const engineOwner = "runner/backend/llamacpp"

type pkg struct {
	ImportPath string
	Doc        string
	Dir        string
	Imports    []string
	CgoFiles   []string
	GoFiles    []string
	// TestImports are the imports of the tests in the package, and XTestImports those of the tests beside it.
	TestImports, XTestImports []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	const fields = "ImportPath,Doc,Dir,Imports,CgoFiles,GoFiles,TestImports,XTestImports"
	out, err := exec.Command("go", "list", "-json="+fields, "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles)+len(p.CgoFiles) > 0 {
			pkgs = append(pkgs, p)
		}
	}
	if len(pkgs) < 5 {
		t.Fatalf("go list found %d packages", len(pkgs))
	}
	return pkgs
}

func matches(pattern, path string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(path, pattern)
	}
	return path == pattern || strings.HasPrefix(path, pattern+"/")
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		best := ruleOf(p.ImportPath)
		if best < 0 {
			t.Errorf("%s: no rule covers this package", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, "runner/") || slices.Contains(everywhere, imp) {
				continue
			}
			if strings.HasSuffix(imp, "/room") && p.ImportPath != rooms {
				t.Errorf("%s imports %s, which only %s may", p.ImportPath, imp, rooms)
			}
			allowed := false
			for _, m := range rules[best].may {
				allowed = allowed || imp == m || strings.HasSuffix(m, "/") && strings.HasPrefix(imp, m)
			}
			if !allowed {
				t.Errorf("%s imports %s, which the rule for %s does not allow", p.ImportPath, imp, rules[best].prefix)
			}
		}
	}
}

func TestEngineStaysInItsRoom(t *testing.T) {
	for _, p := range packages(t) {
		if matches(engineOwner, p.ImportPath) {
			continue
		}
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s uses cgo", p.ImportPath)
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "github.com/ollama/") {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
			if matches(engineOwner, imp) && !strings.HasPrefix(p.ImportPath, "runner/cmd/") && !strings.HasPrefix(p.ImportPath,
				"runner/scripts/") {
				t.Errorf("%s imports %s; only commands may import a backend", p.ImportPath, imp)
			}
		}
	}
}

// TestServerTestsNeedNoRunner checks that the tests of these packages get their models from package wiretest.
func TestServerTestsNeedNoRunner(t *testing.T) {
	rooms := []string{"runner/server/agui", "runner/server/anthropic", "runner/server/internal/contract",
		"runner/server/keys", "runner/server/ollama", "runner/server/openai", "runner/server/pool",
		"runner/server/traces", "runner/server/web", "runner/server/wire"}
	for _, p := range packages(t) {
		if slices.Contains(rooms, p.ImportPath) && slices.Contains(append(p.TestImports, p.XTestImports...),
			"runner/runner") {
			t.Errorf("tests of %s import the runner", p.ImportPath)
		}
	}
}

// family finds the words and marks of families of models: their names, their packages, and what they write.
var family = regexp.MustCompile(`(?i)harmony|gpt-?oss|qwen|granite|mistral|hermes|<\||</?think|\[/?think\]|` +
	`tool_call>|\[TOOL_CALLS|"analysis"|"python"|chattemplate/(?:channels|tags)`)

// TestNobodyNamesAFamily checks that what a family of models does is known in its folder alone. Whoever runs a model,
// keeps its reasoning or serves it asks package family, and so do the rooms that families share.
func TestNobodyNamesAFamily(t *testing.T) {
	rooms := []string{"runner/runner", "runner/reasoning", "runner/generation", "runner/server", "runner/grammar",
		"runner/chattemplate/hold", "runner/chattemplate/parameters"}
	for _, p := range packages(t) {
		in := func(room string) bool { return p.ImportPath == room || strings.HasPrefix(p.ImportPath, room+"/") }
		if !slices.ContainsFunc(rooms, in) || slices.Contains(forTests, p.ImportPath) {
			continue
		}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				word := family.FindString(line)
				// Reactive Agents have steps of this type in plans.
				if p.ImportPath == "runner/reasoning/decision" && name == "plan.go" && word == `"analysis"` {
					continue
				}
				if word != "" {
					t.Errorf("%s/%s:%d names a family: %q", p.ImportPath, name, i+1, word)
				}
			}
		}
	}
}

// TestNoFamilyImportsAnother checks that only package families, which lists the families, and tests import a family.
func TestNoFamilyImportsAnother(t *testing.T) {
	const room, list = "runner/chattemplate/", "runner/chattemplate/families"
	all := packages(t)
	var families []string
	for _, p := range all {
		if strings.HasPrefix(p.ImportPath, room) && p.ImportPath != list && slices.Contains(p.Imports, room+"family") &&
			!slices.Contains(forTests, p.ImportPath) {
			families = append(families, p.ImportPath)
		}
	}
	if len(families) < 2 {
		t.Fatalf("found only the families %q", families)
	}
	for _, p := range all {
		for _, imp := range p.Imports {
			if slices.Contains(families, imp) && p.ImportPath != list && !slices.Contains(forTests, p.ImportPath) {
				t.Errorf("%s imports the family %s", p.ImportPath, imp)
			}
		}
	}
}

// forTests lists packages that only tests and each other may import.
var forTests = []string{
	"runner/backend/backendtest", "runner/backend/fake", "runner/backend/llamacpp/kernels/kernelstest",
	"runner/backend/remote/llamaserver/llamaservertest",
	"runner/backend/remote/realtest", "runner/backend/remote/remotetest", "runner/backend/remote/standin",
	"runner/backend/tokenizer/o200ktest", "runner/backend/tokenizer/texttest",
	"runner/conformance", "runner/chattemplate/readertest", "runner/chattemplate/vocabtest",
	"runner/grammar/suitetest",
	"runner/models/hub/hubtest", "runner/models/random/randomtest", "runner/models/random/widentest",
	"runner/cmd/runner/clients/browser/site", "runner/cmd/runner/scripttest", "runner/cmd/runner/transcript",
	"runner/server/wiretest", "runner/testenv",
}

func TestTestPackagesStayInTests(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(forTests, p.ImportPath) {
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains(forTests, imp) || imp == "testing" {
				t.Errorf("%s imports %s, which is for tests", p.ImportPath, imp)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}
