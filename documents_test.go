package rules_test

import (
	"os"
	"path/filepath"
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
	for _, path := range append(paths, "README.md") {
		if path == filepath.Join("docs", "tour.md") {
			continue // it shows what the program prints
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

// Documents avoid phrases that readers had to read twice.
func TestPlainPhrases(t *testing.T) {
	for path, text := range documents(t) {
		text = strings.Join(strings.Fields(text), " ")
		for phrase, instead := range map[string]string{
			"most reasoning tokens": "maximum number of reasoning tokens", "the answer to a JSON Schema": "makes it match one",
			"the answer to its form": "makes it match", "the engine sees": "finds on the machine", "loaded anew": "loaded again",
			"begins it anew": "begins it again",
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
