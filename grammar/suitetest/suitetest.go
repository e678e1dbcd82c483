// Package suitetest reads collections of JSON Schemas with instances, for tests: the official test suite and a sample
// of schemas in use. The data is next to the repository, not part of it. Tests that need the data are skipped without
// it. Only tests import this package.
package suitetest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/conformance"
)

// Schema is a schema with instances.
type Schema struct {
	// Name is unique in its collection.
	Name      string
	Schema    json.RawMessage
	Instances []Instance
}

// Instance is a JSON value that is valid or invalid.
type Instance struct {
	// Name describes the instance. It may be empty.
	Name  string
	Data  json.RawMessage
	Valid bool
}

// group is a schema in the form that both collections use.
type group struct {
	Name        string
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func (g *group) schema(name string) Schema {
	s := Schema{Name: name, Schema: g.Schema}
	for _, test := range g.Tests {
		s.Instances = append(s.Instances, Instance{test.Description, test.Data, test.Valid})
	}
	return s
}

// Official reads the required part of the official test suite for draft 2020-12,
// https://github.com/json-schema-org/JSON-Schema-Test-Suite. The names are "FILE | DESCRIPTION".
func Official(t testing.TB) (list []Schema) {
	t.Helper()
	dir := filepath.Join(conformance.Dir(t, "json_schema_test_suite"), "draft2020-12")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []group
		if err := json.Unmarshal(text, &groups); err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			list = append(list, g.schema(strings.TrimSuffix(filepath.Base(file), ".json")+" | "+g.Description))
		}
	}
	return list
}

// MaskBench reads a sample of MaskBench, https://github.com/guidance-ai/jsonschemabench.
func MaskBench(t testing.TB) (list []Schema) {
	t.Helper()
	file, err := os.Open(filepath.Join(conformance.Dir(t, "maskbench"), "sample.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var g group
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		list = append(list, g.schema(g.Name))
	}
	if err := lines.Err(); err != nil || len(list) == 0 {
		t.Fatalf("%d schemas: %v", len(list), err)
	}
	return list
}
