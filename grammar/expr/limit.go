package expr

import "math"

// interrupted is what a derivation panics with when it may do no more.
type interrupted struct{}

// Within runs f until it is done, has done about so much work, or the set takes more than so many bytes. A unit of
// work is a new derivative of one expression, of which the machines of 2025 make five to ten in a microsecond; what
// is known already costs nothing.
//
// When f is stopped, by a panic that Within recovers, what it has worked out is kept, so that f comes further when
// it is run again, however little work it may do. f must be fit for that: it is stopped inside Derive and Spend
// only. Within cannot be nested.
func (s *Set) Within(work, bytes int, f func()) (used int, end End) {
	s.work, s.room = work, bytes
	defer func() {
		used = work - s.work
		if r := recover(); r != nil {
			if end = OutOfRoom; s.work <= 0 {
				end = OutOfWork
			}
			s.stack, s.work, s.room = s.stack[:0], math.MaxInt, math.MaxInt
			if _, ok := r.(interrupted); !ok {
				panic(r)
			}
		}
		s.work, s.room = math.MaxInt, math.MaxInt
	}()
	f()
	return 0, Finished
}

// End says why Within returned.
type End uint8

const (
	// Finished says that the function came to its end.
	Finished End = iota
	// OutOfWork says that it did as much work as it may.
	OutOfWork
	// OutOfRoom says that the set takes as much memory as it may.
	OutOfRoom
)

// Spend counts work that is done with a set beside deriving.
func (s *Set) Spend(work int) {
	if s.work <= 0 {
		panic(interrupted{})
	}
	s.work -= work
}
