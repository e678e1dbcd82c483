package gbnf

import "strings"

// check finds undefined rules, left recursion and rules that match no text. It returns the root.
func (p *parser) check() (*rule, error) {
	for _, r := range p.rules {
		if r.body == nil {
			return nil, p.errorAt(r.used, "", "rule %s is not defined", quoted(r.name))
		}
	}
	root, ok := p.byName["root"]
	if !ok {
		return nil, &Error{Problem: "there is no rule named root", Advice: "the text starts at the rule root: root ::= ..."}
	}
	p.spread(func(n *node) bool {
		return n.op == literal && n.text == "" || n.op == repeat && (n.min == 0 || n.max == 0)
	},
		func(n *node) *bool { return &n.nullable })
	p.spread(func(n *node) bool {
		return n.op == literal || n.op == class || n.op == repeat && (n.min == 0 || n.max == 0)
	}, func(n *node) *bool { return &n.productive })
	if cycle := p.leftRecursion(); cycle != nil {
		return nil, p.errorAt(cycle[0].defined, `let the recursion come last, or use a repetition: list ::= item ("," item)*`,
			"rule %s begins with itself: %s", quoted(cycle[0].name), path(cycle))
	}
	if !root.body.productive {
		return nil, p.errorAt(root.defined, "give every recursion an alternative that ends it",
			"rule %s matches no finite text, because every alternative recurses without end", quoted(root.name))
	}
	return root, nil
}

// spread computes the least property that holds for the nodes of seed, for a sequence if it holds for all parts, for a
// choice if it holds for one, for a repetition if it holds for the repeated node, and for a reference if it holds for
// its rule. It takes time linear in the size of the grammar.
func (p *parser) spread(seed func(*node) bool, mark func(*node) *bool) {
	missing := make([]int, len(p.nodes)) // parts of a sequence that do not have it yet
	var work []*node
	set := func(n *node) {
		if m := mark(n); !*m {
			*m = true
			work = append(work, n)
		}
	}
	for _, n := range p.nodes {
		missing[n.id] = len(n.kids)
		if seed(n) {
			set(n)
		}
	}
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if n.owner != nil {
			for _, u := range n.owner.uses {
				set(u)
			}
		}
		if up := n.parent; up != nil {
			if missing[up.id]--; up.op != sequence || missing[up.id] == 0 {
				set(up)
			}
		}
	}
}

// begin calls visit for every rule that a match of n may enter before it reads a character. It stops when visit returns
// false.
func (n *node) begin(visit func(*rule) bool) bool {
	switch n.op {
	case reference:
		return visit(n.rule)
	case repeat:
		return n.max == 0 || n.kids[0].begin(visit)
	case sequence, choice:
		for _, k := range n.kids {
			if !k.begin(visit) {
				return false
			}
			if n.op == sequence && !k.nullable {
				break
			}
		}
	}
	return true
}

// leftRecursion returns a cycle of rules in which each rule begins with the next, or nil.
func (p *parser) leftRecursion() []*rule {
	var stack []*rule
	depth := map[*rule]int{} // place on the stack from 1; 0 when not seen, -1 when done
	var cycle []*rule
	var visit func(r *rule) bool
	visit = func(r *rule) bool {
		switch d := depth[r]; {
		case d > 0:
			cycle = stack[d-1:]
			return false
		case d < 0:
			return true
		}
		stack = append(stack, r)
		depth[r] = len(stack)
		if !r.body.begin(visit) {
			return false
		}
		stack = stack[:len(stack)-1]
		depth[r] = -1
		return true
	}
	for _, r := range p.rules {
		if !visit(r) {
			return cycle
		}
	}
	return nil
}

// path lists the rules of a cycle, or the first of them.
func path(cycle []*rule) string {
	const most = 8
	var b strings.Builder
	for i, r := range cycle {
		if i == most {
			b.WriteString("... → ")
			break
		}
		b.WriteString(clipped(r.name) + " → ")
	}
	return b.String() + clipped(cycle[0].name)
}
