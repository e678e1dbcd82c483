package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"runner/chattemplate/jinja/origin"
)

func addNumberFilters() {
	filters.add("int(default?)", func(r *render, v Value, a []Value) Value {
		def := Value(intValue(0))
		if a[0] != nil {
			def = a[0]
		}
		return r.toInt(v, def)
	})
	filters.add("float(default?)", func(r *render, v Value, a []Value) Value {
		r.defined(v)
		if f, ok := parseFloat(v); ok {
			return floatValue(f)
		}
		if a[0] != nil {
			return a[0]
		}
		return floatValue(0)
	})
	filters.add("abs", func(r *render, v Value, _ []Value) Value {
		switch {
		case isFloat(v):
			return floatValue(math.Abs(toFloat(v)))
		case isInt(v):
			return bigInt(new(big.Int).Abs(toBig(v)))
		}
		r.typeError("bad operand type for abs(): '%s'", v.typeName())
		return nil
	})
}

// toInt is the int filter. Floats are truncated; what cannot be read as a number becomes def.
func (r *render) toInt(v, def Value) Value {
	r.defined(v)
	if isInt(v) {
		return bigInt(toBig(v))
	}
	s, isStr := v.(*strValue)
	if isStr {
		r.work(s.Len())
		if i, ok := parseInt(s.String()); ok {
			return bigInt(i)
		}
	}
	f, ok := parseFloat(v)
	if !ok || math.IsNaN(f) || isStr && math.IsInf(f, 0) {
		return def
	}
	return r.wholeNumber(f)
}

// parseInt reads an integer as Python's int(s).
func parseInt(s string) (*big.Int, bool) {
	if len(s) > maxNumberLen {
		return nil, false
	}
	return new(big.Int).SetString(strings.TrimFunc(s, origin.IsSpace), 10)
}

// parseFloat is Python's float(v).
func parseFloat(v Value) (float64, bool) {
	if isNumber(v) {
		return toFloat(v), true
	}
	s, ok := v.(*strValue)
	if !ok || s.Len() > maxNumberLen || strings.ContainsAny(s.String(), "xX") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.TrimFunc(s.String(), origin.IsSpace), 64)
	return f, err == nil || math.IsInf(f, 0)
}
