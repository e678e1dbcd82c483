package expr

import (
	"slices"
	"sort"
)

// Words is a finite list of texts. It is immutable and may be shared by any number of sets.
type Words struct {
	list []string // sorted by bytes, each once
}

// NewWords returns the list of words. Order and repetitions do not matter.
func NewWords(words []string) *Words {
	list := slices.Clone(words)
	slices.Sort(list)
	return &Words{list: slices.Compact(list)}
}

// Len returns the number of different words.
func (w *Words) Len() int { return len(w.list) }

// Has reports whether text is one of the words.
func (w *Words) Has(text string) bool {
	_, found := slices.BinarySearch(w.list, text)
	return found
}

// narrow returns the part of [lo, hi) that continues with b. The words in [lo, hi) share their first depth bytes.
func (w *Words) narrow(lo, hi, depth int32, b byte) (int32, int32) {
	if hi-lo == 1 {
		if s := w.list[lo]; int(depth) < len(s) && s[depth] == b {
			return lo, hi
		}
		return lo, lo
	}
	at := func(want int) int32 {
		return lo + int32(sort.Search(int(hi-lo), func(i int) bool {
			s := w.list[int(lo)+i]
			return int(depth) < len(s) && int(s[depth]) >= want
		}))
	}
	return at(int(b)), at(int(b) + 1)
}
