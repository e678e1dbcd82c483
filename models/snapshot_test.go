package models

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSnapshots(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	put := func(t *testing.T, path, content string, when time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change           func(t *testing.T, path string)
		touched, changed bool
	}{
		"nothing":               {func(*testing.T, string) {}, false, false},
		"the time":              {func(t *testing.T, p string) { put(t, p, "weights", at.Add(time.Hour)) }, true, false},
		"the bytes":             {func(t *testing.T, p string) { put(t, p, "wEights", at.Add(time.Hour)) }, true, true},
		"the bytes in no time":  {func(t *testing.T, p string) { put(t, p, "wEights", at) }, false, true},
		"the length":            {func(t *testing.T, p string) { put(t, p, "weight", at) }, true, true},
		"another file":          {func(t *testing.T, p string) { os.Remove(p); put(t, p, "wEights", at) }, false, true},
		"another file, as good": {func(t *testing.T, p string) { os.Remove(p); put(t, p, "weights", at) }, false, false},
	} {
		for _, hashed := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				paths := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
				put(t, paths[0], "header", at)
				put(t, paths[1], "weights", at)
				s, err := Take(paths)
				if err != nil {
					t.Fatal(err)
				}
				if hashed {
					if err := s.Hash(t.Context(), true); err != nil {
						t.Fatal(err)
					}
				}
				c.change(t, paths[1])
				// its number may be used again
				if got := s.Touched(); got != c.touched && name != "another file" && name != "another file, as good" {
					t.Errorf("touched: %v", got)
				}
				for range 2 {
					// A file that changed before it was read can only be compared if nothing shows the change.
					want := c.changed && hashed || !hashed && c.touched || !hashed && errors.Is(s.Hash(t.Context(), false), ErrChanged)
					if err := s.Compare(t.Context()); errors.Is(err, ErrChanged) != want || !want && err != nil {
						t.Errorf("hashed before: %v: %v", hashed, err)
					}
				}
				put(t, paths[1], "weights", at.Add(2*time.Hour))
				if err := s.Compare(t.Context()); hashed && err != nil {
					t.Errorf("once it was put back: %v", err)
				}
			})
		}
	}
	if _, err := Take([]string{filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a file that is not there has a snapshot")
	}
}
