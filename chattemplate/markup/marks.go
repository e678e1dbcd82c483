package markup

import (
	"runner/chattemplate/reader"
	"runner/reasoning"
)

// takeMarker takes marker p of the current matcher. The held text begins with it: newlines that belong to it, then n
// bytes.
func (t *Text) takeMarker(p, n, newlines int) {
	text := t.matcher().Patterns[p]
	token, sure := t.tokenAt(newlines, text)
	switch {
	case t.tokens[text] != "" && !token && !t.core.Forced:
		t.release(newlines + n) // spelled out, although there is a token
	case t.mode == modeReasoning && p == endMark:
		t.closing(n, newlines, token, sure)
	case t.mode == modeReasoning:
		t.openAgain(n, sure)
	default:
		t.markerInAnswer(t.markers[p], n, token, sure)
	}
}

// tokenAt reports whether the token of a marker is at byte n of the held text, and whether the marker surely counts: as
// a control token, or because the runner wrote it.
func (t *Text) tokenAt(n int, marker string) (token, sure bool) {
	for i := range t.held {
		h := &t.held[i]
		if n <= 0 {
			token = n == 0 && h.special && h.text == t.tokens[marker]
			return token, token && h.control || t.core.Forced
		}
		n -= len(h.text)
	}
	return false, t.core.Forced
}

// closing takes a closing marker: it closes, it is a mention, or the text after it decides. If the answer is held to a
// form, it decides at once: the form keeps reasoning out of the answer.
func (t *Text) closing(n, newlines int, token, sure bool) {
	before := t.prose.after(newlines)
	verdict := before.closes(token || t.strategies[t.pair] == reasoning.StrategyMarkers)
	if cfg := &t.core.Cfg; verdict == matchWait && (cfg.Held || cfg.Formed) {
		verdict = matchYes
		if before.fence == 0 && before.inQuotes() {
			verdict = matchNo
		}
	}
	switch {
	case sure || verdict == matchYes:
		t.close(newlines + n)
	case verdict == matchWait:
		t.asked, t.breaks = newlines+n, newlines
	default:
		pair := before.pairs()
		t.release(newlines + n)
		if pair {
			t.prose.closed()
		}
	}
}

// decide closes the reasoning at the closing marker that the held text begins with, or takes the marker as text. over
// says that no more text comes. Without enough text after the marker it does nothing.
func (t *Text) decide(over bool) {
	n := t.asked
	before := t.prose.after(t.breaks)
	switch before.closesBefore(t.heldFrom(n), over) {
	case matchWait:
		return
	case matchYes:
		t.asked = 0
		t.close(n)
	case matchNo:
		t.asked = 0
		t.release(n)
	}
	t.again()
}

// close ends the reasoning at a marker of n bytes. In an answer it ends text at the beginning that is reasoning without
// an opening marker, or it is out of place.
func (t *Text) close(n int) {
	switch {
	case t.mode == modeReasoning:
		t.core.Out.End()
		t.skip(n)
		t.resume()
	case t.unsure && t.begun:
		t.settle(true)
		t.core.Out.End()
		t.skip(n)
		t.seen = true
		t.resume()
	default:
		t.settle(false)
		if t.begun {
			t.core.Warn(reader.CodeStrayTag)
		}
		t.core.Out.Flush()
		t.skip(n)
		t.seen = true
		t.trim = t.trim || !t.begun
		t.expect()
	}
}

// openAgain takes an opening marker inside reasoning.
func (t *Text) openAgain(n int, sure bool) {
	switch {
	case !t.begun:
		t.skip(n)
	case sure:
		t.core.Warn(reader.CodeStrayTag)
		t.core.Out.Flush()
		t.skip(n)
	default:
		t.release(n)
		t.prose.mention()
	}
}

// opens reports whether an opening marker opens reasoning in the answer.
func (t *Text) opens(pair int, sure bool) bool {
	switch {
	case sure || !t.begun:
		return true
	case t.core.Cfg.Formed:
		return false
	case t.strategies[pair] == reasoning.StrategyMarkers:
		return true // the model was asked to write it, and has no other reason to
	}
	return t.prose.begins() || t.core.Cfg.Unbroken && t.prose.fence == 0 && !t.prose.inSpan() && !t.prose.inQuotes()
}

func (t *Text) markerInAnswer(m marker, n int, token, sure bool) {
	literal := false
	switch m.kind {
	case openTag:
		if literal = !t.opens(m.index, sure); !literal {
			t.settle(false)
			t.core.Out.End()
			t.skip(n)
			t.seen, t.trim, t.begun, t.pair = true, true, false, m.index
			t.enter(modeReasoning)
		}
	case closeTag:
		t.pair = m.index
		switch literal = t.begun && t.core.Cfg.Formed && !sure; {
		case literal:
		case !t.begun:
			t.close(n)
		default:
			t.closing(n, 0, token, sure)
		}
	case openAnswer:
		if literal = t.begun || t.wrapped; !literal {
			t.settle(false)
			t.wrapped, t.trim = true, true
			t.skip(n)
			t.expect()
		}
	case closeAnswer:
		if literal = !t.wrapped || t.core.Cfg.Formed; !literal {
			t.settle(false)
			t.wrapped = false
			t.core.Out.Flush()
			t.skip(n)
			t.trim = true
		}
	case openCalls:
		literal = t.literal || t.core.Cfg.Formed && t.begun || !sure && !t.prose.calls() ||
			t.core.Cfg.Opens != nil && !t.core.Cfg.Opens(t.heldFrom(n))
		if !literal {
			t.settle(false)
			t.core.Out.Flush()
			t.openCall(&t.groups[m.index], n, sure && token)
		}
	}
	if literal {
		t.release(n)
		if m.kind == openTag {
			t.prose.mention()
		}
	}
}
