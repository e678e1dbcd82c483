package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// schema is a JSON Schema.
type schema = map[string]any

// kind says whether a type is decoded or encoded.
type kind string

const (
	request kind = "request"
	answer  kind = "answer"
)

// source has the types of the packages, by names such as "ollama.ChatRequest".
type source map[string]*declared

// declared is a type.
type declared struct {
	in     source
	folder string
	pkg    string
	name   string
	typ    ast.Expr
	kind   kind
	// as is the name of the schema. It is empty if the schema has none.
	as string
	// about is the description of the schema. It is empty if there is none.
	about string
}

// load reads the packages below a folder.
func load(folder string) (source, error) {
	s := source{}
	return s, filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					err = errors.Join(err, s.add(filepath.Dir(name), file.Name.Name, t, cmp.Or(t.Doc, g.Doc)))
				}
			}
		}
		return err
	})
}

// add adds a type of a package in a folder with its doc comment.
func (s source) add(folder, pkg string, t *ast.TypeSpec, doc *ast.CommentGroup) error {
	d := &declared{in: s, folder: folder, pkg: pkg, name: t.Name.Name, typ: t.Type}
	s[pkg+"."+d.name] = d
	if doc == nil {
		return nil
	}
	for _, c := range doc.List {
		if words, ok := strings.CutPrefix(c.Text, "//openapi:"); ok {
			says, name, _ := strings.Cut(words, " ")
			if d.kind, d.as = kind(says), name; d.kind != request && d.kind != answer {
				return fmt.Errorf("%s.%s: //openapi: takes request or answer and not %q", pkg, d.name, says)
			}
		}
	}
	if d.kind != "" {
		_, about, _ := strings.Cut(doc.Text(), "\n\n")
		d.about = oneLine(about)
	}
	return nil
}

// oneLine returns the text of a comment as one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// named lists the types whose schemas have names, in the order of these names.
func (s source) named() []*declared {
	list := slices.Collect(maps.Values(s))
	list = slices.DeleteFunc(list, func(d *declared) bool { return d.as == "" })
	slices.SortFunc(list, func(a, b *declared) int { return strings.Compare(a.as, b.as) })
	return list
}

// find returns the type that an expression in the package pkg names, or nil.
func (s source) find(pkg string, e ast.Expr) *declared {
	switch e := e.(type) {
	case *ast.Ident:
		return s[pkg+"."+e.Name]
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok {
			return s[of.Name+"."+e.Sel.Name]
		}
	}
	return nil
}

// schema returns the schema of a type.
func (d *declared) schema() (schema, error) {
	st, ok := d.typ.(*ast.StructType)
	if !ok {
		return nil, fmt.Errorf("%s.%s: only structs have schemas", d.pkg, d.name)
	}
	o := object{declared: d, properties: schema{}}
	if err := o.add(d.pkg, st); err != nil {
		return nil, fmt.Errorf("%s.%s%w", d.pkg, d.name, err)
	}
	all := o.schema()
	if d.about != "" {
		all["description"] = d.about
	}
	return all, nil
}

// object collects the fields of a struct.
type object struct {
	*declared
	properties schema
	required   []string
	parts      []any
}

func (o *object) schema() schema {
	own := schema{"type": "object", "properties": o.properties}
	if len(o.required) > 0 {
		own["required"] = o.required
	}
	if len(o.parts) == 0 {
		return own
	}
	if len(o.properties) > 0 {
		o.parts = append(o.parts, own)
	}
	return schema{"allOf": o.parts}
}

// add adds the fields of a struct of the package pkg.
func (o *object) add(pkg string, st *ast.StructType) error {
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 && f.Tag == nil {
			inner := o.in.find(pkg, f.Type)
			if inner == nil {
				return fmt.Errorf(": an embedded type is unknown")
			}
			if inner.as != "" && o.kind == request {
				o.parts = append(o.parts, reference(inner.as))
			} else if err := o.add(inner.pkg, inner.typ.(*ast.StructType)); err != nil {
				return err
			}
			continue
		}
		if f.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		name, options, _ := strings.Cut(tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		omit := strings.Contains(options, "omitempty")
		property, required, err := o.property(pkg, f, tag, omit)
		if err != nil {
			return fmt.Errorf(".%s%w", f.Names[0].Name, err)
		}
		if o.properties[name] = property; required || o.kind == answer && !omit {
			o.required = append(o.required, name)
		}
	}
	return nil
}

// property returns the schema of a field, and whether the tag says that the field is required.
func (o *object) property(pkg string, f *ast.Field, tag reflect.StructTag, omit bool) (schema, bool, error) {
	t, err := parseTag(tag.Get("api"))
	if err != nil {
		return nil, false, err
	}
	if !t.typed {
		typ, err := o.typeOf(pkg, f.Type)
		if err != nil {
			return nil, false, err
		}
		limits, _ := t.kinds[0]["limits"].(string)
		t.kinds[0] = typ
		if _, pointer := f.Type.(*ast.StarExpr); pointer && o.kind == answer && !omit && len(t.kinds) == 1 {
			t.kinds = append(t.kinds, schema{"type": "null"})
		}
		if err := limit(typ, limits); err != nil {
			return nil, false, err
		}
	}
	p := join(t.kinds)
	maps.Copy(p, t.attributes)
	if f.Doc != nil {
		p["description"] = oneLine(f.Doc.Text())
	}
	return p, t.required, nil
}

// types are the schemas of Go's types.
var types = map[string]schema{
	"string": {"type": "string"}, "bool": {"type": "boolean"}, "int": {"type": "integer"}, "int64": {"type": "integer"},
	"uint64": {"type": "integer"}, "float32": {"type": "number"}, "float64": {"type": "number"},
	"time.Duration": {"type": "integer"}, "time.Time": {"type": "string", "format": "date-time"},
}

// typeOf returns the schema of a Go type of the package pkg.
func (o *object) typeOf(pkg string, e ast.Expr) (schema, error) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return o.typeOf(pkg, e.X)
	case *ast.ArrayType:
		items, err := o.typeOf(pkg, e.Elt)
		return schema{"type": "array", "items": items}, err
	case *ast.StructType:
		inner := object{declared: o.declared, properties: schema{}}
		err := inner.add(pkg, e)
		return inner.schema(), err
	case *ast.Ident, *ast.SelectorExpr:
		if known := types[nameOf(e)]; known != nil {
			return maps.Clone(known), nil
		}
		if d := o.in.find(pkg, e); d != nil {
			switch {
			case d.as != "":
				return reference(d.as), nil
			case d.kind != "":
				return d.schema()
			}
			if _, ok := d.typ.(*ast.StructType); !ok {
				return o.typeOf(d.pkg, d.typ)
			}
		}
	}
	return nil, errors.New(": the schema does not follow from the type; give it with the tag api")
}

// nameOf returns the name of a type as it is written.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	}
	return ""
}

// reference refers to a named schema.
func reference(name string) schema { return schema{"$ref": "#/components/schemas/" + name} }
