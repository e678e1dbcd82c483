package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The bars of two files have letters. What cannot be read draws nothing.
func TestDraw(t *testing.T) {
	dir := t.TempDir()
	path := func(name, text string) string {
		whole := filepath.Join(dir, name)
		if err := os.WriteFile(whole, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return whole
	}
	before := path("before.json", `[{"n_prompt": 4, "samples_ts": [2, 3], "subject": "one"}]`)
	after := path("after.json", `{"n_prompt": 4, "samples_ts": [4, 5], "subject": "one"}`)
	var b strings.Builder
	if err := draw(&b, []string{before, after}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "A: one", "B: one", "pp4"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture has no %q", want)
		}
	}
	for _, paths := range [][]string{nil, {before, path("broken.json", "{")}, {filepath.Join(dir, "absent")}} {
		var b strings.Builder
		if err := draw(&b, paths); err == nil || b.Len() > 0 {
			t.Errorf("%q: %v, and %d bytes are drawn", paths, err, b.Len())
		}
	}
}
