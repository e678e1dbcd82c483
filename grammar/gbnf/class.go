package gbnf

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"runner/grammar/expr"
)

// span is a range of code points, both ends included.
type span struct{ lo, hi rune }

// The code points that UTF-8 cannot encode.
const (
	surrogateMin = 0xD800
	surrogateMax = 0xDFFF
)

// classOf returns the characters of a class as sorted disjoint spans without surrogates. It may be empty.
func classOf(spans []span, negated bool) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	if negated {
		var gaps []span
		next := rune(0)
		for _, sp := range spans {
			if sp.lo > next {
				gaps = append(gaps, span{next, sp.lo - 1})
			}
			next = max(next, sp.hi+1)
		}
		if next <= utf8.MaxRune {
			gaps = append(gaps, span{next, utf8.MaxRune})
		}
		spans = gaps
	}
	var out []span
	add := func(lo, hi rune) {
		if lo > hi {
			return
		}
		if n := len(out); n > 0 && lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, hi)
			return
		}
		out = append(out, span{lo, hi})
	}
	for _, sp := range spans {
		add(sp.lo, min(sp.hi, surrogateMin-1))
		add(max(sp.lo, surrogateMax+1), sp.hi)
	}
	return out
}

// classExpression builds the expression of one character of spans in UTF-8.
func classExpression(s *expr.Set, spans []span) expr.ID {
	var ascii expr.ByteSet
	parts := []expr.ID{}
	for _, sp := range spans {
		if sp.lo < utf8.RuneSelf {
			ascii.AddRange(byte(sp.lo), byte(min(sp.hi, utf8.RuneSelf-1)))
		}
		// Encodings of the same length are ordered like their code points.
		for _, length := range []span{{0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, utf8.MaxRune}} {
			lo, hi := max(sp.lo, length.lo), min(sp.hi, length.hi)
			if lo <= hi {
				parts = append(parts, encodings(s, utf8.AppendRune(nil, lo), utf8.AppendRune(nil, hi)))
			}
		}
	}
	if !ascii.IsEmpty() {
		parts = append(parts, s.Byte(ascii))
	}
	return s.Union(parts...)
}

// encodings builds the byte strings from lo to hi, which have the same length and consist of continuation bytes after
// the first byte. It builds those with the first byte of lo, those with the first byte of hi, and all between.
func encodings(s *expr.Set, lo, hi []byte) expr.ID {
	if len(lo) == 1 {
		return byteRange(s, lo[0], hi[0])
	}
	least, most := slices.Repeat([]byte{0x80}, len(lo)-1), slices.Repeat([]byte{0xBF}, len(lo)-1)
	if lo[0] == hi[0] {
		return s.Concat(byteRange(s, lo[0], lo[0]), encodings(s, lo[1:], hi[1:]))
	}
	var parts []expr.ID
	first, last := lo[0], hi[0]
	if !slices.Equal(lo[1:], least) {
		parts = append(parts, s.Concat(byteRange(s, first, first), encodings(s, lo[1:], most)))
		first++
	}
	if !slices.Equal(hi[1:], most) {
		parts = append(parts, s.Concat(byteRange(s, last, last), encodings(s, least, hi[1:])))
		last--
	}
	if first <= last {
		parts = append(parts, s.Concat(byteRange(s, first, last), encodings(s, least, most)))
	}
	return s.Union(parts...)
}

func byteRange(s *expr.Set, lo, hi byte) expr.ID {
	var b expr.ByteSet
	b.AddRange(lo, hi)
	return s.Byte(b)
}
