package rules_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheMapIsTrue compares docs/architecture.md with the tree. The files and folders that it names exist, and no room
// is missing.
func TestTheMapIsTrue(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	path := regexp.MustCompile("`([a-z]+(?:/[A-Za-z_]+)+(?:\\.[a-z]+)?|[a-z_]+\\.go)`")
	for _, m := range path.FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil {
			t.Errorf("the map names %s: %v", m[1], err)
		}
	}
	var rooms []string
	for _, p := range packages(t) {
		if path := strings.Split(p.ImportPath, "/"); len(path) > 1 && !slices.Contains(rooms, path[1]) {
			rooms = append(rooms, path[1])
		}
	}
	for _, room := range rooms {
		if !strings.Contains(page, "`"+room+"`") && !strings.Contains(page, "`"+room+"/") {
			t.Errorf("the map does not name the room %s", room)
		}
	}
	formats, err := fs.Glob(os.DirFS("server"), "*/openapi/api.json")
	if err != nil || len(formats) < 5 {
		t.Errorf("%d formats, %v", len(formats), err)
	}
	for _, path := range formats {
		if name, _, _ := strings.Cut(path, "/"); !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the map does not name the format %s", name)
		}
	}
	_, table, _ := strings.Cut(page, "## Where to go for a change")
	if rows := strings.Count(table, "\n| ") - 1; rows < 10 {
		t.Errorf("the map has %d changes, want 10 or more", rows)
	}
}
