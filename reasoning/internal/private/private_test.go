//go:build unix

package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	if _, err := Read(path, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
	if err := Create(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v, want fs.ErrExist", err)
	}
	if data, err := Read(path, 3); err != nil || string(data) != "one" {
		t.Errorf("%q, %v", data, err)
	}
	if err := Replace(path, []byte("three")); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 5); err != nil || string(data) != "three" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Read(path, 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	if _, err := Read(dir, 4); !errors.Is(err, ErrExposed) {
		t.Errorf("a folder: %v, want ErrExposed", err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o601, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path, 5); !errors.Is(err, ErrExposed) {
			t.Errorf("mode %o: %v, want ErrExposed", mode, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}
