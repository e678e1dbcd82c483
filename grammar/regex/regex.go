// Package regex reads patterns of the JSON Schema dialect and turns them into expressions over bytes.
//
// The dialect is that of ECMA-262 with the u flag (https://tc39.es/ecma262/#sec-patterns), as far as RE2 has the
// same constructs: no look-around, no back-references, no word boundaries. Where the two read a construct
// differently, ECMA-262's meaning holds: \s is Unicode white space, `.` leaves out the four line terminators, $ is
// the very end. What they would read as different constructs, such as `[]` or `\A`, is refused. A few spellings
// that ECMA-262 allows only without the flag are read as everybody means them: an escaped punctuation character, a
// lone `{`, `}` or `]`, and a hyphen beside \w in a class. Named groups may also be written (?P<name>...), and all
// groups and lazy quantifiers mean the same here as plain ones.
//
// A pattern is about characters, Unicode code points. How a character is spelled in bytes is the business of an
// [Encoding].
//
// The package does not match, and it does not report where a match is: it only says which whole texts have one.
package regex

import "runner/grammar/expr"

// Limits of a pattern. What RE2 does not compile either is refused, so that a schema means the same to a validator.
const (
	// MaxPattern is the longest pattern, in bytes.
	MaxPattern = 64 << 10
	// MaxRepeat is the largest repetition count, and the largest product of nested ones.
	MaxRepeat = 1000
	maxDepth  = 200
	maxSpans  = 20000
)

// Regex is a pattern that was read. It is immutable and may be used by several goroutines at once.
type Regex struct {
	source       *node // as written
	search, full *node // without anchors
}

// Parse reads a pattern. It fails with an [*Error].
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

// MustParse is Parse for patterns that are known to be good; it panics with others.
func MustParse(pattern string) *Regex {
	r, err := Parse(pattern)
	if err != nil {
		panic(err)
	}
	return r
}

// Search returns the expression of all texts in which the pattern is found.
func (r *Regex) Search(s *expr.Set, enc Encoding) expr.ID { return build(s, enc, r.search) }

// Full returns the expression of the texts that the pattern matches from start to end. Anchors are allowed and
// change nothing at the ends.
func (r *Regex) Full(s *expr.Set, enc Encoding) expr.ID { return build(s, enc, r.full) }

// SearchAll reports whether the pattern is found in every text. It may fail to notice that it is.
func (r *Regex) SearchAll() bool { return r.search.isAny() }

// SearchLengths returns the least and the largest number of characters of the texts in which the pattern is found. A
// largest number of -1 is no bound. Where there are no such texts, least is larger than most, which is 0.
func (r *Regex) SearchLengths() (least, most int) { return r.search.least, r.search.most }

// FullLengths is SearchLengths for the texts that the pattern matches from start to end.
func (r *Regex) FullLengths() (least, most int) { return r.full.least, r.full.most }

// SearchBetween returns the expression of those texts in which the pattern is found that have least to most
// characters; a negative most is no bound. It knows only patterns in which at most one part varies in length, and
// that part repeats texts of one character; for others it reports false.
func (r *Regex) SearchBetween(s *expr.Set, enc Encoding, least, most int) (expr.ID, bool) {
	n, ok := r.search.between(least, most)
	if !ok {
		return expr.Empty, false
	}
	return build(s, enc, n), true
}
