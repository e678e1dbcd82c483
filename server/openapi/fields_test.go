package openapi_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// kind says how the fields of a struct and the properties of a schema relate.
type kind int

const (
	// asked: decoders read exactly these fields.
	asked kind = iota
	// answered: encoders write exactly these fields, and those that are never left out are required.
	answered
	// partial: other structs make up the rest of the schema.
	partial
	// elsewhere: not described; the reason is given instead of the schema.
	elsewhere
)

// described says which schema describes a struct.
type described struct {
	kind   kind
	schema string
}

// types are the structs with JSON fields in the server's packages whose schemas are written by hand, by their names, or
// by the names of their function and variable. The others say in their doc comments which schema is generated from
// them.
var types = map[string]map[string]described{
	"..": {},
	"../openai": {
		"order.addTool.t":         {partial, "Tool"},
		"order.functionCall.f":    {asked, "FunctionName"},
		"order.toolChoice.choice": {elsewhere, "its two kinds are ToolChoiceFunction and ToolChoiceAllowed"},
		"order.toolChoice.named":  {asked, "ToolChoiceFunction"},
		"Forms.source.s":          {asked, "SamplingOptions/properties/structured_outputs"},
		"responseFormat.f":        {asked, "ResponseFormat"},
		"responseFormat.s":        {asked, "ResponseFormat/properties/json_schema"},
		"order.addCustom.t":       {elsewhere, "a part of Tool"},
	},
	"../internal/contract": {
		"ResponseSchema.f": {asked, "SamplingOptions/properties/response_schema"},
		"customFormat":     {asked, "CustomFormat"},
	},
	"../internal/apierror": {},
	"../openai/responses": {
		"FunctionTool.MarshalJSON.1": {answered, "ResponseCustomTool"},
		"FunctionTool.MarshalJSON.2": {answered, "ResponseToolEcho"},
		"FunctionTool.MarshalJSON.3": {answered, "ResponseNamespace"},
		"rawPart":                    {asked, "ResponseInputPart"},
		"readType.typed":             {partial, "ResponseInputItem"},
		"wantsStream.body":           {elsewhere, "a body of GET, for one client, beside the parameter stream"},
		"ResponseEvent":              {answered, "ResponseLifecycleEvent"}, "ItemEvent": {answered, "ResponseItemEvent"},
		"PlaceEvent": {elsewhere, manyEvents}, "ErrorEvent": {answered, "ResponseErrorEvent"},
	},
	"../mew": {
		"tokenFile": {elsewhere, "a file's form, in docs/mew.md"}, "tokenEntry": {elsewhere, "a file's form, in docs/mew.md"},
	},
	"../traces": {},
	"../anthropic": {
		"messageStart": {elsewhere, "MessageStart, whose message has a part of the fields of Message"},
		"blockEvent":   {elsewhere, manyEvents}, "blockDelta": {elsewhere, manyEvents}, "mark": {elsewhere, manyEvents},
	},
	"../agui": {
		"Event":   {elsewhere, manyEvents},
		"decided": {elsewhere, "the value of an event CUSTOM, described in its words"},
	},
	"../web": {
		"Event": {elsewhere, manyEvents}, "Block": {elsewhere, manyEvents}, "Next": {elsewhere, manyEvents},
		"made": {elsewhere, "a call in an event"},
	},
	"../ollama": {
		"Logprob": {answered, "OllamaLogprob"},
	},
}

// manyEvents is the reason for structs that encode several kinds of events, each with a schema of its own.
// TestAnswersMatchSchemas compares what is sent with these schemas.
const manyEvents = "several events; their schemas are written by hand"

// field is a JSON field of a struct.
type field struct {
	typ       ast.Expr
	omitEmpty bool
}

// source holds the structs of a package.
type source struct {
	structs map[string]*ast.StructType
	// embedded are the structs that are only embedded in others.
	embedded map[string]bool
	// generated are the structs that a schema is generated from.
	generated map[string]bool
}

// parse reads a package's files.
func parse(t *testing.T, folder string) *source {
	t.Helper()
	s := &source{structs: map[string]*ast.StructType{}, embedded: map[string]bool{}, generated: map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %d files", folder, err, len(files))
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			s.read(decl)
		}
	}
	return s
}

// read adds the structs of a declaration.
func (s *source) read(decl ast.Decl) {
	prefix := ""
	if g, ok := decl.(*ast.GenDecl); ok && g.Doc != nil {
		for _, c := range g.Doc.List {
			if t, ok := g.Specs[0].(*ast.TypeSpec); ok && strings.HasPrefix(c.Text, "//openapi:") {
				s.generated[t.Name.Name] = true
			}
		}
	}
	if f, ok := decl.(*ast.FuncDecl); ok {
		prefix = f.Name.Name + "."
		if f.Recv != nil {
			prefix = strings.TrimPrefix(name(f.Recv.List[0].Type), "*") + "." + prefix
		}
	}
	literals := 0
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			s.note(prefix+n.Name.Name, n.Type)
		case *ast.ValueSpec:
			for _, v := range n.Names {
				s.note(prefix+v.Name, n.Type)
			}
		case *ast.CompositeLit:
			if literals++; !s.note(fmt.Sprint(prefix, literals), n.Type) {
				literals--
			}
		}
		return true
	})
}

// note adds a struct if it has JSON fields, its own or embedded ones, and reports whether it did.
func (s *source) note(key string, e ast.Expr) bool {
	st, ok := e.(*ast.StructType)
	if !ok {
		return false
	}
	has := false
	for _, f := range st.Fields.List {
		has = has || f.Tag != nil && tag(f) != ""
		if len(f.Names) == 0 && f.Tag == nil {
			s.embedded[name(f.Type)] = true
		}
	}
	if has {
		s.structs[key] = st
	}
	return has
}

func tag(f *ast.Field) string { return reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json") }

// name returns a type as text.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + name(e.X)
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	case *ast.ArrayType:
		return "[]" + name(e.Elt)
	case *ast.MapType:
		return "map"
	}
	return "?"
}

// fields returns the fields of a struct, including those of embedded structs. packages are all packages that were read,
// and key is the struct's name.
func fields(packages map[string]*source, folder, key string, st *ast.StructType) map[string]field {
	all := tagged(st)
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 && f.Tag == nil {
			of, embedded := folder, name(f.Type)
			if pkg, rest, ok := strings.Cut(embedded, "."); ok {
				of, embedded = map[string]string{"contract": "../internal/contract"}[pkg], rest
			}
			local := key[:strings.LastIndexByte(key, '.')+1] + embedded
			inner := packages[of].structs[embedded]
			if packages[of].structs[local] != nil {
				inner = packages[of].structs[local]
			}
			for n, f := range fields(packages, of, embedded, inner) {
				all[n] = f
			}
		}
	}
	return all
}

// tagged returns the fields of a struct that have names in JSON.
func tagged(st *ast.StructType) map[string]field {
	all := map[string]field{}
	for _, f := range st.Fields.List {
		if f.Tag != nil {
			n, options, _ := strings.Cut(tag(f), ",")
			all[n] = field{f.Type, strings.Contains(options, "omitempty")}
		}
	}
	return all
}

// kinds are the JSON types of Go's types.
var kinds = map[string]string{"string": "string", "bool": "boolean", "int": "integer", "int64": "integer",
	"uint64": "integer", "float32": "number", "float64": "number",
	"time.Duration": "integer", "time.Time": "string"}

// jsonType returns the JSON type of a Go type, or an empty string if it is not determined.
func jsonType(e ast.Expr) string {
	switch text := strings.TrimPrefix(name(e), "*"); {
	case strings.HasPrefix(text, "[]"):
		return "array"
	case text == "map":
		return "object"
	default:
		return kinds[text]
	}
}

// typesOf returns the JSON types of a schema's values.
func (d *document) typesOf(v any) []string {
	s := d.resolve(v)
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var all []string
		for _, t := range t {
			all = append(all, t.(string))
		}
		return all
	}
	var all []string
	for _, part := range asList(s["oneOf"]) {
		all = append(all, d.typesOf(part)...)
	}
	return all
}

func TestFieldsMatchTypes(t *testing.T) {
	d := load(t)
	packages := map[string]*source{}
	embedded := map[string]bool{}
	for folder := range types {
		packages[folder] = parse(t, folder)
		maps.Copy(embedded, packages[folder].embedded)
	}
	for _, folder := range slices.Sorted(maps.Keys(types)) {
		for key, st := range packages[folder].structs {
			is, ok := types[folder][key]
			base := key[strings.LastIndexByte(key, '.')+1:]
			switch {
			case packages[folder].generated[key] == ok:
				if ok {
					t.Errorf("%s: the schema of %s is generated; take it out of types", folder, key)
				} else if !embedded[base] && !embedded["contract."+base] {
					t.Errorf("%s: %s has no schema; write //openapi:request NAME or //openapi:answer NAME above it and run "+
						"go generate ./server/openapi, or name in types the schema that is written by hand", folder, key)
				}
			case ok && is.kind != elsewhere:
				schema := d.at("#/components/schemas/" + is.schema)
				if schema == nil {
					t.Errorf("there is no schema %s", is.schema)
				}
				d.compare(t, folder+" "+key, is.kind, schema, fields(packages, folder, key, st))
			}
		}
		for key := range types[folder] {
			if packages[folder].structs[key] == nil {
				t.Errorf("%s no longer has %s", folder, key)
			}
		}
	}
}

// compare compares the fields of a struct with a schema.
func (d *document) compare(t *testing.T, what string, k kind, schema any, of map[string]field) {
	t.Helper()
	properties := d.fields(schema)
	for n := range properties {
		if _, ok := of[n]; !ok && k != partial {
			t.Errorf("%s: the schema has %s, which is not a field", what, n)
		}
	}
	required := asList(d.resolve(schema)["required"])
	for n, f := range of {
		p, ok := properties[n]
		if !ok {
			t.Errorf("%s: the schema lacks %s", what, n)
			continue
		}
		types := d.typesOf(p)
		if want := jsonType(f.typ); want != "" {
			for _, is := range types {
				if is != want && is != "null" && !(want == "number" && is == "integer") {
					t.Errorf("%s: %s is of type %s and not %s", what, n, want, is)
				}
			}
		}
		if k == answered {
			if slices.Contains(required, any(n)) == f.omitEmpty {
				t.Errorf("%s: %s is left out where it is empty: %v; and required: %v", what, n, f.omitEmpty, !f.omitEmpty)
			}
			// A field that is only a reference is always present; a null would fail the validation of answers.
			if _, pointer := f.typ.(*ast.StarExpr); pointer && !f.omitEmpty && asObject(p)["$ref"] == nil &&
				!slices.Contains(types, "null") {
				t.Errorf("%s: %s can be null", what, n)
			}
		}
		if inner, ok := f.typ.(*ast.StructType); ok {
			d.compare(t, what+"."+n, k, p, tagged(inner))
		}
	}
}
