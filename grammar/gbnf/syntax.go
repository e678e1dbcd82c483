package gbnf

import (
	"runner/grammar/expr"
)

// rule is a nonterminal. References hold a pointer to it, so a rule may be used before it is defined.
type rule struct {
	name string
	body *node // nil until it is defined
	// defined and used are the byte offsets of its definition and of its first use.
	defined, used int
	// uses are the nodes that refer to it.
	uses        []*node
	nonterminal *expr.Rule
}

// op is the kind of a node.
type op uint8

const (
	literal   op = iota // text
	class               // one character of spans
	sequence            // its kids, one after another
	choice              // one of its kids
	repeat              // its kid, min to max times
	reference           // a rule
)

// node is a part of a rule's body.
type node struct {
	op       op
	text     string
	spans    []span
	kids     []*node
	min, max int // max is negative when there is no upper bound
	rule     *rule
	// words are the literals among the kids of a choice, if there are several.
	words *expr.Words

	id     int // its index in parser.nodes
	height int
	// parent is the node above. The body of a rule has an owner instead.
	parent *node
	owner  *rule

	nullable   bool // matches the empty text
	productive bool // matches some text
}

// expression builds the expression of a node. It is Empty for nodes that match no text.
func (n *node) expression(s *expr.Set) expr.ID {
	if !n.productive {
		return expr.Empty
	}
	switch n.op {
	case literal:
		return s.Literal(n.text)
	case class:
		return classExpression(s, n.spans)
	case repeat:
		return s.Repeat(n.kids[0].expression(s), n.min, n.max)
	case reference:
		return s.Rule(n.rule.nonterminal)
	}
	parts := make([]expr.ID, 0, len(n.kids)+1)
	if n.words != nil {
		parts = append(parts, s.Words(n.words))
	}
	for _, k := range n.kids {
		if n.words == nil || k.op != literal {
			parts = append(parts, k.expression(s))
		}
	}
	if n.op == sequence {
		return s.Concat(parts...)
	}
	return s.Union(parts...)
}

// collectWords sets the words of a choice.
func (n *node) collectWords() {
	var words []string
	for _, k := range n.kids {
		if k.op == literal {
			words = append(words, k.text)
		}
	}
	if len(words) > 1 {
		n.words = expr.NewWords(words)
	}
}
