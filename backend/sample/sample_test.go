package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"runner/backend"
)

// allow is a constraint with a fixed mask that counts its calls.
type allow struct {
	mask  backend.Mask
	fills int
}

func (a *allow) Allows(t backend.Token) bool { return a.mask.Has(t) }
func (a *allow) Fill(m backend.Mask)         { a.fills++; copy(m, a.mask) }

func allowing(n int, tokens ...backend.Token) *allow {
	a := &allow{mask: backend.NewMask(n)}
	for _, t := range tokens {
		a.mask.Set(t)
	}
	return a
}

// TestConstrainedDistribution draws many times and compares the frequencies, by a chi-square test, with F given A.
// Where F leaves nothing allowed, it compares with the filters applied to the allowed tokens alone.
func TestConstrainedDistribution(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const n, draws = 12, 20000
	fallbacks := 0
	for round := range 60 {
		logits := make([]float32, n)
		for i := range logits {
			logits[i] = float32(r.NormFloat64() * 1.5)
		}
		p := &backend.Sampling{
			Temperature: pickOne[float32](r, 0.5, 1, 1.5), TopK: pickOne(r, 0, 3, 6), TopP: pickOne[float32](r, 0, 0.7, 0.9),
			MinP: pickOne[float32](r, 0, 0.1), TypicalP: pickOne[float32](r, 0, 0, 0.8),
		}
		c := allowing(n)
		for i := range n {
			if r.IntN(3) == 0 {
				c.mask.Set(backend.Token(i))
			}
		}
		c.mask.Set(backend.Token(r.IntN(n)))

		want, sum := map[backend.Token]float64{}, 0.0
		for id, q := range reference(logits, p, nil, 1) {
			if c.mask.Has(id) {
				want[id] = q
				sum += q
			}
		}
		if sum == 0 {
			fallbacks++
			want, sum = reference(logits, p, c.mask.Has, 1), 1
		}
		got := map[backend.Token]int{}
		s := New(n)
		for i := range draws {
			p.Seed = uint64(i)
			var out backend.Output
			if err := s.Sample(logits, p, 0, c, &out); err != nil {
				t.Fatal(err)
			}
			got[out.Token]++
		}
		chi, drawn := 0.0, 0
		for id, q := range want {
			expected := q / sum * draws
			chi += (float64(got[id]) - expected) * (float64(got[id]) - expected) / expected
			drawn += got[id]
		}
		if drawn != draws {
			t.Fatalf("round %d: %d draws are outside the distribution", round, draws-drawn)
		}
		// Chi-square has mean k, its degrees of freedom, and variance 2k. This bound fails once in a million runs.
		if k := float64(len(want) - 1); chi > k+6*math.Sqrt(2*k)+12 {
			t.Errorf("round %d: %+v: chi-square %v with %v degrees of freedom: got %v, want %v", round, p, chi, k, got, want)
		}
	}
	if fallbacks == 0 {
		t.Error("in no round did the filters leave no allowed token")
	}
}

func TestMaskOnlyOnRefusal(t *testing.T) {
	logits := []float32{0, 10, 5, 0}
	for _, temperature := range []float32{0, 1e-3} {
		p := &backend.Sampling{Temperature: temperature}
		var out backend.Output
		c := allowing(4, 1, 2)
		if err := New(4).Sample(logits, p, 0, c, &out); err != nil || out.Token != 1 || c.fills != 0 {
			t.Errorf("allowed: %+v, %v, %d masks", out, err, c.fills)
		}
		c = allowing(4, 0, 2)
		if err := New(4).Sample(logits, p, 0, c, &out); err != nil || out.Token != 2 || c.fills != 1 {
			t.Errorf("refused: %+v, %v, %d masks", out, err, c.fills)
		}
	}
}

func TestNothingAllowed(t *testing.T) {
	forbid := []backend.TokenBias{{Token: 1, Bias: -100}}
	for _, temperature := range []float32{0, 1} {
		for name, try := range map[string]func(p *backend.Sampling) error{
			"empty mask": func(p *backend.Sampling) error {
				return New(3).Sample([]float32{1, 2, 3}, p, 0, allowing(3), &backend.Output{})
			},
			"only an impossible token": func(p *backend.Sampling) error {
				return New(3).Sample([]float32{1, float32(math.Inf(-1)), 3}, p, 0, allowing(3, 1), &backend.Output{})
			},
			"only a forbidden token": func(p *backend.Sampling) error {
				p.Bias = forbid
				return New(3).Sample([]float32{1, 2, 3}, p, 0, allowing(3, 1), &backend.Output{})
			},
			"all forbidden": func(p *backend.Sampling) error {
				p.Bias = []backend.TokenBias{{Token: 0, Bias: -1000}}
				return New(1).Sample([]float32{1}, p, 0, nil, &backend.Output{})
			},
		} {
			if err := try(&backend.Sampling{Temperature: temperature, TopK: 2}); !errors.Is(err, backend.ErrNothingAllowed) {
				t.Errorf("temperature %v, %s: %v", temperature, name, err)
			}
		}
	}
}

func TestBadLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	negative := math.Float32frombits(0xffc00000) // the NaN that x86 produces
	for _, bad := range [][]float32{{nan}, {negative}, {inf}, {-inf}, {-inf, -inf}, {1, nan, 2}, {-1, negative, -2},
		{1, inf}, {-inf, inf}, {nan, inf}} {
		for size := range 700 {
			if size > 20 && size%97 != 0 {
				continue
			}
			logits := append(make([]float32, size), bad...)
			for i := range size {
				logits[i] = -1
			}
			if size > 0 && len(bad) <= 2 && bad[0] == -inf && bad[len(bad)-1] == -inf {
				continue // minus infinity is an error only when all logits are minus infinity
			}
			for _, p := range []backend.Sampling{{}, {TopLogprobs: -1}, {Temperature: 1}, {Temperature: 1, TopK: 3, TopP: 0.5}} {
				if err := New(len(logits)).Sample(logits, &p, 0, nil, &backend.Output{}); !errors.Is(err,
					ErrBadLogits) {
					t.Fatalf("%v after %d: %v", bad, size, err)
				}
			}
		}
	}
	if err := New(3).Sample(make([]float32, 2), &backend.Sampling{}, 0, nil, &backend.Output{}); err == nil {
		t.Error("two logits for a vocabulary of three are accepted")
	}
}

func TestGreedyTakesTheLowerOfEquals(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = -5
	}
	logits[300], logits[301], logits[900] = -1, -1, -1
	var out backend.Output
	if err := New(1000).Sample(logits, &backend.Sampling{}, 0, nil, &out); err != nil || out.Token != 300 {
		t.Errorf("%+v, %v", out, err)
	}
	if err := New(1000).Sample(logits, &backend.Sampling{}, 0, allowing(1000, 5, 301, 900), &out); err != nil ||
		out.Token != 301 {
		t.Errorf("masked: %+v, %v", out, err)
	}
}

func TestPenalties(t *testing.T) {
	seen := []backend.Token{0, 0, 1, 2, 2, 2, 3}
	tests := []struct {
		p    backend.Sampling
		want []float32
	}{
		{backend.Sampling{RepetitionPenalty: 2}, []float32{2, -4, 2, -4, 4}},
		{backend.Sampling{RepetitionPenalty: 2, PenaltyWindow: 4}, []float32{4, -2, 2, -4, 4}},
		{backend.Sampling{PresencePenalty: 0.5}, []float32{3.5, -2.5, 3.5, -2.5, 4}},
		{backend.Sampling{FrequencyPenalty: 0.5}, []float32{3, -2.5, 2.5, -2.5, 4}},
		{backend.Sampling{FrequencyPenalty: 0.5, PenaltyWindow: 2}, []float32{4, -2, 3.5, -2.5, 4}},
		{backend.Sampling{FrequencyPenalty: 0.5, PenaltyWindow: 100}, []float32{3, -2.5, 2.5, -2.5, 4}},
		{backend.Sampling{RepetitionPenalty: 2, FrequencyPenalty: 1, PresencePenalty: -1}, []float32{1, -4, 0, -4, 4}},
		{backend.Sampling{Bias: []backend.TokenBias{{Token: 4, Bias: -1}, {Token: 4, Bias: -2}, {Token: 0, Bias: 3}}},
			[]float32{7, -2, 4, -2, 1}},
		{backend.Sampling{Bias: []backend.TokenBias{{Token: 4, Bias: -100}}}, []float32{4, -2, 4, -2, float32(math.Inf(-1))}},
	}
	for _, test := range tests {
		s := New(5)
		logits := []float32{4, -2, 4, -2, 4}
		test.p.Seen = seen
		plain := test.p.Plain()
		s.adjust(logits, &plain)
		for i := range logits {
			if logits[i] != test.want[i] {
				t.Errorf("%+v: token %d has %v, want %v", test.p, i, logits[i], test.want[i])
			}
		}
		s.restore(logits)
		for i, l := range []float32{4, -2, 4, -2, 4} {
			if logits[i] != l {
				t.Errorf("%+v: token %d came back as %v", test.p, i, logits[i])
			}
		}
		for i, n := range s.counts {
			if n != 0 {
				t.Errorf("%+v: token %d still counts %d", test.p, i, n)
			}
		}
	}
}

type panics struct{}

func (panics) Allows(backend.Token) bool { panic("constraint") }
func (panics) Fill(backend.Mask)         {}

func TestLogitsComeBackAfterAPanic(t *testing.T) {
	logits := []float32{1, 2, 3}
	func() {
		defer func() { _ = recover() }()
		_ = New(3).Sample(logits, &backend.Sampling{Bias: []backend.TokenBias{{Token: 0, Bias: 5}}}, 0, panics{},
			&backend.Output{})
	}()
	if logits[0] != 1 {
		t.Errorf("token 0 has %v", logits[0])
	}
}

// TestSeedDecides checks that a draw depends on the seed and the position alone, not on earlier work of the
// sampler.
func TestSeedDecides(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const n = 2000
	used := New(n)
	differ := 0
	for range 300 {
		logits, p, at := randomLogits(r, n), randomSampling(r, n), r.IntN(40)
		var c backend.Constraint
		if r.IntN(2) == 0 {
			mask := allowing(n)
			for range 200 {
				mask.mask.Set(backend.Token(r.IntN(n)))
			}
			c = mask
		}
		var a, b, d backend.Output
		errA, errB := used.Sample(logits, p, at, c, &a), New(n).Sample(logits, p, at, c, &b)
		if (errA == nil) != (errB == nil) || a.Token != b.Token || a.Logprob != b.Logprob {
			t.Fatalf("%+v: %+v, %v after other work but %+v, %v fresh", p, a, errA, b, errB)
		}
		p.Seed++
		if used.Sample(logits, p, at, c, &d) == nil && d.Token != a.Token {
			differ++
		}
	}
	if differ < 20 {
		t.Errorf("another seed changed only %d of 300 draws", differ)
	}
}

// TestUniform checks mean, variance and serial correlation over positions, seeds and draws.
func TestUniform(t *testing.T) {
	const n = 1 << 16
	for name, at := range map[string]func(i int) float64{
		"positions":       func(i int) float64 { return uniform(42, i, 0) },
		"seeds":           func(i int) float64 { return uniform(uint64(i), 7, 0) },
		"second draws":    func(i int) float64 { return uniform(42, i, 1) },
		"first to second": func(i int) float64 { return uniform(9, i/2, i%2) },
	} {
		sum, squares, products, last := 0.0, 0.0, 0.0, 0.5
		for i := range n {
			u := at(i)
			if u < 0 || u >= 1 {
				t.Fatalf("%s: %v", name, u)
			}
			sum += u
			squares += (u - 0.5) * (u - 0.5)
			products += (u - 0.5) * (last - 0.5)
			last = u
		}
		// Five standard deviations: 0.2887, 0.0745 and 0.0833 for one number.
		if d := 5 / math.Sqrt(n); math.Abs(sum/n-0.5) > 0.2887*d || math.Abs(squares/n-1.0/12) > 0.0745*d ||
			math.Abs(products/n) > 0.0833*d {
			t.Errorf("%s: mean %v, variance %v, correlation %v", name, sum/n, squares/n, products/n)
		}
	}
}

func TestExp(t *testing.T) {
	for x := float32(-86.9); x <= 0; x += 0.00037 {
		want := math.Exp(float64(x))
		if e := math.Abs(float64(exp(x, 1))/want - 1); e > 2e-7-1.2e-7*float64(x) {
			t.Fatalf("exp(%v) has the relative error %v", x, e)
		}
		if x > -20 {
			offset := float32(3 * expScale)
			offset = float32(math.Round(float64(offset)))
			ref := float64(offset) / expScale
			got := sumExpCoarse([]float32{x + 3}, offset, expScale)
			if e := math.Abs(float64(got)/math.Exp(float64(x+3)-ref) - 1); e > 1e-4 {
				t.Fatalf("coarse exp(%v) has the relative error %v", x, e)
			}
		}
	}
	for _, x := range []float32{-87.1, -1000, -math.MaxFloat32, float32(math.Inf(-1))} {
		if exp(x, 1) != 0 || sumExpCoarse([]float32{x - 1}, 0, expScale) != 0 {
			t.Errorf("exp(%v) is not 0", x)
		}
	}
	if exp(0, 1) != 1 || exp(0, math.MaxFloat32) != 1 {
		t.Error("exp(0) is not 1")
	}
}

func TestSelect(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 2000 {
		n := 1 + r.IntN(60)
		c := make([]candidate, n)
		for i := range c {
			c[i] = candidate{key: float32(r.IntN(8)), weight: float32(r.IntN(5)), id: backend.Token(i)}
		}
		r.Shuffle(n, func(i, j int) { c[i], c[j] = c[j], c[i] })
		divided := func(k int) {
			t.Helper()
			for _, a := range c[:k] {
				for _, b := range c[k:] {
					if b.before(a) {
						t.Fatalf("%v is kept and %v is not, at %d of %d", a, b, k, n)
					}
				}
			}
		}
		k := 1 + r.IntN(n)
		selectCount(c, k)
		divided(k)
		target := r.Float64() * totalWeight(c)
		k = selectWeight(c, target)
		divided(k)
		least := c[0]
		for _, x := range c[:k] {
			if least.before(x) {
				least = x
			}
		}
		if sum := totalWeight(c[:k]); sum < target || k > 1 && sum-float64(least.weight) >= target {
			t.Fatalf("%d tokens with %v for a target of %v, the last with %v", k, sum, target, least.weight)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	logits := modelLogits(5000, 1)
	c := allowing(5000)
	for i := range 4000 {
		c.mask.Set(backend.Token(i))
	}
	for _, chain := range chains {
		s, p := New(5000), chain.p
		p.Bias, p.Seen = []backend.TokenBias{{Token: 3, Bias: 1}}, make([]backend.Token, 100)
		var out backend.Output
		step := func() {
			p.Seed++
			if err := s.Sample(logits, &p, 100, c, &out); err != nil {
				t.Fatal(err)
			}
		}
		for range 200 { // let the scratch space grow
			step()
		}
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("%s: %v allocations per token", chain.name, n)
		}
	}
}

// FuzzSample feeds arbitrary bits as logits and checks that nothing panics, that no forbidden token is drawn, and
// that the logits are restored bit for bit.
func FuzzSample(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 192, 127}, uint64(1), uint64(3))
	f.Add(make([]byte, 4096), uint64(7), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, seed, allowed uint64) {
		n := len(data) / 4
		if n == 0 || n > 4096 {
			return
		}
		logits := make([]float32, n)
		for i := range logits {
			logits[i] = math.Float32frombits(uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 |
				uint32(data[4*i+3])<<24)
		}
		before := append([]float32(nil), logits...)
		r := rand.New(rand.NewPCG(seed, 1))
		p, at := randomSampling(r, n), r.IntN(40)
		p.TopLogprobs = r.IntN(6) - 1
		var c backend.Constraint
		if allowed != 0 {
			a := allowing(n)
			for i := range n {
				if allowed>>(i%64)&1 != 0 {
					a.mask.Set(backend.Token(i))
				}
			}
			c = a
		}
		var out backend.Output
		err := New(n).Sample(logits, p, at, c, &out)
		for i := range logits {
			if math.Float32bits(logits[i]) != math.Float32bits(before[i]) {
				t.Fatalf("logit %d changed", i)
			}
		}
		if err != nil {
			if !errors.Is(err, ErrBadLogits) && !errors.Is(err, backend.ErrNothingAllowed) {
				t.Fatal(err)
			}
			return
		}
		if out.Token < 0 || int(out.Token) >= n || c != nil && !c.Allows(out.Token) ||
			math.IsInf(float64(logits[out.Token]), -1) {
			t.Fatalf("drew %d of %d", out.Token, n)
		}
		if p.TopLogprobs >= 0 && math.IsNaN(float64(out.Logprob)) {
			t.Fatalf("log probability %v", out.Logprob)
		}
	})
}
