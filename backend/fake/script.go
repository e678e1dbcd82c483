package fake

import (
	"strings"

	"runner/backend"
)

// Reply is one entry of a script made by Replies. In its texts, control tokens appear by their printed names.
type Reply struct {
	// Prompt must occur before After in the sequence's text. An empty Prompt always matches.
	Prompt string
	// After is the marker that the reply follows, for instance "<|start|>assistant". An empty After is the start of
	// the sequence.
	After string
	// Say is the text of the reply. The vocabulary's EOS follows it.
	Say string
}

// Replies returns a script that answers from a list. A reply matches if the text after one of its markers is a
// prefix of its Say, however that is split into tokens. Of the matching replies, the one furthest along continues.
// At the start of a reply, the marker that ends last wins, then the order of the list. EOS follows if none matches.
// Feeding other text cuts a reply short, and another reply may then match.
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

// first returns the first token of text. It encodes only a part that is longer than any token.
func first(v *backend.Vocab, t *trie, text string) backend.Token {
	const longest = 64
	return encode(v, t, text[:min(len(text), longest)])[0]
}
