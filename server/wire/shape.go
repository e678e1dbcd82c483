package wire

import (
	"bytes"
	"context"
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

// Budget is how much a server allows for one request: the shape of its body, memory, and the processor. The body of a
// request that the server passes on implements it; ReadJSON uses it.
type Budget interface {
	// Shape returns the maximum number of values in a body, and their maximum depth of nesting.
	Shape() (values, depth int)
	// Reserve adds n bytes of memory to the request's account until it is answered. It returns an *Error if there is not
	// enough memory now, or if one request may not have that much.
	Reserve(n int64) error
	// Work waits until the request may use the processor to check its body, to decode it, or to make a long answer; it
	// has work from then on. It does nothing for a request that takes little memory, or if the request has work already.
	// The error is the cause of ctx's end.
	Work(ctx context.Context) error
	// Rest ends the work. It is also ended while the request waits for its model, when the model runs, and before anything
	// is written. A handler that waits for something else in between must call it.
	Rest()
}

// Work calls the Work method of a request's [Budget], and Rest its Rest method. Without a budget they do nothing.
func Work(r *http.Request) error {
	if b, ok := r.Body.(Budget); ok {
		return b.Work(r.Context())
	}
	return nil
}

// Rest is described at [Work].
func Rest(r *http.Request) {
	if b, ok := r.Body.(Budget); ok {
		b.Rest()
	}
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

// shape is what is known of JSON text before it is decoded. The text may be invalid.
type shape struct {
	// values is about how many values there are: those after a comma, a colon or an opening bracket.
	values int
	// depth is how deep lists and objects are nested at most.
	depth int
	// entries counts the entries of each list or object that is a field of the outermost object.
	entries map[string]int

	// fields are the fields whose entries are counted. Their names may be in any letter case.
	fields map[string]int
	// at is how much of the text was looked at, and open how many lists and objects are open there. quote is where the
	// string begins that is open there, or -1. key is the last string in the outermost object.
	at, open, quote int
	key             [2]int
	// field is the field that is open there, n how many commas it has, and used says whether something came after the
	// last.
	field string
	n     int
	used  bool
}

// look returns the shape of JSON text. It counts only the entries of the given fields.
func look(body []byte, fields map[string]int) *shape {
	s := newShape(fields)
	s.more(body)
	s.end()
	return s
}

func newShape(fields map[string]int) *shape { return &shape{fields: fields, quote: -1} }

// more looks at the rest of a text that has become longer.
func (s *shape) more(body []byte) {
	i := s.at
	for ; i < len(body); i++ {
		if s.quote >= 0 {
			end, found := closing(body, s.quote, i)
			if i = end; !found {
				break
			}
			if s.open == 1 {
				s.key = [2]int{s.quote, i + 1}
			}
			s.used = s.used || s.open == 2
			s.quote = -1
			continue
		}
		switch c := body[i]; {
		case c == '"':
			s.quote = i
		case c == '[' || c == '{':
			s.used = s.used || s.open == 2
			s.values++
			s.open++
			if s.depth = max(s.depth, s.open); s.open == 2 {
				s.field, s.n, s.used = fieldOf(body[s.key[0]:s.key[1]], s.fields), 0, false
			}
		case c == ']' || c == '}':
			if s.open == 2 {
				s.end()
			}
			s.open--
		case c == ',':
			s.values++
			if s.open == 2 {
				s.n++
			}
		case c == ':':
			s.values++
		case c > ' ':
			s.used = s.used || s.open == 2
		}
	}
	s.at = i
}

// end counts the entries of the field that ends here. The text may end too.
func (s *shape) end() {
	if s.field == "" {
		return
	}
	if s.entries == nil {
		s.entries = map[string]int{}
	}
	if s.entries[s.field] += s.n; s.used {
		s.entries[s.field]++
	}
	s.field = ""
}

// refuse returns an error if the text has too many values or levels, or if a field has more entries than it may have.
func (s *shape) refuse(values, depth int) error {
	switch {
	case s.values > values:
		return Errorf(CodeTooLarge,
			"the body has more than the %d values that are allowed (--max-values)", values)
	case s.depth > depth:
		return Errorf(CodeInvalidJSON,
			"the body is nested deeper than the %d levels that are allowed (--max-nesting)", depth)
	}
	if most := s.fields[s.field]; s.field != "" && s.n > most {
		return Invalid(s.field, "there are more than the %d that are allowed", most)
	}
	return s.tooMany()
}

// tooMany returns an error if a field has more entries than it may have.
func (s *shape) tooMany() error {
	for field, n := range s.entries {
		if n > s.fields[field] {
			return Invalid(field, "there are %d; at most %d are allowed", n, s.fields[field])
		}
	}
	return nil
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

// closing returns the index of the closing quote, from index i on, of the string that begins at quote. If there is
// none, it returns the length of the text.
func closing(body []byte, quote, i int) (end int, found bool) {
	for i < len(body) {
		n := bytes.IndexByte(body[i:], '"')
		if n < 0 {
			break
		}
		end = i + n
		escapes := end
		for escapes > quote+1 && body[escapes-1] == '\\' {
			escapes--
		}
		if (end-escapes)%2 == 0 {
			return end, true
		}
		i = end + 1
	}
	return len(body), false
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
