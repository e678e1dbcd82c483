package chattemplate

import (
	"slices"
	"strings"

	"runner/backend"
)

// Origin says who knows the text of a token.
type Origin uint8

// The origins.
const (
	// FromTemplate: the template or the format wrote it. It marks structure and says nothing of its own.
	FromTemplate Origin = iota
	// Seen: the caller sent it or has seen it. This includes what the program adds to every prompt of a kind.
	Seen
	// Unseen: the program put it there, and the caller has not seen it. A token that also has text of the caller counts
	// as unseen.
	Unseen
)

// UnseenParts says which parts of a message the caller has not seen.
type UnseenParts uint8

// The parts of a message.
const (
	// UnseenReasoning is the field Reasoning.
	UnseenReasoning UnseenParts = 1 << iota
	// UnseenCalls is the arguments of ToolCalls.
	UnseenCalls
	// UnseenText is Preamble and Content.
	UnseenText
)

// AnyUnseen reports whether the caller has not seen a part of one of the messages.
func AnyUnseen(msgs []Message, part UnseenParts) bool {
	return slices.ContainsFunc(msgs, func(m Message) bool { return m.Unseen&part != 0 })
}

// originRun is a stretch of text of one origin, up to a byte offset.
type originRun struct {
	end int
	of  Origin
}

// originsOf appends the origin of each token of a text to dst. Tokens are matched with the text by their pieces. From
// the first token on that does not match, for instance because the tokenizer normalizes the text, all tokens get the
// strictest origin of the rest.
func originsOf(dst []Origin, vocab *backend.Vocab, tokens []backend.Token, text string, runs []originRun) []Origin {
	at, run, lost := 0, 0, false
	for i, t := range tokens {
		n := len(vocab.Piece(t))
		switch {
		case lost:
		case n > 0 && strings.HasPrefix(text[at:], vocab.Piece(t)):
		case i == 0 && n > 1 && vocab.Piece(t)[0] == ' ' && strings.HasPrefix(text, vocab.Piece(t)[1:]):
			n-- // the tokenizer puts a space in front of a text
		default:
			lost = true
		}
		end := at + n
		if lost {
			end = len(text)
		}
		of := FromTemplate
		for k := run; k < len(runs); k++ {
			if of = max(of, runs[k].of); runs[k].end >= end {
				break
			}
		}
		if !lost {
			for at = end; run < len(runs)-1 && runs[run].end <= at; {
				run++
			}
		}
		dst = append(dst, of)
	}
	return dst
}
