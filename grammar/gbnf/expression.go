package gbnf

import (
	"runner/grammar/expr"
	"runner/grammar/notation"
	"runner/grammar/regex"
)

// expressions returns the expressions of all rules, which are built when they are needed.
func (c *checker) expressions() map[*notation.Rule]*expr.Rule {
	b := &builder{
		productive: c.productive, rules: map[*notation.Rule]*expr.Rule{}, words: map[*notation.Node]*expr.Words{},
	}
	for _, r := range c.Rules {
		b.rules[r] = &expr.Rule{Name: r.Name, Expand: func(s *expr.Set) expr.ID { return b.expression(s, r.Body) }}
	}
	for _, n := range c.Nodes {
		if n.Op == notation.Choice {
			b.collectWords(n)
		}
	}
	return b.rules
}

// builder builds expressions. It does not change once it is made.
type builder struct {
	productive []bool
	rules      map[*notation.Rule]*expr.Rule
	// words are the literals among the kids of a choice, if there are several.
	words map[*notation.Node]*expr.Words
}

func (b *builder) collectWords(choice *notation.Node) {
	var words []string
	for _, k := range choice.Kids {
		if k.Op == notation.Literal {
			words = append(words, k.Text)
		}
	}
	if len(words) > 1 {
		b.words[choice] = expr.NewWords(words)
	}
}

// expression builds the expression of a node. It is Empty for nodes that match no text.
func (b *builder) expression(s *expr.Set, n *notation.Node) expr.ID {
	if !b.productive[n.ID] {
		return expr.Empty
	}
	switch n.Op {
	case notation.Literal:
		return s.Literal(n.Text)
	case notation.Class:
		return n.Chars.Expr(s, regex.UTF8)
	case notation.Repeat:
		return s.Repeat(b.expression(s, n.Kids[0]), n.Min, n.Max)
	case notation.Reference:
		return s.Rule(b.rules[n.Rule])
	}
	parts := make([]expr.ID, 0, len(n.Kids)+1)
	words := b.words[n]
	if words != nil {
		parts = append(parts, s.Words(words))
	}
	for _, k := range n.Kids {
		if words == nil || k.Op != notation.Literal {
			parts = append(parts, b.expression(s, k))
		}
	}
	if n.Op == notation.Sequence {
		return s.Concat(parts...)
	}
	return s.Union(parts...)
}
