// Package expr matches bytes against formal languages by derivatives.
//
// An expression is a node of a [Set]. Equal expressions have equal ids, so one id is the whole state of a match.
// Copying a match copies a number, and going back means keeping the old number. Feeding a byte takes the derivative:
// the expression of everything that may follow (Brzozowski, "Derivatives of Regular Expressions", 1964; Might, Darais
// and Spiewak, "Parsing with Derivatives", 2011). Derivatives are computed on demand and kept. A set therefore behaves
// like a lazily built automaton whose states may hold a stack: a concatenation is a stack frame, a union is a set of
// stacks, and a [Rule] is a call.
//
// # No dead ends
//
// The builder of an expression must ensure that every prefix can be completed unless it leads to [Empty]. Concat,
// Union, Repeat, Words and rules keep that property if their parts have it and are not empty. And and Not do not. Pass
// what is built with them through [Determinize], which trims, unless it is known to be productive, such as all texts of
// an infinite language except finitely many.
//
// # Lifetime
//
// A Set grows with use and can be thrown away: [Set.Import] copies one expression to a new set. So front ends keep no
// ids but immutable parts (*Rule, *Words, *Automaton), and build expressions from them when needed.
//
// The package knows only bytes: no tokens, no JSON, no pattern syntax.
package expr
