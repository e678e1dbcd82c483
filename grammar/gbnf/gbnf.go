// Package gbnf reads grammars in GBNF, the notation of llama.cpp (described in grammars/README.md of that project and
// defined by its parser), and turns them into expressions of package expr.
//
// A grammar is a list of rules; the text that it describes is what the rule named root matches:
//
//	root ::= "[" (item ("," item)*)? "]"   # a comment
//	item ::= [0-9]+ | "\"" [^"\\]* "\""
//
// Names are made of letters, digits and dashes. There are literals "...", classes [...] and [^...], any character
// (.), groups, alternatives |, and the repetitions * + ? {m} {m,} and {m,n}. Literals and classes know the escapes
// \n \r \t \\ \" \[ \] \xHH \uHHHH and \UHHHHHHHH, each of which is one code point. A rule ends with its line,
// except inside a group, after ::= and after |. Characters are those of valid UTF-8: a dot and a negated class
// match any of them, line breaks included.
//
// This package refuses some of what llama.cpp accepts, each with an error that says where: token references (<...>),
// because a grammar is about text; a rule that is defined twice; a class that is empty or matches nothing; a range with
// swapped ends; and code points that UTF-8 cannot express. Both refuse left recursion. This package also refuses it
// through rules that can be empty, on which llama.cpp fails. In return a repetition may repeat something that can be
// empty, and count up to [MaxRepetition].
//
// An alternative that no finite text matches, such as an endless recursion, is left out. So a text that has begun can
// always be finished. If nothing of root is left, the grammar is refused.
package gbnf

import (
	"runner/grammar/expr"
	"runner/grammar/notation"
)

// Limits of grammars in addition to those of package notation. A grammar beyond a limit is refused with an [*Error].
const (
	// MaxText is the maximum length of a grammar, in bytes.
	MaxText = 1 << 20
	// MaxRepetition is the maximum count of a repetition. In llama.cpp it is 2,000.
	MaxRepetition = 100_000
)

// Error says why and where a grammar was refused.
type Error = notation.Error

// Grammar is a valid grammar. It is immutable and safe for concurrent use.
type Grammar struct{ root *expr.Rule }

// Parse reads a grammar. Errors are of type [*Error].
func Parse(text string) (*Grammar, error) {
	p := &parser{}
	p.Syntax = notation.Syntax{
		MaxText: MaxText, Define: "::=", Comments: []string{"#"}, Item: p.item, Bounds: p.bounds,
		IsName: func(c byte) bool { return notation.IsAlphanumeric(c) || c == '-' },
	}
	var g *Grammar
	err := p.Read(text, func() {
		p.Blanks(true)
		for p.Pos < len(p.Text) {
			p.rule()
			p.Blanks(true)
		}
		g = &Grammar{p.check()}
	})
	return g, err
}

// Expr returns the expression of the texts that the grammar describes.
func (g *Grammar) Expr(s *expr.Set) expr.ID { return s.Rule(g.root) }
