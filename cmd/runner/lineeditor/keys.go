package lineeditor

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"
)

// keyKind is what a key does.
type keyKind int

const (
	keyNone  keyKind = iota // does nothing
	keyText                 // typed text
	keyPaste                // pasted text
	keyEnter
	keyNewline
	keyTab
	keyLeft
	keyRight
	keyUp
	keyDown
	keyOlder
	keyNewer
	keyHome
	keyEnd
	keyWordLeft
	keyWordRight
	keyBackspace
	keyDelete
	keyDeleteOrEnd // deletes in a text, and ends the input if there is no text
	keyKillToEnd
	keyKillToStart
	keyKillSpaced   // kills back to a space
	keyKillWordLeft // kills back to the start of a word
	keyKillWordRight
	keyYank
	keySearch
	keyClear
	keyInterrupt
	keyCancel
	keyEscape
)

// key is one key, or a run of typed or pasted text.
type key struct {
	kind keyKind
	text string // of keyText and keyPaste
	over bool   // the pasted text was longer than the limit, so it was dropped
}

// controls are the keys that send one byte.
var controls = map[byte]keyKind{
	0x01: keyHome, 0x02: keyLeft, 0x03: keyInterrupt, 0x04: keyDeleteOrEnd, 0x05: keyEnd, 0x06: keyRight,
	0x07: keyCancel, 0x08: keyBackspace, '\t': keyTab, 0x0b: keyKillToEnd, 0x0c: keyClear, '\r': keyEnter,
	0x0e: keyNewer, 0x10: keyOlder, 0x12: keySearch, 0x15: keyKillToStart, 0x17: keyKillSpaced, 0x19: keyYank,
	0x7f: keyBackspace,
	'\n': keyEnter, // the terminal turns Enter into this while the editor does not read
}

// alts are the keys that send escape and one byte.
var alts = map[byte]keyKind{
	'b': keyWordLeft, 'f': keyWordRight, 'd': keyKillWordRight, 'B': keyWordLeft, 'F': keyWordRight,
	'D': keyKillWordRight, 0x08: keyKillWordLeft, 0x7f: keyKillWordLeft, '\r': keyNewline, '\n': keyNewline,
}

// sequences are the keys that send a control sequence. The names have no introducer.
var sequences = map[string]keyKind{
	"A": keyUp, "B": keyDown, "C": keyRight, "D": keyLeft, "H": keyHome, "F": keyEnd,
	"1~": keyHome, "7~": keyHome, "4~": keyEnd, "8~": keyEnd, "3~": keyDelete, "3;5~": keyKillWordRight,
	"1;5C": keyWordRight, "1;3C": keyWordRight, "5C": keyWordRight, "c": keyWordRight,
	"1;5D": keyWordLeft, "1;3D": keyWordLeft, "5D": keyWordLeft, "d": keyWordLeft,
	// Enter with Shift, Alt or Control, as some terminals send it.
	"13;2u": keyNewline, "13;3u": keyNewline, "13;5u": keyNewline,
	"27;2;13~": keyNewline, "27;3;13~": keyNewline, "27;5;13~": keyNewline,
}

const (
	escape     = 0x1b
	pasteBegin = "200~"
	pasteEnd   = "\x1b[201~"

	// sequenceLimit is the maximum size of a control sequence in bytes.
	sequenceLimit = 256
	// escapeWait is how long an escape byte may wait for the rest of its sequence. A slow line can split a sequence.
	escapeWait = 500 * time.Millisecond
	// pasteWait is how long a paste may pause. A terminal that does not end a paste must not swallow all later keys.
	pasteWait = 10 * time.Second
)

// decoder turns the bytes of a terminal into keys.
type decoder struct {
	limit   int    // maximum size of a paste in bytes
	pending []byte // received, not yet decoded
	ready   []key  // decoded, not yet returned
	pasting bool
	pasted  []byte
	over    bool
}

func (d *decoder) feed(b []byte) { d.pending = append(d.pending, b...) }

// next returns the next key. It returns false if it needs more bytes.
func (d *decoder) next() (key, bool) {
	switch {
	case len(d.ready) > 0:
		k := d.ready[0]
		d.ready = d.ready[1:]
		return k, true
	case d.pasting:
		return d.paste()
	case len(d.pending) == 0:
		return key{}, false
	case d.pending[0] == escape:
		return d.escaped()
	case isControl(d.pending[0]):
		return key{kind: controls[d.take(1)[0]]}, true
	}
	return d.typed()
}

// patience is how long to wait for more bytes before [decoder.giveUp]. Zero means without a limit.
func (d *decoder) patience() time.Duration {
	switch {
	case d.pasting:
		return pasteWait
	case len(d.pending) > 0 && d.pending[0] == escape:
		return escapeWait
	}
	return 0
}

// giveUp ends a sequence that has not become complete.
func (d *decoder) giveUp() {
	switch {
	case d.pasting:
		d.collect(len(d.pending))
		d.ready = append(d.ready, d.endPaste())
	case len(d.pending) == 1 && d.pending[0] == escape:
		d.ready = append(d.ready, key{kind: keyEscape})
		d.take(1)
	default:
		d.take(len(d.pending))
	}
}

func isControl(c byte) bool { return c < 0x20 || c == 0x7f }

func (d *decoder) take(n int) []byte {
	b := d.pending[:n]
	if d.pending = d.pending[n:]; len(d.pending) == 0 {
		d.pending = nil
	}
	return b
}

// typed returns the text up to the next control character. Bytes that are not UTF-8 become U+FFFD.
func (d *decoder) typed() (key, bool) {
	var text strings.Builder
	for len(d.pending) > 0 && !isControl(d.pending[0]) && utf8.FullRune(d.pending) {
		r, n := utf8.DecodeRune(d.pending)
		text.WriteRune(r)
		d.take(n)
	}
	return key{kind: keyText, text: text.String()}, text.Len() > 0
}

func (d *decoder) escaped() (key, bool) {
	if len(d.pending) == 1 {
		return key{}, false
	}
	switch c := d.pending[1]; c {
	case escape:
		d.take(1)
		return key{kind: keyEscape}, true
	case '[', 'O':
		return d.sequence()
	case ']', 'P', 'X', '^', '_':
		return d.message()
	default:
		if !utf8.FullRune(d.pending[1:]) {
			return key{}, false
		}
		_, n := utf8.DecodeRune(d.pending[1:])
		d.take(1 + n)
		return key{kind: alts[c]}, true
	}
}

// sequence decodes a control sequence (ECMA-48, 5.4). A sequence that is not known does nothing.
func (d *decoder) sequence() (key, bool) {
	i := 2
	if len(d.pending) > 2 && d.pending[1] == '[' && d.pending[2] == '[' {
		i++ // a function key of the Linux console
	}
	for i < len(d.pending) && i < sequenceLimit && d.pending[i] >= 0x20 && d.pending[i] < 0x40 {
		i++
	}
	switch {
	case i == len(d.pending):
		return key{}, false
	case d.pending[i] < 0x40 || d.pending[i] > 0x7e: // broken
		d.take(i)
		return key{}, true
	}
	name := string(d.take(i + 1)[2:])
	if name == pasteBegin {
		d.pasting = true
		return d.paste()
	}
	kind, ok := sequences[name]
	if !ok && strings.HasPrefix(name, "1;") { // with a modifier that has no meaning here
		kind = sequences[name[len(name)-1:]]
	}
	return key{kind: kind}, true
}

// message drops a string that the terminal sends, up to its end (ECMA-48, 5.6).
func (d *decoder) message() (key, bool) {
	for i := 2; i < len(d.pending); i++ {
		switch {
		case d.pending[i] == 0x07:
			d.take(i + 1)
			return key{}, true
		case d.pending[i] == escape && i+1 == len(d.pending):
			return key{}, false
		case d.pending[i] == escape && d.pending[i+1] == '\\':
			d.take(i + 2)
			return key{}, true
		case isControl(d.pending[i]), i >= sequenceLimit: // broken
			d.take(i)
			return key{}, true
		}
	}
	return key{}, false
}

func (d *decoder) paste() (key, bool) {
	if i := bytes.Index(d.pending, []byte(pasteEnd)); i >= 0 {
		d.collect(i)
		d.take(len(pasteEnd))
		return d.endPaste(), true
	}
	d.collect(max(len(d.pending)-len(pasteEnd)+1, 0)) // the rest may be the begin of the end
	return key{}, false
}

// collect moves n bytes to the pasted text.
func (d *decoder) collect(n int) {
	b := d.take(n)
	if d.over = d.over || len(d.pasted)+n > d.limit; d.over {
		d.pasted = nil
		return
	}
	d.pasted = append(d.pasted, b...)
}

func (d *decoder) endPaste() key {
	text := strings.ToValidUTF8(string(d.pasted), string(utf8.RuneError))
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "").Replace(text)
	k := key{kind: keyPaste, text: text, over: d.over}
	d.pasting, d.pasted, d.over = false, nil, false
	return k
}
