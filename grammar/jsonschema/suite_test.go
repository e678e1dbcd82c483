package jsonschema

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/grammar/suitetest"
)

var update = flag.Bool("update", false, "write the lists of what is refused anew")

// ratchet compares the findings of a test with the list in a file, in both directions.
func ratchet(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	slices.Sort(lines)
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Split(strings.TrimSpace(string(want)), "\n")
	for _, line := range lines {
		if !slices.Contains(old, line) {
			t.Errorf("worse than %s says: %s", path, line)
		}
	}
	for _, line := range old {
		if !slices.Contains(lines, line) {
			t.Errorf("%s is out of date; no longer so: %s", path, line)
		}
	}
}

func compileForTest(t testing.TB, schema []byte) (*Schema, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Compile(ctx, schema, Options{})
	if e := new(Error); err != nil && (!errors.As(err, &e) || e.Hint() == "") {
		t.Errorf("not an error of this package: %v", err)
		return nil, &Error{Class: ErrLimit, Reason: err.Error()}
	}
	return s, err
}

// TestSuite runs the official test suite.
func TestSuite(t *testing.T) {
	var lines []string
	list := suitetest.Official(t)
	refused, tests := 0, 0
	for _, group := range list {
		s, err := compileForTest(t, group.Schema)
		if err != nil {
			valid := slices.ContainsFunc(group.Instances, func(i suitetest.Instance) bool { return i.Valid })
			e := new(Error)
			errors.As(err, &e)
			if e.Class == ErrUnsatisfiable && !valid {
				continue
			}
			refused++
			lines = append(lines, fmt.Sprintf("refused %s %s | %s", e.Class, e.Keyword, group.Name))
			continue
		}
		for _, test := range group.Instances {
			tests++
			j := newJudge(s)
			v := instance(t, test.Data)
			arranged, accepted := j.arrange(v)
			if accepted != j.accepts(arranged) {
				t.Errorf("%s | %s: compact and spaced differ", group.Name, test.Name)
			}
			switch {
			case accepted && !test.Valid:
				t.Errorf("invalid but accepted: %s | %s", group.Name, test.Name)
			case !accepted && test.Valid:
				lines = append(lines, fmt.Sprintf("stricter %s | %s", group.Name, test.Name))
			}
		}
	}
	t.Logf("%d schemas, %d refused, %d instances of the others", len(list), refused, tests)
	ratchet(t, "suite.txt", lines)
}
