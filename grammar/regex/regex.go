// Package regex reads patterns of the JSON Schema dialect and turns them into expressions over bytes.
//
// The dialect is that of ECMA-262 with the u flag (https://tc39.es/ecma262/#sec-patterns), restricted to the constructs
// that RE2 has: no look-around, no back-references, no word boundaries. If both read a construct differently,
// ECMA-262's meaning holds: \s is Unicode white space, `.` excludes the four line terminators, and $ is the very end.
// Text that they would read as different constructs, such as `[]` or `\A`, is refused. A few spellings that ECMA-262
// allows only without the flag are accepted with their usual meaning: an escaped punctuation character, a lone `{`, `}`
// or `]`, and a hyphen next to \w in a class. Named groups may also be written (?P<name>...). All groups and lazy
// quantifiers mean the same as plain ones.
//
// A pattern is about characters, which are Unicode code points. An [Encoding] says how a character is written in bytes.
//
// The package does not match, and does not report where a match is. It only says which whole texts contain one.
package regex

import "runner/grammar/expr"

// Limits of a pattern. Patterns that RE2 cannot compile are refused too, so that a schema means the same to a
// validator.
const (
	// MaxPattern is the maximum length of a pattern, in bytes.
	MaxPattern = 64 << 10
	// MaxRepeat is the maximum repetition count, and the maximum product of nested ones.
	MaxRepeat = 1000
	maxDepth  = 200
	maxSpans  = 20000
)

// Regex is a parsed pattern. It is immutable and safe for concurrent use.
type Regex struct {
	source       *node // as written
	search, full *node // without anchors
}

// Parse reads a pattern. Errors are of type [*Error].
func Parse(pattern string) (*Regex, error) {
	source, err := parse(pattern)
	if err != nil {
		return nil, err
	}
	a, err := resolve(source)
	if err != nil {
		return nil, err
	}
	return &Regex{source: source, search: a.search(), full: a.full()}, nil
}

// MustParse is Parse for patterns that are known to be valid. It panics on others.
func MustParse(pattern string) *Regex {
	r, err := Parse(pattern)
	if err != nil {
		panic(err)
	}
	return r
}

// Search returns the expression of all texts in which the pattern is found.
func (r *Regex) Search(s *expr.Set, enc Encoding) expr.ID { return build(s, enc, r.search) }

// Full returns the expression of the texts that the pattern matches from start to end. Anchors are allowed. At the ends
// they change nothing.
func (r *Regex) Full(s *expr.Set, enc Encoding) expr.ID { return build(s, enc, r.full) }

// SearchAll reports whether the pattern is known to be found in every text. A false result proves nothing.
func (r *Regex) SearchAll() bool { return r.search.isAny() }

// SearchLengths returns the minimum and maximum number of characters of the texts in which the pattern is found. A
// maximum of -1 means no limit. If there are no such texts, the maximum is 0 and the minimum is larger.
func (r *Regex) SearchLengths() (least, most int) { return r.search.least, r.search.most }

// FullLengths is SearchLengths for the texts that the pattern matches from start to end.
func (r *Regex) FullLengths() (least, most int) { return r.full.least, r.full.most }

// SearchBetween returns the expression of the texts with least to most characters in which the pattern is found. A
// negative most means no limit. It handles only patterns in which at most one part varies in length and that part
// repeats texts of one character. For others it reports false.
func (r *Regex) SearchBetween(s *expr.Set, enc Encoding, least, most int) (expr.ID, bool) {
	n, ok := r.search.between(least, most)
	if !ok {
		return expr.Empty, false
	}
	return build(s, enc, n), true
}
