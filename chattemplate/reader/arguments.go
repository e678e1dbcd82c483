package reader

import (
	"encoding/json"
	"slices"
	"strings"

	"runner/reasoning"
	"runner/reasoning/patterns"
)

// arguments takes reasoning between the markers of strategy markers out of the arguments of calls. The markers may be
// spelled with JSON's escapes, and blocks may be nested.
//
// A block ends at its closing marker, and the text around it stays JSON if it was. A model may also forget the marker.
// So the text of an open block is held until the call ends. The block then ends with the string in which it began, if
// that makes the arguments JSON. Otherwise it has all the rest.
type arguments struct {
	on    bool // markers are looked for
	token bool // a mark came as a token

	state int32
	// held is text that may become a marker. sizes has the lengths of its characters, with escapes. escape is an escape
	// that is not complete.
	held, escape []byte
	sizes        []int
	// begun says that text has come, object that it is JSON so far, and quoted that it stands in a string of it.
	begun, object, quoted bool
	// depth counts the open blocks. block is the text of the outer one.
	depth int
	block []byte
	// trim drops newlines after a block. strings lets blocks end with their string.
	trim, strings bool
	// out is what is shown of the current text, and shown is what was shown before. thoughts has the blocks.
	out, shown []byte
	thoughts   []string
}

// argumentMarks are the markers in arguments. The first opens a block.
var argumentMarks = patterns.NewMatcher(reasoning.MarkerOpen, reasoning.MarkerClose)

// reset prepares for a call.
func (a *arguments) reset() { *a = arguments{on: a.on} }

// push takes text of the arguments and returns what is shown of it.
func (a *arguments) push(text string) string {
	if a.begun && a.depth == 0 && !a.trim && len(a.held)+len(a.escape) == 0 && !strings.ContainsAny(text, `"\<`) {
		a.shown = append(a.shown, text...)
		return text
	}
	a.out = a.out[:0]
	for i := range len(text) {
		a.byte(text[i])
	}
	a.shown = append(a.shown, a.out...)
	if string(a.out) == text {
		return text
	}
	return string(a.out)
}

// byte takes a byte. The bytes of an escape are one character.
func (a *arguments) byte(c byte) {
	if len(a.escape) == 0 && c != '\\' {
		a.character(c, c)
		return
	}
	a.escape = append(a.escape, c)
	switch n := len(a.escape); {
	case n == 1, n > 2 && n < 6 && isHex(c), n == 2 && c == 'u':
		return
	case n == 2 && strings.IndexByte(escapes, c) >= 0, n == 6 && isHex(c):
		var text string
		whole := slices.Concat([]byte{'"'}, a.escape, []byte{'"'})
		if json.Unmarshal(whole, &text) == nil {
			a.character(text[0], a.escape...)
		}
		a.escape = a.escape[:0]
	default: // no escape
		text := slices.Clone(a.escape)
		a.escape = a.escape[:0]
		a.character(text[0], text[0])
		for _, c := range text[1:] {
			a.byte(c)
		}
	}
}

// character takes a character, or a byte of one. c is its first byte, and raw is how it is spelled.
func (a *arguments) character(c byte, raw ...byte) {
	if a.trim = a.trim && (c == '\n' || c == '\r'); a.trim {
		return
	}
	if !a.begun && !IsSpace(c) {
		a.begun, a.object = true, c == '{'
	}
	a.held, a.sizes = append(a.held, raw...), append(a.sizes, len(raw))
	a.state = argumentMarks.Step(a.state, c)
	if p := argumentMarks.Found(a.state); p >= 0 {
		a.release(len(a.sizes) - len(argumentMarks.Patterns[p]))
		a.state = 0
		a.mark(p == 0)
		return
	}
	if a.object && c == '"' && len(raw) == 1 {
		a.quote()
	}
	a.release(len(a.sizes) - argumentMarks.Held(a.state))
}

// quote takes the quote before or after a string. It is held.
func (a *arguments) quote() {
	switch {
	case a.depth == 0:
		a.quoted = !a.quoted
	case a.strings && a.quoted:
		a.release(len(a.sizes) - 1)
		a.endBlock()
		a.quoted = false
	}
}

// mark takes a marker. It is held.
func (a *arguments) mark(opens bool) {
	switch {
	case opens && a.depth == 0:
		a.depth = 1
		a.drop()
	case opens:
		a.depth++
		a.release(len(a.sizes))
	case a.depth == 1:
		a.drop()
		a.endBlock()
		a.trim = true
	default: // without a block it is text
		a.depth = max(0, a.depth-1)
		a.release(len(a.sizes))
	}
}

// think takes a mark that is a token. It returns what is shown of the text that was held before it.
func (a *arguments) think(opens bool) string {
	a.token, a.out = true, a.out[:0]
	for _, c := range a.escape {
		a.held, a.sizes = append(a.held, c), append(a.sizes, 1)
	}
	a.escape, a.state = a.escape[:0], 0
	a.release(len(a.sizes))
	a.mark(opens)
	a.shown = append(a.shown, a.out...)
	return string(a.out)
}

// drop drops what is held.
func (a *arguments) drop() { a.held, a.sizes = a.held[:0], a.sizes[:0] }

// release takes the first n held characters as text.
func (a *arguments) release(n int) {
	size := 0
	for _, s := range a.sizes[:n] {
		size += s
	}
	if a.depth > 0 {
		a.block = append(a.block, a.held[:size]...)
	} else {
		a.out = append(a.out, a.held[:size]...)
	}
	a.held, a.sizes = a.held[:copy(a.held, a.held[size:])], a.sizes[:copy(a.sizes, a.sizes[n:])]
}

// endBlock ends the outer block.
func (a *arguments) endBlock() {
	a.keep(a.block)
	a.depth, a.block = 0, a.block[:0]
}

// keep keeps the text of a block.
func (a *arguments) keep(block []byte) {
	var text string
	if !a.quoted || json.Unmarshal(slices.Concat([]byte{'"'}, block, []byte{'"'}), &text) != nil {
		text = string(block)
	}
	if text = strings.Trim(text, "\r\n"); text != "" {
		a.thoughts = append(a.thoughts, text)
	}
}

// finish ends the arguments. It returns what else is shown of them, and the text of the blocks. cut says that the
// output has ended in the arguments: what may be the beginning of a marker is then left out.
func (a *arguments) finish(cut bool) (rest, thoughts string) {
	last := slices.Concat(a.held, a.escape)
	switch {
	case a.depth > 0:
		rest = a.finishBlock(slices.Concat(a.block, last))
	case !cut:
		rest = string(last)
	}
	thoughts = strings.Join(a.thoughts, "\n\n")
	a.reset()
	return rest, thoughts
}

// finishBlock ends an open block and returns what is shown of its text: what follows the string in which the block
// began, if that makes the arguments JSON.
func (a *arguments) finishBlock(text []byte) string {
	b := arguments{begun: true, object: true, quoted: true, depth: 1, strings: true}
	if a.object && a.quoted {
		rest := b.push(string(text))
		if b.depth == 0 && json.Valid(append(a.shown, rest...)) {
			a.thoughts = append(a.thoughts, b.thoughts...)
			return rest
		}
	}
	a.keep(text)
	return ""
}
