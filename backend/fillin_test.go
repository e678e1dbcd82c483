package backend

import (
	"slices"
	"testing"
)

// The tokens for filling a gap are found by their names, and only together.
func TestFillIn(t *testing.T) {
	vocabulary := func(names ...string) *Vocab {
		c := VocabConfig{Pieces: append([]string{"a"}, names...), BOS: NoToken, EOS: NoToken}
		c.Kinds = slices.Repeat([]TokenKind{Control}, len(c.Pieces))
		v, err := NewVocab(c)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, names := range fillIn {
		got, ok := vocabulary(names[2], names[0], names[1]).FillIn()
		if want := (FillIn{Before: 2, After: 3, Gap: 1, File: NoToken}); !ok || got != want {
			t.Errorf("%q: %+v, %v", names, got, ok)
		}
		if _, ok := vocabulary(names[:2]...).FillIn(); ok {
			t.Errorf("%q are enough", names[:2])
		}
	}
	first := fillIn[0]
	if got, _ := vocabulary(append([]string{"<|file_sep|>"}, first[:]...)...).FillIn(); got.File != 1 {
		t.Errorf("other files are marked with %d", got.File)
	}
}
