package backend

// Mask is a set of tokens as packed bits: token t is bit t%64 of word t/64. In little-endian memory it is the byte
// string that an engine in another process receives.
type Mask []uint64

// NewMask returns an empty mask for a vocabulary of n tokens.
func NewMask(n int) Mask { return make(Mask, (n+63)/64) }

// Has reports whether t is in the mask. It is false for tokens beyond the end of the mask.
func (m Mask) Has(t Token) bool {
	w := uint(t) / 64
	return w < uint(len(m)) && m[w]>>(uint(t)%64)&1 != 0
}

// Set adds t, which must lie inside the mask.
func (m Mask) Set(t Token) { m[uint(t)/64] |= 1 << (uint(t) % 64) }

// Unset removes t, which must lie inside the mask.
func (m Mask) Unset(t Token) { m[uint(t)/64] &^= 1 << (uint(t) % 64) }

// Clear empties the mask.
func (m Mask) Clear() { clear(m) }
