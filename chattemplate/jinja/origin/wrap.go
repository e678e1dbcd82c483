package origin

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Wrapper wraps lines as Python's textwrap.wrap does, with white space kept as it is.
type Wrapper struct {
	Width int
	// BreakLong allows breaks inside words longer than Width, BreakHyphens after hyphens.
	BreakLong, BreakHyphens bool
}

func isWrapSpace(c rune) bool { return strings.ContainsRune("\t\n\v\f\r ", c) }

// chunks splits a line into runs of white space and pieces of words. A line may end after any of them.
func (w *Wrapper) chunks(t Text) []Text {
	var out []Text
	for i := 0; i < len(t.s); {
		end := strings.IndexFunc(t.s[i:], func(c rune) bool { return !isWrapSpace(c) })
		if end == 0 {
			end = strings.IndexFunc(t.s[i:], isWrapSpace)
			if end < 0 {
				end = len(t.s) - i
			}
			out = append(out, w.pieces(t.Slice(i, i+end))...)
		} else {
			if end < 0 {
				end = len(t.s) - i
			}
			out = append(out, t.Slice(i, i+end))
		}
		i += end
	}
	return out
}

// pieces splits a word after each hyphen between letters and around dashes.
func (w *Wrapper) pieces(t Text) []Text {
	if !w.BreakHyphens || !strings.Contains(t.s, "-") {
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
	isPunct := func(c rune) bool { return IsWord(c) || strings.ContainsRune(`!"'&.,?`, c) }
	start, bytes := 0, 0
	cut := func(end int) {
		n := RuneOffset(t.s[bytes:], end-start)
		out = append(out, t.Slice(bytes, bytes+n))
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
		if dashes >= 2 && isPunct(at(i-1)) && IsWord(at(i+dashes)) {
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

// Wrap splits one line into lines of at most Width characters.
func (w *Wrapper) Wrap(t Text) []Text {
	var lines []Text
	chunks := w.chunks(t)
	blank := func(t Text) bool { return strings.TrimFunc(t.s, IsSpace) == "" }
	for len(chunks) > 0 {
		if blank(chunks[0]) && len(lines) > 0 {
			chunks = chunks[1:]
			if len(chunks) == 0 {
				break
			}
		}
		var line []Text
		n := 0
		for len(chunks) > 0 && n+RuneCount(chunks[0].s) <= w.Width {
			n += RuneCount(chunks[0].s)
			line = append(line, chunks[0])
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && RuneCount(chunks[0].s) > w.Width {
			switch {
			case w.BreakLong:
				end := w.breakAt(chunks[0].s, w.Width-n)
				line = append(line, chunks[0].Slice(0, end))
				chunks[0] = chunks[0].Slice(end, len(chunks[0].s))
			case len(line) == 0:
				line = append(line, chunks[0])
				chunks = chunks[1:]
			}
		}
		if len(line) > 0 && blank(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			lines = append(lines, Join(Text{}, line))
		}
	}
	return lines
}

// breakAt returns the byte offset at which to break a word that is too long. The line has room for room characters.
func (w *Wrapper) breakAt(s string, room int) int {
	end := RuneOffset(s, room)
	if w.BreakHyphens {
		if h := strings.LastIndexByte(s[:end], '-'); h > 0 && strings.Trim(s[:h], "-") != "" {
			return h + 1
		}
	}
	if end == 0 && room > 0 {
		_, end = utf8.DecodeRuneInString(s)
	}
	return end
}
