//go:build unix

package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/reasoning/trace"
)

// TestVersion1IsRefused: testdata/v1 is a store of version 1 with four traces. It is refused by its version, for
// reading, for writing and for erasing, and its files stay as they are.
func TestVersion1IsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	copyFolder(t, "testdata/v1", dir)
	was := files(t, dir)
	_, reading := Read(dir)
	_, erasing := Open(dir, Config{})
	_, writing := Open(dir, Config{Recipients: []trace.Recipient{trace.NewIdentity().Recipient()}})
	for _, err := range []error{reading, erasing, writing} {
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "it has version 1") {
			t.Errorf("%v, want ErrDamaged with the version", err)
		}
	}
	now := files(t, dir)
	delete(now, filepath.Join(dir, lockName))
	if !equalFiles(was, now) {
		t.Error("the folder was changed")
	}
}

// TestVersion1KeyIsRefused: the signing key of version 1 next to a database of today.
func TestVersion1KeyIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	cfg := Config{Recipients: []trace.Recipient{trace.NewIdentity().Recipient()}}
	s, err := Open(dir, cfg)
	if err == nil {
		err = s.Close()
	}
	old, readErr := os.ReadFile(filepath.Join("testdata/v1", signerName))
	if err := errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, signerName), old, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, cfg); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("%v, want an error with the version", err)
	}
}
