package wiretest

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Update says that golden files are to be written again: go test -update.
var Update = flag.Bool("update", false, "write the golden files again")

// Golden compares a result with a file, line by line. Lines that are JSON, such as the data of frames, are compared as
// values, because the order of their fields means nothing. With [Update] it writes the file first.
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
	if !slices.EqualFunc(strings.Split(got, "\n"), strings.Split(string(want), "\n"), same) {
		t.Errorf("%s differs:\n%s", path, got)
	}
}

// same reports whether two lines are equal, or the same JSON.
func same(a, b string) bool {
	if a == b {
		return true
	}
	var x, y any
	a, framed := strings.CutPrefix(a, "data: ")
	b, both := strings.CutPrefix(b, "data: ")
	return framed == both && json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil &&
		reflect.DeepEqual(x, y)
}
