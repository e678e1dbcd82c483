package jsonschema

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/grammar/expr"
	"runner/testenv"
)

func accepts(t *testing.T, schema, text string) bool {
	t.Helper()
	s, err := Compile(t.Context(), []byte(schema), Options{})
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	set := expr.NewSet()
	return set.Match(s.Expr(set), text)
}

// TestLanguage checks what the suites do not cover: the order of keys, older spellings, and repeated keys.
func TestLanguage(t *testing.T) {
	for _, test := range []struct {
		schema   string
		yes, not []string
	}{
		{ // properties first, in their order, then other required ones, then the rest
			`{"type":"object","required":["z","a"],"properties":{"b":{"type":"null"},"a":{"type":"null"}}}`,
			[]string{`{"b":null,"a":null,"z":1}`, `{"a": null, "z": 1, "x": 2}`, `{"a":null,"z":[],"y":2,"x":2}`},
			[]string{`{"a":null,"b":null,"z":1}`, `{"z":1,"a":null}`, `{"a":null,"x":2,"z":1}`, `{"a":null,"z":1,"b":null}`,
				`{"a":null,"z":1,}`, `{"a":null,  "z":1}`},
		},
		{ // what comes first in the text comes first
			`{"allOf":[{"properties":{"x":{}}}],"type":"object","properties":{"y":{}},` +
				`"additionalProperties":{"type":"integer"}}`,
			[]string{`{"x":1,"y":1}`}, []string{`{"y":1,"x":1}`},
		},
		{
			`{"type":"object","required":["a"],"properties":{"a":{"const":1}}}`,
			[]string{`{"a":1,"b":2,"b":3}`}, []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":1,"b":2,"a":2}`},
		},
		{ // a key found by both patterns must not slip through one of them
			`{"type":"object","patternProperties":{"a":{"type":["integer","null"]},"b":{"type":["integer","string"]}},` +
				`"additionalProperties":false}`,
			[]string{`{"a":null,"b":"","ab":1}`}, []string{`{"ab":null}`, `{"ab":""}`, `{"c":1}`},
		},
		{
			`{"items":[{"type":"string"},{"type":"null"}],"additionalItems":{"type":"integer"},"type":"array"}`,
			[]string{`[]`, `["",null,1,2]`}, []string{`[1]`, `["",null,""]`},
		},
		{`{"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":3,"exclusiveMaximum":true}`, []string{"2", "2.0"},
			[]string{"1", "3"}},
		{
			`{"dependencies":{"a":["b"],"c":{"required":["d"]}},"type":"object"}`,
			[]string{`{}`, `{"a":1,"b":1}`, `{"c":1,"d":1}`}, []string{`{"a":1}`, `{"c":1}`},
		},
		{ // beside $ref nothing counts in draft 7
			`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"type":"string"}},` +
				`"$ref":"#/definitions/s","maxLength":1}`,
			[]string{`"abc"`}, []string{`1`},
		},
		{`{"definitions":{"s":{"type":"string"}},"$ref":"#/definitions/s","maxLength":1}`, []string{`"a"`},
			[]string{`"abc"`, `1`}},
		{ // draft 4 has no const
			`{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","const":1}`, []string{"2"}, nil,
		},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/y","items":{"id":"#i","type":"null"},` +
			`"type":"array","maxItems":2}`, []string{`[null]`}, []string{`[1]`}},
		{`{"properties":{"a":{"$id":"http://x/a.json","$defs":{"n":{"$anchor":"n","type":"null"}},"$ref":"#n"}},` +
			`"type":"object"}`, []string{`{"a":null}`}, []string{`{"a":1}`}},
		{`{"const":{"a":[1,{"b":"é"}],"c":null}}`, []string{`{"a":[1,{"b":"é"}],"c":null}`,
			`{"a": [1, {"b": "\u00E9"}], "c": null}`, `{"a":[1.0,{"b":"é"}],"c":null}`}, []string{`{"a":[1,{"b":"é"}]}`}},
		{`{"enum":[1,"1",true,null,[],{}],"not":{"enum":["1",{}]}}`, []string{"1", "true", "null", "[]"},
			[]string{`"1"`, `{}`, "false"}},
		{`{"type":"array","uniqueItems":true,"items":{"enum":["a","b"]},"minItems":1}`,
			[]string{`["a"]`, `["b","a"]`, `["a", "b"]`}, []string{`[]`, `["a","a"]`, `["a","b","a"]`}},
		{`{"type":"object","minProperties":1,"maxProperties":2,"properties":{"a":{},"b":{},"c":{}},` +
			`"additionalProperties":false}`, []string{`{"a":1}`, `{"a":1,"c":1}`}, []string{`{}`, `{"a":1,"b":1,"c":1}`}},
		{`{"type":"object","propertyNames":{"enum":["k","l"]},"additionalProperties":{"type":"integer"}}`,
			[]string{`{"k":1}`, `{"k":1,"l":2}`}, []string{`{"m":1}`, `{"k":1,"k":2}`}},
		{`{"type":"string","nullable":true,"x-any":1,"contentEncoding":"base64"}`, []string{`"a"`}, []string{"null"}},
		{`{"$defs":{"t":{"type":"object","properties":{"l":{"$ref":"#/$defs/t"},"r":{"$ref":"#/$defs/t"}},` +
			`"additionalProperties":false}},"$ref":"#/$defs/t"}`, []string{`{"l":{"r":{}},"r":{}}`}, []string{`{"l":1}`}},
		{ // the only way out of this recursion is the base
			`{"$defs":{"t":{"oneOf":[{"type":"array","minItems":1,"items":{"$ref":"#/$defs/t"}},{"type":"null"}]}},` +
				`"$ref":"#/$defs/t"}`, []string{`[[null],null]`}, []string{`[]`, `[[]]`},
		},
		{ // an optional property without instances is left out
			`{"type":"object","properties":{"a":false,"b":{"type":"string","minLength":2,"maxLength":1},"c":{}},` +
				`"additionalProperties":false}`, []string{`{"c":1}`, `{}`}, []string{`{"a":1}`, `{"b":"x"}`},
		},
	} {
		for _, text := range test.yes {
			if !accepts(t, test.schema, text) {
				t.Errorf("%s does not accept %s", test.schema, text)
			}
		}
		for _, text := range test.not {
			if accepts(t, test.schema, text) {
				t.Errorf("%s accepts %s", test.schema, text)
			}
		}
	}
}

// TestRefusals checks which schemas are refused, and that the error names the keyword and its place.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		schema           string
		class            error
		keyword, pointer string
	}{
		{`{"properties":{"a":{"type":"array","uniqueItems":true}}}`, ErrUnsupported, "uniqueItems", "/properties/a"},
		{`{"properties":{"a/b":{"pattern":"(?=x)"}}}`, ErrUnsupported, "pattern", "/properties/a~1b"},
		{`{"items":{"$ref":"http://example.com/x"}}`, ErrUnsupported, "$ref", "/items"},
		{`{"$ref":"http://json-schema.org/draft-07/schema#"}`, ErrUnsupported, "$ref", ""},
		{`{"$ref":"#/$defs/none"}`, ErrUnsupported, "$ref", ""},
		{`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, ErrUnsupported, "$ref", "/$defs/a"},
		{`{"type":"object","minProperties":2}`, ErrUnsupported, "minProperties", ""},
		{`false`, ErrUnsatisfiable, "", ""},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"object","required":["b"],"properties":{"b":false}}}}`,
			ErrUnsatisfiable, "properties", "/properties/a"},
		{`{"$defs":{"t":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/t"}}},"$ref":"#/$defs/t"}`, ErrUnsatisfiable,
			"items", "/$defs/t"},
		{`{"type":"string","minLength":3,"maxLength":2}`, ErrUnsatisfiable, "maxLength", ""},
		{`{"enum":[]}`, ErrUnsatisfiable, "enum", ""},
		{`{"type":"integer","minimum":5,"maximum":3,"title":"x"}`, ErrUnsatisfiable, "maximum", ""},
		{`{"enum":[1,2],"type":"string"}`, ErrUnsatisfiable, "enum", ""},
		{`{"allOf":[{"type":"string"},{"type":"integer"}]}`, ErrUnsatisfiable, "type", "/allOf/0"},
		{`{"type":"object","properties":{"a":{"type":"string","minLength":4,"maxLength":2}},"required":["a"]}`,
			ErrUnsatisfiable, "maxLength", "/properties/a"},
		{`{"properties":{"a":{"type":"text"}}}`, ErrInvalid, "type", "/properties/a"},
		{`{"required":true}`, ErrInvalid, "required", ""},
		{`{"a":1,"a":2}`, ErrInvalid, "", ""},
		{`{"minimum":1e999}`, ErrLimit, "", ""},
		{`{"const":"\ud800"}`, ErrUnsupported, "const", ""},
		{`[]`, ErrInvalid, "", ""},
		{`{`, ErrInvalid, "", ""},
		{``, ErrInvalid, "", ""},
		{strings.Repeat("[", 300), ErrLimit, "", ""},
		{`{"x":"` + strings.Repeat(" ", 600<<10) + `"}`, ErrLimit, "", ""},
	} {
		_, err := Compile(t.Context(), []byte(test.schema), Options{})
		e := new(Error)
		if !errors.As(err, &e) {
			t.Errorf("%.80s: %v", test.schema, err)
			continue
		}
		if !errors.Is(err, test.class) || e.Keyword != test.keyword || e.Pointer != test.pointer || e.Hint() == "" {
			t.Errorf("%.80s: got %v", test.schema, err)
		}
	}
	e := &Error{Class: ErrUnsupported, Keyword: "uniqueItems", Pointer: "/properties/a", Reason: "why"}
	if text := e.Error(); text != "unsupported keyword uniqueItems at /properties/a: why" {
		t.Error(text)
	}
}

// TestLimits checks that schemas which would blow up are refused soon.
func TestLimits(t *testing.T) {
	var branches, deep []string
	for i := range 40 {
		branches = append(branches, fmt.Sprintf(`{"properties":{"a%d":{"type":"integer"},"b%d":{"type":"null"}}}`, i, i))
		deep = append(deep, fmt.Sprintf(`{"anyOf":[{"required":["a%d"]},{"required":["b%d"]}]}`, i, i))
	}
	for _, schema := range []string{
		`{"type":"object","oneOf":[` + strings.Join(branches, ",") + `]}`,
		`{"type":"object","allOf":[` + strings.Join(deep, ",") + `]}`,
	} {
		runtime.LockOSThread() // so that other work on the machine does not count
		start := testenv.ThreadTime()
		if _, err := Compile(t.Context(), []byte(schema), Options{}); !errors.Is(err, ErrLimit) {
			t.Errorf("%.80s: %v", schema, err)
		}
		if d := testenv.ThreadTime() - start; d > 20*time.Second {
			t.Errorf("%.80s: took %v", schema, d)
		}
		runtime.UnlockOSThread()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compile(ctx, []byte(`{}`), Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	schema := []byte(`{"type":"object","oneOf":[` + strings.Join(branches, ",") + `]}`)
	if _, err := Compile(ctx, schema, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestLarge checks that long but simple schemas compile and work.
func TestLarge(t *testing.T) {
	var words, props []string
	for i := range 10000 {
		words = append(words, fmt.Sprintf(`"word %d"`, i))
	}
	for i := range 500 {
		props = append(props, fmt.Sprintf(`"p%d":{"type":"integer"}`, i))
	}
	if schema := `{"enum":[` + strings.Join(words, ",") + `]}`; !accepts(t, schema, words[7777]) ||
		accepts(t, schema, `"word 10000"`) {
		t.Error("a large enum")
	}
	schema := `{"type":"object","properties":{` + strings.Join(props, ",") + `}}`
	if !accepts(t, schema, `{"p3":1,"p499":2,"q":"x"}`) || accepts(t, schema, `{"p3":1,"p499":2,"p400":"x"}`) {
		t.Error("many properties")
	}
	schema = `{"type":"array","items":{"type":"null"},"minItems":1,"maxItems":100000}`
	if !accepts(t, schema, `[null]`) || accepts(t, schema, `[]`) {
		t.Error("a large bound")
	}
	nested := `{"type":"integer"}`
	for range 60 {
		nested = `{"type":"array","items":` + nested + `}`
	}
	if !accepts(t, nested, strings.Repeat("[", 60)+"1"+strings.Repeat("]", 60)) {
		t.Error("deep nesting")
	}
}

// TestConcurrent checks that many goroutines can use one schema, each with its own set.
func TestConcurrent(t *testing.T) {
	s,
		err := Compile(t.Context(),
		[]byte(
			`{"type":"object","minProperties":1,"properties":{"a":{"$ref":"#"},"b":{"type":"array",`+
				`"contains":{"const":1}}},"additionalProperties":false}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			set := expr.NewSet()
			if !set.Match(s.Expr(set), `{"a":{"b":[2,1]}}`) || set.Match(s.Expr(set), `{"a":{}}`) {
				t.Error("wrong")
			}
		})
	}
	all.Wait()
}

// FuzzCompile compiles arbitrary bytes: no panic, errors of the package, bounded work, and no dead end at the start.
func FuzzCompile(f *testing.F) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["b"],"patternProperties":{"^x":{"type":"integer"}}}`,
		`{"oneOf":[{"type":"string","pattern":"^a+$","format":"date"},{"enum":[1,{"a":[]}]}],"not":{"const":null}}`,
		`{"type":"array","prefixItems":[true],"items":false,"contains":{"minimum":1.5},"maxContains":2,"uniqueItems":true}`,
		`{"$id":"http://a/b","$defs":{"c":{"$anchor":"d"}},"$ref":"b#d","if":{"minLength":1},"then":{"maxProperties":1},` +
			`"unevaluatedProperties":false}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","items":[{}],"additionalItems":false,` +
			`"dependencies":{"a":["b"]}}`,
		`{"propertyNames":{"maxLength":2},"minProperties":1,"dependentSchemas":{"a":false},"\ud83d\ude00":"\u00e9"}`,
	} {
		f.Add([]byte(schema))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		s, err := Compile(ctx, schema, Options{MaxWork: 20_000, MaxAlternatives: 200})
		if d := time.Since(start); d > 30*time.Second {
			t.Fatalf("took %v", d)
		}
		if err != nil {
			if e := new(Error); !errors.As(err, &e) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("not an error of this package: %v", err)
			}
			return
		}
		set := expr.NewSet()
		id := s.Expr(set)
		for b := range 256 {
			if set.Derive(id, byte(b)) != expr.Empty {
				return
			}
		}
		t.Fatal("no text begins")
	})
}

func TestPlainNumbers(t *testing.T) {
	for _, c := range []struct{ schema, yes, not string }{ // texts are separated by spaces
		{`{"type":"integer"}`, "0 7 -12 100", "7.0 0.0 -12.0 7.00 7e1 1.5"},
		{`{"const":7.0}`, "7", "7.0"},
		{`{"enum":[1.0,2,2.5,"1.0",[3.0],{"a":4e1}]}`, `1 2 2.5 "1.0" [3] {"a":40}`, `1.0 2.0 .5 [3.0] {"a":4e1}`},
		{`{"type":"integer","multipleOf":2.5}`, "0 5 -10", "5.0 2.5 2"},
		{`{"type":"number","multipleOf":5}`, "5 10", "5.0 1"},
		{`{"type":"integer","minimum":1e3,"maximum":1001.5}`, "1000 1001", "1000.0 999 1002"},
		{`{"type":"integer","exclusiveMinimum":6.5,"not":{"const":8}}`, "7 9 100", "7.0 8 6"},
		{`{"type":"number","minimum":0,"maximum":1}`, "0 1 0.5 0.0 1.0", "1.5"},
		{`{"type":["integer","null"],"enum":[1e2,null]}`, "100 null", "1e2 100.0"},
		{`{"type":"array","items":{"enum":[1.0,2.0]},"uniqueItems":true,"minItems":2}`, "[1,2] [2,1]", "[1.0,2] [1,1]"},
		{`{"type":"object","properties":{"n":{"$ref":"#/$defs/i"}},"required":["n"],"$defs":{"i":{"type":"integer"}}}`,
			`{"n":1}`, `{"n":1.0}`},
		{`{"type":"integer"}`, "18446744073709551615 -9223372036854775808 99999999999999999999",
			"100000000000000000000 -100000000000000000000"},
		{`{"type":"integer","minimum":0}`, "0 18446744073709551615 99999999999999999999", "100000000000000000000 -1"},
		{`{"type":"integer","maximum":3}`, "3 -9223372036854775808 -99999999999999999999", "4 -100000000000000000000"},
		{`{"type":"integer","minimum":1e20}`, "100000000000000000000 1000000000000000000000", "99999999999999999999"},
		{`{"type":"integer","maximum":1e30}`, "1000000000000000000000000000000 0", "-100000000000000000000"},
		{`{"type":"integer","multipleOf":7}`, "7 999999999999999999", "7777777777777777777"},
		{`{"const":123456789012345678901234567890}`, "123456789012345678901234567890", "1"},
		{`{"type":"number"}`, "1.5 -0.25 1e9 12345678901234567890.12345678901234567 1.0 1e100 1e-100 1e279",
			"123456789012345678901 0.123456789012345678 1e280 1e1000"},
		{`{}`, `1.5 [1] {"a":1e9}`, `123456789012345678901 [123456789012345678901] {"a":0.123456789012345678}`},
		{`{"type":"array"}`, `[1]`, `[123456789012345678901]`},
		{`{"type":"object"}`, `{"a":1}`, `{"a":123456789012345678901}`},
	} {
		s, err := Compile(t.Context(), []byte(c.schema), Options{Plain: true})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		set := expr.NewSet()
		root := s.Expr(set)
		for _, text := range strings.Fields(c.yes) {
			if !set.Match(root, text) || !accepts(t, c.schema, text) {
				t.Errorf("%s refuses %s", c.schema, text)
			}
		}
		for _, text := range strings.Fields(c.not) {
			if set.Match(root, text) {
				t.Errorf("%s takes %s", c.schema, text)
			}
		}
	}
}

// U+FFFD in a key is half a surrogate pair only if an escape wrote it.
func TestKeysWithHalfASurrogatePair(t *testing.T) {
	for key, broken := range map[string]bool{
		`\ud800`: true, `\\\ud800`: true, `\ud83d\\\ude00`: true, `\udc00\ud800`: true,
		`\ufffd`: false, "\ufffd": false, `\\ud800` + "\ufffd": false, `\ud83d\ude00` + "\ufffd": false,
	} {
		_, err := Compile(t.Context(), []byte(`{"properties":{"`+key+`":{}}}`), Options{})
		if (err != nil) != broken {
			t.Errorf("%s: %v", key, err)
		}
	}
}
