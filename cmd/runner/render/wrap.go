package render

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
	"github.com/clipperhouse/uax29/v2/graphemes"
)

// wrapper breaks the lines of a text between words, so that none is wider than a terminal. A break takes the place of
// the white space before a word. A word that is wider than a line is broken where the line is full. The text may come
// in any pieces. No more than a word of it is held back.
//
// The lines of an item of a list begin below its text, behind the mark.
//
// Newlines of the text stay. Lines of code between fences (``` or ~~~) are not broken, so that they can be copied.
type wrapper struct {
	width int
	out   strings.Builder

	rest   string // text that is not looked at yet
	column int    // the width of what is written of the line
	gap    string // white space after what is written
	word   []byte // the word after it
	wide   int    // the width of the word
	last   string // the last cluster of the word, or of what is written
	torn   bool   // the word was broken, so the rest of it is written at once
	begun  bool   // the line has a word
	marked bool   // the only word of the line is the mark of a list
	hang   int    // the column in which further lines of an item begin

	fence  string          // what opened the code that the text is in, or empty
	line   strings.Builder // the line of code so far
	opener bool            // the line of code is the one with the opening fence
}

// tabStop is the distance of a terminal's tab stops.
const tabStop = 8

// longestCluster is the size in bytes from which a cluster is not waited for.
const longestCluster = 1 << 10

// add takes a piece of the text. It returns what can be written now.
func (w *wrapper) add(text string) string {
	w.rest += text
	for w.rest != "" {
		if w.fence != "" {
			w.code()
			continue
		}
		n := nextCluster(w.rest)
		if n == len(w.rest) && n < longestCluster && !isSpace(w.rest[:n]) {
			break // the next piece may add to this cluster
		}
		w.cluster(w.rest[:n])
		w.rest = w.rest[n:]
	}
	return w.take()
}

func isSpace(cluster string) bool { return cluster == " " || cluster == "\t" || cluster == "\n" }

// nextCluster returns the size of the first cluster of a text. White space counts as one, whatever follows it.
func nextCluster(text string) int {
	if isSpace(text[:1]) || len(text) > 1 && isPlain(text[0]) && isPlain(text[1]) {
		return 1
	}
	g := graphemes.FromString(text)
	g.Next()
	return len(g.Value())
}

// isPlain reports whether c is an ASCII character that takes one column.
func isPlain(c byte) bool { return c >= ' ' && c < 0x7f }

// clusterWidth returns the width of a cluster. It is much faster than package displaywidth for most text.
func clusterWidth(c string) int {
	if len(c) == 1 && isPlain(c[0]) {
		return 1
	}
	return displaywidth.String(c)
}

// flush ends the text. It returns what was held back.
func (w *wrapper) flush() string {
	for w.rest != "" {
		n := nextCluster(w.rest)
		w.cluster(w.rest[:n])
		w.rest = w.rest[n:]
	}
	w.place()
	w.trail()
	return w.take()
}

func (w *wrapper) take() string {
	text := w.out.String()
	w.out.Reset()
	return text
}

// cluster adds a cluster of the text.
func (w *wrapper) cluster(c string) {
	switch c {
	case "\n":
		w.endWord()
		w.trail()
		w.newline()
	case " ", "\t":
		w.endWord()
		if w.fence != "" { // the word was a fence
			w.codePart(c)
			return
		}
		w.gap += c
		w.last = c
	default:
		if mayBreak(w.last, c) {
			w.place()
			w.torn = false
		}
		w.word = append(w.word, c...)
		w.last = c
		if w.wide += clusterWidth(c); w.torn || w.wide > w.width {
			w.place()
			w.torn = true
		}
	}
}

// endWord writes the word. The first word of a line may open code.
func (w *wrapper) endWord() {
	opens := ""
	if !w.begun && !w.torn {
		opens = openingFence(string(w.word))
	}
	w.place()
	w.torn = false
	if opens != "" {
		w.fence, w.opener = opens, true
	}
}

// place writes the word, in a new line if it does not fit.
func (w *wrapper) place() {
	if len(w.word) == 0 {
		return
	}
	gap := gapWidth(w.gap, w.column)
	if w.marked {
		// In a narrow terminal the room is for the words.
		if at := w.column + gap; w.gap != "" && at <= w.width/3 {
			w.hang = at
		}
		w.marked = false
	}
	if (w.column > 0 || gap >= w.width) && !w.torn && w.column+gap+w.wide > w.width {
		if w.column == 0 {
			w.trail()
		}
		w.breakLine()
	} else {
		w.out.WriteString(w.gap)
		w.column += gap
	}
	w.marked = !w.begun && isListMark(string(w.word))
	if w.column+w.wide <= w.width {
		w.out.Write(w.word)
		w.column += w.wide
	} else {
		w.tear()
	}
	w.gap, w.word, w.wide, w.begun = "", w.word[:0], 0, true
}

// breakLine begins another line of the same paragraph or item.
func (w *wrapper) breakLine() {
	w.out.WriteByte('\n')
	w.out.WriteString(strings.Repeat(" ", w.hang))
	w.column = w.hang
}

// tear writes a word that is broken wherever a line is full.
func (w *wrapper) tear() {
	for rest := string(w.word); rest != ""; {
		cluster := rest[:nextCluster(rest)]
		n := clusterWidth(cluster)
		if w.column > w.hang && w.column+n > w.width {
			w.breakLine()
		}
		w.out.WriteString(cluster)
		w.column += n
		rest = rest[len(cluster):]
	}
}

// trail writes the white space at the end of a line as far as it fits.
func (w *wrapper) trail() {
	for i := range w.gap {
		n := gapWidth(w.gap[i:i+1], w.column)
		if w.column+n > w.width {
			break
		}
		w.out.WriteString(w.gap[i : i+1])
		w.column += n
	}
	w.gap = ""
}

func (w *wrapper) newline() {
	w.out.WriteByte('\n')
	w.column, w.last, w.begun, w.marked, w.hang = 0, "", false, false, 0
	w.opener = false
	w.line.Reset()
}

// code writes text in code, up to the end of a line. The line may close the code.
func (w *wrapper) code() {
	end := strings.IndexByte(w.rest, '\n')
	if end < 0 {
		end = len(w.rest)
	}
	w.codePart(w.rest[:end])
	if w.rest = w.rest[end:]; w.rest == "" {
		return
	}
	w.rest = w.rest[1:]
	switch line := strings.TrimSpace(w.line.String()); {
	case w.opener && strings.Contains(line, "`") && w.fence[0] == '`':
		w.fence = "" // a line with code in the text
	case !w.opener && len(line) >= len(w.fence) && strings.Trim(line, w.fence[:1]) == "":
		w.fence = ""
	}
	w.newline()
}

// codePart writes a part of a line of code.
func (w *wrapper) codePart(text string) {
	w.out.WriteString(text)
	w.line.WriteString(text)
}

// gapWidth returns the width of white space that begins in a column.
func gapWidth(gap string, column int) int {
	at := column
	for i := range len(gap) {
		if gap[i] == '\t' {
			at += tabStop - at%tabStop
		} else {
			at++
		}
	}
	return at - column
}

// isListMark reports whether the first word of a line is the mark of an item, as Markdown has them: -, *, + or a number
// of up to nine digits with a point or a parenthesis.
func isListMark(word string) bool {
	if word == "-" || word == "*" || word == "+" {
		return true
	}
	digits := strings.TrimRight(word, ".)")
	return len(word) == len(digits)+1 && digits != "" && len(digits) <= 9 && strings.Trim(digits, "0123456789") == ""
}

// openingFence returns the run of ` or ~ at the begin of a word that opens code, or "".
func openingFence(word string) string {
	for _, mark := range []string{"`", "~"} {
		rest := strings.TrimLeft(word, mark)
		if n := len(word) - len(rest); n >= 3 && (mark == "~" || !strings.Contains(rest, mark)) {
			return word[:n]
		}
	}
	return ""
}

// The marks that a line does not begin with, and those that it does not end with, in scripts without spaces.
const (
	notFirst = "、。，．：；？！）］｝」』】〉》〕〗’”…ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"
	notLast  = "（［｛「『【〈《〔〖‘“"
)

// mayBreak reports whether a line may end between two clusters that have no white space between them: at wide
// characters, because Chinese and Japanese have no spaces.
func mayBreak(before, after string) bool {
	if before == "" || before == " " || before == "\t" {
		return false
	}
	if clusterWidth(before) < 2 && clusterWidth(after) < 2 {
		return false
	}
	first, _ := utf8.DecodeRuneInString(after)
	last, _ := utf8.DecodeRuneInString(before)
	return !strings.ContainsRune(notFirst, first) && !strings.ContainsRune(notLast, last) && !isASCIIPunct(first)
}

// isASCIIPunct reports whether r is ASCII punctuation, which stays with a wide character before it.
func isASCIIPunct(r rune) bool {
	return r < utf8.RuneSelf && strings.ContainsRune(`.,:;!?)]}"'`+"`*_", r)
}
