package reader

import (
	"runner/backend"
	"runner/reasoning"
)

// ledger keeps the log probabilities of tokens together with their bytes while the text is held back or cut up.
// Bytes enter in the order of the stream and leave in the same order, either as answer text or not. It is empty
// unless log probabilities were asked for.
type ledger struct {
	On      bool
	entries []ledgerEntry
	// out collects the tokens that are complete since the last take.
	out []reasoning.TokenLogprobs
}

type ledgerEntry struct {
	left int
	// foreign says that part of the token was not the answer's, so that its text must not be told.
	foreign bool
	known   bool
	lp      reasoning.TokenLogprobs
}

// Add enters a token's bytes. out is nil for a token that was not sampled.
func (l *ledger) Add(v *backend.Vocab, t backend.Token, out *backend.Output) {
	if l.On {
		l.enter(v, t, out)
	}
}

func (l *ledger) enter(v *backend.Vocab, t backend.Token, out *backend.Output) {
	piece := v.Piece(t)
	if piece == "" {
		return
	}
	e := ledgerEntry{left: len(piece)}
	if out != nil {
		e.known = true
		e.lp = reasoning.TokenLogprobs{TokenLogprob: backend.TokenLogprob{Token: t, Logprob: out.Logprob}, Text: piece}
		if len(out.Top) > 0 {
			e.lp.Top = make([]reasoning.Alternative, len(out.Top))
			for i, a := range out.Top {
				e.lp.Top[i] = reasoning.Alternative{TokenLogprob: a, Text: v.Piece(a.Token)}
			}
		}
	}
	l.entries = append(l.entries, e)
}

// Use is what becomes of bytes that leave the ledger.
type Use uint8

const (
	useAnswer  Use = iota // part of an answer delta
	UseTrimmed            // white space beside the answer
	UseForeign            // markers, headers and the text of other segments
)

// leave takes the next n bytes out.
func (l *ledger) leave(n int, u Use) {
	for l.On && n > 0 && len(l.entries) > 0 {
		e := &l.entries[0]
		k := min(n, e.left)
		n -= k
		e.left -= k
		e.foreign = e.foreign || u == UseForeign
		if e.left > 0 {
			return
		}
		if e.known && !e.foreign && u == useAnswer {
			l.out = append(l.out, e.lp)
		}
		l.entries = l.entries[1:]
	}
}

// take returns the tokens completed since the last call.
func (l *ledger) take() []reasoning.TokenLogprobs {
	out := l.out
	l.out = nil
	return out
}
