package child

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"runner/backend"
)

// files is a model's file, which a test says has changed. The engine reads it, or opens path if it is nil.
type files struct {
	file    *os.File
	changed atomic.Bool
}

func (f *files) Held() *os.File { return f.file }

var errTouched = errors.New("touched")

func (f *files) Unchanged() error {
	if f.changed.Load() {
		return errTouched
	}
	return nil
}

// openFrom opens the engine "marked" with files that were opened before.
func openFrom(t *testing.T, path string, f *files) (*Model, error) {
	t.Helper()
	cfg := small
	cfg.Files = f
	m, err := engine("marked").Open(t.Context(), path, cfg)
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

// TestModelKeepsTheFileItOpened replaces the file of a model by another one, which also has another name in the end. A
// process that is started again reads the first file.
func TestModelKeepsTheFileItOpened(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system opens no file by its descriptor")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model")
	f := &files{}
	err := os.WriteFile(path, []byte("first"), 0o600)
	if err == nil {
		f.file, err = os.Open(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.file.Close()
	replace := func() {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte("another"), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	replace() // between the opening and the loading
	m, err := openFrom(t, path, f)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Info(); got.Header != "first" || got.Path != path {
		t.Errorf("the process has loaded %q from %s", got.Header, got.Path)
	}
	s, _ := feed(t, m, 65)
	killed(t, m, path)
	replace()
	if _, err := push(m, s, 66); err != nil {
		t.Errorf("the process is not started again with its file: %v", err)
	}
	if n := loads(t, path); n != 2 {
		t.Errorf("the model was loaded %d times, want 2", n)
	}

	f.changed.Store(true)
	killed(t, m, path)
	if _, err := push(m, s, 67); !errors.Is(err, backend.ErrBroken) || !errors.Is(err, errChanged) ||
		!errors.Is(err, errTouched) {
		t.Errorf("error %v after the file was written to, want ErrBroken", err)
	}
}

// TestFilesThatChangeWhileTheyAreLoaded are not used: an engine that opens them by their names may have read the old
// ones, the new ones, or some of each.
func TestFilesThatChangeWhileTheyAreLoaded(t *testing.T) {
	t.Parallel()
	f := &files{}
	f.changed.Store(true)
	cfg := small
	cfg.Files = f
	_, err := engine("plain").Open(t.Context(), "model", cfg)
	var load *backend.LoadError
	if !errors.As(err, &load) || !errors.Is(err, errTouched) || load.Advice == "" {
		t.Errorf("error %v, want that the files changed", err)
	}
}
