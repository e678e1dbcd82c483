package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
)

func addNumberFilters() {
	addFilter("int", []string{"default", "base"}, 0, func(r *render, v Value, a []Value) Value {
		def := Value(intValue(0))
		if a[0] != nil {
			def = a[0]
		}
		return r.toInt(v, def, r.argInt(a[1], 10))
	})
	addFilter("float", []string{"default"}, 0, func(r *render, v Value, a []Value) Value {
		r.defined(v)
		if f, ok := parseFloatValue(v); ok {
			return floatValue(f)
		}
		if a[0] != nil {
			return a[0]
		}
		return floatValue(0)
	})
	addFilter("abs", nil, 0, func(r *render, v Value, _ []Value) Value {
		switch v.(type) {
		case floatValue:
			return floatValue(math.Abs(toFloat(v)))
		case intValue, boolValue, *bigValue:
			return bigInt(new(big.Int).Abs(toBig(v)))
		}
		r.typeError("bad operand type for abs(): '%s'", v.typeName())
		return nil
	})
	addFilter("round", []string{"precision", "method"}, 0, func(r *render, v Value, a []Value) Value {
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
	switch x := v.(type) {
	case boolValue, intValue, *bigValue:
		return bigInt(toBig(v))
	case *strValue:
		r.work(x.Len())
		if x.Len() <= maxNumberLen {
			if i, ok := parseInt(x.String(), base); ok {
				return bigInt(i)
			}
		}
	}
	f, ok := parseFloatValue(v)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		if _, isFloat := v.(floatValue); isFloat && math.IsInf(f, 0) {
			r.typeError("cannot convert float infinity to integer")
		}
		return def
	}
	i, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return bigInt(i)
}

// asciiDigits replaces the decimal digits of every script by ASCII digits.
func asciiDigits(s string) string {
	if origin.IsASCII(s) {
		return s
	}
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf || !unicode.Is(unicode.Nd, c) {
			return c
		}
		// Unicode stores the ten digits of a script together, starting with zero.
		for _, x := range unicode.Nd.R16 {
			if rune(x.Lo) <= c && c <= rune(x.Hi) {
				return '0' + (c-rune(x.Lo))%10
			}
		}
		for _, x := range unicode.Nd.R32 {
			if rune(x.Lo) <= c && c <= rune(x.Hi) {
				return '0' + (c-rune(x.Lo))%10
			}
		}
		return c
	}, s)
}

// parseInt reads an integer as Python's int(s, base).
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.ToLower(asciiDigits(strings.TrimFunc(s, origin.IsSpace)))
	sign := ""
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	if p := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; p != "" {
		if strings.HasPrefix(s, p) {
			s = strings.TrimPrefix(s[2:], "_")
		}
	} else if base == 0 {
		base = 10
		for b, p := range map[int]string{2: "0b", 8: "0o", 16: "0x"} {
			if strings.HasPrefix(s, p) {
				base, s = b, strings.TrimPrefix(s[2:], "_")
			}
		}
	}
	if base < 2 || base > 36 || s == "" || s[0] == '_' || s[0] == '+' || s[0] == '-' || s[len(s)-1] == '_' ||
		strings.Contains(s, "__") {
		return nil, false
	}
	return new(big.Int).SetString(sign+strings.ReplaceAll(s, "_", ""), base)
}

// parseFloatValue is Python's float(v).
func parseFloatValue(v Value) (float64, bool) {
	if isNumber(v) {
		return toFloat(v), true
	}
	s, ok := v.(*strValue)
	if !ok || s.Len() > maxNumberLen {
		return 0, false
	}
	t := strings.ToLower(asciiDigits(strings.TrimFunc(s.String(), origin.IsSpace)))
	digits := strings.TrimLeft(t, "+-")
	switch {
	case len(t)-len(digits) > 1, digits == "", strings.HasPrefix(digits, "0x"):
		return 0, false
	case digits == "inf", digits == "infinity", digits == "nan":
	case strings.Trim(digits, "0123456789.e+-_") != "", strings.HasPrefix(digits, "_"), strings.HasSuffix(digits, "_"),
		strings.Contains(digits, "__"), strings.Contains(digits, "_."), strings.Contains(digits, "._"):
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(t, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
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
		if math.IsInf(f, 0) || math.IsNaN(f) {
			r.typeError("cannot convert float infinity to integer")
		}
		i, _ := big.NewFloat(f).Int(nil)
		return r.binary("/", bigInt(i), p)
	}
	f, ok := v.(floatValue)
	if !ok {
		return r.roundInt(toBig(v), precision)
	}
	return floatValue(roundFloat(float64(f), precision))
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

func (r *render) roundInt(i *big.Int, precision int) Value {
	if precision >= 0 {
		return bigInt(i)
	}
	if -precision > maxNumberLen {
		return intValue(0)
	}
	p := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil)
	q, m := new(big.Int).DivMod(i, p, new(big.Int))
	c := new(big.Int).Lsh(m, 1).Cmp(p)
	if c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return bigInt(q.Mul(q, p))
}
