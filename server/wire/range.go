package wire

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// bound is the range that the tag api of a field declares: of the number, or of the length of the text in bytes. Limits
// that it does not declare are infinite.
type bound struct {
	index     []int
	name      string
	low, high float64
}

// boundTag matches a range at the beginning of the tag api. openapi/generate describes the tag.
var boundTag = regexp.MustCompile(`^(?:integer|string)?\[(-?[\d.]*?)\.\.([\d.]*)\](?:$|[ |])`)

// bounds caches the results of boundsOf by type.
var bounds sync.Map

// boundsOf returns the ranges of the fields of a struct and of the structs in it, except those behind pointers.
func boundsOf(t reflect.Type) []bound {
	if known, ok := bounds.Load(t); ok {
		return known.([]bound)
	}
	var list []bound
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		kind := f.Type.Kind()
		if kind == reflect.Pointer {
			kind = f.Type.Elem().Kind()
		}
		if f.Type.Kind() == reflect.Struct && (f.Anonymous || name != "") {
			for _, b := range boundsOf(f.Type) {
				if b.index = append([]int{i}, b.index...); !f.Anonymous {
					b.name = name + "." + b.name
				}
				list = append(list, b)
			}
		}
		m := boundTag.FindStringSubmatch(f.Tag.Get("api"))
		if m == nil || kind != reflect.String && (kind < reflect.Int || kind > reflect.Float64) {
			continue
		}
		low, high := cmp.Or(m[1], "-Inf"), cmp.Or(m[2], "+Inf")
		b := bound{index: []int{i}, name: name}
		var errs [2]error
		b.low, errs[0] = strconv.ParseFloat(low, 64)
		if b.high, errs[1] = strconv.ParseFloat(high, 64); errors.Join(errs[:]...) != nil {
			panic(fmt.Sprintf("the field %s has the range %s", f.Name, m[0]))
		}
		list = append(list, b)
	}
	bounds.Store(t, list)
	return list
}

// inRange refuses a decoded value with a number or a text outside of its range. Empty texts pass: most fields may be
// left out, and handlers say what is missing.
func inRange(v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.Elem().Kind() != reflect.Struct {
		return nil
	}
	for _, b := range boundsOf(p.Elem().Type()) {
		f := p.Elem().FieldByIndex(b.index)
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if !f.IsValid() || f.Kind() == reflect.String && f.Len() == 0 {
			continue
		}
		if n := sizeOf(f); !(n >= b.low && n <= b.high) {
			return b.refuse(f)
		}
	}
	return nil
}

// sizeOf returns a number, or the length of a text.
func sizeOf(f reflect.Value) float64 {
	switch {
	case f.CanInt():
		return float64(f.Int())
	case f.CanUint():
		return float64(f.Uint())
	case f.CanFloat():
		return f.Float()
	}
	return float64(f.Len())
}

// refuse returns the error for a value outside of the range.
func (b *bound) refuse(f reflect.Value) error {
	what := "a whole number"
	if f.CanFloat() {
		what = "a number"
	}
	switch {
	case f.Kind() == reflect.String:
		return Invalid(b.name, "it has %d bytes; at most %s are allowed", f.Len(), number(b.high))
	case math.IsInf(b.high, 1):
		return Invalid(b.name, "it takes %s of at least %s", what, number(b.low))
	}
	return Invalid(b.name, "it takes %s from %s to %s", what, number(b.low), number(b.high))
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
