// Package patterns finds any of several texts in a stream of bytes. Texts are plain: package regex is for expressions.
package patterns

import "slices"

// Matcher finds any of several patterns in a stream of bytes (Aho and Corasick 1975). It is immutable. The caller
// keeps the state, which starts at 0.
type Matcher struct {
	Patterns []string
	// first has the bytes that begin a pattern. In state 0, all others can be skipped.
	first [256]bool
	nodes []matchNode
}

// matchNode is a state: the longest suffix of the stream that is a prefix of a pattern.
type matchNode struct {
	depth int32 // length of that suffix
	fail  int32 // the state of the next shorter suffix
	found int32 // the longest pattern that ends here, or -1
	edges []matchEdge
}

type matchEdge struct {
	b  byte
	to int32
}

// NewMatcher builds a matcher. Empty patterns are ignored. Of equal patterns the first counts.
func NewMatcher(patterns ...string) *Matcher {
	m := &Matcher{Patterns: patterns, nodes: []matchNode{{found: -1}}}
	for i, p := range patterns {
		if p == "" {
			continue
		}
		m.first[p[0]] = true
		n := int32(0)
		for j := range len(p) {
			next, ok := m.edge(n, p[j])
			if !ok {
				next = int32(len(m.nodes))
				m.nodes = append(m.nodes, matchNode{depth: m.nodes[n].depth + 1, found: -1})
				m.nodes[n].edges = append(m.nodes[n].edges, matchEdge{p[j], next})
			}
			n = next
		}
		if m.nodes[n].found < 0 {
			m.nodes[n].found = int32(i)
		}
	}
	queue := []int32{0}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, e := range m.nodes[n].edges {
			queue = append(queue, e.to)
			if n == 0 {
				continue
			}
			to := &m.nodes[e.to]
			to.fail = m.Step(m.nodes[n].fail, e.b)
			if to.found < 0 {
				to.found = m.nodes[to.fail].found
			}
		}
	}
	return m
}

func (m *Matcher) edge(n int32, b byte) (int32, bool) {
	edges := m.nodes[n].edges
	if i := slices.IndexFunc(edges, func(e matchEdge) bool { return e.b == b }); i >= 0 {
		return edges[i].to, true
	}
	return 0, false
}

// Step returns the state after one more byte. A whole stream takes time proportional to its length times the number of
// patterns, at most.
func (m *Matcher) Step(n int32, b byte) int32 {
	for {
		if next, ok := m.edge(n, b); ok {
			return next
		}
		if n == 0 {
			return 0
		}
		n = m.nodes[n].fail
	}
}

// Found returns the index of the longest pattern that ends in state n, or -1.
func (m *Matcher) Found(n int32) int { return int(m.nodes[n].found) }

// Held returns how many of the last bytes may still become part of a pattern.
func (m *Matcher) Held(n int32) int { return int(m.nodes[n].depth) }

// Idle reports whether a text that arrives in state 0 leaves it there.
func (m *Matcher) Idle(text string) bool {
	if len(m.nodes) == 1 {
		return true
	}
	for i := range len(text) {
		if m.first[text[i]] {
			return false
		}
	}
	return true
}
