package drafts

import "math"

// Most is the largest number of drafts for one text in one step.
const Most = 15

const (
	// widest is the largest number of tokens in a step whose cost is kept.
	widest = 64
	// growth is how the cost of a step is taken to grow with its width where steps of one width were seen and nothing was
	// measured: as a power of the width. On a mixture of experts of 32 of which a token uses 4, eight tokens read 3.1
	// times the bytes of one, which is this power.
	growth = 0.55
	// margin is how much faster drafts must promise to be. Below it, they are as likely to cost as to save time.
	margin = 1.04
	// fresh is for how many steps the cost of a width stays known well. Texts get longer, and steps with them.
	fresh = 64
	// longAgo is for how many steps, at least, a cost is kept without a new one.
	longAgo = 1024
	// first is how many of the first costs of a width count as the least of them, because first steps are slow.
	first = 4
)

// Widths are the widths of the steps to time before there are real steps. The costs of other widths follow from theirs.
var Widths = [...]int{1, 2, 4, 8, Most + 1}

// Costs learns what steps cost, by their width, the number of tokens in them. The zero value knows nothing.
type Costs struct {
	of curve
	// measured has the costs of test steps. Only their ratios count, because real steps attend to more tokens.
	measured curve
	// times is how often a width was noted, and last the number of the step in which it last was.
	times, last [widest + 1]int
	steps       int
}

// Note records the cost of a step of some tokens. Outliers count little, because a machine that does something else for
// a moment says nothing about a width.
func (c *Costs) Note(tokens int, cost float64) {
	if c.steps++; c.steps%longAgo == 0 {
		c.forget()
	}
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

// Measure records the costs of test steps of Widths, 0 where there was none. A wider step counts as no cheaper.
func (c *Costs) Measure(costs [len(Widths)]float64) {
	least := 0.0
	for i, cost := range costs {
		if cost > 0 {
			least = max(least, cost)
			c.measured[Widths[i]] = least
		}
	}
}

// forget makes room for a new trial. A cost may be wrong because the machine did something else, and a width that seems
// too dear is not fed again.
func (c *Costs) forget() {
	clear(c.measured[:])
	for w := range c.of {
		if c.last[w] <= c.steps-longAgo {
			c.of[w], c.times[w] = 0, 0
		}
	}
}

// Stale reports whether the cost of a width should be seen again before it is compared with others.
func (c *Costs) Stale(tokens int) bool {
	tokens = min(tokens, widest)
	return c.times[tokens] < first || c.steps-c.last[tokens] > fresh
}

// Of returns the cost of a step of some tokens, at least 1, and 0 if no real step was seen. Between two widths of real
// steps it is a power of the width. Beyond them it grows as the test steps did, or else as the real steps do.
func (c *Costs) Of(tokens int) float64 {
	tokens = min(tokens, widest)
	below, above := c.of.around(tokens)
	if below > 0 && above > 0 {
		return c.of.between(below, above, tokens)
	}
	from := max(below, above)
	if from == 0 {
		return 0
	}
	if a, b := c.measured.at(from), c.measured.at(tokens); a > 0 && b > 0 {
		return c.of[from] * b / a
	}
	if cost := c.of.at(tokens); cost > 0 {
		return cost
	}
	return c.of[from] * math.Pow(float64(tokens)/float64(from), growth)
}

// curve has the cost of each width, 0 where it is unknown.
type curve [widest + 1]float64

// around returns the nearest widths at most and at least as large whose costs are known, or 0.
func (c *curve) around(tokens int) (below, above int) {
	for below = tokens; below > 0 && c[below] == 0; {
		below--
	}
	for above = tokens; c[above] == 0; {
		if above++; above > widest {
			return below, 0
		}
	}
	return below, above
}

// at returns the cost of a width between known ones or above two of them, and otherwise 0.
func (c *curve) at(tokens int) float64 {
	below, above := c.around(tokens)
	if below > 0 && above > 0 {
		return c.between(below, above, tokens)
	}
	if _, first := c.around(1); 0 < first && first < below {
		return c.between(first, below, tokens)
	}
	return 0
}

// between returns the cost of a width when costs grow as the power of the width that two known costs give.
func (c *curve) between(a, b, tokens int) float64 {
	if a == b {
		return c[a]
	}
	power := math.Log(c[b]/c[a]) / math.Log(float64(b)/float64(a))
	return c[a] * math.Pow(float64(tokens)/float64(a), power)
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
