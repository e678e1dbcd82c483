package runner

import (
	"slices"
	"time"

	"runner/backend"
)

// This file keeps the long sequences of one principal from making the steps of others slow. Places say how many
// sequences a principal has in the steps, and long ones take longer than short ones.
//
// While several principals decode, the sequences of one may add as much time to the steps as these take without them.
// If they take more, they are left out of some steps, in turn. In large models the weights take most of the time, so
// that all take part.

// lengths learns how long a step takes, and how much longer it takes for each token that its sequences hold: a line
// through the latest steps, by least squares.
type lengths struct {
	n, x, y, xx, xy float64
	// of has what each principal has, while there are several. order is memory.
	of    map[string]stretch
	order []*lane
}

// stretch says how long the sequences are that a principal has in a step.
type stretch struct {
	// all and longest are numbers of tokens: of all sequences, and of the longest.
	all, longest int
	// credit is the time that they may take.
	credit float64
}

const (
	// lengthsKept is the weight of what was learnt before a step. So about the last hundred steps count.
	lengthsKept = .99
	// lengthsLeast is the number of steps after which the line is good enough.
	lengthsLeast = 16
)

// note learns from a step in which all lanes decoded.
func (e *lengths) note(inputs []backend.Input, took time.Duration) {
	held := 0
	for i := range inputs {
		if !decodes(&inputs[i]) {
			return
		}
		held += (len(inputs[i].Tokens) + len(inputs[i].Drafts)) * len(inputs[i].Sequence.Tokens())
	}
	x, y := float64(held), float64(took)
	e.n, e.x, e.y = lengthsKept*e.n+1, lengthsKept*e.x+x, lengthsKept*e.y+y
	e.xx, e.xy = lengthsKept*e.xx+x*x, lengthsKept*e.xy+x*y
}

// costs returns the time of a step without its sequences, and the time for each token that they hold.
func (e *lengths) costs() (base, each float64) {
	spread := e.n*e.xx - e.x*e.x
	if e.n < lengthsLeast || spread <= 1e-6*e.n*e.xx {
		return 0, 0
	}
	each = max(0, (e.n*e.xy-e.x*e.y)/spread)
	return max(0, (e.y-each*e.x)/e.n), each
}

// leaveOut takes lanes with long sequences out of the next step, if several principals decode.
func (s *scheduler) leaveOut() {
	e := &s.lengths
	base, each := e.costs()
	if each == 0 {
		return
	}
	for principal, of := range e.of {
		of.all, of.longest = 0, 0
		e.of[principal] = of
	}
	total, principals := 0, 0
	e.order = e.order[:0]
	for _, l := range s.active {
		if !l.canDecode() {
			continue
		}
		of := e.of[l.principal]
		if of.all == 0 {
			principals++
		}
		of.all, of.longest = of.all+len(l.tokens), max(of.longest, len(l.tokens))
		e.of[l.principal] = of
		total += len(l.tokens)
		e.order = append(e.order, l)
	}
	if principals < 2 {
		clear(e.of)
		return
	}
	for principal, of := range e.of {
		adds := base + each*float64(total-of.all)
		of.credit = min(of.credit+adds, max(adds, each*float64(of.longest)))
		e.of[principal] = of
	}
	slices.SortStableFunc(e.order, func(a, b *lane) int { return b.left - a.left })
	for _, l := range e.order {
		of := e.of[l.principal]
		if takes := each * float64(len(l.tokens)); of.credit >= takes {
			of.credit -= takes
			e.of[l.principal], l.left = of, 0
		} else {
			l.placed = true
			l.left++
		}
	}
	clear(e.order) // keeps no lane alive
}

// canDecode reports whether a lane can decode in the next step.
func (l *lane) canDecode() bool {
	p := l.pending()
	return p > 0 && p <= smallRun && !l.embeds() && !l.placed && !l.unready
}
