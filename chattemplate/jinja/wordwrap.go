package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordwrap is the wordwrap filter: each line is wrapped as Python's textwrap.wrap does, white space kept as it is.
func (r *render) wordwrap(v Value, a []Value) Value {
	r.defined(v)
	s, ok := v.(*strValue)
	if !ok {
		r.typeError("'%s' object has no attribute 'splitlines'", v.typeName())
	}
	w := wrapper{width: r.argInt(a[0], 79), long: a[1] == nil || truth(a[1]), hyphens: a[3] == nil || truth(a[3])}
	if w.width <= 0 {
		r.typeError("invalid width %d (must be > 0)", w.width)
	}
	sep := NewText("\n", Outside)
	if s.allTrusted() {
		sep = NewText("\n", Trusted)
	}
	if a[2] != nil && !isNone(a[2]) {
		sep = r.argStr("wordwrap()", a[2])
	}
	r.madeItems(len(s.s))
	var lines []Text
	for _, line := range splitLines(s.Text, false) {
		lines = append(lines, joinTexts(sep, w.wrap(line)))
		r.step()
	}
	r.made(len(s.s) + len(s.s)*len(sep.s))
	return text(joinTexts(sep, lines))
}

type wrapper struct {
	width         int
	long, hyphens bool
}

func isWrapSpace(c rune) bool { return strings.ContainsRune("\t\n\v\f\r ", c) }

// chunks splits a line into runs of white space and pieces of words that can stand at the end of a line.
func (w *wrapper) chunks(t Text) []Text {
	var out []Text
	for i := 0; i < len(t.s); {
		end := strings.IndexFunc(t.s[i:], func(c rune) bool { return !isWrapSpace(c) })
		if end == 0 {
			end = strings.IndexFunc(t.s[i:], isWrapSpace)
			if end < 0 {
				end = len(t.s) - i
			}
			out = append(out, w.pieces(t.slice(i, i+end))...)
		} else {
			if end < 0 {
				end = len(t.s) - i
			}
			out = append(out, t.slice(i, i+end))
		}
		i += end
	}
	return out
}

// pieces splits a word after hyphens between letters and around dashes.
func (w *wrapper) pieces(t Text) []Text {
	if !w.hyphens || !strings.Contains(t.s, "-") {
		return []Text{t}
	}
	var out []Text
	cs := []rune(t.s)
	at := func(i int) rune {
		if i < 0 || i >= len(cs) {
			return ' '
		}
		return cs[i]
	}
	isPunct := func(c rune) bool { return isWord(c) || strings.ContainsRune(`!"'&.,?`, c) }
	start, bytes := 0, 0
	cut := func(end int) {
		n := runeOffset(t.s[bytes:], end-start)
		out = append(out, t.slice(bytes, bytes+n))
		start, bytes = end, bytes+n
	}
	for i := 0; i < len(cs); i++ {
		if cs[i] != '-' {
			continue
		}
		dashes := 1
		for at(i+dashes) == '-' {
			dashes++
		}
		if dashes >= 2 && isPunct(at(i-1)) && isWord(at(i+dashes)) {
			if i > start {
				cut(i)
			}
			cut(i + dashes)
			i += dashes - 1
			continue
		}
		before := unicode.IsLetter(at(i-1)) && unicode.IsLetter(at(i-2)) ||
			isPunct(at(i-1)) && at(i-2) == '-' && unicode.IsLetter(at(i-3))
		after := unicode.IsLetter(at(i+1)) && (unicode.IsLetter(at(i+2)) || at(i+2) == '-' && unicode.IsLetter(at(i+3)))
		if before && after {
			cut(i + 1)
		}
	}
	if start < len(cs) {
		cut(len(cs))
	}
	return out
}

func (w *wrapper) wrap(t Text) []Text {
	var lines []Text
	chunks := w.chunks(t)
	blank := func(t Text) bool { return strings.TrimFunc(t.s, isSpace) == "" }
	for len(chunks) > 0 {
		if blank(chunks[0]) && len(lines) > 0 {
			chunks = chunks[1:]
			if len(chunks) == 0 {
				break
			}
		}
		var line []Text
		n := 0
		for len(chunks) > 0 && n+runeCount(chunks[0].s) <= w.width {
			n += runeCount(chunks[0].s)
			line = append(line, chunks[0])
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && runeCount(chunks[0].s) > w.width {
			switch {
			case w.long:
				end := w.breakAt(chunks[0].s, w.width-n)
				line = append(line, chunks[0].slice(0, end))
				chunks[0] = chunks[0].slice(end, len(chunks[0].s))
			case len(line) == 0:
				line = append(line, chunks[0])
				chunks = chunks[1:]
			}
		}
		if len(line) > 0 && blank(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			lines = append(lines, joinTexts(Text{}, line))
		}
	}
	return lines
}

// breakAt returns the byte offset at which a word too long is broken, with room characters left on the line.
func (w *wrapper) breakAt(s string, room int) int {
	end := runeOffset(s, room)
	if w.hyphens {
		if h := strings.LastIndexByte(s[:end], '-'); h > 0 && strings.Trim(s[:h], "-") != "" {
			return h + 1
		}
	}
	if end == 0 && room > 0 {
		_, end = utf8.DecodeRuneInString(s)
	}
	return end
}
