package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// The default limits of a body's shape. Each value can take some hundred bytes of memory when it is decoded, so that
// short ones take a multiple of their text, and decoding what is nested takes time for each level.
const (
	DefaultValues = 1_000_000
	DefaultDepth  = 256
)

// Budget is what a server allows of one request's body, and the memory that it has for it. The body of a request that
// comes from a server implements it; ReadJSON uses it.
type Budget interface {
	// Shape returns the most values that a body may have, and how deep they may be nested.
	Shape() (values, depth int)
	// Reserve counts n more bytes of memory until the request is answered. The error is an *Error: there are too many now,
	// or more than one request may have.
	Reserve(n int64) error
}

// Reserve counts n more bytes of memory for a request, see [Budget]. Without a budget there is no limit.
func Reserve(r *http.Request, n int64) error {
	if b, ok := r.Body.(Budget); ok {
		return b.Reserve(n)
	}
	return nil
}

// shapeOf returns what is allowed of a request's body.
func shapeOf(r *http.Request) (values, depth int) {
	if b, ok := r.Body.(Budget); ok {
		return b.Shape()
	}
	return DefaultValues, DefaultDepth
}

// valueCost is about what a decoded value takes in memory, in bytes, and textCost what a byte of text takes that is
// read, decoded and rendered.
const (
	valueCost = 128
	textCost  = 8
)

// BodyCost is about how much memory a request takes whose body has so many bytes and values.
func BodyCost(length int64, values int) int64 { return max(length*textCost, int64(values)*valueCost) }

// shape is what can be told of JSON text before it is decoded.
type shape struct {
	// values is about how many values it has: those that stand behind a comma, a colon or a bracket.
	values int
	// depth is how deep lists and objects are open in one another at most.
	depth int
	// entries says how many entries the lists and objects have that are fields of the text's object.
	entries map[string]int
}

// look returns the shape of what begins like JSON text. Of entries it keeps those of fields, whose names have any case.
func look(body []byte, fields map[string]int) (s shape) {
	open := 0
	var key []byte // the last string in the outermost object
	// the field that is being read, how many commas it has, and whether something came after the last
	field, n, used := "", 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			end := endOfString(body, i)
			if open == 1 {
				key = body[i : end+1]
			}
			used = used || open == 2
			i = end
		case c == '[' || c == '{':
			used = used || open == 2
			s.values++
			open++
			if s.depth = max(s.depth, open); open == 2 {
				field, n, used = fieldOf(key, fields), 0, false
			}
		case c == ']' || c == '}':
			if open == 2 && field != "" {
				if used {
					n++
				}
				s.note(field, n)
			}
			open--
		case c == ',':
			s.values++
			if open == 2 {
				n++
			}
		case c == ':':
			s.values++
		case c > ' ':
			used = used || open == 2
		}
	}
	if open >= 2 && field != "" {
		s.note(field, n) // the text breaks off
	}
	return s
}

// note adds entries of a field.
func (s *shape) note(field string, n int) {
	if s.entries == nil {
		s.entries = map[string]int{}
	}
	s.entries[field] += n
}

// fieldOf returns the field that package json would read for a key, or none.
func fieldOf(key []byte, fields map[string]int) string {
	if len(fields) == 0 || len(key) == 0 {
		return ""
	}
	name := strings.Trim(string(key), `"`)
	if bytes.IndexByte(key, '\\') >= 0 && json.Unmarshal(key, &name) != nil {
		return ""
	}
	for field := range fields {
		if strings.EqualFold(field, name) {
			return field
		}
	}
	return ""
}

// check refuses a body that has more than is allowed, before it is decoded into v. Fields of v say with the tag max how
// many entries they take.
func check(body []byte, v any, values, depth int) (shape, error) {
	fields := mostEntries(v)
	s := look(body, fields)
	switch {
	case s.values > values:
		return s, Errorf(http.StatusRequestEntityTooLarge, CodeTooLarge,
			"the body has more than the %d values that are allowed (--max-values)", values)
	case s.depth > depth:
		return s, Errorf(http.StatusBadRequest, CodeInvalidJSON,
			"the body is nested deeper than the %d levels that are allowed (--max-nesting)", depth)
	}
	for field, n := range s.entries {
		if most := fields[field]; n > most {
			return s, tooMany(field, n, most)
		}
	}
	return s, nil
}

func tooMany(path string, n, most int) *Error {
	return Invalid(path, "there are %d; at most %d are allowed", n, most)
}

// AtMost refuses a list or an object at path that has more entries than most, before it is decoded.
func AtMost(path string, raw json.RawMessage, most int) error {
	if len(raw) <= most {
		return nil // each entry takes a byte
	}
	if n := entries(raw); n > most {
		return tooMany(path, n, most)
	}
	return nil
}

// entries returns how many entries a list or an object has.
func entries(raw []byte) (n int) {
	open, used := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			used = used || open == 1
			i = endOfString(raw, i)
		case c == '[' || c == '{':
			used = used || open == 1
			open++
		case c == ']' || c == '}':
			if open--; open == 0 && used {
				n++
			}
		case c == ',' && open == 1:
			n++
		case c > ' ':
			used = used || open == 1
		}
	}
	return n
}

// endOfString returns where the string ends that begins at i: the place of its closing quote, or of the last byte.
func endOfString(body []byte, i int) int {
	for i++; i < len(body); i++ {
		switch body[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(body) - 1
}

// entryLimits keeps what mostEntries has found out of each type.
var entryLimits sync.Map

// mostEntries returns how many entries the fields of v may have, for those that have a limit.
func mostEntries(v any) map[string]int {
	t := reflect.TypeOf(v)
	if known, ok := entryLimits.Load(t); ok {
		return known.(map[string]int)
	}
	var fields map[string]int
	if t != nil && t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t.Elem()) {
			limit, ok := f.Tag.Lookup("max")
			if !ok {
				continue
			}
			most, err := strconv.Atoi(limit)
			if err != nil {
				panic(fmt.Sprintf("the field %s has the limit %q", f.Name, limit))
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if fields == nil {
				fields = map[string]int{}
			}
			fields[name] = most
		}
	}
	entryLimits.Store(t, fields)
	return fields
}
