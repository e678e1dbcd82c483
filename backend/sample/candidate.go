package sample

import (
	"math"

	"runner/backend"
)

// candidate is a token that may be drawn.
type candidate struct {
	key    float32 // the sort key: the logit, except inside selectTypical
	weight float32 // proportional to the probability
	id     backend.Token
}

// before orders candidates by descending key and then ascending token. No two candidates are equal.
func (c candidate) before(d candidate) bool { return c.key > d.key || c.key == d.key && c.id < d.id }

// partition moves the candidates that come before a pivot to the front and returns how many there are including the
// pivot, which is the last of them. c must not be empty.
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

// selectCount moves the first k candidates to the front, in no particular order. k is 1 to len(c).
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

// selectWeight moves the shortest leading run of candidates whose weights add up to target to the front, in no
// particular order. It returns their number: at least 1, and all if the weights do not reach target.
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

// weigh computes the weights from the keys, which are logits. The largest gets 1. It returns the sum.
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

// mean returns the candidates' weighted mean logit and the sum of the weights.
func mean(c []candidate) (mean, total float64) {
	sum := 0.0
	for i := range c {
		w := float64(c[i].weight)
		total += w
		sum += w * float64(c[i].key)
	}
	return sum / total, total
}

// selectTypical keeps the candidates whose information content is closest to the distribution's entropy, until
// their weights reach target (Meister et al. 2022). A token's information content is logZ minus its logit, and the
// entropy is the mean of that. So their distance equals the distance of the logit from the mean logit.
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

// minP keeps the candidates whose weight is at least p times the largest.
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

// pick weighs the candidates at the temperature and returns the one at the fraction u of their total weight.
func pick(c []candidate, temperature float32, u float64) backend.Token {
	return at(c, u*weigh(c, inverse(temperature)))
}

// inverse returns 1/temperature, limited to finite values.
func inverse(temperature float32) float32 { return min(1/temperature, math.MaxFloat32) }

// again draws from the weighted candidates that are in the mask; false if there are none.
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

// at returns the candidate at which the running sum of the weights passes rest. If rounding makes the sum end
// before rest, it returns the last candidate with any weight.
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
