//go:build unix

package main

import (
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"runner/backend/remote/llamaserver/llamaservertest"
	"runner/cmd/runner/terminalpicture"
	"runner/cmd/runner/transcript"
)

var update = flag.Bool("update", false, "put what the commands of the documents print now into them")

// longTranscript is the transcript with every flag, route and field. It is too long to read.
const longTranscript = "cmd/runner/testdata/everything.md"

// enginePort is the port at which documents have a llama-server with the bundled model.
const enginePort = "8000"

// TestDocuments runs the commands in documents and checks that the documents show the real output.
func TestDocuments(t *testing.T) {
	root := filepath.Join("..", "..")
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d documents, %v", len(paths), err)
	}
	ran := 0
	for _, path := range append(paths, filepath.Join(root, "README.md"), filepath.Join(root, longTranscript)) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		doc := string(b)
		if !strings.Contains(doc, "\n```console\n") {
			continue
		}
		ran++
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			for _, tool := range []string{"curl", "jq"} {
				if _, err := exec.LookPath(tool); err != nil && strings.Contains(doc, tool+" ") {
					t.Skipf("the commands of %s need %s: %v", path, tool, err)
				}
			}
			var ports map[string]string
			if strings.Contains(doc, ":"+enginePort) && !llamaservertest.Installed() {
				doc = withoutEngine(doc)
				if !strings.Contains(doc, "\n```console\n") {
					llamaservertest.Python(t) // it says how to get one
				}
				if *update {
					t.Skip("there is no llama-server, so the document cannot be renewed")
				}
				t.Log("there is no llama-server; blocks that need one are left out")
			}
			if strings.Contains(doc, ":"+enginePort) {
				at, err := url.Parse(llamaServer(t, 4).URL)
				if err != nil {
					t.Fatal(err)
				}
				ports = map[string]string{enginePort: at.Port()}
			}
			now, err := transcript.Renew(doc, home(t), ports, dayVariable+"=2026-01-02")
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			switch {
			case now == doc:
			case *update:
				if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s does not show what its commands print; make tour renews it\n%s", path,
					diff.Diff(path, []byte(doc), "now", []byte(now)))
			}
		})
	}
	if ran < 8 {
		t.Errorf("only %d documents have commands", ran)
	}
}

// withoutEngine returns a document without the blocks of commands that need an engine.
func withoutEngine(doc string) string {
	var out strings.Builder
	for i, part := range strings.Split(doc, "\n```console\n") {
		block, rest, ok := strings.Cut(part, "\n```\n")
		switch {
		case i == 0:
			out.WriteString(part)
		case ok && strings.Contains(block, ":"+enginePort):
			out.WriteString("\n" + rest)
		default:
			out.WriteString("\n```console\n" + part)
		}
	}
	return out.String()
}

// Without an engine the other commands of a document still run.
func TestDocumentsWithoutAnEngine(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "tour.md"))
	if err != nil {
		t.Fatal(err)
	}
	const block = "\n```console\n"
	doc := string(b)
	left := withoutEngine(doc)
	if n, all := strings.Count(left, block), strings.Count(doc, block); n != all-1 || n < 6 ||
		strings.Contains(left, ":"+enginePort) || !strings.Contains(left, "## Keep a trace") ||
		strings.Count(left, "\n```\n") != strings.Count(doc, "\n```\n")-1 {
		t.Errorf("%d of %d blocks are left:\n%s", n, all, left)
	}
}

// TestTerminalPicture checks that the picture of the terminal in README.md shows the real program.
func TestTerminalPicture(t *testing.T) {
	dir := home(t)
	env := []string{"HOME=" + dir, "LC_ALL=C.UTF-8", "CUDA_VISIBLE_DEVICES=", dayVariable + "=2026-01-02"}
	for _, name := range []string{"PATH", "TMPDIR", "LD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	now, err := terminalpicture.Draw([]string{
		`runner run --temperature 0 --reasoning full "What is 347 + 85?"`,
		`runner run --temperature 0 --reasoning summary "What is 532 - 187?"`,
		`runner run --temperature 0 --choice Yes,No "Is 408 larger than 480?"`,
	}, env)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "terminal.svg")
	doc, err := os.ReadFile(path)
	switch {
	case err == nil && now == string(doc):
	case *update:
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not show what the program prints (%v); make tour renews it\n%s", path, err,
			diff.Diff(path, doc, "now", []byte(now)))
	}
}

// home makes a home folder that has the program as bin/runner and the results of benchmarks, like the repository after
// make.
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
	results, err := filepath.Abs(filepath.Join("..", "..", "docs", "benchmarks"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(results, filepath.Join(dir, "docs", "benchmarks")); err != nil {
		t.Fatal(err)
	}
	return dir
}
