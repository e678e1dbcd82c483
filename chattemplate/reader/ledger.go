package reader

import (
	"runner/backend"
	"runner/reasoning"
)

// ledger keeps the log probabilities of tokens while their text is held back or cut up. Bytes leave it in the order in
// which they entered, as text of the answer or as something else.
type ledger struct {
	// On says that log probabilities were asked for. Otherwise the ledger stays empty.
	On      bool
	entries []ledgerEntry
	// out has the tokens that were completed since the last take.
	out []reasoning.TokenLogprobs
}

type ledgerEntry struct {
	left int // bytes of the token that have not left yet
	// foreign says that part of the token is not text of the answer, so that the token must not be shown.
	foreign bool
	known   bool // the token was sampled
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

// Use says what the bytes that leave the ledger were used for.
type Use uint8

const (
	useAnswer Use = iota // text of the answer
	// UseTrimmed is white space next to the answer.
	UseTrimmed
	// UseForeign is for marks, headers and text of other segments.
	UseForeign
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

// take returns the tokens that were completed since the last call.
func (l *ledger) take() []reasoning.TokenLogprobs {
	out := l.out
	l.out = nil
	return out
}
