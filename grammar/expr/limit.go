package expr

import "math"

// interrupted is the panic value of a derivation that may do no more.
type interrupted struct{}

// Within runs f until f returns, has done about the given work, or the set takes more than the given bytes. A unit of
// work is a new derivative of one expression; a machine of 2025 computes five to ten in a microsecond. What is already
// known costs nothing.
//
// Within stops f by a panic, which it recovers. The results so far are kept, so f gets further in its next run, however
// small the work limit. f must tolerate the panic, which happens only inside Derive and Spend. Calls of Within cannot
// be nested.
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
	// Finished says that the function returned.
	Finished End = iota
	// OutOfWork says that the function used up its work.
	OutOfWork
	// OutOfRoom says that the set reached its memory limit.
	OutOfRoom
)

// Spend counts work other than derivatives.
func (s *Set) Spend(work int) {
	if s.work <= 0 {
		panic(interrupted{})
	}
	s.work -= work
}
