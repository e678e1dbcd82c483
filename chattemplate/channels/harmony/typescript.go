package harmony

import "strings"

// tsWriter renders JSON Schemas as the TypeScript-like types that gpt-oss was trained with. Its output is the same as
// that of the format's reference renderer. It renders the same keywords: type (also as a list), properties, required,
// items, oneOf, enum (of strings), nullable, default, title, description and examples. It leaves out all others. A
// schema without a type is "any".
type tsWriter struct {
	strings.Builder
	full bool
}

// put appends texts. When maxDefinitions is reached, it sets full and appends nothing more.
func (w *tsWriter) put(texts ...string) {
	for _, s := range texts {
		if w.full || w.Len()+len(s) > maxDefinitions {
			w.full = true
			return
		}
		w.WriteString(s)
	}
}

// spaces is long enough for the deepest indentation, with four columns a level.
const spaces = "                                                                " +
	"                                                                " +
	"                                                                " +
	"                                                                "

func (w *tsWriter) indent(n int) { w.put(spaces[:min(n, len(spaces))]) }

// comment writes one comment line. The text is written unchanged, with its line breaks.
func (w *tsWriter) comment(indent int, text string) {
	w.indent(indent)
	w.put("// ", text, "\n")
}

// typ writes the type of schema s.
func (w *tsWriter) typ(s *value, indent int) {
	if variants, ok := s.elems("oneOf"); ok {
		for _, v := range variants {
			w.put("\n")
			w.indent(indent)
			w.put(" | ")
			w.nullable(v, indent+3)
			var notes []string
			if d, ok := v.str("description"); ok {
				notes = append(notes, d)
			}
			if d := v.get("default"); d != nil {
				notes = append(notes, "default: "+d.json())
			}
			w.notes(notes)
		}
		return
	}
	if types, ok := s.elems("type"); ok {
		var names []string
		for _, t := range types {
			if t.kind == 's' {
				names = append(names, tsName(t.text))
			}
		}
		w.put(or(strings.Join(names, " | "), "any"))
		return
	}
	switch name, _ := s.str("type"); name {
	case "object":
		w.object(s, indent)
	case "string":
		w.put(or(enumText(s), "string"))
	case "number", "integer", "boolean":
		w.put(tsName(name))
	case "array":
		if items := s.get("items"); items != nil {
			w.typ(items, indent)
			w.put("[]")
		} else {
			w.put("Array<any>")
		}
	default:
		w.put("any")
	}
}

func tsName(jsonType string) string {
	if jsonType == "integer" {
		return "number"
	}
	return jsonType
}

// enumText renders an enum's strings as a union. It returns "" if there are none.
func enumText(s *value) string {
	var texts []string
	values, _ := s.elems("enum")
	for _, v := range values {
		if v.kind == 's' {
			texts = append(texts, `"`+v.text+`"`)
		}
	}
	return strings.Join(texts, " | ")
}

// nullable writes the type of s. It adds null if s is nullable and the type does not have it already.
func (w *tsWriter) nullable(s *value, indent int) {
	start := w.Len()
	w.typ(s, indent)
	if n := s.get("nullable"); n != nil && n.kind == 'b' && n.text == "true" &&
		!strings.Contains(w.String()[start:], "null") {
		w.put(" | null")
	}
}

func (w *tsWriter) notes(notes []string) {
	if len(notes) > 0 {
		w.put(" // ", strings.Join(notes, " "))
	}
}

// defaultText renders a property's default. Strings are quoted unless the property has an enum.
func defaultText(s *value) (string, bool) {
	d := s.get("default")
	switch {
	case d == nil:
		return "", false
	case d.kind != 's':
		return "default: " + d.json(), true
	}
	if values, _ := s.elems("enum"); len(values) > 0 {
		return "default: " + d.text, true
	}
	return `default: "` + d.text + `"`, true
}

func (w *tsWriter) object(s *value, indent int) {
	if d, ok := s.str("description"); ok {
		w.comment(indent, d)
	}
	w.put("{\n")
	required := map[string]bool{}
	names, _ := s.elems("required")
	for _, n := range names {
		if n.kind == 's' {
			required[n.text] = true
		}
	}
	if props := s.get("properties"); props != nil && props.kind == '{' {
		for i, name := range props.keys {
			mark := "?"
			if required[name] {
				mark = ""
			}
			w.property(name+mark, props.vals[i], indent)
		}
	}
	w.indent(indent)
	w.put("}")
}

// property writes one property with its comments.
func (w *tsWriter) property(name string, s *value, indent int) {
	if t, ok := s.str("title"); ok {
		w.comment(indent, t)
		w.indent(indent)
		w.put("//\n")
	}
	if d, ok := s.str("description"); ok && s.get("oneOf") == nil {
		w.comment(indent, d)
	}
	if examples, _ := s.elems("examples"); len(examples) > 0 {
		w.comment(indent, "Examples:")
		for _, e := range examples {
			if e.kind == 's' {
				w.comment(indent, `- "`+e.text+`"`)
			}
		}
	}
	if variants, ok := s.elems("oneOf"); ok {
		w.unionProperty(name, s, variants, indent)
		return
	}
	w.indent(indent)
	w.put(name, ": ")
	w.nullable(s, indent+4)
	w.put(",")
	if d, ok := defaultText(s); ok && s.get("oneOf") == nil {
		w.put(" // ", d)
	}
	w.put("\n")
}

// unionProperty writes a property with oneOf. Its default goes above it, and so does its description unless the first
// variant has the same one. A variant's own default and description go after its type. The first variant's description
// is left out if the property's is above.
func (w *tsWriter) unionProperty(name string, s *value, variants []*value, indent int) {
	description, described := s.str("description")
	above := described
	if described && len(variants) > 0 {
		if d, ok := variants[0].str("description"); ok && d == description {
			above = false
		}
	}
	if above {
		w.comment(indent, description)
	}
	if d, ok := defaultText(s); ok {
		w.comment(indent, d)
	}
	w.indent(indent)
	w.put(name, ":\n")
	for i, v := range variants {
		w.indent(indent)
		w.put(" | ")
		w.nullable(v, indent+3)
		var notes []string
		if d, ok := v.str("description"); ok && !(i == 0 && above) && !(described && d == description) {
			notes = append(notes, d)
		}
		if d, ok := defaultText(v); ok {
			notes = append(notes, d)
		}
		w.notes(notes)
		w.put("\n")
	}
	w.indent(indent)
	w.put(",\n")
}
