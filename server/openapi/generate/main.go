// Command generate writes the schemas of requests and answers. It reads the Go types that requests are decoded into and
// answers are encoded from. The schemas of a format are in generated.json in the format's folder openapi. Those of
// other types are in spec/generated.json.
//
// A line in the doc comment of a type gives it a schema, and the schema its name:
//
//	//openapi:request EmbeddingRequest
//	//openapi:answer EmbeddingList
//
// A schema without a name is written into each field of that type. If the doc comment has a second paragraph, that
// describes the schema. In a request, an embedded type with a named schema becomes a part of allOf. The fields of any
// other embedded type become fields of the schema.
//
// The comment above a field is its description, written for authors of clients. A comment at the end of its line is
// for readers of the code. The schema of a field follows from its type and its tag api, see [parseTag].
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	files, err := generate("..")
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(name, text, 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate returns the files with the schemas of the packages below a folder, by their paths. Each is a JSON object
// with one line for each schema.
func generate(folder string) (map[string][]byte, error) {
	s, err := load(folder)
	if err != nil {
		return nil, err
	}
	lines := map[string][]string{}
	for _, d := range s.named() {
		schema, err := d.schema()
		if err != nil {
			return nil, err
		}
		line, name := fmt.Sprintf("    %q: %s", d.as, encode(schema)), d.file(folder)
		if !slices.Contains(lines[name], line) { // two types may have one schema
			lines[name] = append(lines[name], line)
		}
	}
	files := map[string][]byte{}
	for name, list := range lines {
		files[name] = []byte("{\n  \"schemas\": {\n" + strings.Join(list, ",\n") + "\n  }\n}\n")
	}
	return files, nil
}

// file returns the path of the file that has the schema of a type in a package below a folder.
func (d *declared) file(folder string) string {
	own := filepath.Join(d.folder, "openapi")
	if _, err := os.Stat(filepath.Join(own, "api.json")); err != nil {
		own = filepath.Join(folder, "openapi", "spec")
	}
	return filepath.Join(own, "generated.json")
}

// encode returns the JSON of a schema.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // schemas consist of maps, lists, texts and numbers
	return bytes.TrimSpace(b.Bytes())
}
