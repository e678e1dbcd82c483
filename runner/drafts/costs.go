package drafts

import (
	"math"
	"math/bits"
)

// Most is the largest number of drafts for one text in one step.
const Most = 15

const (
	// widest is the largest number of tokens in a step whose cost is kept: a sampled token, those that a format forces
	// after it, and drafts.
	widest = 32
	// lengths is how many ranges of lengths are told apart. The first has texts of less than shortest tokens, and each
	// further one reaches twice as far, because a token attends to the whole text.
	lengths, shortest = 16, 512
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

// Costs learns what steps cost that feed tokens to a single text, by their width, the number of tokens in them, and by
// the length of the text. The zero value knows nothing.
type Costs struct {
	at [lengths]costs
	// measured has the costs of test steps. Only their ratios count, because real steps attend to more tokens.
	measured curve
	steps    int
}

// costs are those of texts of about one length.
type costs struct {
	of curve
	// times is how often a width was noted, and last the number of the step in which it last was.
	times, last [widest + 1]int
	// doubted says that the only cost that was noted is not believed.
	doubted [widest + 1]bool
}

// rangeOf returns the range of a length.
func rangeOf(length int) int { return min(bits.Len(uint(length/shortest)), lengths-1) }

// Note records the cost of a step of some tokens of a text. What is kept follows a lower cost fast and a higher one
// slowly, because a machine that does something else for a moment says nothing about a width. For the same reason a
// first cost of a width that is more than twice what was expected is believed only when it comes again.
func (c *Costs) Note(tokens, length int, cost float64) {
	if c.steps++; c.steps%longAgo == 0 {
		c.forget()
	}
	if tokens < 1 || tokens > widest || cost <= 0 {
		return
	}
	at := &c.at[rangeOf(length)]
	old := at.of[tokens]
	if at.times[tokens] == 0 {
		old = c.Of(tokens, length) // what was expected
	}
	at.times[tokens]++
	at.last[tokens] = c.steps
	switch {
	case at.times[tokens] == 1 && old > 0 && cost > 2*old:
		at.of[tokens], at.doubted[tokens] = old, true
	case at.times[tokens] == 1, at.doubted[tokens], at.times[tokens] <= first && cost < old:
		at.of[tokens], at.doubted[tokens] = cost, false
	case at.times[tokens] > first && cost < old:
		at.of[tokens] += (cost - old) / 4
	case at.times[tokens] > first:
		at.of[tokens] += (min(cost, 2*old) - old) / 16
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
	for i := range c.at {
		at := &c.at[i]
		for w := range at.of {
			if at.last[w] <= c.steps-longAgo {
				at.of[w], at.times[w], at.doubted[w] = 0, 0, false
			}
		}
	}
}

// Stale reports whether the cost of a width should be seen again, for texts of this length, before it is compared with
// others.
func (c *Costs) Stale(tokens, length int) bool {
	at, tokens := &c.at[rangeOf(length)], min(tokens, widest)
	return at.times[tokens] < first || c.steps-at.last[tokens] > fresh
}

// Of returns the cost of a step of some tokens, at least 1, of a text. It is 0 if no real step was seen at about this
// length. Between two widths of real steps it is a power of the width. Beyond them it grows as it did at the nearest
// length at which both widths are known, or as the test steps did, or else as the real steps do.
func (c *Costs) Of(tokens, length int) float64 {
	tokens = min(tokens, widest)
	here := rangeOf(length)
	own := &c.at[here].of
	below, above := own.around(tokens)
	if below > 0 && above > 0 {
		return own.between(below, above, tokens)
	}
	from := max(below, above)
	if from == 0 {
		return 0
	}
	for d := 1; d < lengths; d++ {
		for _, i := range [...]int{here - d, here + d} {
			if i < 0 || i >= lengths {
				continue
			}
			if ratio := c.at[i].of.ratio(from, tokens); ratio > 0 {
				return own[from] * ratio
			}
		}
	}
	if ratio := c.measured.ratio(from, tokens); ratio > 0 {
		return own[from] * ratio
	}
	if cost := own.at(tokens); cost > 0 {
		return cost
	}
	return own[from] * math.Pow(float64(tokens)/float64(from), growth)
}

// Times returns how many times as much as a step of width tokens of a text one with some more drafts costs, 1 where
// nothing is known.
func (c *Costs) Times(width, more, length int) float64 {
	if now := c.Of(width, length); more > 0 && now > 0 {
		return c.Of(width+more, length) / now
	}
	return 1
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

// ratio returns how many times the cost of one width another one costs, or 0 if either is unknown.
func (c *curve) ratio(from, to int) float64 {
	if a, b := c.at(from), c.at(to); a > 0 {
		return b / a
	}
	return 0
}

// Best returns how many drafts of at most most to add to a step of width tokens that samples one token. odds returns
// how likely the i-th draft is right if those before it are. stake is how much more the step may cost, as a multiple of
// the step without drafts.
func (c *Costs) Best(most, width, length int, stake float64, odds func(i int) float64) (best int) {
	now := c.Of(width, length)
	if now == 0 {
		return 0
	}
	var sums [Most + 1]float64 // what the first drafts will probably give
	most = min(most, Most, widest-width)
	right := 1.0
	for k := 1; k <= most; k++ {
		right *= odds(k - 1)
		sums[k] = sums[k-1] + right
	}
	bestRate := margin / now
	if most < 1 || (1+sums[most])/c.Of(width+1, length) <= bestRate {
		return 0 // not even if all cost as little as one
	}
	for k := 1; k <= most; k++ {
		cost := c.Of(width+k, length)
		if rate := (1 + sums[k]) / cost; rate > bestRate && cost-now <= stake*now {
			best, bestRate = k, rate
		}
	}
	return best
}
