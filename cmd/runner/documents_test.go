//go:build unix

package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"runner/cmd/runner/transcript"
)

var update = flag.Bool("update", false, "put what the commands of the documents print now into them")

// TestDocuments runs the commands in documents and checks that the documents show the real output.
func TestDocuments(t *testing.T) {
	for name, tools := range map[string][]string{"README.md": nil, "docs/server.md": {"curl", "jq"},
		"docs/tour.md": {"curl", "jq"}} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			for _, tool := range tools {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("the commands of %s need %s: %v", name, tool, err)
				}
			}
			path := filepath.Join("..", "..", name)
			doc, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			now, err := transcript.Renew(string(doc), home(t), dayVariable+"=2026-01-02")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch {
			case now == string(doc):
			case *update:
				if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s does not show what its commands print; make tour renews it\n%s", name,
					diff.Diff(name, doc, "now", []byte(now)))
			}
		})
	}
}

// home makes a home folder that has the program as bin/runner, like the repository after make.
func home(t *testing.T) string {
	dir := t.TempDir()
	program, err := exec.LookPath("runner")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "bin", "runner")); err != nil {
		t.Fatal(err)
	}
	return dir
}
