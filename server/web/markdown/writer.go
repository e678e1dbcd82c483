package markdown

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// maxFence is the maximum length in bytes of the line that opens a code block, in code blocks that are divided.
const maxFence = 256

// minBlock is the minimum length in bytes of the source of a block that is not the last.
const minBlock = 256

// Block is a piece of a rendered text.
type Block struct {
	// Index is its place among the blocks of its text, from 0.
	Index int
	HTML  string
}

// Writer renders a text that arrives in pieces. The zero value is ready to use. It is for one goroutine at a time.
type Writer struct {
	// JSON says that the text is JSON code, not Markdown. It must be set before the first text.
	JSON bool

	// open is the source of the last block. looked is how much of it was divided into lines already.
	open   []byte
	looked int
	// closed are the sources of the blocks before it that were not rendered yet. index is the index of the first of them,
	// or of the last block if there are none.
	closed [][]byte
	index  int
	fresh  bool
	// fence is the line that opened the code block that is open, if there is one, and nested says that it is inside of
	// another block.
	fence  []byte
	nested bool
	// blank says that the last line was empty. list is the kind of the list that is open; 0 if
	// there is none.
	blank bool
	list  byte
	// began says that the next line begins an element.
	began bool
}

// Write takes the next piece of the text.
func (w *Writer) Write(piece string) {
	if piece == "" {
		return
	}
	w.fresh = true
	// The text is taken in steps that do not depend on the pieces: to the end of a line, or until the block is full.
	for len(piece) > 0 {
		n := min(len(piece), MaxBlock+1-len(w.open))
		end := strings.IndexByte(piece[:n], '\n')
		if end >= 0 {
			n = end + 1
		}
		w.open = append(w.open, piece[:n]...)
		piece = piece[n:]
		if end >= 0 {
			w.line(w.open[w.looked:])
		}
		if len(w.open) > MaxBlock {
			w.divide()
		}
	}
}

// End says that the text is complete.
func (w *Writer) End() {
	if w.looked < len(w.open) {
		w.line(w.open[w.looked:])
	}
}

// line looks at a whole line, which begins at w.looked, and closes blocks before or after it.
func (w *Writer) line(line []byte) {
	here := w.looked
	w.looked += len(line)
	if w.JSON {
		return
	}
	indent := len(line) - len(bytes.TrimLeft(line, " "))
	body := bytes.TrimSpace(line)
	switch {
	case w.fence != nil:
		if closes(w.fence, line) {
			if w.fence = nil; !w.nested {
				w.end(w.looked)
				return
			}
		}
		w.blank = false
		return
	case len(body) == 0:
		w.blank = true
		return
	}
	kind := listKind(line)
	if here == 0 || w.began {
		w.list, w.began = kind, false
	}
	top := indent == 0 && line[0] != '\t' && line[0] != '>'
	opens := opensFence(line) && len(line) <= maxFence
	if here > 0 && top && (w.blank && (kind == 0 || kind != w.list) || opens && w.list == 0) {
		w.end(here)
		w.list = kind
	}
	w.blank = false
	if opens {
		w.fence, w.nested = bytes.Clone(bytes.TrimRight(line, "\r\n")), !top
	}
}

// end notes that an element of the text ends after n bytes. Short elements share a block.
func (w *Writer) end(n int) {
	w.began, w.blank, w.list = true, false, 0
	if n >= minBlock {
		w.cut(n)
	}
}

// cut closes the last block after n bytes. What follows begins the next one.
func (w *Writer) cut(n int) {
	if len(bytes.TrimSpace(w.open[:n])) > 0 {
		w.closed = append(w.closed, bytes.Clone(w.open[:n]))
	}
	w.open = append(w.open[:0], w.open[n:]...)
	w.looked -= n
	w.blank = false
}

// divide closes the last block because it is full, at the end of a line if possible. A code block that is divided
// continues as a code block.
func (w *Writer) divide() {
	n := bytes.LastIndexByte(w.open[:MaxBlock], '\n') + 1
	if n < MaxBlock/2 {
		for n = MaxBlock; n > MaxBlock-utf8.UTFMax && !utf8.RuneStart(w.open[n]); n-- {
		}
	}
	fence := w.fence
	looked := max(w.looked, n)
	w.cut(n)
	w.looked = looked - n
	if fence != nil && !w.JSON {
		opening := append(bytes.TrimLeft(bytes.Clone(fence), " >\t"), '\n')
		w.fence = opening[:len(opening)-1]
		w.open = append(opening, w.open...)
		w.looked += len(opening)
		w.nested = false
	}
}

// Changed renders the blocks that changed since the last call.
func (w *Writer) Changed() []Block {
	var blocks []Block
	for _, source := range w.closed {
		blocks = append(blocks, Block{w.index, w.render(source)})
		w.index++
	}
	w.closed = nil
	if w.fresh && len(bytes.TrimSpace(w.open)) > 0 {
		blocks = append(blocks, Block{w.index, w.render(w.open)})
	}
	w.fresh = false
	return blocks
}

func (w *Writer) render(source []byte) string {
	if w.JSON {
		source = append(append([]byte("~~~~~~~~json\n"), source...), '\n')
	}
	return render(bytes.ToValidUTF8(source, []byte("\ufffd")))
}

// opensFence reports whether a line can open a code block, at any depth.
func opensFence(line []byte) bool {
	body := bytes.TrimLeft(line, " >\t")
	n := run(body)
	return n >= 3 && (body[0] == '~' || !bytes.Contains(body[n:], []byte("`")))
}

// closes reports whether a line closes the code block that another line has opened.
func closes(opening, line []byte) bool {
	opening, line = bytes.TrimLeft(opening, " >\t"), bytes.TrimLeft(line, " >\t")
	n := run(line)
	return n >= run(opening) && line[0] == opening[0] && len(bytes.TrimSpace(line[n:])) == 0
}

// run returns the number of equal fence characters that a line begins with.
func run(line []byte) (n int) {
	if len(line) == 0 || line[0] != '`' && line[0] != '~' {
		return 0
	}
	for n < len(line) && line[n] == line[0] {
		n++
	}
	return n
}

// listKind returns the character of the list item that a line begins; 0 if it begins none.
func listKind(line []byte) byte {
	digits := 0
	for digits < len(line) && digits < 10 && line[digits] >= '0' && line[digits] <= '9' {
		digits++
	}
	if digits+1 >= len(line) || line[digits+1] != ' ' && line[digits+1] != '\n' && line[digits+1] != '\t' {
		return 0
	}
	switch c := line[digits]; {
	case digits > 0 && (c == '.' || c == ')'), digits == 0 && (c == '-' || c == '*' || c == '+'):
		return c
	}
	return 0
}
