// Package conformance finds the field's reference data for tests: chat templates with their expected renderings, and
// harmony's reference files. The data lies beside the repository and is not part of it. Only tests import this package.
package conformance

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir returns the folder of reference data with that name, or skips the test if it is missing.
func Dir(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	dir = filepath.Join(dir, "..", "shared", "conformance", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the reference data is not beside the repository")
	}
	return dir
}
