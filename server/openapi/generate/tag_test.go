package main

import (
	"strings"
	"testing"
)

func TestTags(t *testing.T) {
	for text, want := range map[string]string{
		"string": `{"type":"string"}`,
		"string[1..8]|[..2]string[1..8]": `{"oneOf":[{"maxLength":8,"minLength":1,"type":"string"},` +
			`{"items":{"maxLength":8,"minLength":1,"type":"string"},"maxItems":2,"type":"array"}]}`,
		"integer[-1..] not=0": `{"minimum":-1,"not":{"const":0},"type":"integer"}`,
		"=low,high|null":      `{"enum":["low","high",null],"type":["string","null"]}`,
		"=,json|{}": `{"oneOf":[{"enum":["","json"],"type":"string"},` +
			`{"additionalProperties":true,"type":"object"}]}`,
		"=0":           `{"enum":[0],"type":"integer"}`,
		"=true":        `{"enum":[true],"type":"boolean"}`,
		"#Usage|null":  `{"oneOf":[{"$ref":"#/components/schemas/Usage"},{"type":"null"}]}`,
		"#Biases[..9]": `{"$ref":"#/components/schemas/Biases"}`,
		"[]number?":    `{"items":{"type":["number","null"]},"type":"array"}`,
		"[]{#Usage}": `` +
			`{"items":{"additionalProperties":{"$ref":"#/components/schemas/Usage"},"type":"object"},"type":"array"}`,
		"{number[0..1]}[..9]": `{"additionalProperties":{"maximum":1,"minimum":0,` +
			`"type":"number"},"maxProperties":9,"type":"object"}`,
		"string default= deprecated":     `{"default":"","deprecated":true,"type":"string"}`,
		"boolean default=false required": `{"default":false,"type":"boolean"}`,
		"any":                            `{}`,
	} {
		parsed, err := parseTag(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		s := join(parsed.kinds)
		for name, v := range parsed.attributes {
			s[name] = v
		}
		if got := string(encode(s)); got != want || !parsed.typed {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
		if parsed.required != strings.HasSuffix(text, "required") {
			t.Errorf("%q is required: %v", text, parsed.required)
		}
	}
	for _, text := range []string{"string[1", "string[1]", "boolean[1..2]", "string size=1"} {
		if _, err := parseTag(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
