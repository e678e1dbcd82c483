package rules_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// documents returns the texts of the documents that people write, by their paths.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("docs/*.md")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d documents, %v", len(paths), err)
	}
	texts := map[string]string{}
	for _, path := range append(paths, "README.md", "CHANGELOG.md", "models/demo/README.md",
		"cmd/runner/clients/README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

// Documents avoid phrases that readers had to read twice, and speak of the program: nobody knows who "we" is.
func TestPlainPhrases(t *testing.T) {
	first := regexp.MustCompile(`\b[Ww]e\b|\b[Oo]ur\b`)
	for path, text := range documents(t) {
		text = strings.Join(strings.Fields(text), " ")
		if at := first.FindStringIndex(text); at != nil {
			t.Errorf("%s speaks in the first person: %q", path, text[max(at[0]-40, 0):min(at[1]+40, len(text))])
		}
		for phrase, instead := range map[string]string{
			"most reasoning tokens": "maximum number of reasoning tokens", "the answer to a JSON Schema": "makes it match one",
			"the answer to its form": "makes it match", "the engine sees": "finds on the machine", "loaded anew": "loaded again",
			"begins it anew": "begins it again", "Who waits for whom": "Concurrency and queueing",
		} {
			if strings.Contains(text, phrase) {
				t.Errorf("%s says %q; say %q", path, phrase, instead)
			}
		}
	}
}

// Prose has lines of at most 120 columns, which people can read and compare. Tables, comments and what is shown as code
// may be longer.
func TestProseFitsTheScreen(t *testing.T) {
	for path, text := range documents(t) {
		shown := false
		number := 0
		for line := range strings.Lines(text) {
			number++
			line = strings.TrimRight(line, "\n")
			begin := strings.TrimSpace(line)
			if strings.HasPrefix(begin, "```") {
				shown = !shown
			}
			if !shown && utf8.RuneCountInString(line) > 120 && strings.IndexAny(begin, "|<`") != 0 {
				t.Errorf("%s:%d has %d characters", path, number, utf8.RuneCountInString(line))
			}
		}
	}
}

// Scripts have lines of at most 120 columns, like all other code.
func TestScriptsFitTheScreen(t *testing.T) {
	paths, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d scripts, %v", len(paths), err)
	}
	for _, path := range append(paths, "cmd/runner/clients/test.sh") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if n := utf8.RuneCountInString(line); n > 120 {
				t.Errorf("%s:%d has %d characters", path, i+1, n)
			}
		}
	}
}

// anchors returns the names by which links reach the headings of a document.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	other := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		names[strings.ReplaceAll(other.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return names
}

// Links within the project lead to files and headings that exist.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	texts := documents(t)
	links := 0
	for from, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, heading, _ := strings.Cut(m[1], "#")
			to := filepath.ToSlash(from)
			if file != "" {
				to = path.Join(path.Dir(to), file)
			}
			there, err := os.ReadFile(filepath.FromSlash(to))
			if info, statErr := os.Stat(filepath.FromSlash(to)); err != nil && (statErr != nil || !info.IsDir()) {
				t.Errorf("%s: %v", from, err)
				continue
			}
			if heading != "" && !anchors(string(there))[heading] {
				t.Errorf("%s: %s has no heading %q", from, to, heading)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// Every page of docs can be reached from README.md.
func TestREADMEListsEveryPage(t *testing.T) {
	texts := documents(t)
	for page := range texts {
		if name := filepath.ToSlash(page); name != "README.md" && !strings.Contains(texts["README.md"], "]("+name+")") {
			t.Errorf("README.md has no link to %s", name)
		}
	}
}

// The codes by which a reader finds a problem are codes of the program.
func TestTroubleshootingNamesRealCodes(t *testing.T) {
	var source strings.Builder
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(b)
		}
	}
	code := regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)`")
	found := code.FindAllStringSubmatch(documents(t)[filepath.Join("docs", "troubleshooting.md")], -1)
	for _, m := range found {
		if !strings.Contains(source.String(), `"`+m[1]) {
			t.Errorf("the program has no code %s", m[1])
		}
	}
	if len(found) < 10 {
		t.Errorf("only %d codes were found", len(found))
	}
}

// The tour is for a person with ten minutes.
func TestTheTourIsShort(t *testing.T) {
	tour := documents(t)[filepath.Join("docs", "tour.md")]
	if lines := strings.Count(tour, "\n"); lines < 50 || lines > 150 {
		t.Errorf("the tour has %d lines, want 150 at most", lines)
	}
}

// TestDocumentsAreShort keeps documents readable as a whole. Whoever adds a passage takes away one that is needed less.
func TestDocumentsAreShort(t *testing.T) {
	most := map[string]int{"docs/benchmarks.md": 200, "docs/decisions.md": 450}
	all := 0
	for path, text := range documents(t) {
		lines := strings.Count(text, "\n")
		if all += lines; most[path] > 0 && lines > most[path] {
			t.Errorf("%s has %d lines; at most %d fit", path, lines, most[path])
		}
	}
	if all > 4800 {
		t.Errorf("all documents together have %d lines; at most 4800 fit", all)
	}
}
