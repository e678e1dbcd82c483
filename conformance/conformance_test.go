package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// ending is a test that notes how it ended.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper() {}

func (e *ending) Skip(args ...any) {
	e.how = "skipped: " + fmt.Sprint(args...)
	runtime.Goexit()
}

func (e *ending) Fatal(args ...any) {
	e.how = "failed: " + fmt.Sprint(args...)
	runtime.Goexit()
}

// TestIncompleteDataFails: a test is skipped where there is no reference data, and fails where only its own is missing.
func TestIncompleteDataFails(t *testing.T) {
	root := t.TempDir()
	module := filepath.Join(root, "module")
	if err := os.Mkdir(module, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(module, "go.mod"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(module)
	for _, c := range []struct{ made, how string }{
		{"", "skipped"}, {"shared/conformance", "failed"}, {"shared/conformance/harmony", ""},
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.FromSlash(c.made)), 0o755); err != nil {
			t.Fatal(err)
		}
		e := &ending{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Dir(e, "harmony")
		}()
		<-done
		if how := e.how; len(how) < len(c.how) || how[:len(c.how)] != c.how || c.how == "" && how != "" {
			t.Errorf("with the folder %q: %q, want %q", c.made, how, c.how)
		}
	}
}
