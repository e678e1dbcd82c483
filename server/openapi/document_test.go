package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/mew"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/openapi"
	"runner/server/traces"
	"runner/server/web"
	"runner/server/wire"
)

// object is a JSON object.
type object = map[string]any

// document is the description in the form that tests use.
type document struct {
	root object
	text []byte
}

// all returns the descriptions of all formats.
func all() []fs.FS {
	return []fs.FS{(*openai.API).OpenAPI(nil), (*responses.API).OpenAPI(nil), (*anthropic.API).OpenAPI(nil),
		(*traces.API).OpenAPI(nil), (*ollama.API).OpenAPI(nil), (*agui.API).OpenAPI(nil), (*mew.API).OpenAPI(nil),
		(*web.API).OpenAPI(nil)}
}

func load(t testing.TB) *document {
	t.Helper()
	text, err := openapi.Document("1.2.3", all()...)
	if err != nil {
		t.Fatal(err)
	}
	d := &document{text: text}
	if err := json.Unmarshal(text, &d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns the value that a pointer like #/components/schemas/Usage points to, or nil.
func (d *document) at(pointer string) any {
	var v any = d.root
	for _, name := range strings.Split(strings.TrimPrefix(pointer, "#/"), "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch of := v.(type) {
		case object:
			v = of[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

// resolve follows a reference.
func (d *document) resolve(v any) object {
	o, _ := v.(object)
	for o["$ref"] != nil {
		o, _ = d.at(o["$ref"].(string)).(object)
	}
	return o
}

// operation is one operation of the document.
type operation struct {
	method, path string
	object
}

func (o operation) String() string { return o.method + " " + o.path }

func (o operation) scope() string {
	for _, s := range o.object["security"].([]any) {
		if asObject(s)["Participant"] != nil {
			return string(wire.ScopeOwn)
		}
		for _, scopes := range s.(object) {
			return scopes.([]any)[0].(string)
		}
	}
	return ""
}

// operations lists the operations in their order.
func (d *document) operations() []operation {
	var list []operation
	for path, methods := range d.root["paths"].(object) {
		for method, o := range methods.(object) {
			list = append(list, operation{strings.ToUpper(method), path, o.(object)})
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return list
}

// walk calls f with every value of the document and the pointer to it.
func walk(v any, pointer string, f func(pointer string, v any)) {
	f(pointer, v)
	escape := strings.NewReplacer("~", "~0", "/", "~1").Replace
	switch v := v.(type) {
	case object:
		for name, v := range v {
			walk(v, pointer+"/"+escape(name), f)
		}
	case []any:
		for i, v := range v {
			walk(v, fmt.Sprint(pointer, "/", i), f)
		}
	}
}

// schemas compiles the schemas of a document.
type schemas struct {
	compiler *jsonschema.Compiler
	known    map[string]*jsonschema.Schema
}

func newSchemas(t testing.TB, document any) *schemas {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.LoadURL = func(url string) (io.ReadCloser, error) { return nil, fmt.Errorf("%s is not here", url) }
	if err := c.AddResource("openapi.json", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return &schemas{c, map[string]*jsonschema.Schema{}}
}

// at returns the validator of the schema that a pointer points to.
func (s *schemas) at(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	if s.known[pointer] == nil {
		compiled, err := s.compiler.Compile("openapi.json" + pointer)
		if err != nil {
			t.Fatalf("%s: %v", pointer, err)
		}
		s.known[pointer] = compiled
	}
	return s.known[pointer]
}

// isSchema matches the pointers to whole schemas.
var isSchema = regexp.MustCompile(`^#/components/schemas/[^/]+$|/schema$`)

func TestSchemasAreValid(t *testing.T) {
	d := load(t)
	s := newSchemas(t, d.root)
	known := strings.Fields(`$ref type enum const description examples example default deprecated format
		properties required additionalProperties propertyNames
		maxProperties items minItems maxItems minLength maxLength pattern minimum maximum not oneOf allOf`)
	var check func(pointer string, v any)
	check = func(pointer string, v any) {
		schema, ok := v.(object)
		if !ok {
			return
		}
		if s.at(t, pointer); schema["default"] != nil {
			if err := s.at(t, pointer).Validate(schema["default"]); err != nil {
				t.Errorf("%s: its default is not one of its values: %v", pointer, err)
			}
		}
		for name, v := range schema {
			switch {
			case !slices.Contains(known, name):
				t.Errorf("%s has the keyword %s", pointer, name)
			case name == "properties":
				for field, v := range v.(object) {
					p := v.(object)
					if target := d.resolve(v); p["description"] == nil && target["description"] == nil &&
						target["properties"] == nil && target["oneOf"] == nil {
						t.Errorf("%s does not describe %s", pointer, field)
					}
					check(pointer+"/properties/"+field, v)
				}
			case name == "items", name == "additionalProperties", name == "not", name == "propertyNames":
				check(pointer+"/"+name, v)
			case name == "oneOf", name == "allOf":
				for i, v := range v.([]any) {
					check(fmt.Sprint(pointer, "/", name, "/", i), v)
				}
			case name == "required":
				for _, field := range v.([]any) {
					if all := d.fields(schema); len(all) > 0 && all[field.(string)] == nil {
						t.Errorf("%s requires %s, which it does not have", pointer, field)
					}
				}
			}
		}
	}
	walk(d.root, "#", func(pointer string, v any) {
		if isSchema.MatchString(pointer) && !strings.Contains(pointer, "/properties/") &&
			!strings.Contains(pointer, "/example") {
			check(pointer, v)
		}
	})
}

// fields returns the properties of a schema and of the schemas that it consists of.
func (d *document) fields(schema any) object {
	s := d.resolve(schema)
	all := object{}
	for name, p := range asObject(s["properties"]) {
		all[name] = p
	}
	for _, part := range asList(s["allOf"]) {
		for name, p := range d.fields(part) {
			all[name] = p
		}
	}
	return all
}

func asObject(v any) object { o, _ := v.(object); return o }
func asList(v any) []any    { l, _ := v.([]any); return l }

func TestReferencesResolve(t *testing.T) {
	d := load(t)
	used := map[string]bool{}
	walk(d.root, "#", func(pointer string, v any) {
		ref, ok := asObject(v)["$ref"].(string)
		if !ok {
			return
		}
		if used[ref] = true; d.at(ref) == nil {
			t.Errorf("%s refers to %s, which does not exist", pointer, ref)
		}
	})
	for kind, components := range d.root["components"].(object) {
		if kind == "securitySchemes" {
			continue
		}
		for name := range components.(object) {
			if !used["#/components/"+kind+"/"+name] {
				t.Errorf("nothing uses %s/%s", kind, name)
			}
		}
	}
}

func TestOperationsAreComplete(t *testing.T) {
	d := load(t)
	var tags []string
	for _, tag := range d.root["tags"].([]any) {
		tags = append(tags, tag.(object)["name"].(string))
	}
	ids := map[string]string{}
	for _, o := range d.operations() {
		id, _ := o.object["operationId"].(string)
		if ids[id] != "" || id == "" {
			t.Errorf("%s and %s have the id %q", o, ids[id], id)
		}
		ids[id] = o.String()
		if o.object["summary"] == nil || len(asList(o.object["tags"])) == 0 {
			t.Errorf("%s has no summary or no tag", o)
		}
		for _, tag := range asList(o.object["tags"]) {
			if !slices.Contains(tags, tag.(string)) {
				t.Errorf("%s has the tag %s, which is not described", o, tag)
			}
		}
		var declared []string
		for _, p := range asList(o.object["parameters"]) {
			p := d.resolve(p)
			if p["description"] == nil || p["schema"] == nil {
				t.Errorf("%s does not describe the parameter %v", o, p["name"])
			}
			if p["in"] == "path" {
				declared = append(declared, "{"+p["name"].(string)+"}")
			}
		}
		if inPath := regexp.MustCompile(`\{[^}]*\}`).FindAllString(o.path, -1); !slices.Equal(inPath, declared) {
			t.Errorf("%s declares %v", o, declared)
		}
		for _, s := range asList(o.object["security"]) {
			for scheme := range s.(object) {
				if d.at("#/components/securitySchemes/"+scheme) == nil {
					t.Errorf("%s takes a key by %s, which is not described", o, scheme)
				}
			}
		}
		for name := range o.object {
			if strings.HasPrefix(name, "x-") {
				t.Errorf("%s still has %s", o, name)
			}
		}
		for status, r := range o.object["responses"].(object) {
			r := d.resolve(r)
			if text, _ := r["description"].(string); text == "" {
				t.Errorf("%s does not describe %s", o, status)
			}
			if status == "429" && asObject(r["headers"])["Retry-After"] == nil {
				t.Errorf("%s does not say that 429 says when to try again", o)
			}
		}
	}
}

func TestDocumentIsServed(t *testing.T) {
	h := openapi.Handler("1.2.3", all)
	get := func(method, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/openapi.json", nil)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		w := httptest.NewRecorder()
		h(w, r)
		return w
	}
	w := get(http.MethodGet, "")
	var doc struct {
		OpenAPI string
		Info    struct{ Version string }
		Servers []struct{ URL string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" || doc.OpenAPI != "3.1.0" ||
		doc.Info.Version != "1.2.3" || doc.Servers[0].URL != "/" {
		t.Errorf("%d, %v, %+v", w.Code, w.Header(), doc)
	}
	tag := w.Header().Get("ETag")
	if w := get(http.MethodGet, tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("with If-None-Match: %d with %d bytes", w.Code, w.Body.Len())
	}
	if w := get(http.MethodHead, ""); w.Code != 200 || w.Body.Len() > 0 || w.Header().Get("ETag") != tag {
		t.Errorf("HEAD: %d with %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
	other := httptest.NewRecorder()
	openapi.Handler("", all)(other, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	if other.Header().Get("ETag") == tag || !bytes.Contains(other.Body.Bytes(), []byte(`"version":"unknown"`)) {
		t.Error("another version has the same document")
	}
}
