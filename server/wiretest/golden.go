package wiretest

import (
	"flag"
	"os"
	"testing"
)

// Update says that golden files are to be written again: go test -update.
var Update = flag.Bool("update", false, "write the golden files anew")

// Golden compares a result with a file. With [Update] it writes the file first.
func Golden(t testing.TB, path, got string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s", path, got)
	}
}
