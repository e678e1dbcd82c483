package sample

import (
	"math"

	"runner/backend"
)

// candidate is a token that may be drawn.
type candidate struct {
	key    float32 // what candidates are ordered by: the logit, but for a moment inside selectTypical
	weight float32 // proportional to the probability
	id     backend.Token
}

// before orders candidates by descending key and then ascending token. No two are equal.
func (c candidate) before(d candidate) bool { return c.key > d.key || c.key == d.key && c.id < d.id }

// partition puts the candidates that come before some pivot first and returns how many there are, the pivot
// included, which is the last of them. c holds at least one.
func partition(c []candidate) int {
	last := len(c) - 1
	mid := last / 2
	if c[mid].before(c[0]) {
		c[mid], c[0] = c[0], c[mid]
	}
	if c[last].before(c[0]) {
		c[last], c[0] = c[0], c[last]
	}
	if c[mid].before(c[last]) {
		c[mid], c[last] = c[last], c[mid]
	}
	pivot := c[last] // the median of the three
	n := 0
	for i := range c[:last] {
		if c[i].before(pivot) {
			c[i], c[n] = c[n], c[i]
			n++
		}
	}
	c[n], c[last] = c[last], c[n]
	return n + 1
}

// selectCount puts the first k candidates first, in no order. k is 1 to len(c).
func selectCount(c []candidate, k int) {
	for len(c) > k && k > 0 {
		n := partition(c)
		switch {
		case n > k:
			c = c[:n-1] // the pivot is not among the first k
		default:
			c, k = c[n:], k-n
		}
	}
}

// selectWeight puts the fewest leading candidates first whose weights reach target, in no order, and returns their
// number, at least 1. All of them, if they do not reach it.
func selectWeight(c []candidate, target float64) int {
	kept := 0
	for len(c) > 0 {
		n := partition(c)
		upper := totalWeight(c[:n-1])
		switch {
		case upper >= target && n > 1:
			c = c[:n-1]
		case upper+float64(c[n-1].weight) >= target:
			return kept + n
		default:
			target -= upper + float64(c[n-1].weight)
			kept += n
			c = c[n:]
		}
	}
	return max(kept, 1)
}

func totalWeight(c []candidate) float64 {
	total := 0.0
	for i := range c {
		total += float64(c[i].weight)
	}
	return total
}

// weigh sets the weights from the keys, which are logits: 1 for the largest. It returns their sum.
func weigh(c []candidate, scale float32) float64 {
	most := float32(math.Inf(-1))
	for i := range c {
		most = max(most, c[i].key)
	}
	total := 0.0
	for i := range c {
		c[i].weight = exp(c[i].key-most, scale)
		total += float64(c[i].weight)
	}
	return total
}

// mean returns the candidates' mean logit under their weights, and the sum of the weights.
func mean(c []candidate) (mean, total float64) {
	sum := 0.0
	for i := range c {
		w := float64(c[i].weight)
		total += w
		sum += w * float64(c[i].key)
	}
	return sum / total, total
}

// selectTypical keeps the candidates whose information content is closest to the distribution's entropy, as many as
// it takes to reach the mass target (Meister et al. 2022). A token's information is logZ less its logit and the
// entropy is the mean of that, so the two are as far apart as the logit is from the mean logit.
func selectTypical(c []candidate, mean, target float64, logits []float32) []candidate {
	for i := range c {
		c[i].key = -distance(c[i].key, mean)
	}
	c = c[:selectWeight(c, target)]
	for i := range c {
		c[i].key = logits[c[i].id]
	}
	return c
}

func distance(logit float32, mean float64) float32 { return float32(math.Abs(float64(logit) - mean)) }

// minP keeps the candidates that have at least the part p of the largest weight.
func minP(c []candidate, p float32) []candidate {
	most := float32(0)
	for i := range c {
		most = max(most, c[i].weight)
	}
	kept := c[:0]
	for _, x := range c {
		if x.weight >= p*most {
			kept = append(kept, x)
		}
	}
	return kept
}

// pick weighs the candidates at the temperature and returns the one at the part u of their sum.
func pick(c []candidate, temperature float32, u float64) backend.Token {
	return at(c, u*weigh(c, inverse(temperature)))
}

// inverse returns 1/temperature, kept finite.
func inverse(temperature float32) float32 { return min(1/temperature, math.MaxFloat32) }

// again draws from the weighted candidates that the mask holds; false if there are none.
func again(c []candidate, mask backend.Mask, seed uint64, position int) (backend.Token, bool) {
	total := 0.0
	for i := range c {
		if !mask.Has(c[i].id) {
			c[i].weight = 0
		}
		total += float64(c[i].weight)
	}
	if total == 0 {
		return backend.NoToken, false
	}
	return at(c, total*uniform(seed, position, 1)), true
}

// at returns the candidate at which the running sum of the weights passes rest; the last one that has any where
// rounding leaves none.
func at(c []candidate, rest float64) backend.Token {
	t := backend.NoToken
	for i := range c {
		w := float64(c[i].weight)
		if w > 0 {
			t = c[i].id
			if rest < w {
				break
			}
			rest -= w
		}
	}
	return t
}
