package jsonschema

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// maxBlamed is the number of keywords that are tried, in order, to find the one at fault.
const maxBlamed = 24

// silent are members of a schema that have no effect on its instances.
var silent = []string{"$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description",
	"default", "examples", "deprecated",
	"readOnly", "writeOnly"}

// blame names the keyword at fault in a schema without instances: the last one whose removal gives it some. It names
// type only as a last resort, because nearly every contradiction goes away without it.
func blame(ctx context.Context, schema []byte, opt Options, e *Error) {
	root, _ := parseValue(schema, opt.MaxDepth) // it was read before
	at := root.find(e.Pointer)
	if at == nil || !at.isObject() {
		return
	}
	var keys []string
	for _, m := range at.members {
		if !slices.Contains(silent, m.key) {
			keys = append(keys, m.key)
		}
	}
	keys = keys[:min(len(keys), maxBlamed)]
	slices.SortStableFunc(keys, func(a, b string) int { return strings.Compare(first(a), first(b)) })
	for i := len(keys) - 1; i >= 0; i-- {
		_, err := compile(ctx, schema, opt, func(root *value) { root.find(e.Pointer).remove(keys[i]) })
		var still *Error
		if errors.As(err, &still) && still.Class == ErrUnsatisfiable && still.Pointer == e.Pointer {
			continue
		}
		if ctx.Err() == nil {
			e.Keyword = keys[i]
		}
		return
	}
}

// first sorts type before all other keywords.
func first(key string) string {
	if key == "type" {
		return "a"
	}
	return "b"
}

// find returns the value at a JSON pointer, or nil.
func (v *value) find(pointer string) *value {
	if pointer == "" {
		return v
	}
	for _, token := range strings.Split(pointer, "/")[1:] {
		if v = v.child(token); v == nil {
			break
		}
	}
	return v
}

// remove removes a member.
func (v *value) remove(key string) {
	v.members = slices.DeleteFunc(v.members, func(m member) bool { return m.key == key })
	delete(v.index, key)
}
