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
// What llama.cpp understands and this package refuses, each with an error that says where: token references
// (<...>), since a grammar is about text; a rule that is defined twice; a class that is empty or matches nothing, a
// range whose ends are swapped, and code points that UTF-8 cannot express. Left recursion both refuse, this package
// also where it passes through rules that can be empty, on which llama.cpp fails. In return a repetition may repeat
// what can be empty, and count to [MaxRepetition].
//
// An alternative that no finite text matches, such as a recursion without an end, is left out, so that a
// text that was begun can always be finished. If nothing is left of root, the grammar is refused.
package gbnf

import (
	"runner/grammar/expr"
)

// Limits on grammars; what exceeds one is refused with an [*Error].
const (
	// MaxText is the greatest length of a grammar, in bytes.
	MaxText = 1 << 20
	// MaxRules is the greatest number of rules.
	MaxRules = 20_000
	// MaxSymbols is the greatest number of literals, classes, references, groups and operators in a grammar.
	MaxSymbols = 200_000
	// MaxNesting is the greatest depth of groups in one another.
	MaxNesting = 200
	// MaxRepetition is the greatest count in a repetition; llama.cpp's is 2,000.
	MaxRepetition = 100_000
)

// Grammar is a grammar that was read and found sound. It is immutable and safe for concurrent use.
type Grammar struct {
	root *rule
}

// Parse reads a grammar. Errors are of type [*Error].
func Parse(text string) (*Grammar, error) {
	p := &parser{text: text, byName: map[string]*rule{}}
	if err := p.parse(); err != nil {
		return nil, err
	}
	root, err := p.check()
	if err != nil {
		return nil, err
	}
	return &Grammar{root: root}, nil
}

// Expr returns the expression of the texts that the grammar describes.
func (g *Grammar) Expr(s *expr.Set) expr.ID {
	return s.Rule(g.root.nonterminal)
}
