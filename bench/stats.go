package bench

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// Confidence is the probability that an interval of this package contains the true value.
const Confidence = 0.95

// Significant is how small the p value of a difference must be to count as significant.
const Significant = 0.05

// resamples is how often a bootstrap draws.
const resamples = 2000

// Summary describes samples. Low and High are the percentile bootstrap interval of the median (Efron 1979); of one
// sample they are that sample.
type Summary struct {
	Median, Low, High, Mean, Deviation float64
}

// Summarize describes samples, of which there is at least one. The deviation is that of the sample (n-1).
func Summarize(samples []float64) Summary {
	s := Summary{Median: Median(samples), Mean: stats.Mean(samples)}
	if len(samples) > 1 {
		s.Deviation = stats.StdDev(samples)
	}
	s.Low, s.High = interval(func(r *rand.Rand) float64 { return Median(draw(r, samples)) })
	return s
}

// Comparison says how two sets of samples differ.
type Comparison struct {
	// Ratio is the median of the second divided by that of the first. Low and High are its bootstrap interval.
	Ratio, Low, High float64
	// P is the probability of such a difference, or a larger one, by chance: the Mann-Whitney U test, two-sided.
	P float64
	// TooFew says that there are too few samples for any difference to be significant.
	TooFew bool
}

// Significant reports whether chance hardly explains the difference.
func (c *Comparison) Significant() bool { return c.P < Significant }

// Compare compares two sets of samples, each with at least one.
func Compare(a, b []float64) Comparison {
	c := Comparison{Ratio: Median(b) / Median(a), P: 1, TooFew: leastP(len(a), len(b)) >= Significant}
	if u, err := stats.MannWhitneyUTest(a, b, stats.LocationDiffers); err == nil { // else all samples are equal
		c.P = u.P
	}
	c.Low, c.High = interval(func(r *rand.Rand) float64 { return Median(draw(r, b)) / Median(draw(r, a)) })
	return c
}

// leastP is the smallest p value that so many samples can have: all of one set are above all of the other.
func leastP(a, b int) float64 {
	orders := 1.0 // the binomial coefficient of a+b and a
	for i := 1; i <= a; i++ {
		orders *= float64(b+i) / float64(i)
	}
	return 2 / orders
}

// interval returns the bounds of the middle of many drawn values. The same draws are made each time, so that the
// same samples have the same interval.
func interval(value func(r *rand.Rand) float64) (low, high float64) {
	r := rand.New(rand.NewPCG(1, 2))
	drawn := make([]float64, resamples)
	for i := range drawn {
		drawn[i] = value(r)
	}
	slices.Sort(drawn)
	out := int(math.Round(resamples * (1 - Confidence) / 2))
	return drawn[out], drawn[resamples-1-out]
}

// draw returns as many samples as there are, with replacement.
func draw(r *rand.Rand, samples []float64) []float64 {
	list := make([]float64, len(samples))
	for i := range list {
		list[i] = samples[r.IntN(len(samples))]
	}
	return list
}

// Median returns the median of samples, of which there is at least one.
func Median(samples []float64) float64 { return Quantile(samples, 0.5) }

// Quantile returns a quantile of samples, between the two that are nearest to it.
func Quantile(samples []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}
