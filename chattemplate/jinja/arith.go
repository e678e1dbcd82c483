package jinja

import (
	"math"
	"math/big"
	"math/bits"

	"runner/chattemplate/jinja/origin"
)

// maxIntBits bounds the size of integers.
const maxIntBits = 1 << 14

// binary computes a binary operator: + - * / // % **.
func (r *render) binary(op string, a, b Value) Value {
	if x, ok := a.(intValue); ok {
		if y, ok := b.(intValue); ok {
			if v := smallArith(op, int64(x), int64(y)); v != nil {
				return v
			}
		}
	}
	if x, ok := a.(*strValue); ok && op == "+" {
		if y, ok := b.(*strValue); ok {
			return r.concatStr(x, y)
		}
	}
	if s, ok := a.(*strValue); ok && op == "%" {
		return r.percent(s, b)
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

// smallArith handles results that fit into int64. It returns nil for others.
func smallArith(op string, x, y int64) Value {
	switch op {
	case "+":
		if s := x + y; (s > x) == (y > 0) {
			return intValue(s)
		}
	case "-":
		if d := x - y; (d < x) == (y > 0) {
			return intValue(d)
		}
	case "*":
		hi, lo := bits.Mul64(uint64(x), uint64(y))
		if x >= 0 && y >= 0 && hi == 0 && lo <= math.MaxInt64 {
			return intValue(int64(lo))
		}
	case "//":
		if y > 0 {
			q := x / y
			if x%y < 0 {
				q--
			}
			return intValue(q)
		}
	case "%":
		if y > 0 {
			m := x % y
			if m < 0 {
				m += y
			}
			return intValue(m)
		}
	}
	return nil
}

func (r *render) arith(op string, a, b Value) Value {
	ka, _, _, _ := numberOf(a)
	kb, _, _, _ := numberOf(b)
	if ka == 3 || kb == 3 || op == "/" {
		return r.arithFloat(op, a, b, ka != 3 && kb != 3)
	}
	x, y := toBig(a), toBig(b)
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		z.Mul(x, y)
	case "//", "%":
		if y.Sign() == 0 {
			if op == "%" {
				r.typeError("integer modulo by zero")
			}
			r.typeError("integer division or modulo by zero")
		}
		m := new(big.Int)
		z.QuoRem(x, y, m)
		if m.Sign() != 0 && (m.Sign() < 0) != (y.Sign() < 0) {
			z.Sub(z, big.NewInt(1))
			m.Add(m, y)
		}
		if op == "%" {
			z = m
		}
	case "**":
		if y.Sign() < 0 {
			return r.arithFloat(op, a, b, true)
		}
		if x.BitLen() > 1 {
			if !y.IsInt64() || y.Int64() > maxIntBits || y.Int64()*int64(x.BitLen()) > 2*maxIntBits {
				r.bigOverflow()
			}
		} else if y.Cmp(big.NewInt(2)) > 0 {
			// A power of 0, 1 or -1 depends only on whether the exponent is odd.
			y = big.NewInt(2 + int64(y.Bit(0)))
		}
		z.Exp(x, y, nil)
	}
	if z.BitLen() > maxIntBits {
		r.bigOverflow()
	}
	return bigInt(z)
}

func (r *render) bigOverflow() {
	r.fail(KindLimit, "an integer takes more than %d bits", maxIntBits)
}

func (r *render) arithFloat(op string, a, b Value, ints bool) Value {
	x, y := toFloat(a), toFloat(b)
	if math.IsInf(x, 0) && !isFloat(a) || math.IsInf(y, 0) && !isFloat(b) {
		r.typeError("int too large to convert to float")
	}
	switch op {
	case "+":
		return floatValue(x + y)
	case "-":
		return floatValue(x - y)
	case "*":
		return floatValue(x * y)
	case "/":
		if y == 0 {
			if ints {
				r.typeError("division by zero")
			}
			r.typeError("float division by zero")
		}
		if ints && math.Max(math.Abs(x), math.Abs(y)) >= 1<<53 {
			q, _ := new(big.Rat).SetFrac(toBig(a), toBig(b)).Float64()
			return floatValue(q)
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

func isFloat(v Value) bool {
	_, ok := v.(floatValue)
	return ok
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
		if !ok {
			r.typeError(`can only concatenate list (not "%s") to list`, b.typeName())
		}
		return r.list(joinItems(x.items, y.items))
	case *tupleValue:
		y, ok := b.(*tupleValue)
		if !ok {
			r.typeError(`can only concatenate tuple (not "%s") to tuple`, b.typeName())
		}
		r.madeItems(len(x.items) + len(y.items))
		return &tupleValue{items: joinItems(x.items, y.items)}
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
	switch a.(type) {
	case *strValue, *listValue, *tupleValue:
	default:
		return nil
	}
	k, n, _, _ := numberOf(b)
	if k != 1 {
		if k == 2 {
			r.typeError("cannot fit 'int' into an index-sized integer")
		}
		r.typeError("can't multiply sequence by non-int of type '%s'", b.typeName())
	}
	n = max(n, 0)
	switch x := a.(type) {
	case *strValue:
		if x.Len() > 0 && n > int64(r.lim.Output/x.Len()) {
			r.made(math.MaxInt)
		}
		r.made(x.Len() * int(n))
		return &strValue{Text: origin.Repeat(x.Text, int(n)), markup: x.markup}
	case *listValue:
		return &listValue{items: r.repeatItems(x.items, n)}
	case *tupleValue:
		return &tupleValue{items: r.repeatItems(x.items, n)}
	}
	return nil
}

func (r *render) repeatItems(items []Value, n int64) []Value {
	if len(items) == 0 || n == 0 {
		return nil
	}
	if n > int64(r.lim.Output/itemBytes/len(items)) {
		r.madeItems(math.MaxInt)
	}
	r.madeItems(len(items) * int(n))
	out := make([]Value, 0, len(items)*int(n))
	for ; n > 0; n-- {
		out = append(out, items...)
	}
	return out
}

// negate and plus are the unary operators.
func (r *render) unary(op string, v Value) Value {
	r.defined(v)
	switch x := v.(type) {
	case boolValue, intValue, *bigValue:
		if op == "+" {
			return bigInt(toBig(v))
		}
		return bigInt(new(big.Int).Neg(toBig(v)))
	case floatValue:
		if op == "+" {
			return x
		}
		return -x
	}
	r.typeError("bad operand type for unary %s: '%s'", op, v.typeName())
	return nil
}
