package openapi_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quoted matches a name or a value in a table.
var quoted = regexp.MustCompile("`([^`]+)`")

// row is a row of a table about fields: the fields, and the values that it names.
type row struct{ fields, values []string }

// rows returns the rows of the first table with the columns field, values and meaning after a heading.
func rows(t *testing.T, text, heading string) (list []row) {
	t.Helper()
	_, text, found := strings.Cut(text, "\n"+heading+"\n")
	_, text, table := strings.Cut(text, "\n| field | values | meaning |\n|---|---|---|\n")
	if !found || !table {
		t.Fatalf("there is no table of fields after %q", heading)
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(line, " | ")
		var r row
		for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
			name, _, _ := strings.Cut(m[1], ":") // with a value
			r.fields = append(r.fields, name)
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			r.values = append(r.values, m[1])
		}
		list = append(list, r)
	}
	return list
}

// The tables of request fields in docs/reasoning-api.md have the fields of the document and no others, and name all of
// their values.
func TestTablesOfDocsMatchSchemas(t *testing.T) {
	d := load(t)
	text, err := os.ReadFile("../../docs/reasoning-api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []struct {
		heading, schema string
		// others are fields of the request that belong to other schemas.
		others []string
	}{
		{"## Chat completions: request", "ReasoningOptions", []string{"include", "response_schema"}},
		{"## Specialists", "DelegationOptions", nil},
	} {
		fields := d.fields(d.at("#/components/schemas/" + table.schema))
		named := map[string]bool{}
		for _, r := range rows(t, string(text), table.heading) {
			for _, name := range r.fields {
				name, part, within := strings.Cut(name, ".")
				field := fields[name]
				if within {
					field = d.fields(d.at("#/components/schemas/ReasoningObject"))[part]
				}
				if named[name] = true; field == nil && !slices.Contains(table.others, name) {
					t.Errorf("%s has a row for %s.%s, which is not a field", table.heading, name, part)
				}
				for _, value := range asList(d.resolve(field)["enum"]) {
					if !slices.Contains(r.values, value.(string)) && !within {
						t.Errorf("the row of %s does not have the value %s", name, value)
					}
				}
			}
		}
		for name := range fields {
			if !named[name] {
				t.Errorf("%s has no row for %s", table.heading, name)
			}
		}
	}
}
