package jsonschema

import (
	"net/url"
	"strconv"
	"strings"
)

// resource is a schema with its own address: the document, or a schema in it with an $id. References are relative to
// the resource that contains them.
type resource struct {
	root *value
	uri  *url.URL // nil if there is none
}

// place is a schema that a reference can point to.
type place struct {
	raw  *value
	home *resource
}

// places are the targets that references can name without a JSON pointer.
type places struct {
	resources map[string]place // by absolute address
	anchors   map[string]place // by address of the resource, "#" and name
	dynamic   map[string]int   // how many anchors of this name are dynamic
	loose     map[string]place // by a word "id" that the dialect does not know
}

func (r *resource) address() string {
	if r.uri == nil {
		return ""
	}
	return r.uri.String()
}

// under returns the address of ref relative to r.
func (r *resource) under(ref string) (*url.URL, bool) {
	u, err := url.Parse(ref)
	if err != nil {
		return nil, false
	}
	if r.uri != nil {
		u = r.uri.ResolveReference(u)
	}
	return u, true
}

// id returns the address that a schema gives itself.
func (c *compiler) id(raw *value) (string, bool) {
	key := "$id"
	if c.dialect == draft4 {
		key = "id"
	}
	v := raw.get(key)
	if v == nil || v.kind != stringValue || c.dialect <= draft7 && raw.get("$ref") != nil {
		return "", false
	}
	return v.text, true
}

// enter returns the resource of raw, which is inside home.
func (c *compiler) enter(raw *value, home *resource) *resource {
	if raw.kind != objectValue {
		return home
	}
	id, ok := c.id(raw)
	if !ok || strings.HasPrefix(id, "#") {
		return home
	}
	if u, ok := home.under(id); ok {
		u.Fragment, u.RawFragment = "", ""
		if p, ok := c.resources[u.String()]; ok && p.raw == raw {
			return p.home
		}
	}
	return home
}

// holders lists the keywords that contain schemas: one schema or a list of them, or an object of them.
var holders = map[string]bool{
	"allOf": false, "anyOf": false, "oneOf": false, "not": false, "if": false, "then": false, "else": false,
	"prefixItems": false, "items": false, "additionalItems": false, "contains": false, "additionalProperties": false,
	"propertyNames": false, "unevaluatedItems": false, "unevaluatedProperties": false, "contentSchema": false,
	"properties": true, "patternProperties": true, "dependentSchemas": true, "dependencies": true, "$defs": true,
	"definitions": true,
}

// index finds the resources and anchors below raw.
func (c *compiler) index(raw *value, home *resource) {
	if raw.kind == arrayValue {
		for _, item := range raw.items {
			c.index(item, home)
		}
		return
	}
	if raw.kind != objectValue {
		return
	}
	if id, ok := c.id(raw); ok {
		home = c.indexID(raw, id, home)
	}
	if c.dialect >= draft2019 {
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if v := raw.get(key); v != nil && v.kind == stringValue {
				c.anchors[home.address()+"#"+v.text] = place{raw, home}
				if key == "$dynamicAnchor" {
					c.dynamic[v.text]++
				}
			}
		}
	}
	if v := raw.get("id"); v != nil && v.kind == stringValue && c.dialect == open {
		c.loose[v.text] = place{raw, home}
	}
	for _, m := range raw.members {
		object, ok := holders[m.key]
		if !ok {
			continue
		}
		if !object {
			c.index(m.value, home)
			continue
		}
		for _, inner := range m.value.members {
			c.index(inner.value, home)
		}
	}
}

func (c *compiler) indexID(raw *value, id string, home *resource) *resource {
	if name, ok := strings.CutPrefix(id, "#"); ok { // an anchor, as drafts before 2019-09 spell it
		if name != "" {
			c.anchors[home.address()+"#"+name] = place{raw, home}
		}
		return home
	}
	u, ok := home.under(id)
	if !ok {
		return home
	}
	u.Fragment, u.RawFragment = "", ""
	inner := home
	if raw != home.root {
		inner = &resource{root: raw}
	}
	inner.uri = u
	if _, twice := c.resources[u.String()]; !twice {
		c.resources[u.String()] = place{raw, inner}
	}
	return inner
}

// resolve returns the schema that the reference ref of n points to.
func (c *compiler) resolve(n *node, keyword, ref string) *node {
	p, ok := c.find(n, ref)
	if !ok {
		reason := "the reference leads to nothing in this document"
		if !strings.HasPrefix(ref, "#") {
			reason = "the reference leads out of this document, and nothing is loaded from elsewhere"
		}
		fail(c.errorAt(ErrUnsupported, n, keyword, reason))
	}
	if p.raw.schema == nil && p.raw.kind != objectValue && p.raw.kind != trueValue && p.raw.kind != falseValue {
		fail(c.errorAt(ErrInvalid, n, keyword, "the reference points to something that is not a schema"))
	}
	return c.nodeOf(p.raw, p.home)
}

func (c *compiler) find(n *node, ref string) (place, bool) {
	home, fragment, found := n.home, "", true
	if f, ok := strings.CutPrefix(ref, "#"); ok {
		fragment = f
		if u, err := url.PathUnescape(f); err == nil {
			fragment = u
		}
	} else {
		u, ok := n.home.under(ref)
		if !ok {
			return place{}, false
		}
		fragment = u.Fragment
		u.Fragment, u.RawFragment = "", ""
		var p place
		if p, found = c.resources[u.String()]; found {
			home = p.home
		} else if u.String() == n.home.address() {
			found = true
		}
	}
	if found {
		switch {
		case fragment == "":
			return place{home.root, home}, true
		case fragment[0] == '/':
			if p, ok := c.walk(home, fragment); ok {
				return p, true
			}
		default:
			if p, ok := c.anchors[home.address()+"#"+fragment]; ok {
				return p, true
			}
		}
	}
	p, ok := c.loose[ref]
	return p, ok
}

// walk follows a JSON pointer from the root of a resource.
func (c *compiler) walk(home *resource, pointer string) (place, bool) {
	at := place{home.root, home}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		if at.raw != home.root && c.marks {
			at.home = c.enter(at.raw, at.home)
		}
		if at.raw = at.raw.child(token); at.raw == nil {
			return at, false
		}
	}
	return at, true
}

// resolveDynamic resolves $dynamicRef and $recursiveRef if they can mean only one schema.
func (c *compiler) resolveDynamic(n *node, keyword, ref string) *node {
	target := c.resolve(n, keyword, ref)
	if keyword == "$recursiveRef" {
		if v := target.raw.get("$recursiveAnchor"); v != nil && v.kind == trueValue && len(c.resources) > 1 {
			fail(c.errorAt(ErrUnsupported, n, keyword, "the reference depends on the path by which it is reached"))
		}
		return target
	}
	v := target.raw.get("$dynamicAnchor")
	if v == nil || !strings.HasSuffix(ref, "#"+v.text) || c.dynamic[v.text] == 1 {
		return target
	}
	fail(c.errorAt(ErrUnsupported, n, keyword, "the reference depends on the path by which it is reached"))
	return nil
}

// pointer returns the JSON pointer of raw, or of the nearest enclosing schema of the document.
func (c *compiler) pointer(raw *value) string {
	path, _ := pathTo(c.root, raw)
	return path
}

func pathTo(from, to *value) (string, bool) {
	if from == to {
		return "", true
	}
	for i, item := range from.items {
		if path, ok := pathTo(item, to); ok {
			return "/" + strconv.Itoa(i) + path, true
		}
	}
	for _, m := range from.members {
		if path, ok := pathTo(m.value, to); ok {
			return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m.key) + path, true
		}
	}
	return "", false
}

func (c *compiler) errorAt(class error, n *node, keyword, reason string) *Error {
	return &Error{Class: class, Keyword: keyword, Pointer: c.pointer(n.raw), Reason: reason}
}
