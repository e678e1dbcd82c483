package jinja

import (
	"math"
	"math/big"
	"slices"

	"runner/chattemplate/jinja/origin"
)

// binary computes a binary operator: + - * / // % **.
func (r *render) binary(op string, a, b Value) Value {
	if s, ok := a.(*strValue); ok {
		if op == "%" {
			r.typeError("formatting with %% is not supported; join texts with ~")
		}
		if t, ok := b.(*strValue); ok && op == "+" {
			return r.concatStr(s, t)
		}
	}
	r.defined(a)
	r.defined(b)
	if isNumber(a) && isNumber(b) {
		return r.arith(op, a, b)
	}
	switch op {
	case "+":
		return r.concat(a, b)
	case "*":
		if v := r.repeat(a, b); v != nil {
			return v
		}
	}
	if op == "**" {
		op = "** or pow()"
	}
	r.typeError("unsupported operand type(s) for %s: '%s' and '%s'", op, a.typeName(), b.typeName())
	return nil
}

// arith computes with numbers. The results of integers are exact, or an error if they take more than 64 bits.
func (r *render) arith(op string, a, b Value) Value {
	y, small := smallInt(b)
	if isFloat(a) || isFloat(b) || op == "/" || op == "**" && small && y < 0 {
		return r.arithFloat(op, toFloat(a), toFloat(b))
	}
	x, ok := smallInt(a)
	if ok && small {
		var z int64
		if z, ok = r.arithInt(op, x, y); ok {
			return intValue(z)
		}
	}
	r.fail(KindLimit, "an integer takes more than 64 bits")
	return nil
}

// arithInt returns false if the result takes more than 64 bits.
func (r *render) arithInt(op string, x, y int64) (z int64, ok bool) {
	switch op {
	case "+":
		z = x + y
		return z, (z > x) == (y > 0)
	case "-":
		z = x - y
		return z, (z < x) == (y > 0)
	case "*":
		z = x * y
		return z, x == 0 || z/x == y && (x != -1 || y != math.MinInt64)
	case "**":
		z, ok = 1, true
		if x >= -1 && x <= 1 {
			y = min(y, 2-y%2) // depends only on whether y is odd, or zero
		}
		for ; ok && y > 0; y-- {
			z, ok = r.arithInt("*", z, x)
		}
		return z, ok
	}
	switch {
	case y == 0 && op == "%":
		r.typeError("integer modulo by zero")
	case y == 0:
		r.typeError("integer division or modulo by zero")
	}
	q, m := x/y, x%y
	if m != 0 && (m < 0) != (y < 0) {
		q--
		m += y
	}
	if op == "%" {
		return m, true
	}
	return q, y != -1 || x != math.MinInt64
}

func (r *render) arithFloat(op string, x, y float64) Value {
	switch op {
	case "+":
		return floatValue(x + y)
	case "-":
		return floatValue(x - y)
	case "*":
		return floatValue(x * y)
	case "/":
		if y == 0 {
			r.typeError("division by zero")
		}
		return floatValue(x / y)
	case "//", "%":
		if y == 0 {
			if op == "%" {
				r.typeError("float modulo")
			}
			r.typeError("float floor division by zero")
		}
		q, m := floatDivMod(x, y)
		if op == "%" {
			return floatValue(m)
		}
		return floatValue(q)
	}
	if x == 0 && y < 0 {
		r.typeError("0.0 cannot be raised to a negative power")
	}
	if x < 0 && y != math.Trunc(y) && !math.IsInf(y, 0) {
		r.typeError("complex numbers are not supported")
	}
	p := math.Pow(x, y)
	if math.IsInf(p, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		r.typeError("(34, 'Numerical result out of range')")
	}
	return floatValue(p)
}

// floatDivMod returns the quotient rounded down and the remainder, which has the sign of y.
func floatDivMod(x, y float64) (q, m float64) {
	m = math.Mod(x, y)
	q = (x - m) / y
	if m != 0 {
		if (y < 0) != (m < 0) {
			m += y
			q--
		}
	} else {
		m = math.Copysign(0, y)
	}
	if q != 0 {
		f := math.Floor(q)
		if q-f > 0.5 {
			f++
		}
		return f, m
	}
	return math.Copysign(0, x/y), m
}

func (r *render) concatStr(a, b *strValue) Value {
	if a.markup != b.markup {
		a, b = r.escaped(a), r.escaped(b)
	}
	r.made(a.Len() + b.Len())
	return &strValue{Text: origin.Concat(a.Text, b.Text), markup: a.markup}
}

// concat is + for everything but numbers.
func (r *render) concat(a, b Value) Value {
	switch x := a.(type) {
	case *strValue:
		r.typeError(`can only concatenate str (not "%s") to str`, b.typeName())
	case *listValue:
		y, ok := b.(*listValue)
		if !ok || x.tuple != y.tuple {
			r.typeError(`can only concatenate %s (not "%s") to %s`, a.typeName(), b.typeName(), a.typeName())
		}
		r.madeItems(len(x.items) + len(y.items))
		return &listValue{items: joinItems(x.items, y.items), tuple: x.tuple}
	}
	r.typeError("unsupported operand type(s) for +: '%s' and '%s'", a.typeName(), b.typeName())
	return nil
}

func joinItems(a, b []Value) []Value {
	return append(append(make([]Value, 0, len(a)+len(b)), a...), b...)
}

// repeat is * of a sequence and an integer. It returns nil for other operands.
func (r *render) repeat(a, b Value) Value {
	if isNumber(a) {
		a, b = b, a
	}
	// times returns how often a value of a size is repeated, at most once more than the limits allow.
	times := func(size int) int {
		n, ok := clipped(b, math.MaxInt)
		if !ok {
			r.typeError("can't multiply sequence by non-int of type '%s'", b.typeName())
		}
		return max(0, min(n, r.lim.Output/max(size, 1)+1))
	}
	switch x := a.(type) {
	case *strValue:
		n := times(x.Len())
		r.made(x.Len() * n)
		return &strValue{Text: origin.Repeat(x.Text, n), markup: x.markup}
	case *listValue:
		n := times(itemBytes * len(x.items))
		r.madeItems(len(x.items) * n)
		return &listValue{items: slices.Repeat(x.items, n), tuple: x.tuple}
	}
	return nil
}

// unary computes a unary operator: + or -.
func (r *render) unary(op string, v Value) Value {
	r.defined(v)
	switch x, float := v.(floatValue); {
	case isInt(v) && op == "+":
		return bigInt(toBig(v))
	case isInt(v):
		return bigInt(new(big.Int).Neg(toBig(v)))
	case float && op == "+":
		return x
	case float:
		return -x
	}
	r.typeError("bad operand type for unary %s: '%s'", op, v.typeName())
	return nil
}
