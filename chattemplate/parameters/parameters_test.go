package parameters

import "testing"

func TestNone(t *testing.T) {
	for schema, want := range map[string]bool{
		``: true, `null`: true, ` null `: true, `{"type":"object","properties":{}}`: true,
		`{"type":"object","properties":{},"required":[],"additionalProperties":false,"$schema":"x"}`: true,
		// Where properties are not listed, or more may come, any object is allowed.
		`{}`: false, `{"type":"object"}`: false, `{"type":"object","properties":{},"additionalProperties":true}`: false,
		`{"type":"object","properties":{},"patternProperties":{"a":{}}}`: false,
		`{"type":"object","properties":{},"required":["a"]}`:             false, `{"properties":{"a":{}}}`: false, `7`: false,
	} {
		if got := None([]byte(schema)); got != want {
			t.Errorf("%s: %v", schema, got)
		}
		if want && Plain([]byte(schema)).IsZero() {
			t.Errorf("%s has no form", schema)
		}
	}
}
