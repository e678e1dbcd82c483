package jinja

import (
	"cmp"
	"math"
	"math/big"
)

// smallInt returns an integer of 64 bits; a truth value is 0 or 1.
func smallInt(v Value) (int64, bool) {
	switch v := v.(type) {
	case boolValue:
		if v {
			return 1, true
		}
		return 0, true
	case intValue:
		return int64(v), true
	}
	return 0, false
}

// clipped returns an integer of any size, moved into -bound..bound. It returns false for other values.
func clipped(v Value, bound int) (int, bool) {
	if i, ok := smallInt(v); ok {
		return int(max(int64(-bound), min(i, int64(bound)))), true
	}
	if b, ok := v.(*bigValue); ok {
		return b.i.Sign() * bound, true
	}
	return 0, false
}

func isFloat(v Value) bool {
	_, ok := v.(floatValue)
	return ok
}

func isInt(v Value) bool {
	switch v.(type) {
	case boolValue, intValue, *bigValue:
		return true
	}
	return false
}

func isNumber(v Value) bool { return isInt(v) || isFloat(v) }

// toBig returns an integer of any size.
func toBig(v Value) *big.Int {
	if b, ok := v.(*bigValue); ok {
		return b.i
	}
	i, _ := smallInt(v)
	return big.NewInt(i)
}

func toFloat(v Value) float64 {
	switch v := v.(type) {
	case floatValue:
		return float64(v)
	case *bigValue:
		f, _ := new(big.Float).SetInt(v.i).Float64()
		return f
	}
	i, _ := smallInt(v)
	return float64(i)
}

// exact returns any number but NaN.
func exact(v Value) *big.Float {
	if isFloat(v) {
		return big.NewFloat(toFloat(v))
	}
	return new(big.Float).SetInt(toBig(v))
}

// compareNumbers compares exactly, also an integer with a float. unordered is set if one of them is NaN.
func compareNumbers(a, b Value) (c int, unordered bool) {
	x, okX := smallInt(a)
	y, okY := smallInt(b)
	switch {
	case okX && okY:
		return cmp.Compare(x, y), false
	case math.IsNaN(toFloat(a)) || math.IsNaN(toFloat(b)):
		return 0, true
	}
	return exact(a).Cmp(exact(b)), false
}

// wholeNumber returns a float without its fraction, as an integer.
func (r *render) wholeNumber(f float64) Value {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		r.typeError("cannot convert float infinity or NaN to integer")
	}
	i, _ := big.NewFloat(f).Int(nil)
	return bigInt(i)
}
