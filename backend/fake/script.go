package fake

import (
	"strings"

	"runner/backend"
)

// Reply is one answer of a script made by Replies. Texts write control tokens by their printed names.
type Reply struct {
	// Prompt must occur before After in the sequence's text; empty always does.
	Prompt string
	// After is the marker after which the reply starts, for instance "<|start|>assistant"; empty is the start of the
	// sequence.
	After string
	// Say is the reply, control tokens by name. When it is spent the vocabulary's EOS follows.
	Say string
}

// Replies returns a script that answers from a list. A reply fits where everything after one of its markers is the
// beginning of what it says, however it is cut into tokens. Of those that fit, the one that has said the most goes
// on; at the start of a reply that is the one whose marker ends last, then the first in the list. When none fits
// EOS follows. So a reply may be cut short by feeding something else, after which another reply may take over.
func Replies(v *backend.Vocab, replies ...Reply) Script {
	t := newTrie(v)
	return func(tokens []backend.Token) backend.Token {
		text := Decode(v, tokens)
		next, most, last := v.EOS(), -1, -1
		for at, p := 0, 0; at <= len(tokens); at++ {
			for _, r := range replies {
				done := text[p:]
				if !strings.HasSuffix(text[:p], r.After) || r.After == "" && at > 0 ||
					!strings.Contains(text[:p-len(r.After)], r.Prompt) ||
					!strings.HasPrefix(r.Say, done) || len(done) < most || len(done) == most && at <= last {
					continue
				}
				next, most, last = v.EOS(), len(done), at
				if len(done) < len(r.Say) {
					next = first(v, t, r.Say[len(done):])
				}
			}
			if at < len(tokens) {
				p += len(v.Piece(tokens[at]))
			}
		}
		return next
	}
}

// first returns the first token of text. No token is longer than the part that is encoded for that.
func first(v *backend.Vocab, t *trie, text string) backend.Token {
	const longest = 64
	return encode(v, t, text[:min(len(text), longest)])[0]
}
