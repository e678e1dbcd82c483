package harmony_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"runner/chattemplate/channels/harmony"
	"runner/chattemplate/vocabtest"
)

// TestTypes checks schemas that the reference files do not cover. The expected texts follow the rules of the format's
// reference renderer.
func TestTypes(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"no parameters", ``, `() => any`},
		{"null", `null`, `() => any`},
		{"no properties", `{"type":"object","properties":{}}`, `() => any`},
		{"key order",
			`{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"boolean"},"m":{"type":"null"}},` +
				`"required":["m","z"]}`,
			"(_: {\nz: number,\na?: boolean,\nm: any,\n}) => any"},
		{"arrays",
			`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"array","items":{"type":"array",` +
				`"items":{"type":"number"}}}}}`,
			"(_: {\na?: Array<any>,\nb?: number[][],\n}) => any"},
		{"type list", `{"type":"object","properties":{"a":{"type":["integer","string","null"]}}}`,
			"(_: {\na?: number | string | null,\n}) => any"},
		{"nullable",
			`{"type":"object","properties":{"a":{"type":"number","nullable":true},"b":{"type":["string","null"],` +
				`"nullable":true}}}`,
			"(_: {\na?: number | null,\nb?: string | null,\n}) => any"},
		{"defaults",
			`{"type":"object","properties":{"a":{"type":"string","default":"x"},"b":{"type":"number","default":-1},` +
				`"c":{"type":"object","default":{"k": [1, "<"]}}}}`,
			"(_: {\na?: string, // default: \"x\"\nb?: number, // default: -1\nc?: {\n    }, // default: " +
				"{\"k\":[1,\"<\"]}\n}) => any"},
		{"nested object",
			`{"type":"object","properties":{"p":{"type":"object","description":"place","properties":{"x":{"type":"number",` +
				`"description":"east"}},"required":["x"]}}}`,
			"(_: {\n// place\np?:     // place\n{\n    // east\n    x: number,\n    },\n}) => any"},
		{"array of objects",
			`{"type":"object","properties":{"p":{"type":"array","items":{"type":"object",` +
				`"properties":{"x":{"type":"string"}}}}}}`,
			"(_: {\np?: {\n    x?: string,\n    }[],\n}) => any"},
		{"oneOf with the description of its first variant",
			`{"type":"object","properties":{"u":{"description":"d","oneOf":[{"type":"string","description":"d"},` +
				`{"type":"string","enum":["a"],"default":"a","description":"e"}]}}}`,
			"(_: {\nu?:\n | string\n | \"a\" // e default: a\n,\n}) => any"},
		{"oneOf in items",
			`{"type":"object","properties":{"u":{"type":"array","items":{"oneOf":[{"type":"string"},` +
				`{"type":"number","nullable":true}]}}}}`,
			"(_: {\nu?: \n     | string\n     | number | null[],\n}) => any"},
		{"unknown keywords", `{"type":"object","properties":{"u":{"$ref":"#/x"},"v":true}}`,
			"(_: {\nu?: any,\nv?: any,\n}) => any"},
		{"repeated key",
			`{"type":"object","properties":{"u":{"type":"string"},"v":{"type":"number"},"u":{"type":"boolean"}}}`,
			"(_: {\nu?: boolean,\nv?: number,\n}) => any"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := harmony.Developer{Functions: []harmony.Function{{Name: "f", Description: "one\ntwo",
				Parameters: json.RawMessage(tt.schema)}}}.Text()
			if err != nil {
				t.Fatal(err)
			}
			want := "# Tools\n\n## functions\n\nnamespace functions {\n\n// one\n// two\ntype f = " + tt.want +
				";\n\n} // namespace functions"
			if text != want {
				t.Errorf("got\n%s\nwant\n%s", text, want)
			}
		})
	}
}

func TestDefinitionLimits(t *testing.T) {
	nested := strings.Repeat(`{"type":"array","items":`, 80) + `{}` + strings.Repeat(`}`, 80)
	// With deep indentation of many lines, the rendering is much larger than the schema.
	wide := `{"type":"string","description":"` + strings.Repeat("d", 20000) + `"}`
	var many []harmony.Function
	for range 300 {
		many = append(many, harmony.Function{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{"a":` +
			wide + `}}`)})
	}
	for _, tt := range []struct {
		name      string
		functions []harmony.Function
		want      string
	}{
		{"depth", []harmony.Function{{Name: "f", Parameters: json.RawMessage(nested)}},
			"function 0: schema nests deeper than 64"},
		{"size", []harmony.Function{{Name: "f"},
			{Name: "g", Parameters: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}},
			"function 1: schema takes more than 1048576 bytes"},
		{"total", many, "definitions take more than 4194304 bytes"},
		{"syntax", []harmony.Function{{Name: "f", Parameters: json.RawMessage(`{"a":}`)}},
			"function 0: schema is not valid JSON"},
		{"UTF-8", []harmony.Function{{Name: "f", Parameters: json.RawMessage("\"\xff\"")}},
			"function 0: schema is not valid UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := harmony.Developer{Functions: tt.functions}.Text()
			var se *harmony.SchemaError
			if !errors.As(err, &se) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLookup(t *testing.T) {
	for _, name := range vocabtest.Harmony() {
		lacking := slices.DeleteFunc(vocabtest.Harmony(), func(n string) bool { return n == name })
		if _, ok := harmony.Lookup(vocabtest.New(t, lacking...)); ok {
			t.Errorf("a vocabulary without %s passes for harmony's", name)
		}
	}
}
