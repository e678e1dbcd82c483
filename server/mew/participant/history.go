package participant

import (
	"strings"
	"sync"

	"runner/chattemplate"
	"runner/server/mew/envelope"
)

// entry is something that was said in the space.
type entry struct {
	// from is who said it; empty means the participant itself.
	from    string
	text    string
	thought bool
	// with is the other side of a message between two; empty if everyone could see it.
	with string
}

// history is the last messages of the space. Its methods may be called by several goroutines at once.
type history struct {
	most, mostBytes int

	mu      sync.Mutex
	entries []entry
	bytes   int
}

func newHistory(most, mostBytes int) *history { return &history{most: most, mostBytes: mostBytes} }

// maxEntry is the maximum size of one entry in bytes, so that one text cannot push out all others.
const maxEntry = 8 << 10

func (h *history) add(e entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(e.text) > maxEntry {
		e.text = strings.ToValidUTF8(e.text[:maxEntry], "") + " [...]"
	}
	h.entries = append(h.entries, e)
	h.bytes += len(e.text)
	for len(h.entries) > h.most || h.bytes > h.mostBytes {
		h.bytes -= len(h.entries[0].text)
		h.entries = h.entries[1:]
	}
}

// halve forgets the older half. It reports false if the history was empty.
func (h *history) halve() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.entries) == 0 {
		return false
	}
	for range (len(h.entries) + 1) / 2 {
		h.bytes -= len(h.entries[0].text)
		h.entries = h.entries[1:]
	}
	return true
}

// messages returns what the model sees for a question. The question comes last.
func (h *history) messages(asker, question string, alone bool) []chattemplate.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []chattemplate.Message
	add := func(role chattemplate.Role, text string) {
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content += "\n\n" + text
			return
		}
		out = append(out, chattemplate.Message{Role: role, Content: text})
	}
	for _, e := range h.entries {
		switch {
		case e.with != "" && (e.with != asker || !alone):
		case e.from == "":
			add(chattemplate.Assistant, e.text)
		case e.from == asker && !e.thought:
			add(chattemplate.User, e.text)
		default:
			says := ": "
			if e.thought {
				says = " thinks: "
			}
			// Further lines are indented, so that none of them looks as if another participant had said it.
			add(chattemplate.User, e.from+says+strings.ReplaceAll(e.text, "\n", "\n  "))
		}
	}
	add(chattemplate.User, question)
	return out
}

// alone reports whether a message names id as a recipient, and so is not for everyone.
func alone(e *envelope.Envelope, id string) bool {
	named, _ := e.For(id)
	return named
}
