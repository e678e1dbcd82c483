package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"runner/chattemplate/jinja/origin"
)

func addNumberFilters() {
	filters.add("int(default?, base?)", func(r *render, v Value, a []Value) Value {
		def := Value(intValue(0))
		if a[0] != nil {
			def = a[0]
		}
		return r.toInt(v, def, r.argInt(a[1], 10))
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
	filters.add("round(precision?, method?)", func(r *render, v Value, a []Value) Value {
		method := "common"
		if a[1] != nil {
			method = r.argStr("round()", a[1]).String()
		}
		return r.round(v, r.argInt(a[0], 0), method)
	})
}

// toInt is the int filter. Floats are truncated; what cannot be read as a number becomes def.
func (r *render) toInt(v, def Value, base int) Value {
	r.defined(v)
	if isInt(v) {
		return bigInt(toBig(v))
	}
	s, isStr := v.(*strValue)
	if isStr {
		r.work(s.Len())
		if i, ok := parseInt(s.String(), base); ok {
			return bigInt(i)
		}
	}
	f, ok := parseFloat(v)
	if !ok || math.IsNaN(f) || isStr && math.IsInf(f, 0) {
		return def
	}
	return r.wholeNumber(f)
}

// parseInt reads an integer as Python's int(s, base).
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.ToLower(strings.TrimFunc(s, origin.IsSpace))
	digits := strings.TrimLeft(s, "+-")
	sign := s[:len(s)-len(digits)]
	if p := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; p != "" {
		digits = strings.TrimPrefix(digits, p)
	}
	if base < 2 || base > 36 || len(s) > maxNumberLen {
		return nil, false
	}
	return new(big.Int).SetString(sign+digits, base)
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

// round is the round filter. The method common rounds half to even, as Python's round does.
func (r *render) round(v Value, precision int, method string) Value {
	if method != "common" && method != "ceil" && method != "floor" {
		r.typeError("method must be common, ceil or floor")
	}
	if !isNumber(v) {
		if method != "common" {
			r.defined(v)
		}
		r.typeError("type %s doesn't define __round__ method", v.typeName())
	}
	if method != "common" {
		p := r.binary("**", intValue(10), intValue(precision))
		f := toFloat(r.binary("*", v, p))
		if method == "ceil" {
			f = math.Ceil(f)
		} else {
			f = math.Floor(f)
		}
		return r.binary("/", r.wholeNumber(f), p)
	}
	f := roundFloat(toFloat(v), precision)
	switch {
	case isFloat(v):
		return floatValue(f)
	case precision >= 0:
		return bigInt(toBig(v))
	}
	return r.wholeNumber(f)
}

func roundFloat(f float64, precision int) float64 {
	switch {
	case f == 0 || math.IsInf(f, 0) || math.IsNaN(f) || precision > 323:
		return f
	case precision < -308:
		return math.Copysign(0, f)
	case precision >= 0:
		out, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return out
	}
	p := math.Pow(10, float64(-precision))
	return math.RoundToEven(f/p) * p
}
