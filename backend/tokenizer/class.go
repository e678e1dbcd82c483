package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is the set of properties of a character that the split patterns test.
type class uint16

const (
	letter  class = 1 << iota // \p{L}
	number                    // \p{N}
	space                     // \s, the White_Space property
	newline                   // \r and \n, which are also space

	// The two halves of a word in patterns that split at capital letters. Letters without case are in both.
	upper // \p{Lu} \p{Lt} \p{Lm} \p{Lo} \p{M}
	lower // \p{Ll} \p{Lm} \p{Lo} \p{M}
	// The same in llama.cpp's version: \p{L} without a to z, and \p{L} without A to Z.
	notLowerASCII
	notUpperASCII
)

// classes holds the class of every character, in blocks of 256. Most blocks are equal.
type classes struct {
	blocks [][256]class
	index  [(unicode.MaxRune + 1) >> 8]uint8
}

var (
	ascii    [utf8.RuneSelf]class
	allRunes = sync.OnceValue(newClasses)
)

func init() {
	for r := range rune(utf8.RuneSelf) {
		ascii[r] = classify(r)
	}
}

func newClasses() *classes {
	c := &classes{}
	seen := map[[256]class]uint8{}
	for b := range c.index {
		var block [256]class
		for i := range block {
			block[i] = classify(rune(b<<8 | i))
		}
		n, ok := seen[block]
		if !ok {
			n = uint8(len(c.blocks))
			seen[block] = n
			c.blocks = append(c.blocks, block)
		}
		c.index[b] = n
	}
	return c
}

func classify(r rune) class {
	var c class
	switch {
	case unicode.IsLetter(r):
		c = letter
		if r < 'a' || r > 'z' {
			c |= notLowerASCII
		}
		if r < 'A' || r > 'Z' {
			c |= notUpperASCII
		}
		if !unicode.Is(unicode.Ll, r) {
			c |= upper
		}
		if !unicode.In(r, unicode.Lu, unicode.Lt) {
			c |= lower
		}
	case unicode.IsMark(r):
		c = upper | lower
	case unicode.IsNumber(r):
		c = number
	}
	if unicode.Is(unicode.White_Space, r) {
		c |= space
	}
	if r == '\r' || r == '\n' {
		c |= newline
	}
	return c
}

// at returns the class and the length in bytes of the character at i; 0, 0 at the end. A byte that is not valid
// UTF-8 counts as a character without a class, like the replacement character.
func at(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return ascii[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	c := allRunes()
	return c.blocks[c.index[r>>8]][r&255], n
}
