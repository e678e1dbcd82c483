package lineeditor

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// buffer is a text and the cursor in it. at is a byte offset. It is always between two grapheme clusters.
type buffer struct {
	text string
	at   int
}

func (b *buffer) set(text string) { b.text, b.at = text, len(text) }

// insert adds text before the cursor. The new text can join with its neighbours to one cluster; the cursor then goes
// after that cluster.
func (b *buffer) insert(text string) {
	b.text = b.text[:b.at] + text + b.text[b.at:]
	b.at = boundary(b.text, b.at+len(text))
}

// cut removes the text between the cursor and another offset and returns it.
func (b *buffer) cut(to int) string {
	from, end := min(b.at, to), max(b.at, to)
	removed := b.text[from:end]
	b.text = b.text[:from] + b.text[end:]
	b.at = boundary(b.text, from)
	return removed
}

func (b *buffer) left() int  { return before(b.text, b.at) }
func (b *buffer) right() int { return after(b.text, b.at) }

// home and end are the ends of the cursor's line.
func (b *buffer) home() int { return strings.LastIndexByte(b.text[:b.at], '\n') + 1 }

func (b *buffer) end() int {
	if i := strings.IndexByte(b.text[b.at:], '\n'); i >= 0 {
		return b.at + i
	}
	return len(b.text)
}

// wordLeft and wordRight are the ends of the words next to the cursor.
func (b *buffer) wordLeft() int {
	return b.skipLeft(b.skipLeft(b.at, func(c string) bool { return !inWord(c) }), inWord)
}

func (b *buffer) wordRight() int {
	return b.skipRight(b.skipRight(b.at, func(c string) bool { return !inWord(c) }), inWord)
}

// spacedLeft is the start of the word before the cursor if only spaces end words.
func (b *buffer) spacedLeft() int {
	return b.skipLeft(b.skipLeft(b.at, isSpace), func(c string) bool { return !isSpace(c) })
}

func (b *buffer) skipLeft(at int, over func(cluster string) bool) int {
	for at > 0 {
		i := before(b.text, at)
		if !over(b.text[i:at]) {
			break
		}
		at = i
	}
	return at
}

func (b *buffer) skipRight(at int, over func(cluster string) bool) int {
	for at < len(b.text) {
		i := after(b.text, at)
		if !over(b.text[at:i]) {
			break
		}
		at = i
	}
	return at
}

func inWord(cluster string) bool {
	r, _ := utf8.DecodeRuneInString(cluster)
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || r == '_'
}

func isSpace(cluster string) bool {
	r, _ := utf8.DecodeRuneInString(cluster)
	return unicode.IsSpace(r)
}

// after returns the end of the cluster that begins at an offset.
func after(text string, at int) int {
	g := graphemes.FromString(text[at:])
	if !g.Next() {
		return at
	}
	return at + len(g.Value())
}

// before returns the start of the cluster that ends at an offset.
func before(text string, at int) int {
	i := anchor(text, at)
	for i < at {
		end := after(text, i)
		if end >= at {
			break
		}
		i = end
	}
	return i
}

// boundary returns the first end of a cluster that is not before an offset.
func boundary(text string, at int) int {
	i := anchor(text, at)
	for i < at {
		i = after(text, i)
	}
	return i
}

// anchor returns a boundary of clusters before an offset. Between two ASCII characters there is always one, except in
// a carriage return and a newline.
func anchor(text string, at int) int {
	for i := at - 1; i > 0; i-- {
		if text[i-1] < utf8.RuneSelf && text[i] < utf8.RuneSelf && text[i-1] != '\r' {
			return i
		}
	}
	return 0
}
