package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"runner/backend"
)

// reference implements backend.Sampling's documentation in float64 with full sorts. It returns the tokens that the
// filters keep, with their probabilities. allowed limits what the filters see; nil allows everything. slack widens
// every filter by a factor near 1.
func reference(logits []float32, p *backend.Sampling, allowed func(backend.Token) bool,
	slack float64) map[backend.Token]float64 {
	type token struct {
		id   backend.Token
		l, q float64
	}
	var c []token
	for i, l := range adjusted(logits, p) {
		if !math.IsInf(l, -1) && (allowed == nil || allowed(backend.Token(i))) {
			c = append(c, token{id: backend.Token(i), l: l})
		}
	}
	if len(c) == 0 {
		return nil
	}
	likely := func(a, b token) int {
		if a.l > b.l || a.l == b.l && a.id < b.id {
			return -1
		}
		return 1
	}
	normalise := func(scale float64) {
		best, sum := math.Inf(-1), 0.0
		for _, t := range c {
			best = max(best, t.l)
		}
		for i := range c {
			c[i].q = math.Exp((c[i].l - best) * scale)
			sum += c[i].q
		}
		for i := range c {
			c[i].q /= sum
		}
	}
	keepMass := func(mass float64) {
		sum := 0.0
		for i := range c {
			if sum += c[i].q; sum >= mass {
				c = c[:i+1]
				return
			}
		}
	}
	slices.SortFunc(c, likely)
	if p.Temperature == 0 {
		return map[backend.Token]float64{c[0].id: 1}
	}
	if p.TopK > 0 {
		c = c[:min(p.TopK, len(c))]
	}
	normalise(1)
	if p.TypicalP > 0 && p.TypicalP < 1 {
		entropy := 0.0
		for _, t := range c {
			if t.q > 0 {
				entropy -= t.q * math.Log(t.q)
			}
		}
		slices.SortStableFunc(c, func(a, b token) int {
			x, y := math.Abs(-math.Log(a.q)-entropy), math.Abs(-math.Log(b.q)-entropy)
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return int(a.id - b.id)
		})
		keepMass(float64(p.TypicalP) * slack)
		slices.SortFunc(c, likely)
		normalise(1)
	}
	if p.TopP > 0 && p.TopP < 1 {
		keepMass(float64(p.TopP) * slack)
	}
	c = slices.DeleteFunc(c, func(t token) bool { return t.q < float64(p.MinP)*c[0].q/slack })
	normalise(1 / float64(p.Temperature))
	kept := map[backend.Token]float64{}
	for _, t := range c {
		kept[t.id] = t.q
	}
	return kept
}

// adjusted returns the logits after penalties and bias.
func adjusted(logits []float32, p *backend.Sampling) []float64 {
	out := make([]float64, len(logits))
	counts := map[backend.Token]int{}
	for i, t := range p.Seen {
		if p.PenaltyWindow == 0 || i >= len(p.Seen)-p.PenaltyWindow {
			counts[t]++
		}
	}
	for i, l := range logits {
		x := float64(l)
		if n := counts[backend.Token(i)]; n > 0 {
			if r := float64(p.RepetitionPenalty); r != 0 && x > 0 {
				x /= r
			} else if r != 0 {
				x *= r
			}
			x -= float64(n)*float64(p.FrequencyPenalty) + float64(p.PresencePenalty)
		}
		out[i] = x
	}
	for _, b := range p.Bias {
		if b.Bias <= -100 {
			out[b.Token] = math.Inf(-1)
		}
		out[b.Token] += float64(b.Bias)
	}
	return out
}

func pickOne[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomLogits(r *rand.Rand, n int) []float32 {
	l := make([]float32, n)
	spread := pickOne(r, 0.0, 0.1, 1, 3, 10, 100)
	middle := pickOne(r, -200.0, -5, 0, 5, 200)
	step := pickOne(r, 0.0, 0.5) // ties
	for i := range l {
		x := r.NormFloat64()*spread + middle
		if step > 0 {
			x = math.Round(x/step) * step
		}
		if r.IntN(20) == 0 {
			x = math.Inf(-1)
		}
		l[i] = float32(x)
	}
	l[r.IntN(n)] = float32(middle)
	return l
}

func randomSampling(r *rand.Rand, n int) *backend.Sampling {
	p := &backend.Sampling{
		Temperature: pickOne[float32](r, 0, 0.01, 0.5, 0.8, 1, 1, 2, 50), Seed: r.Uint64(),
		TopK:     pickOne(r, 0, 0, 1, 2, 10, 40, n/2, 2*n),
		TopP:     pickOne[float32](r, 0, 0, 1, 0.95, 0.5, 0.01, 0.999),
		MinP:     pickOne[float32](r, 0, 0, 0.05, 0.5, 1, 1e-4),
		TypicalP: pickOne[float32](r, 0, 0, 0, 1, 0.9, 0.2),
	}
	if r.IntN(3) == 0 {
		p.RepetitionPenalty = pickOne[float32](r, 0, 1, 1.2, 0.5)
		p.PresencePenalty = pickOne[float32](r, 0, 0.5, -2)
		p.FrequencyPenalty = pickOne[float32](r, 0, 0.25, -1)
		p.Seen, p.PenaltyWindow = randomSeen(r, n), pickOne(r, 0, 1, 10)
	}
	for range r.IntN(3) * r.IntN(3) {
		p.Bias = append(p.Bias, backend.TokenBias{Token: backend.Token(r.IntN(n)),
			Bias: pickOne[float32](r, 1, -3, 20, -100)})
	}
	return p
}

// randomSeen returns a few repeated tokens, sometimes with one that is not in the vocabulary.
func randomSeen(r *rand.Rand, n int) []backend.Token {
	seen := make([]backend.Token, r.IntN(40))
	for i := range seen {
		seen[i] = backend.Token(r.IntN(min(n, 10)))
		if r.IntN(20) == 0 {
			seen[i] = pickOne(r, backend.NoToken, backend.Token(n))
		}
	}
	return seen
}

// TestAgainstReference compares the tokens that the filters keep, and their probabilities, over random requests.
// Tokens at the boundary of a filter may fall on either side.
func TestAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 6000 {
		n := pickOne(r, 1, 2, 7, 64, 255, 256, 257, 700, 3000)
		logits, p, at := randomLogits(r, n), randomSampling(r, n), r.IntN(40)
		s := New(n)
		var out backend.Output
		want := reference(logits, p, nil, 1)
		err := s.Sample(logits, p, at, nil, &out)
		if want == nil {
			if err == nil {
				t.Fatalf("round %d: no token is possible but %d was drawn", round, out.Token)
			}
			continue
		}
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		wide, narrow := reference(logits, p, nil, 1+1e-4), reference(logits, p, nil, 1-1e-4)
		sharp := len(wide) == len(narrow)
		if _, ok := wide[out.Token]; !ok && want[out.Token] == 0 {
			t.Fatalf("round %d: %+v: drew %d, which the filters drop", round, p, out.Token)
		}
		everything := p.TopK == 0 || p.TopK >= n
		everything = everything && (p.TopP == 0 || p.TopP == 1) && (p.TypicalP == 0 || p.TypicalP == 1) && p.MinP == 0
		if p.Temperature == 0 || everything || !sharp {
			continue
		}
		got := map[backend.Token]float64{}
		for _, c := range s.cands {
			got[c.id] = float64(c.weight) / totalWeight(s.cands)
		}
		if len(got) != len(want) {
			t.Fatalf("round %d: %+v: kept %d tokens of %d, want %d", round, p, len(got), n, len(want))
		}
		for id, q := range want {
			// Dividing the exponent by a low temperature multiplies its rounding.
			if tolerance := 1e-4 + 2e-5/float64(p.Temperature); math.Abs(got[id]-q) > tolerance*q+1e-6 {
				t.Fatalf("round %d: %+v: token %d has the probability %v, want %v", round, p, id, got[id], q)
			}
		}
	}
}

// TestFreeDrawFollowsTheDistribution checks draws without filters against the cumulative distribution in token
// order.
func TestFreeDrawFollowsTheDistribution(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		n := pickOne(r, 1, 100, 600, 5000)
		logits := randomLogits(r, n)
		p := &backend.Sampling{Temperature: pickOne[float32](r, 0.3, 1, 1.7)}
		q := reference(logits, p, nil, 1)
		s := New(n)
		for range 200 {
			p.Seed = r.Uint64()
			u := uniform(p.Seed, 0, 0)
			var out backend.Output
			if err := s.Sample(logits, p, 0, nil, &out); err != nil {
				t.Fatal(err)
			}
			below := 0.0
			for i := range out.Token {
				below += q[i]
			}
			if u < below-1e-4 || u > below+q[out.Token]+1e-4 {
				t.Fatalf("%v of %d: token %d holds %v to %v", u, n, out.Token, below, below+q[out.Token])
			}
		}
	}
}

func TestLogprobs(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		n := pickOne(r, 1, 5, 300, 4000)
		logits, p, at := randomLogits(r, n), randomSampling(r, n), r.IntN(40)
		p.TopLogprobs = r.IntN(backend.MaxTopLogprobs + 1)
		var out backend.Output
		if err := New(n).Sample(logits, p, at, nil, &out); err != nil {
			continue
		}
		best, sum, finite := math.Inf(-1), 0.0, 0
		for _, l := range logits {
			best = max(best, float64(l))
		}
		for _, l := range logits {
			sum += math.Exp(float64(l) - best)
			if !math.IsInf(float64(l), -1) {
				finite++
			}
		}
		logprob := func(t backend.Token) float64 { return float64(logits[t]) - best - math.Log(sum) }
		if d := math.Abs(float64(out.Logprob) - logprob(out.Token)); d > 2e-5+1e-6*math.Abs(best) {
			t.Fatalf("logprob %v, want %v", out.Logprob, logprob(out.Token))
		}
		if len(out.Top) != min(p.TopLogprobs, finite) {
			t.Fatalf("%d alternatives, want %d of %d", len(out.Top), p.TopLogprobs, finite)
		}
		order := make([]backend.Token, n)
		for i := range order {
			order[i] = backend.Token(i)
		}
		slices.SortStableFunc(order, func(a, b backend.Token) int {
			switch {
			case logits[a] > logits[b]:
				return -1
			case logits[a] < logits[b]:
				return 1
			}
			return 0
		})
		for i, top := range out.Top {
			if top.Token != order[i] || math.Abs(float64(top.Logprob)-logprob(order[i])) > 2e-5+1e-6*math.Abs(best) {
				t.Fatalf("alternative %d is %+v, want %d with %v", i, top, order[i], logprob(order[i]))
			}
		}
	}
}
