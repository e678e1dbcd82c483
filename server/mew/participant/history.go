package participant

import (
	"slices"
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

// maxEntry is the maximum size of one entry in bytes, so that one text cannot push out all others. maxHeard is the
// maximum number of messages of others in one answer's context that enter its next turns, and maxHeardBytes their
// maximum total size. The newest are kept.
const (
	maxEntry      = 8 << 10
	maxHeard      = 16
	maxHeardBytes = 16 << 10
)

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

// copy returns the history as it is now.
func (h *history) copy() *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &history{most: h.most, mostBytes: h.mostBytes, entries: slices.Clone(h.entries), bytes: h.bytes}
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

// messages returns what the model sees for a question: what was said before it, the question, and what was said in its
// context since. The latter stands before the model's calls, because templates may refuse a user's text after a result,
// or take it for a new question and drop the reasoning before it.
func messages(before, since *history, asker, question string, alone bool) []chattemplate.Message {
	var out []chattemplate.Message
	add := func(role chattemplate.Role, text string) {
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content += "\n\n" + text
			return
		}
		out = append(out, chattemplate.Message{Role: role, Content: text})
	}
	tell := func(e entry) {
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
	for _, e := range before.copy().entries {
		tell(e)
	}
	add(chattemplate.User, question)
	for _, e := range since.copy().entries {
		tell(e)
	}
	return out
}

// alone reports whether a message names id as a recipient, and so is not for everyone.
func alone(e *envelope.Envelope, id string) bool {
	named, _ := e.For(id)
	return named
}
