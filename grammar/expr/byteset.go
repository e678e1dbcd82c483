package expr

import "math/bits"

// ByteSet is a set of bytes.
type ByteSet [4]uint64

// ByteRange returns the bytes from lo to hi, both included.
func ByteRange(lo, hi byte) (s ByteSet) {
	s.AddRange(lo, hi)
	return s
}

// Add adds b to the set.
func (s *ByteSet) Add(b byte) { s[b>>6] |= 1 << (b & 63) }

// AddRange adds the bytes from lo to hi, both included.
func (s *ByteSet) AddRange(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s.Add(byte(b))
	}
}

// Remove removes b from the set.
func (s *ByteSet) Remove(b byte) { s[b>>6] &^= 1 << (b & 63) }

// Has reports whether b is in the set.
func (s *ByteSet) Has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

// IsEmpty reports whether the set has no bytes.
func (s *ByteSet) IsEmpty() bool { return *s == ByteSet{} }

// Len returns the number of bytes in the set.
func (s *ByteSet) Len() int {
	return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) + bits.OnesCount64(s[2]) + bits.OnesCount64(s[3])
}

// Union returns the bytes that are in s or in t.
func (s ByteSet) Union(t ByteSet) ByteSet {
	return ByteSet{s[0] | t[0], s[1] | t[1], s[2] | t[2], s[3] | t[3]}
}
