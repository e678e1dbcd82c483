package jsonschema

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/chattemplate/conformance"
)

var update = flag.Bool("update", false, "write the lists of what is refused anew")

// ratchet compares what a test found with the list in a file, in both directions.
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

// TestSuite runs the required part of the official test suite, https://github.com/json-schema-org/JSON-Schema-Test-Suite.
func TestSuite(t *testing.T) {
	dir := conformance.Dir(t, "json_schema_test_suite")
	files, err := filepath.Glob(filepath.Join(dir, "draft2020-12", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	var lines []string
	groups, refused, tests := 0, 0, 0
	for _, file := range files {
		var list []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for _, group := range list {
			name := strings.TrimSuffix(filepath.Base(file), ".json") + " | " + group.Description
			groups++
			s, err := compileForTest(t, group.Schema)
			if err != nil {
				valid := false
				for _, test := range group.Tests {
					valid = valid || test.Valid
				}
				e := new(Error)
				errors.As(err, &e)
				if e.Class == ErrUnsatisfiable && !valid {
					continue
				}
				refused++
				lines = append(lines, fmt.Sprintf("refused %s %s | %s", e.Class, e.Keyword, name))
				continue
			}
			for _, test := range group.Tests {
				tests++
				j := newJudge(s)
				v := instance(t, test.Data)
				arranged, accepted := j.arrange(v)
				if accepted != j.accepts(arranged) {
					t.Errorf("%s | %s: compact and spaced differ", name, test.Description)
				}
				switch {
				case accepted && !test.Valid:
					t.Errorf("invalid but accepted: %s | %s", name, test.Description)
				case !accepted && test.Valid:
					lines = append(lines, fmt.Sprintf("stricter %s | %s", name, test.Description))
				}
			}
		}
	}
	t.Logf("%d schemas, %d refused, %d instances of the others", groups, refused, tests)
	ratchet(t, "suite.txt", lines)
}
