package jsonschema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	validator "github.com/santhosh-tekuri/jsonschema/v5"

	"runner/grammar/expr"
)

// oracle is an independent implementation of JSON Schema.
func oracle(schema []byte) (*validator.Schema, error) {
	c := validator.NewCompiler()
	c.Draft, c.AssertFormat = validator.Draft2020, true
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, errors.New("nothing is loaded") }
	if err := c.AddResource("schema.json", bytes.NewReader(schema)); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}

func oracleSays(s *validator.Schema, text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	return s.Validate(v)
}

// author writes random schemas and instances with few names and values, so that they often match.
type author struct{ r *rand.Rand }

func (a author) one(list ...string) string { return list[a.r.IntN(len(list))] }
func (a author) key() string               { return a.one(`"a"`, `"b"`, `"c"`, `"ab"`, `"é"`) }
func (a author) pattern() string {
	return a.one(`"a"`, `"^a"`, `"b$"`, `"^[ab]*$"`, `"^.$"`, `"^(a|bb)$"`)
}

func (a author) scalar() string {
	return a.one(`null`, `true`, `false`, `0`, `1`, `2`, `3.5`, `-1`, `6`, `"a"`, `"b"`, `"ab"`, `""`, `"é"`,
		`"2020-01-01"`)
}

func (a author) instance(depth int) string {
	if depth == 0 || a.r.IntN(3) == 0 {
		return a.scalar()
	}
	var parts []string
	if a.r.IntN(2) == 0 {
		for range a.r.IntN(4) {
			parts = append(parts, a.instance(depth-1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	for _, key := range []string{"a", "b", "c", "ab", "é", "bb"} {
		if a.r.IntN(5) < 2 {
			parts = append(parts, fmt.Sprintf("%q:%s", key, a.instance(depth-1)))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (a author) list(depth, least int) string {
	var parts []string
	for range least + a.r.IntN(3) {
		parts = append(parts, a.schema(depth-1))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (a author) named(depth int, key func() string) string {
	seen := map[string]bool{}
	var parts []string
	for range 1 + a.r.IntN(3) {
		if k := key(); !seen[k] {
			seen[k] = true
			parts = append(parts, k+":"+a.schema(depth-1))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// schema writes one to four keywords.
func (a author) schema(depth int) string {
	if depth == 0 || a.r.IntN(8) == 0 {
		return a.one(`true`, `{}`, `false`, `{"type":"string"}`, `{"type":"integer"}`, `{"type":["null","array"]}`,
			`{"enum":[1,"a",null,[1],{"a":1}]}`, `{"const":2}`, `{"type":"object"}`, `{"$ref":"#/$defs/d"}`,
			`{"type":"boolean"}`)
	}
	number := func() string { return a.one("0", "1", "2", "3", "2.5") }
	count := func() string { return a.one("0", "1", "2", "3") }
	keywords := []func() string{
		func() string {
			return `"type":` + a.one(`"object"`, `"array"`, `"string"`, `"number"`, `"integer"`, `["object","null"]`,
				`["string","integer"]`)
		},
		func() string { return `"type":` + a.one(`"object"`, `"array"`) },
		func() string { return `"enum":[` + a.instance(1) + `,` + a.instance(2) + `,"a",1]` },
		func() string { return `"const":` + a.instance(2) },
		func() string { return `"minimum":` + number() },
		func() string { return `"exclusiveMaximum":` + number() },
		func() string { return `"multipleOf":` + a.one("2", "0.5", "3") },
		func() string { return `"minLength":` + count() },
		func() string { return `"maxLength":` + count() },
		func() string { return `"pattern":` + a.pattern() },
		func() string { return `"items":` + a.schema(depth-1) },
		func() string { return `"prefixItems":` + a.list(depth, 1) },
		func() string { return `"minItems":` + count() },
		func() string { return `"maxItems":` + count() },
		func() string { return `"contains":` + a.schema(depth-1) },
		func() string {
			return `"contains":` + a.schema(depth-1) + `,"minContains":` + count() + `,"maxContains":` + count()
		},
		func() string { return `"uniqueItems":true,"items":{"enum":[1,2,"a"]}` },
		func() string { return `"properties":` + a.named(depth, a.key) },
		func() string { return `"properties":` + a.named(depth, a.key) },
		func() string { return `"patternProperties":` + a.named(depth, a.pattern) },
		func() string { return `"additionalProperties":` + a.schema(depth-1) },
		func() string { return `"additionalProperties":false,"properties":` + a.named(depth, a.key) },
		func() string { return `"required":[` + a.key() + `]` },
		func() string { return `"minProperties":` + count() },
		func() string { return `"maxProperties":` + count() },
		func() string { return `"propertyNames":` + a.schema(depth-1) },
		func() string { return `"dependentRequired":{` + a.key() + `:[` + a.key() + `]}` },
		func() string { return `"dependentSchemas":{` + a.key() + `:` + a.schema(depth-1) + `}` },
		func() string { return `"allOf":` + a.list(depth, 1) },
		func() string { return `"anyOf":` + a.list(depth, 1) },
		func() string { return `"oneOf":` + a.list(depth, 2) },
		func() string { return `"not":` + a.schema(depth-1) },
		func() string {
			return `"if":` + a.schema(depth-1) + `,"then":` + a.schema(depth-1) + `,"else":` + a.schema(depth-1)
		},
		func() string { return `"unevaluatedProperties":` + a.one(`false`, `{"type":"string"}`) },
		func() string { return `"unevaluatedItems":` + a.one(`false`, `{"type":"string"}`) },
		func() string { return `"format":` + a.one(`"date"`, `"ipv4"`) },
	}
	seen := map[string]bool{}
	var parts []string
	for range 1 + a.r.IntN(4) {
		text := keywords[a.r.IntN(len(keywords))]()
		v, err := tryValue([]byte("{"+text+"}"), 100)
		if err != nil {
			panic(err)
		}
		again := false
		for _, m := range v.members {
			again = again || seen[m.key]
		}
		if again {
			continue
		}
		for _, m := range v.members {
			seen[m.key] = true
		}
		parts = append(parts, text)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (a author) document() string {
	s := a.schema(3)
	if !strings.HasPrefix(s, "{") || s == "{}" {
		s = `{"$ref":"#/$defs/d"}`
	}
	return strings.TrimSuffix(s, "}") + `,"$defs":{"d":` + a.one(
		`{"type":["integer","object"],"properties":{"a":{"$ref":"#/$defs/d"}},"additionalProperties":false}`,
		`{"type":["null","array"],"items":{"$ref":"#/$defs/d"}}`, `{"type":"string","minLength":1}`) + `}}`
}

var errDeadEnd = errors.New("dead end")

// walk writes a random text of the language, or nothing if the text does not end soon.
func walk(r *rand.Rand, s *expr.Set, id expr.ID) (string, bool, error) {
	var text []byte
	for steps := 0; ; steps++ {
		if s.Nullable(id) && (steps > 150 || r.IntN(3) == 0) {
			return string(text), true, nil
		}
		var live []byte
		for b := range 256 {
			if s.Derive(id, byte(b)) != expr.Empty {
				live = append(live, byte(b))
			}
		}
		if len(live) == 0 {
			if s.Nullable(id) {
				return string(text), true, nil
			}
			return string(text), false, errDeadEnd
		}
		if steps > 600 {
			return "", false, nil
		}
		b := live[r.IntN(len(live))]
		for _, end := range []byte(`"}],:`) { // mostly go on soon
			if bytes.IndexByte(live, end) >= 0 && r.IntN(3) == 0 {
				b = end
			}
		}
		text = append(text, b)
		id = s.Derive(id, b)
	}
}

// checkRandom compares one random schema with the oracle, in both directions. It reports whether the schema compiled.
func checkRandom(t *testing.T, seed uint64) bool {
	r := rand.New(rand.NewPCG(seed, 0))
	a := author{r}
	schema := a.document()
	judgeOf, err := oracle([]byte(schema))
	if err != nil {
		t.Fatalf("seed %d: the oracle does not read %s: %v", seed, schema, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := Compile(ctx, []byte(schema), Options{MaxWork: 100_000})
	e := new(Error)
	if err != nil && !errors.As(err, &e) {
		t.Logf("seed %d: %v: %s", seed, err, schema)
		return false
	}
	if errors.Is(err, ErrUnsatisfiable) {
		for range 200 {
			if text := a.instance(2); oracleSays(judgeOf, text) == nil {
				t.Errorf("seed %d: %v: but %s is valid: %s", seed, err, text, schema)
				return true
			}
		}
	}
	if err != nil {
		return false
	}
	j := newJudge(s)
	root := s.Expr(j.set)
	for range 12 {
		text, ended, err := walk(r, j.set, root)
		if err != nil {
			t.Errorf("seed %d: %v after %q: %s", seed, err, text, schema)
			return true
		}
		if !ended {
			continue
		}
		if err := oracleSays(judgeOf, text); err != nil {
			t.Errorf("seed %d: %s is accepted but not valid: %s: %v", seed, text, schema, err)
			return true
		}
	}
	for range 40 {
		text := a.instance(2)
		valid := oracleSays(judgeOf, text) == nil
		if _, accepted := j.arrange(instance(t, []byte(text))); valid != accepted {
			t.Errorf("seed %d: %s: valid is %v, accepted is %v: %s", seed, text, valid, accepted, schema)
			return true
		}
	}
	return true
}

func TestRandom(t *testing.T) {
	n := 400
	if os.Getenv("RUNNER_LONG") != "" {
		n = 20000
	}
	compiled := 0
	for seed := range n {
		if checkRandom(t, uint64(seed)) {
			compiled++
		}
	}
	t.Logf("%d of %d schemas compiled", compiled, n)
	if compiled < n/4 {
		t.Error("too few")
	}
}
