package gbnf

import (
	"strings"

	"runner/grammar/expr"
	"runner/grammar/notation"
)

// checker finds out what a finished grammar matches.
type checker struct {
	*parser
	// nullable and productive say which nodes match the empty text, and some text.
	nullable, productive []bool
}

// check finds undefined rules, left recursion and rules that match no text. It returns the root.
func (p *parser) check() *expr.Rule {
	for _, r := range p.Rules {
		if r.Body == nil {
			p.Fail(r.Used, "", "rule %s is not defined", notation.Quoted(r.Name))
		}
	}
	root := p.Lookup("root")
	if root == nil {
		panic(&Error{Problem: "there is no rule named root", Advice: "the text starts at the rule root: root ::= ..."})
	}
	c := &checker{parser: p}
	skips := func(n *notation.Node) bool { return n.Op == notation.Repeat && (n.Min == 0 || n.Max == 0) }
	c.nullable = p.spread(func(n *notation.Node) bool { return skips(n) || n.Op == notation.Literal && n.Text == "" })
	c.productive = p.spread(func(n *notation.Node) bool {
		return skips(n) || n.Op == notation.Literal || n.Op == notation.Class
	})
	if cycle := c.leftRecursion(); cycle != nil {
		p.Fail(cycle[0].Defined, `let the recursion come last, or use a repetition: list ::= item ("," item)*`,
			"rule %s begins with itself: %s", notation.Quoted(cycle[0].Name), path(cycle))
	}
	if !c.productive[root.Body.ID] {
		p.Fail(root.Defined, "give every recursion an alternative that ends it",
			"rule %s matches no finite text, because every alternative recurses without end", notation.Quoted(root.Name))
	}
	return c.expressions()[root]
}

// spread computes the least property that holds for the nodes of seed, for a sequence if it holds for all parts, for a
// choice if it holds for one, for a repetition if it holds for the repeated node, and for a reference if it holds for
// its rule. It takes time linear in the size of the grammar.
func (p *parser) spread(seed func(*notation.Node) bool) []bool {
	holds := make([]bool, len(p.Nodes))
	missing := make([]int, len(p.Nodes)) // parts of a sequence that do not have it yet
	var work []*notation.Node
	set := func(n *notation.Node) {
		if !holds[n.ID] {
			holds[n.ID] = true
			work = append(work, n)
		}
	}
	for _, n := range p.Nodes {
		missing[n.ID] = len(n.Kids)
		if seed(n) {
			set(n)
		}
	}
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if n.Owner != nil {
			for _, u := range n.Owner.Uses {
				set(u)
			}
		}
		if up := n.Parent; up != nil {
			if missing[up.ID]--; up.Op != notation.Sequence || missing[up.ID] == 0 {
				set(up)
			}
		}
	}
	return holds
}

// begin calls visit for every rule that a match of n may enter before it reads a character. It stops when visit returns
// false.
func (c *checker) begin(n *notation.Node, visit func(*notation.Rule) bool) bool {
	switch n.Op {
	case notation.Reference:
		return visit(n.Rule)
	case notation.Repeat:
		return n.Max == 0 || c.begin(n.Kids[0], visit)
	case notation.Sequence, notation.Choice:
		for _, k := range n.Kids {
			if !c.begin(k, visit) {
				return false
			}
			if n.Op == notation.Sequence && !c.nullable[k.ID] {
				break
			}
		}
	}
	return true
}

// leftRecursion returns a cycle of rules in which each rule begins with the next, or nil.
func (c *checker) leftRecursion() []*notation.Rule {
	var stack []*notation.Rule
	depth := map[*notation.Rule]int{} // place on the stack from 1; 0 when not seen, -1 when done
	var cycle []*notation.Rule
	var visit func(r *notation.Rule) bool
	visit = func(r *notation.Rule) bool {
		switch d := depth[r]; {
		case d > 0:
			cycle = stack[d-1:]
			return false
		case d < 0:
			return true
		}
		stack = append(stack, r)
		depth[r] = len(stack)
		if !c.begin(r.Body, visit) {
			return false
		}
		stack = stack[:len(stack)-1]
		depth[r] = -1
		return true
	}
	for _, r := range c.Rules {
		if !visit(r) {
			return cycle
		}
	}
	return nil
}

// path lists the rules of a cycle, or the first of them.
func path(cycle []*notation.Rule) string {
	const most = 8
	var b strings.Builder
	for i, r := range cycle {
		if i == most {
			b.WriteString("... → ")
			break
		}
		b.WriteString(notation.Clipped(r.Name) + " → ")
	}
	return b.String() + notation.Clipped(cycle[0].Name)
}
