package drafts

import "math"

// Most is the largest number of drafts for one text in one step.
const Most = 15

const (
	// widest is the largest number of tokens in a step whose cost is kept.
	widest = 64
	// growth is how the cost of a step is taken to grow with its width before steps of several widths were seen: as a
	// power of the width. On a mixture of experts of 32 of which a token uses 4, eight tokens read 3.1
	// times the bytes of one, which is this power.
	growth = 0.55
	// margin is how much faster drafts must promise to be. Below it, they are as likely to cost as to save time.
	margin = 1.04
	// fresh is for how many steps the cost of a width stays known well. Texts get longer, and steps with them.
	fresh = 64
	// first is how many of the first costs of a width count as the least of them, because first steps are slow.
	first = 4
)

// Costs learns what steps cost, by the number of tokens in them. The zero value knows nothing.
type Costs struct {
	of [widest + 1]float64 // 0 is unknown
	// times is how often a width was noted, and last the number of the step in which it last was.
	times, last [widest + 1]int
	steps       int
}

// Note records the cost of a step of some tokens. Outliers count little, because a machine that does something else for
// a moment says nothing about a width.
func (c *Costs) Note(tokens int, cost float64) {
	c.steps++
	if tokens < 1 || tokens > widest || cost <= 0 {
		return
	}
	old := c.of[tokens]
	c.times[tokens]++
	c.last[tokens] = c.steps
	switch {
	case c.times[tokens] == 1, c.times[tokens] <= first && cost < old:
		c.of[tokens] = cost
	case c.times[tokens] > first:
		c.of[tokens] += (min(cost, 2*old) - old) / 8
	}
}

// Stale reports whether the cost of a width should be seen again before it is compared with others.
func (c *Costs) Stale(tokens int) bool {
	tokens = min(tokens, widest)
	return c.times[tokens] < first || c.steps-c.last[tokens] > fresh
}

// Of returns the cost of a step of some tokens, at least 1, and 0 if nothing is known. Between two widths that are
// known it takes the cost to grow as a power of the width.
func (c *Costs) Of(tokens int) float64 {
	tokens = min(tokens, widest)
	if c.of[tokens] > 0 {
		return c.of[tokens]
	}
	below, above := tokens, tokens
	for below > 0 && c.of[below] == 0 {
		below--
	}
	for above <= widest && c.of[above] == 0 {
		above++
	}
	switch {
	case below == 0 && above > widest:
		return 0
	case above > widest:
		return c.of[below] * math.Pow(float64(tokens)/float64(below), c.slope(below))
	case below == 0:
		return c.of[above] * math.Pow(float64(tokens)/float64(above), growth)
	}
	return c.of[below] * math.Pow(float64(tokens)/float64(below), c.between(below, above))
}

// slope returns the power with which costs grow up to a known width.
func (c *Costs) slope(to int) float64 {
	for from := 1; from < to; from++ {
		if c.of[from] > 0 {
			return c.between(from, to)
		}
	}
	return growth
}

func (c *Costs) between(a, b int) float64 {
	return math.Log(c.of[b]/c.of[a]) / math.Log(float64(b)/float64(a))
}

// Best returns how many drafts of at most most to add to a step. width is the number of the step's tokens without them,
// and gain the number of tokens that it gives. odds returns how likely the i-th draft is right if those before it are.
// more is how many tokens the drafts will probably give.
func (c *Costs) Best(most, width int, gain float64, odds func(i int) float64) (best int, more float64) {
	now := c.Of(width)
	if now == 0 {
		return 0, 0
	}
	var sums [Most + 1]float64 // what the first drafts will probably give
	most = min(most, Most, widest-width)
	right := 1.0
	for k := 1; k <= most; k++ {
		right *= odds(k - 1)
		sums[k] = sums[k-1] + right
	}
	bestRate := margin * gain / now
	if most < 1 || (gain+sums[most])/c.Of(width+1) <= bestRate {
		return 0, 0 // not even if all cost as little as one
	}
	for k := 1; k <= most; k++ {
		if rate := (gain + sums[k]) / c.Of(width+k); rate > bestRate {
			best, bestRate, more = k, rate, sums[k]
		}
	}
	return best, more
}
