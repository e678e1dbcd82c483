package wholefile

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that is written twice holds the second content, for its owner alone if so asked, and nothing is left beside
// it.
func TestWrite(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	path := filepath.Join(folder, "file")
	for _, text := range []string{"first", "second"} {
		if err := Write(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); string(got) != text || err != nil {
			t.Errorf("it holds %q, %v", got, err)
		}
	}
	for at, want := range map[string]os.FileMode{path: 0o600, folder: 0o700} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", at, info.Mode(), err)
		}
	}
	if err := Write(folder, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	for _, dir := range []string{folder, filepath.Dir(folder)} {
		if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}
