package sample

import (
	"math"
	"unsafe"
)

const (
	expBits  = 12
	expSteps = 1 << expBits // table entries per power of two
	// expScale converts a natural exponent to table steps.
	expScale = expSteps * math.Log2E
	// Adding expRound to a float32 of magnitude below 2^21 rounds it to an integer, which is then in the low bits.
	expRound = 3 << 22
	// expZero is the bits of expRound - 127*expSteps. The power of that is the float32 with all bits zero.
	expZero = 0x4b400000 - 127*expSteps
	// expLeast is the lowest exponent whose result is a normal float32. Results below count as 0.
	expLeast = -87
)

// expTable holds, for every step i, the bits of 2^(i/expSteps) minus i<<(23-expBits). Adding n<<(23-expBits) for an
// n whose low bits are i then adds the high bits of n to the exponent.
var expTable = func() (t [expSteps]uint32) {
	for i := range t {
		t[i] = math.Float32bits(float32(math.Exp2(float64(i)/expSteps))) - uint32(i)<<(23-expBits)
	}
	return
}()

// exp returns e^(x*scale) for scale > 0 and x not above 0 except by rounding. Results below e^-87 are 0. The
// relative error is below 2e-7 plus 1.2e-7 times the exponent's magnitude; the second part comes from rounding the
// exponent itself.
//
// The exponent, in table steps, is the sum of an integer, whose power is in the table, and a remainder r of at most
// half a step, for which 1+r is precise enough for e^r.
func exp(x, scale float32) float32 {
	y := x * scale
	if y < expLeast {
		return 0
	}
	y *= expScale
	t := y + expRound
	b := math.Float32bits(t)
	r := y - (t - expRound)
	p := math.Float32frombits(expTable[b%expSteps] + b<<(23-expBits))
	return p + p*(r*(1/expScale))
}

// sumExp returns the sum of exp(v-ref, scale) over x.
func sumExp(x []float32, ref, scale float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(exp(v-ref, scale))
	}
	return sum
}

// sumExpCoarse is sumExp at half the cost, for an integer offset = ref*scale*expScale and steps = scale*expScale.
// It ignores the remainder: each term has a relative error of up to 9e-5, with mean zero over many terms.
func sumExpCoarse(x []float32, offset, steps float32) float32 {
	var s0, s1, s2, s3 float32
	c := expRound - offset
	for ; len(x) >= 4; x = x[4:] {
		v := (*[4]float32)(x)
		s0 += power(v[0]*steps + c)
		s1 += power(v[1]*steps + c)
		s2 += power(v[2]*steps + c)
		s3 += power(v[3]*steps + c)
	}
	for _, v := range x {
		s0 += power(v*steps + c)
	}
	return (s0 + s1) + (s2 + s3)
}

// power returns 2^((t-expRound)/expSteps), and 0 below the float32 range.
func power(t float32) float32 {
	b := uint32(max(int32(math.Float32bits(t)), expZero)) // the bits of positive floats sort like the floats
	return math.Float32frombits(expTable[b%expSteps] + b<<(23-expBits))
}

// largest returns the largest value of x, or NaN if x holds one.
//
// It compares the bits as signed integers, which needs no branch and sorts floats correctly as long as the largest
// is not negative. It finds NaN by adding up all values.
func largest(x []float32) float32 {
	m0, m1 := int32(math.MinInt32), int32(math.MinInt32)
	var s0, s1, s2, s3 float32
	rest := x
	for ; len(rest) >= 8; rest = rest[8:] {
		v := (*[8]float32)(rest)
		b := (*[8]int32)(unsafe.Pointer(v))
		m0, m1 = max(m0, b[0]), max(m1, b[1])
		m0, m1 = max(m0, b[2]), max(m1, b[3])
		m0, m1 = max(m0, b[4]), max(m1, b[5])
		m0, m1 = max(m0, b[6]), max(m1, b[7])
		s0, s1, s2, s3 = s0+v[0], s1+v[1], s2+v[2], s3+v[3]
		s0, s1, s2, s3 = s0+v[4], s1+v[5], s2+v[6], s3+v[7]
	}
	for _, v := range rest {
		m0 = max(m0, int32(math.Float32bits(v)))
		s0 += v
	}
	m, s := max(m0, m1), (s0+s1)+(s2+s3)
	if m >= 0 && s == s {
		return math.Float32frombits(uint32(m))
	}
	most := float32(math.Inf(-1)) // all values are negative, or the sum is NaN or that of infinities
	for _, v := range x {
		if !(v <= most) {
			most = v
			if v != v {
				break
			}
		}
	}
	return most
}
