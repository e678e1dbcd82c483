package jsontext

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"runner/grammar/expr"
)

// NumberConstraint is the constraint on a number. Its numbers are exact decimals.
type NumberConstraint struct {
	// Integer demands an integral value. 1.0 is one.
	Integer bool
	// Plain demands numbers as programs hold them. If all values are integers, they have no point and, unless the
	// limits need more, at most 20 digits, or 18 with multiples. Numbers without other constraints have at most 20
	// digits before the point and 17 after it.
	Plain bool
	// NotInteger demands a value that is not integral.
	NotInteger bool
	// Minimum and Maximum may be nil.
	Minimum, Maximum                   *big.Rat
	ExclusiveMinimum, ExclusiveMaximum bool
	// MultipleOf are positive numbers. The value must be a multiple of each, and of none in NotMultipleOf.
	MultipleOf, NotMultipleOf []*big.Rat
	// NotIn are the excluded values.
	NotIn []*big.Rat
}

// Limits of a number's automaton.
const (
	maxDigits       = 1000 // of a bound or an excluded value
	maxModulus      = 10000
	maxNumberStates = 5000
	// maxExcludedStates is the maximum number of extra states for excluded values, on either side of zero.
	maxExcludedStates = 20_000
)

// Number returns the form of the numbers that satisfy c. It fails with [ErrUnsatisfiable] or an [UnsupportedError].
//
// A value at an inclusive limit, or at the last place that a multiple can have, takes at most one zero after the point.
// Negative zero is admitted if zero and negative numbers are.
func Number(ctx context.Context, c NumberConstraint) (Form, error) {
	if c.Integer && c.NotInteger {
		return nil, ErrUnsatisfiable
	}
	free := c.Minimum == nil && c.Maximum == nil && len(c.MultipleOf) == 0 && len(c.NotMultipleOf) == 0 &&
		len(c.NotIn) == 0
	switch {
	case free && c.Integer && c.Plain:
		return plainInteger, nil
	case free && c.Integer:
		return freeInteger, nil
	case free && c.Plain && !c.NotInteger:
		return plainNumber, nil
	case free && !c.NotInteger:
		return freeNumber, nil
	}
	c.limit()
	m := &machine{plain: c.Plain, integer: c.Integer, fractional: c.NotInteger, most: maxNumberStates,
		rules: map[string]*expr.Rule{}}
	positive, negative, err := m.sides(ctx, &c)
	if err != nil {
		return nil, err
	}
	a, err := expr.Determinize(ctx, func(s *expr.Set) expr.ID {
		return s.Union(s.Rule(m.rule(positive.start())), s.Concat(s.Literal("-"), s.Rule(m.rule(negative.start()))))
	}, m.most)
	if m.overflow || errors.Is(err, expr.ErrTooComplex) {
		return nil, UnsupportedError("the conditions on a number are too complex together")
	}
	if err != nil {
		return nil, err
	}
	if a.IsEmpty() {
		return nil, ErrUnsatisfiable
	}
	return func(s *expr.Set) expr.ID { return s.Automaton(a) }, nil
}

// tenTo returns a power of ten.
func tenTo(n int64) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil))
}

// limit limits plain integers if the schema does not, unless it excludes most integers below the limit.
func (c *NumberConstraint) limit() {
	if !c.Plain || !c.Integer {
		return
	}
	digits := int64(20)
	for _, v := range c.MultipleOf {
		if v.Cmp(big.NewRat(maxModulus, 1)) > 0 {
			return
		}
		digits = 18
	}
	if len(c.NotMultipleOf) > 0 {
		digits = 18 // states are counted for each remainder and each digit
	}
	most, room := tenTo(digits), tenTo(digits-1)
	most.Sub(most, big.NewRat(1, 1))
	if c.Maximum == nil && (c.Minimum == nil || c.Minimum.Cmp(room) < 0) {
		c.Maximum, c.ExclusiveMaximum = most, false
	}
	if c.Minimum == nil && (c.Maximum == nil || c.Maximum.Cmp(new(big.Rat).Neg(room)) > 0) {
		c.Minimum, c.ExclusiveMinimum = new(big.Rat).Neg(most), false
	}
}

// side is the set of conditions on the digits of the numbers of one sign.
type side struct {
	id    byte
	parts []part
}

// sides sets up the conditions for the numbers from zero up and from zero down.
func (m *machine) sides(ctx context.Context, c *NumberConstraint) (positive, negative *side, err error) {
	multiples, err := m.multiples(c)
	if err != nil {
		return nil, nil, err
	}
	positive, negative = &side{id: 0, parts: slices.Clip(multiples)}, &side{id: 1, parts: slices.Clip(multiples)}
	bound := func(limit *big.Rat, exclusive, lower bool) error {
		// For negative numbers everything is mirrored: a lower limit becomes an upper one.
		for _, s := range []*side{positive, negative} {
			v, isLower := limit, lower
			if s == negative {
				v, isLower = new(big.Rat).Neg(limit), !lower
			}
			switch {
			case isLower && (v.Sign() < 0 || v.Sign() == 0 && !exclusive):
				continue
			case !isLower && v.Sign() < 0, s == negative && !isLower && v.Sign() == 0:
				s.parts = append(s.parts, never{})
				continue
			}
			d, err := newDecimal(v)
			if err != nil {
				return err
			}
			s.parts = append(s.parts, comparison{decimal: d, less: !isLower, equal: !exclusive, more: isLower})
		}
		return nil
	}
	if c.Minimum != nil {
		if err := bound(c.Minimum, c.ExclusiveMinimum, true); err != nil {
			return nil, nil, err
		}
	}
	if c.Maximum != nil {
		if err := bound(c.Maximum, c.ExclusiveMaximum, false); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range []*side{positive, negative} {
		var list []decimal
		for i, v := range c.NotIn {
			if err := ctx.Err(); i%256 == 0 && err != nil {
				return nil, nil, err
			}
			if v.Sign() != 0 && (v.Sign() < 0) != (s == negative) {
				continue
			}
			d, err := newDecimal(new(big.Rat).Abs(v))
			if err != nil {
				return nil, nil, err
			}
			list = append(list, d)
		}
		if list != nil {
			e := newExclusion(list)
			m.most += min(len(e.nodes), maxExcludedStates)
			s.parts = append(s.parts, e)
		}
	}
	if len(positive.parts) == len(multiples) && len(negative.parts) == len(multiples) {
		negative = positive
	}
	return positive, negative, nil
}

func (m *machine) multiples(c *NumberConstraint) ([]part, error) {
	var parts []part
	add := func(v *big.Rat, not bool) error {
		places, exact := v.FloatPrec()
		scaled := new(big.Rat).Mul(v, new(big.Rat).SetInt(power10(min(places, maxDigits))))
		if v.Sign() <= 0 || !exact || !scaled.IsInt() || !scaled.Num().IsInt64() || scaled.Num().Int64() > maxModulus ||
			places > 100 {
			return UnsupportedError(fmt.Sprintf("multiples of a number with so many digits; %d is the most, without "+
				"its point", maxModulus))
		}
		parts = append(parts, newRemainder(int32(scaled.Num().Int64()), int32(places), not))
		return nil
	}
	for _, v := range c.MultipleOf {
		if v.IsInt() {
			m.integer = true
		}
		if v.IsInt() && v.Num().IsInt64() && v.Num().Int64() == 1 {
			continue
		}
		if err := add(v, false); err != nil {
			return nil, err
		}
	}
	for _, v := range c.NotMultipleOf {
		if err := add(v, true); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func power10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// machine makes the rules for the states of an automaton over the text of a number: JSON's syntax and all conditions in
// parallel.
type machine struct {
	plain, integer, fractional bool
	most                       int // states
	rules                      map[string]*expr.Rule
	overflow                   bool
}

// phase is the position in the syntax of a number.
type phase byte

const (
	atStart    phase = iota // before the first digit
	afterZero               // a zero that begins the number
	inWhole                 // digits before the point
	afterPoint              // no digit behind the point yet
	inZeros                 // zeros behind the point
	inFraction              // digits behind the point that are not all zeros
)

type numberState struct {
	side  *side
	phase phase
	parts []int32
}

func (s *side) start() *numberState {
	q := &numberState{side: s, phase: atStart}
	for _, p := range s.parts {
		q.parts = append(q.parts, p.start())
	}
	return q
}

// move returns the state after each part has moved. It returns nil if one is dead.
func (q *numberState) move(to phase, step func(p part, q int32) int32) *numberState {
	next := &numberState{side: q.side, phase: to, parts: make([]int32, len(q.parts))}
	for i, p := range q.side.parts {
		if next.parts[i] = step(p, q.parts[i]); next.parts[i] == dead {
			return nil
		}
	}
	return next
}

func (m *machine) digit(q *numberState, d int32) *numberState {
	to := q.phase
	switch q.phase {
	case atStart:
		if to = inWhole; d == 0 {
			to = afterZero
		}
	case afterZero:
		return nil
	case afterPoint, inZeros, inFraction:
		if m.integer && (d != 0 || q.phase != afterPoint) {
			return nil
		}
		if q.phase != afterPoint {
			for i, p := range q.side.parts {
				if p.zeros(q.parts[i]) {
					return nil
				}
			}
		}
		switch {
		case d != 0:
			to = inFraction
		case q.phase == afterPoint:
			to = inZeros
		}
	}
	return q.move(to, func(p part, q int32) int32 { return p.digit(q, d) })
}

func (m *machine) accepts(q *numberState) bool {
	switch q.phase {
	case atStart, afterPoint:
		return false
	case inFraction:
	default:
		if m.fractional {
			return false
		}
	}
	for i, p := range q.side.parts {
		if !p.accepts(q.parts[i]) {
			return false
		}
	}
	return true
}

// rule returns the rule of what may follow in a state.
func (m *machine) rule(q *numberState) *expr.Rule {
	key := []byte{q.side.id, byte(q.phase)}
	for _, p := range q.parts {
		key = binary.LittleEndian.AppendUint32(key, uint32(p))
	}
	r, ok := m.rules[string(key)]
	if !ok {
		r = &expr.Rule{Name: "number", Expand: func(s *expr.Set) expr.ID { return m.expand(s, q) }}
		m.rules[string(key)] = r
	}
	return r
}

func (m *machine) expand(s *expr.Set, q *numberState) expr.ID {
	if len(m.rules) > m.most {
		m.overflow = true
		return expr.Empty
	}
	ids := make([]expr.ID, 0, 12)
	if m.accepts(q) {
		ids = append(ids, expr.Epsilon)
	}
	var sets []expr.ByteSet
	var rules []*expr.Rule
	for d := range int32(10) {
		next := m.digit(q, d)
		if next == nil {
			continue
		}
		r, b := m.rule(next), byte('0'+d)
		if n := len(rules); n > 0 && rules[n-1] == r {
			sets[n-1].Add(b)
			continue
		}
		sets, rules = append(sets, expr.ByteRange(b, b)), append(rules, r)
	}
	for i, r := range rules {
		ids = append(ids, s.Concat(s.Byte(sets[i]), s.Rule(r)))
	}
	if (q.phase == afterZero || q.phase == inWhole) && !(m.plain && m.integer) {
		if next := q.move(afterPoint, part.point); next != nil {
			ids = append(ids, s.Concat(s.Literal("."), s.Rule(m.rule(next))))
		}
	}
	return s.Union(ids...)
}
