// Package conformance finds the field's reference data for tests: chat templates with their expected renderings, and
// harmony's reference files. The data lies beside the repository and is not part of it. Only tests import this package.
package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"runner/testenv"
)

// Dir returns the folder of reference data with that name. It skips the test if there is no reference data at all.
func Dir(t testing.TB, name string) string {
	t.Helper()
	all := filepath.Join(testenv.Root(t), "..", "shared", "conformance")
	if _, err := os.Stat(all); err != nil {
		t.Skip("the reference data, ../shared/conformance, is not there: ", err)
	}
	dir := filepath.Join(all, name)
	if _, err := os.Stat(dir); err != nil {
		t.Fatal("the reference data is not complete: ", err)
	}
	return dir
}
