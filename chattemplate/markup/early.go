package markup

import "runner/chattemplate/reader"

// maxEarly is how much text at the beginning of a turn is held at most while it may still be reasoning, in bytes.
const maxEarly = 2048

// keep holds text at the beginning of a turn that may be reasoning. control says that it is no output. If too much has
// come, it is the answer.
func (t *Text) keep(p heldPiece) {
	if p.text == "" {
		return
	}
	t.early = append(t.early, p)
	if t.nearly += len(p.text); t.nearly > maxEarly {
		t.settle(false)
	}
}

// Early reports whether the next text may be either reasoning or the answer.
func (t *Text) Early() bool { return t.unsure }

// newlinesAfter counts the newlines at the end of the text at the beginning of a turn that belong to a marker after it.
func (t *Text) newlinesAfter() (count int) {
	for i := len(t.early) - 1; i >= 0; i-- {
		text := t.early[i].text
		for j := len(text) - 1; j >= 0; j-- {
			if !isNewline(text[j]) || count == maxHeldNewlines {
				return count
			}
			count++
		}
	}
	return count
}

// settle sends the text at the beginning of a turn, as reasoning or as the answer, if that was not known yet.
func (t *Text) settle(thought bool) {
	if !t.unsure {
		return
	}
	t.unsure = false
	text := t.nearly
	if thought {
		t.core.Out.Reason(t.strategies[t.pair])
		text -= t.newlinesAfter()
	}
	for _, p := range t.early {
		n := min(len(p.text), text)
		if text -= n; p.control {
			n = 0
		}
		t.core.Out.Text(p.text[:n])
		if n < len(p.text) {
			t.core.Out.Flush()
			t.core.Out.Drop(len(p.text)-n, reader.UseTrimmed)
		}
	}
	t.early, t.nearly = t.early[:0], 0
}
