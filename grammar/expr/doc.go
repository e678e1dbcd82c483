// Package expr matches bytes against formal languages by derivatives.
//
// An expression is a node of a [Set]. Equal expressions have equal ids, so the state of a match is one id, copying a
// match is copying a number, and going back is keeping the old one. Feeding a byte takes the derivative: the
// expression of all that may follow (Brzozowski, "Derivatives of Regular Expressions", 1964; Might, Darais and
// Spiewak, "Parsing with Derivatives", 2011). Derivatives are worked out when they are first asked for and kept, so a
// set behaves like a lazily built automaton whose states may hold a stack: a concatenation is a stack frame, a union
// a set of stacks, and a [Rule] a call.
//
// # No dead ends
//
// Whoever builds an expression sees to it that every prefix that does not lead to [Empty] can be completed. Concat,
// Union, Repeat, Words and rules keep that property when their parts have it and are not empty. And and Not do not:
// pass what is built with them through [Determinize], which trims, unless it can be shown to be productive, as for
// all texts of an infinite language but finitely many.
//
// # Lifetime
//
// A Set grows with use and can be thrown away: [Set.Import] carries one expression over to a new set. So front ends
// keep no ids but immutable parts (*Rule, *Words, *Automaton) from which expressions are built when they are needed.
//
// The package knows bytes only: no tokens, no JSON, no pattern syntax.
package expr
