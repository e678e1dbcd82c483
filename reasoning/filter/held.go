package filter

import "runner/reasoning"

// heldText holds deltas back until it is known what to do with their text. Log probabilities stay with the text of
// their tokens. If part of a token is dropped, so are the log probabilities of that token.
type heldText struct {
	emit   func(reasoning.Event)
	events []reasoning.Event
	// size is the number of held bytes.
	size int
}

// add holds a delta.
func (h *heldText) add(e *reasoning.Event) {
	h.events = append(h.events, *e)
	h.size += len(e.Text)
}

// release sends the first n bytes.
func (h *heldText) release(n int) {
	for n > 0 {
		e := &h.events[0]
		if len(e.Text) > n {
			first := *e
			first.Text, e.Text = e.Text[:n], e.Text[n:]
			first.Logprobs, e.Logprobs = cutLogprobs(e.Logprobs, first.Text, e.Text)
			h.size -= n
			h.emit(first)
			return
		}
		n -= len(e.Text)
		first := *e
		h.shift()
		h.emit(first)
	}
}

// drop removes the first n bytes.
func (h *heldText) drop(n int) {
	for n > 0 {
		e := &h.events[0]
		if len(e.Text) > n {
			rest := e.Text[n:]
			_, e.Logprobs = cutLogprobs(e.Logprobs, e.Text[:n], rest)
			size := 0
			for i := range e.Logprobs {
				size += len(e.Logprobs[i].Text)
			}
			for size > len(rest) { // part of this token is dropped
				size -= len(e.Logprobs[0].Text)
				e.Logprobs = e.Logprobs[1:]
			}
			e.Text = rest
			h.size -= n
			return
		}
		n -= len(e.Text)
		h.shift()
	}
}

// shift removes the first delta.
func (h *heldText) shift() {
	h.size -= len(h.events[0].Text)
	copy(h.events, h.events[1:])
	h.events[len(h.events)-1] = reasoning.Event{}
	h.events = h.events[:len(h.events)-1]
}

// cutLogprobs divides the tokens of a text that is cut in two. A token belongs to the part that has its last byte. If
// the tokens do not match the text exactly, all of them belong to the second part.
func cutLogprobs(lps []reasoning.TokenLogprobs, first, second string) (a, b []reasoning.TokenLogprobs) {
	size := 0
	for i := range lps {
		size += len(lps[i].Text)
	}
	if size != len(first)+len(second) {
		return nil, lps
	}
	n := 0
	for i := range lps {
		if n += len(lps[i].Text); n > len(first) {
			return lps[:i:i], lps[i:]
		}
	}
	return lps, nil
}
