package jsontext

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

func rat(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	return r
}

func isMultiple(v, of *big.Rat) bool { return new(big.Rat).Quo(v, of).IsInt() }

func (c *NumberConstraint) satisfied(v *big.Rat) bool {
	if c.Integer && !v.IsInt() || c.NotInteger && v.IsInt() {
		return false
	}
	if c.Minimum != nil && (v.Cmp(c.Minimum) < 0 || c.ExclusiveMinimum && v.Cmp(c.Minimum) == 0) {
		return false
	}
	if c.Maximum != nil && (v.Cmp(c.Maximum) > 0 || c.ExclusiveMaximum && v.Cmp(c.Maximum) == 0) {
		return false
	}
	for _, m := range c.MultipleOf {
		if !isMultiple(v, m) {
			return false
		}
	}
	for _, m := range c.NotMultipleOf {
		if isMultiple(v, m) {
			return false
		}
	}
	for _, x := range c.NotIn {
		if v.Cmp(x) == 0 {
			return false
		}
	}
	return true
}

func (c *NumberConstraint) String() string {
	return fmt.Sprint("integer ", c.Integer, " not ", c.NotInteger, " min ", c.Minimum, c.ExclusiveMinimum, " max ",
		c.Maximum, c.ExclusiveMaximum,
		" multiple ", c.MultipleOf, " not ", c.NotMultipleOf, " not in ", c.NotIn)
}

func randomDecimal(rng *rand.Rand) *big.Rat {
	near := []int64{3, 12, 120, 1100, 100000}[rng.IntN(5)]
	places := []int64{1, 1, 1, 2, 10, 100, 1000}[rng.IntN(7)]
	return big.NewRat(rng.Int64N(2*near)-near, places)
}

func randomNumberConstraint(rng *rand.Rand) *NumberConstraint {
	c := &NumberConstraint{Integer: rng.IntN(3) == 0, NotInteger: rng.IntN(10) == 0}
	if rng.IntN(2) == 0 {
		c.Minimum, c.ExclusiveMinimum = randomDecimal(rng), rng.IntN(3) == 0
	}
	if rng.IntN(2) == 0 {
		c.Maximum, c.ExclusiveMaximum = randomDecimal(rng), rng.IntN(3) == 0
	}
	for range rng.IntN(3) / 2 {
		c.MultipleOf = append(c.MultipleOf, rat([]string{"1", "2", "3", "5", "7", "10", "100", "0.1", "0.01", "0.5", "1.5",
			"2.5", "0.25"}[rng.IntN(13)]))
	}
	for range rng.IntN(5) / 4 {
		c.NotMultipleOf = append(c.NotMultipleOf, rat([]string{"1", "2", "3", "10", "0.5", "0.1"}[rng.IntN(6)]))
	}
	for range max(0, rng.IntN(6)-3) {
		c.NotIn = append(c.NotIn, randomDecimal(rng))
	}
	return c
}

// candidate returns a number that is probably close to the limits of c, without needless digits.
func candidate(rng *rand.Rand, c *NumberConstraint) (*big.Rat, string) {
	v := randomDecimal(rng)
	near := append([]*big.Rat{}, c.NotIn...)
	for _, b := range []*big.Rat{c.Minimum, c.Maximum} {
		if b != nil {
			near = append(near, b)
		}
	}
	if len(near) > 0 && rng.IntN(2) == 0 {
		v = new(big.Rat).Add(near[rng.IntN(len(near))], []*big.Rat{new(big.Rat), rat("0.001"), rat("-0.001"), rat("1"),
			rat("-1"), rat("10"), rat("0.00001")}[rng.IntN(7)])
	}
	if len(c.MultipleOf) > 0 && rng.IntN(2) == 0 {
		m := c.MultipleOf[0]
		n := new(big.Rat).Quo(v, m)
		v = new(big.Rat).Mul(m, new(big.Rat).SetInt(new(big.Int).Quo(n.Num(), n.Denom())))
	}
	places, _ := v.FloatPrec()
	text := v.FloatString(places)
	if places == 0 && rng.IntN(3) == 0 {
		text += ".0"
	}
	return v, text
}

func checkNumber(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	c := randomNumberConstraint(rng)
	form, err := Number(t.Context(), *c)
	if errors.Is(err, ErrUnsatisfiable) {
		for range 200 {
			if v, text := candidate(rng, c); c.satisfied(v) {
				t.Fatalf("%v is said to be unsatisfiable, but there is %s", c, text)
			}
		}
		return
	}
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	w := newSampler(t, seed)
	id := form(w.s)
	for range 30 {
		v, text := candidate(rng, c)
		if got, want := w.s.Match(id, text), c.satisfied(v); got != want {
			t.Fatalf("%v: %s is %v, want %v", c, text, got, want)
		}
	}
	for range 10 {
		text := w.draw(id, rng.IntN(12))
		if v, ok := new(big.Rat).SetString(text); !ok || !c.satisfied(v) {
			t.Fatalf("%v: admits %s", c, text)
		}
		if digits := strings.TrimPrefix(text, "-"); len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' &&
			digits[1] <= '9' {
			t.Fatalf("%v: admits %s", c, text)
		}
	}
}

func TestNumbers(t *testing.T) {
	n := uint64(1500)
	if testing.Short() {
		n = 200
	}
	for seed := range n {
		checkNumber(t, seed)
	}
}

// TestManyExcludedNumbers compares lists of values with exact arithmetic. The values share beginnings and have trailing
// zeros.
func TestManyExcludedNumbers(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 6))
		c := &NumberConstraint{Integer: rng.IntN(4) == 0}
		if rng.IntN(2) == 0 {
			c.Minimum = randomDecimal(rng)
		}
		for range 1 + rng.IntN(200) {
			c.NotIn = append(c.NotIn, big.NewRat(rng.Int64N(220)-20, []int64{1, 10, 100, 1000}[rng.IntN(4)]))
		}
		form, err := Number(t.Context(), *c)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		w := newSampler(t, seed)
		id := form(w.s)
		for range 300 {
			v := big.NewRat(rng.Int64N(2500)-250, []int64{1, 10, 100, 1000}[rng.IntN(4)])
			if rng.IntN(2) == 0 {
				v = c.NotIn[rng.IntN(len(c.NotIn))]
			}
			places, _ := v.FloatPrec()
			if c.Integer && places > 0 {
				continue
			}
			text := v.FloatString(places)
			if got, want := w.s.Match(id, text), c.satisfied(v); got != want {
				t.Fatalf("%v: %s is %v, want %v", c, text, got, want)
			}
			if !c.satisfied(v) && w.s.Match(id, v.FloatString(places+1)) && !c.Integer {
				t.Fatalf("%v: %s is admitted with one more zero", c, text)
			}
		}
	}
	// The cost of thousands of values, close together or not, depends on their digits.
	for _, spread := range []int64{1, 918_273} {
		c := NumberConstraint{Plain: true}
		for i := range int64(5000) {
			c.NotIn = append(c.NotIn, big.NewRat(i*spread, 1))
		}
		form, err := Number(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		w := newSampler(t, 1)
		id := form(w.s)
		for i, want := range map[int64]bool{0: false, 7: false, 4999: false, 5000: true} {
			if text := fmt.Sprint(i * spread); w.s.Match(id, text) != want {
				t.Errorf("%s is admitted: %v", text, !want)
			}
		}
	}
}

func FuzzNumbers(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkNumber)
}

func TestNumberForms(t *testing.T) {
	tests := []struct {
		c        NumberConstraint
		yes, not []string
	}{
		{NumberConstraint{}, []string{"0", "-0", "1.50", "1e5", "-1.5E+308", "12345678901234567890.5", "1e-07"},
			[]string{"", "-", "01", "1.", ".5", "1e", "+1", "1e309", "NaN", "1e0400"}},
		{NumberConstraint{Integer: true}, []string{"0", "-0", "10", "-5.0"}, []string{"1.5", "1e2", "1.00", "00"}},
		{NumberConstraint{Minimum: rat("0")}, []string{"0", "0.0", "0.00", "3.14", "10.00"}, []string{"-0", "-1", "1e2"}},
		{NumberConstraint{Minimum: rat("0"), Maximum: rat("100")}, []string{"100", "100.0", "99.999999", "0"},
			[]string{"100.00", "100.1", "101", "1000"}},
		{NumberConstraint{Minimum: rat("-1"), Maximum: rat("1")}, []string{"-1", "-0", "-0.5", "1.0"}, []string{"-1.1", "2"}},
		{NumberConstraint{Maximum: rat("0"), ExclusiveMaximum: true}, []string{"-0.1", "-7"}, []string{"0", "-0", "-0.0"}},
		{NumberConstraint{Minimum: rat("1e-3"), Maximum: rat("0.5")}, []string{"0.001", "0.5", "0.0010", "0.25"},
			[]string{"0", "0.0009", "0.50", "0.51", "1"}},
		{NumberConstraint{MultipleOf: []*big.Rat{rat("0.01")}}, []string{"1", "1.2", "1.25", "-1.25", "1.0"},
			[]string{"1.250", "1.255"}},
		{NumberConstraint{MultipleOf: []*big.Rat{rat("1")}}, []string{"1", "1.0", "-0"}, []string{"1.5", "1.00"}},
		{NumberConstraint{Integer: true, MultipleOf: []*big.Rat{rat("2.5")}}, []string{"0", "5", "10.0"},
			[]string{"2.5", "7"}},
		{NumberConstraint{Integer: true, Minimum: rat("1"), Maximum: rat("65535")}, []string{"1", "65535", "9999"},
			[]string{"0", "65536", "70000", "100000"}},
		{NumberConstraint{NotInteger: true}, []string{"0.5", "-1.05", "1.50"}, []string{"1", "1.0", "1.00"}},
		{NumberConstraint{Minimum: rat("1"), NotIn: []*big.Rat{rat("1"), rat("2"), rat("2.5")}},
			[]string{"1.1", "2.51", "3", "22"}, []string{"1", "1.0", "2", "2.0", "2.50"}},
	}
	for _, tt := range tests {
		form, err := Number(t.Context(), tt.c)
		if err != nil {
			t.Errorf("%v: %v", &tt.c, err)
			continue
		}
		w := newSampler(t, 0)
		id := form(w.s)
		for _, text := range tt.yes {
			if !w.s.Match(id, text) {
				t.Errorf("%v refuses %s", &tt.c, text)
			}
		}
		for _, text := range tt.not {
			if w.s.Match(id, text) {
				t.Errorf("%v admits %s", &tt.c, text)
			}
		}
	}
}

func TestNumbersRefused(t *testing.T) {
	var unsupported UnsupportedError
	for _, c := range []NumberConstraint{
		{MultipleOf: []*big.Rat{rat("0.123456789")}}, {MultipleOf: []*big.Rat{rat("1/3")}},
		{MultipleOf: []*big.Rat{rat("0")}},
		{Minimum: rat("1/3")}, {Maximum: rat("1e5000")}, {Minimum: rat("1e-5000")},
		{MultipleOf: []*big.Rat{rat("9973"), rat("9967")}},
	} {
		if _, err := Number(t.Context(), c); !errors.As(err, &unsupported) {
			t.Errorf("%.100v: %v", &c, err)
		}
	}
	for _, c := range []NumberConstraint{
		{Integer: true, NotInteger: true}, {Minimum: rat("2"), Maximum: rat("1")},
		{Minimum: rat("1"), Maximum: rat("1"), ExclusiveMaximum: true},
		{Integer: true, Minimum: rat("0.1"), Maximum: rat("0.9")},
		{Minimum: rat("1"), Maximum: rat("1"), NotIn: []*big.Rat{rat("1")}},
		{MultipleOf: []*big.Rat{rat("4")}, NotMultipleOf: []*big.Rat{rat("2")}},
		{Minimum: rat("1"), Maximum: rat("9"), MultipleOf: []*big.Rat{rat("10")}},
	} {
		if _, err := Number(t.Context(), c); !errors.Is(err, ErrUnsatisfiable) {
			t.Errorf("%v: %v", &c, err)
		}
	}
}

func BenchmarkNumber(b *testing.B) {
	for _, c := range []NumberConstraint{
		{Minimum: rat("0")}, {Minimum: rat("0"), Maximum: rat("1")},
		{Integer: true, Minimum: rat("1"), Maximum: rat("65535")},
		{Integer: true, Minimum: rat("0"), Maximum: rat("18446744073709551615")},
		{MultipleOf: []*big.Rat{rat("0.01")}}, {MultipleOf: []*big.Rat{rat("5")}}, {MultipleOf: []*big.Rat{rat("1000")}},
		{MultipleOf: []*big.Rat{rat("3600")}}, {MultipleOf: []*big.Rat{rat("997")}},
	} {
		b.Run(c.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := Number(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
