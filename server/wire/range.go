package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// rule is what the tags of a field say about its values. The tag api declares a range, of the number or of the length
// of the text in bytes, or the texts that the field takes. Limits that it does not declare are infinite. The tag refuse
// says that the field must be left out, and why or what to do instead.
type rule struct {
	index     []int
	name      string
	low, high float64
	words     []string
	refuse    string
	// empty is the JSON text that counts as left out, in addition to null.
	empty string
}

// rangeTag matches a range at the beginning of the tag api, and wordsTag a list of texts. openapi/generate describes
// the tag.
var (
	rangeTag = regexp.MustCompile(`^(?:integer|string)?\[(-?[\d.]*?)\.\.([\d.]*)\](?:$|[ |])`)
	wordsTag = regexp.MustCompile(`^=([^ |]+)`)
)

// rules caches the results of rulesOf by type.
var rules sync.Map

// rulesOf returns the rules of the fields of a struct and of the structs in it, except those behind pointers.
func rulesOf(t reflect.Type) []rule {
	if known, ok := rules.Load(t); ok {
		return known.([]rule)
	}
	var list []rule
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Struct && (f.Anonymous || name != "") {
			for _, r := range rulesOf(f.Type) {
				if r.index = append([]int{i}, r.index...); !f.Anonymous {
					r.name = name + "." + r.name
				}
				list = append(list, r)
			}
		}
		if r := (rule{index: []int{i}, name: name, refuse: f.Tag.Get("refuse")}); r.read(&f) {
			list = append(list, r)
		}
	}
	rules.Store(t, list)
	return list
}

// read reads the tags of a field, and reports whether they say anything about its values. The readers of a format check
// the field type themselves, because they know more types than they take.
func (r *rule) read(f *reflect.StructField) bool {
	kind := f.Type.Kind()
	if kind == reflect.Pointer {
		kind = f.Type.Elem().Kind()
	}
	api := f.Tag.Get("api")
	if words := wordsTag.FindStringSubmatch(api); words != nil && kind == reflect.String && r.name != "type" {
		r.words = strings.Split(words[1], ",")
		if f.Type.Kind() == reflect.String && !strings.Contains(api, " required") {
			r.words = append(r.words, "")
		}
	}
	m := rangeTag.FindStringSubmatch(api)
	if r.refuse != "" {
		r.empty = empties[api[0]]
		return true
	}
	if m == nil || kind != reflect.String && (kind < reflect.Int || kind > reflect.Float64) {
		return r.words != nil
	}
	var errs [2]error
	r.low, errs[0] = strconv.ParseFloat(cmp.Or(m[1], "-Inf"), 64)
	if r.high, errs[1] = strconv.ParseFloat(cmp.Or(m[2], "+Inf"), 64); errors.Join(errs[:]...) != nil {
		panic(fmt.Sprintf("the field %s has the range %s", f.Name, m[0]))
	}
	return true
}

// inRange refuses a decoded value with a field that breaks its rule. Most empty texts pass: most fields may be left
// out, and handlers say what is missing.
func inRange(v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.Elem().Kind() != reflect.Struct {
		return nil
	}
	for _, r := range rulesOf(p.Elem().Type()) {
		f := p.Elem().FieldByIndex(r.index)
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if !f.IsValid() {
			continue
		}
		if err := r.check(f); err != nil {
			return err
		}
	}
	return nil
}

// empties are the values of rule.empty by the first letter of the tag api: of lists, and of switches with a schema.
var empties = map[byte]string{'a': "[]", '#': "false"}

// check returns an error for a value that breaks the rule.
func (r *rule) check(f reflect.Value) error {
	size, what := 0.0, "a whole number"
	switch {
	case r.refuse != "":
		raw, isRaw := f.Interface().(json.RawMessage)
		if f.Len() > 0 && !(isRaw && (string(raw) == "null" || string(raw) == r.empty)) {
			return Unsupported(r.name, "it is not supported here; %s", r.refuse)
		}
		return nil
	case r.words != nil:
		said := "it is missing"
		if f.Len() > 0 {
			said = fmt.Sprintf("%q is not known", Clip(f.String()))
		}
		if !slices.Contains(r.words, f.String()) {
			return Invalid(r.name, "%s; it takes one of %s", said, strings.Trim(strings.Join(r.words, ", "), ", "))
		}
		return nil
	case f.Kind() == reflect.String:
		if n := float64(f.Len()); n > 0 && !(n >= r.low && n <= r.high) {
			return Invalid(r.name, "it has %d bytes; at most %s are allowed", f.Len(), number(r.high))
		}
		return nil
	case f.CanInt():
		size = float64(f.Int())
	case f.CanUint():
		size = float64(f.Uint())
	default:
		size, what = f.Float(), "a number"
	}
	switch {
	case size >= r.low && size <= r.high:
		return nil
	case math.IsInf(r.high, 1):
		return Invalid(r.name, "it takes %s of at least %s", what, number(r.low))
	}
	return Invalid(r.name, "it takes %s from %s to %s", what, number(r.low), number(r.high))
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
