package markup

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// prose follows the text of a segment, to tell marks from mentions of marks. Control tokens are always marks. A mark
// that is a user-defined token or that is spelled out may be a mention, because models write about their marks too.
type prose struct {
	// line is the current line. Of a long line it has only the end, and cut is set.
	line []byte
	cut  bool
	// fence is the number of characters that opened the current block of code, and fenced is the character.
	fence  int
	fenced byte
	// mentioned is where the text after the last mention of an opening mark begins in the line, and 0 if there is none.
	// paired says that there was one in the current block of code.
	mentioned int
	paired    bool
}

// maxLine is how much of a long line is kept at least, in bytes.
const maxLine = 1024

// maxBlank is the maximum number of blanks after a closing mark before the text that shows whether it closes.
const maxBlank = 16

// reset begins a segment.
func (p *prose) reset() { *p = prose{line: p.line[:0]} }

// add takes text of the segment. It makes no difference how the text is cut into pieces.
func (p *prose) add(text string) {
	for text != "" {
		i := strings.IndexByte(text, '\n')
		part := text
		if i >= 0 {
			part = text[:i]
		}
		for len(part) > 0 {
			if len(p.line) == 2*maxLine {
				p.line = p.line[:copy(p.line, p.line[maxLine:])]
				p.cut, p.mentioned = true, 0
			}
			n := min(len(part), 2*maxLine-len(p.line))
			p.line, part = append(p.line, part[:n]...), part[n:]
		}
		if i < 0 {
			return
		}
		p.endLine()
		text = text[i+1:]
	}
}

// endLine ends the current line. It may begin or end a block of code.
func (p *prose) endLine() {
	text := bytes.TrimRight(p.line, " \t\r")
	text = text[min(indent(text), 3):]
	if !p.cut && len(text) >= 3 && (text[0] == '`' || text[0] == '~') {
		rest := bytes.TrimLeft(text, string(text[:1]))
		switch n := len(text) - len(rest); {
		case p.fence == 0 && n >= 3 && (text[0] == '~' || bytes.IndexByte(rest, '`') < 0):
			p.fence, p.fenced = n, text[0]
		case p.fence > 0 && n >= p.fence && text[0] == p.fenced && len(rest) == 0:
			p.fence, p.paired = 0, false
		}
	}
	p.line, p.cut, p.mentioned = p.line[:0], false, 0
}

// indent returns the number of spaces at the beginning of text.
func indent(text []byte) int { return len(text) - len(bytes.TrimLeft(text, " ")) }

// after returns what the text is like after line breaks, if there are any.
func (p prose) after(breaks int) prose {
	if breaks > 0 {
		p.endLine()
	}
	return p
}

// fresh reports whether the next text begins a line. A line with a deeper indentation is code.
func (p *prose) fresh() bool { return !p.cut && len(p.line) <= 3 && indent(p.line) == len(p.line) }

// begins reports whether the next text begins a line outside of code.
func (p *prose) begins() bool { return p.fence == 0 && p.fresh() }

// mention takes note of an opening mark that was added as text.
func (p *prose) mention() {
	switch {
	case p.fence > 0:
		p.paired = true
	case !p.inSpan() && !p.inQuotes():
		p.mentioned = len(p.line)
	}
}

// pairs reports whether a closing mark would belong to a mentioned opening mark: both are in a block of code, or text
// follows the opening mark directly, as in <think>...</think>, or only signs join both, as in <think>/</think>.
func (p *prose) pairs() bool {
	switch {
	case p.fence > 0:
		return p.paired
	case p.mentioned == 0:
		return false
	}
	rest := p.line[p.mentioned:]
	r, n := utf8.DecodeRune(rest)
	return n == 0 || bytes.HasPrefix(rest, []byte("...")) || r == '…' ||
		r != ' ' && r != '\t' && !strings.ContainsRune(closers+goesOn, r) ||
		len(bytes.Trim(rest, joiners)) == 0
}

// closed forgets a mentioned opening mark, after its closing mark.
func (p *prose) closed() { p.mentioned, p.paired = 0, false }

// inSpan reports whether the next text is code in a line.
func (p *prose) inSpan() bool {
	if len(p.line) > 0 && len(bytes.TrimLeft(p.line, " \t")) == 0 && !p.fresh() {
		return true
	}
	open := 0
	for i := 0; i < len(p.line); {
		n := 0
		for i+n < len(p.line) && p.line[i+n] == '`' {
			n++
		}
		switch i += max(n, 1); {
		case n == 0:
		case open == 0:
			open = n
		case open == n:
			open = 0
		}
	}
	return open > 0
}

// inQuotes reports whether the next text is in quotes that began in this line.
func (p *prose) inQuotes() bool {
	if bytes.Count(p.line, []byte{'"'})%2 == 1 {
		return true
	}
	for _, pair := range [][2]string{{"“", "”"}, {"«", "»"}, {"「", "」"}, {"『", "』"}} {
		if bytes.Count(p.line, []byte(pair[0])) > bytes.Count(p.line, []byte(pair[1])) {
			return true
		}
	}
	return false
}

const (
	// brackets and quotes that open
	brackets, quotes = "([{（【", "“‘«「『"
	// closers may stand between the end of a sentence and what follows it.
	closers = "\"'`*_)]}”’»」』）】"
	// goesOn has characters with which a sentence goes on after a word.
	goesOn = ".,;:!?…/=)]}>”’»」』）】，。！？；：、"
	// joiners join words of a list.
	joiners = ",/=|+&，、／"
)

// attached reports whether the next text touches the text before it, which is not a quote that opens.
func (p *prose) attached() bool {
	r, n := utf8.DecodeLastRune(p.line)
	if n == 0 || r == ' ' || r == '\t' || strings.ContainsRune(quotes, r) {
		return false
	}
	if !strings.ContainsRune("\"'`*_", r) {
		return true
	}
	before := bytes.TrimRight(p.line, "\"'`*_")
	q, n := utf8.DecodeLastRune(before)
	return n > 0 && q != ' ' && q != '\t' && !strings.ContainsRune(brackets+quotes, q)
}

// ends reports whether a line or a sentence ends before the next text. The number of an item in a list is no sentence.
func (p *prose) ends() bool {
	if p.fresh() {
		return true
	}
	text := bytes.TrimRight(bytes.TrimRight(p.line, " \t"), closers)
	if bytes.HasSuffix(bytes.TrimRight(text, ".…"), []byte{' '}) {
		return false // dots for something that is left out
	}
	r, _ := utf8.DecodeLastRune(text)
	return strings.ContainsRune(".!?…。！？", r) && bytes.IndexFunc(text, unicode.IsLetter) >= 0
}

// closes says whether a closing mark closes here, by the text before it. As a word of a sentence, in quotes or in code
// it is a mention. Otherwise it closes if it touches the text before it. After a space, after a sign that joins words
// and at the beginning of a line it depends on the text after it. sole says that the mark is no part of a word, because
// it is a token or no such word exists. In a block of code a mark that begins a line may still close, because models
// forget to end blocks.
func (p *prose) closes(sole bool) matched {
	last, _ := utf8.DecodeLastRune(p.line)
	switch {
	case p.pairs() || p.inSpan():
		return matchNo
	case p.fence > 0 && !p.fresh():
		return matchNo
	case p.fence == 0 && p.attached() && !p.inQuotes() && !strings.ContainsRune(brackets+joiners, last) &&
		(sole || !isWord(last)):
		return matchYes
	case p.ends() || p.attached():
		return matchWait
	}
	return matchNo
}

// closesBefore says whether a closing mark closes before the text after it, if closes says that this depends on it. A
// sentence or a line must begin there. over says that no more text comes.
func (p *prose) closesBefore(after string, over bool) matched {
	text := strings.TrimLeft(after, " \t")
	blank := len(after) - len(text)
	if p.fence > 0 {
		return emptyLine(after, over)
	}
	switch {
	case over && text == "":
		return matchYes
	case blank > maxBlank:
		return matchNo
	case text == "":
		return matchWait
	case isNewline(text[0]):
		return matchYes
	case p.inQuotes():
		return matchNo
	case !over && !utf8.FullRuneInString(text):
		return matchWait
	}
	r, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRune(p.line)
	yes := !strings.ContainsRune(goesOn, r)
	switch {
	case blank > 0:
		yes = p.ends() && (unicode.IsUpper(r) || unicode.IsDigit(r) || strings.ContainsRune("*#<\"“$\\[{", r))
	case isWord(last) && isWord(r) && !unicode.IsUpper(r):
		yes = false // it is in a word
	}
	if yes {
		return matchYes
	}
	return matchNo
}

// emptyLine says whether a line ends at the beginning of text and an empty one follows.
func emptyLine(text string, over bool) matched {
	for range 2 {
		text = strings.TrimPrefix(text, "\r")
		switch {
		case text == "" && over:
			return matchYes
		case text == "":
			return matchWait
		case text[0] != '\n':
			return matchNo
		}
		text = text[1:]
	}
	return matchYes
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// calls reports whether a mark of calls may begin calls here. Whether it does depends on what follows it.
func (p *prose) calls() bool {
	colon := bytes.HasSuffix(bytes.TrimRight(p.line, " \t"), []byte{':'})
	return p.fence == 0 && !p.inSpan() && !p.inQuotes() && (colon || p.ends() || p.attached())
}
