package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// The default limits of a body's shape. A decoded value can take a few hundred bytes of memory, much more than the text
// of a short one. Each level of nesting takes time to decode.
const (
	DefaultValues = 1_000_000
	DefaultDepth  = 256
)

// Budget is how much a server allows for one request: the shape of its body, and memory. The body of a request that
// the server passes on implements it; ReadJSON uses it.
type Budget interface {
	// Shape returns the maximum number of values in a body, and their maximum depth of nesting.
	Shape() (values, depth int)
	// Reserve adds n bytes of memory to the request's account until it is answered. It returns an *Error if there is not
	// enough memory now, or if one request may not have that much.
	Reserve(n int64) error
}

// Reserve calls the Reserve method of a request's [Budget]. Without a budget there is no limit.
func Reserve(r *http.Request, n int64) error {
	if b, ok := r.Body.(Budget); ok {
		return b.Reserve(n)
	}
	return nil
}

// shapeOf returns the limits of the shape of a request's body.
func shapeOf(r *http.Request) (values, depth int) {
	if b, ok := r.Body.(Budget); ok {
		return b.Shape()
	}
	return DefaultValues, DefaultDepth
}

// valueCost estimates the memory of a decoded value in bytes. textCost estimates that of a byte of text after it was
// read, decoded and rendered.
const (
	valueCost = 128
	textCost  = 8
)

// BodyCost estimates the memory that a request takes, in bytes, from the number of bytes and values of its body.
func BodyCost(length int64, values int) int64 { return max(length*textCost, int64(values)*valueCost) }

// shape is what is known of JSON text before it is decoded.
type shape struct {
	// values is about how many values there are: those after a comma, a colon or an opening bracket.
	values int
	// depth is how deep lists and objects are nested at most.
	depth int
	// entries counts the entries of each list or object that is a field of the outermost object.
	entries map[string]int
}

// look returns the shape of JSON text, which may be invalid. It counts only the entries of the given fields, whose
// names may be in any letter case.
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
		s.note(field, n) // the text ends early
	}
	return s
}

// note counts entries of a field.
func (s *shape) note(field string, n int) {
	if s.entries == nil {
		s.entries = map[string]int{}
	}
	s.entries[field] += n
}

// fieldOf returns the field that package json would decode a key into, or an empty string.
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

// check refuses a body that has too many values, before it is decoded into v.
func check(body []byte, v any, values, depth int) (shape, error) {
	most := mostEntries(v)
	s := look(body, most)
	switch {
	case s.values > values:
		return s, Errorf(http.StatusRequestEntityTooLarge, CodeTooLarge,
			"the body has more than the %d values that are allowed (--max-values)", values)
	case s.depth > depth:
		return s, Errorf(http.StatusBadRequest, CodeInvalidJSON,
			"the body is nested deeper than the %d levels that are allowed (--max-nesting)", depth)
	}
	return s, refuse(s, most)
}

// refuse returns an error if a field has more than its maximum number of entries.
func refuse(s shape, most map[string]int) error {
	for field, n := range s.entries {
		if n > most[field] {
			return tooMany(field, n, most[field])
		}
	}
	return nil
}

func tooMany(path string, n, most int) *Error {
	return Invalid(path, "there are %d; at most %d are allowed", n, most)
}

// AtMost refuses a list or an object that has more than most entries, before it is decoded. path is its place in the
// body.
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

// endOfString returns the index of the closing quote of the string that begins at i, or of the last byte if there
// is none.
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

// entryLimits caches the results of mostEntries by type.
var entryLimits sync.Map

// mostEntries returns the maximum number of entries of the fields of v that have one. Fields of embedded structs
// count, those of other structs do not.
func mostEntries(v any) map[string]int {
	t := reflect.TypeOf(v)
	if known, ok := entryLimits.Load(t); ok {
		return known.(map[string]int)
	}
	var fields map[string]int
	if t != nil && t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t.Elem()) {
			if most, ok := entryLimit(f); ok {
				if fields == nil {
					fields = map[string]int{}
				}
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				fields[name] = most
			}
		}
	}
	entryLimits.Store(t, fields)
	return fields
}

// limited matches a kind of values with a maximum number of entries in the tag api: array[..9], {}[..9], #Name[..9] or
// [..9]string. For [..9] alone the type of the field says what is limited.
var limited = regexp.MustCompile(`^(?:array|#\w+|\{\w*\})?\[\d*\.\.(\d+)\](.*)$`)

// emptyEntries is the maximum number of entries of a list that must be empty. Its handler says why.
const emptyEntries = 1024

// entryLimit returns the maximum number of entries that the tag api of a field declares. openapi/generate describes
// the tag.
func entryLimit(f reflect.StructField) (most int, ok bool) {
	kinds, _, _ := strings.Cut(f.Tag.Get("api"), " ")
	for kind := range strings.SplitSeq(kinds, "|") {
		found := limited.FindStringSubmatch(kind)
		list := f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map
		if found == nil || kind[0] == '[' && found[2] == "" && !list {
			continue
		}
		if most, err := strconv.Atoi(found[1]); err == nil && most > 0 {
			return most, true
		}
		return emptyEntries, true
	}
	return 0, false
}
