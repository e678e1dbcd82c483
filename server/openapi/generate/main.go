// Command generate writes the schemas of requests and answers into spec/generated.json. It reads the Go types that
// requests are decoded into and answers are encoded from.
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
	"fmt"
	"os"
	"strings"
)

func main() {
	text, err := generate("..")
	if err == nil {
		err = os.WriteFile("spec/generated.json", text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate returns the schemas of the packages below a folder: a JSON object with one line for each schema.
func generate(folder string) ([]byte, error) {
	s, err := load(folder)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, d := range s.named() {
		schema, err := d.schema()
		if err != nil {
			return nil, err
		}
		line := fmt.Sprintf("    %q: %s", d.as, encode(schema))
		if last := len(lines) - 1; last < 0 || lines[last] != line {
			lines = append(lines, line)
		}
	}
	return []byte("{\n  \"schemas\": {\n" + strings.Join(lines, ",\n") + "\n  }\n}\n"), nil
}

// encode returns the JSON of a schema.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // schemas consist of maps, lists, texts and numbers
	return bytes.TrimSpace(b.Bytes())
}
