package runner

import (
	"hash/maphash"

	"runner/backend"
	"runner/chattemplate"
)

// maxCrossings is how many places are kept. Then all are forgotten, as an engine forgets prompts.
const maxCrossings = 1 << 16

// crossings remembers where the texts of sequences began that are gone. It is for engines at addresses: such an engine
// keeps prompts for longer than the runner keeps sequences, and compares tokens alone. So the runner must know whether
// a caller's text stands where a hidden text once stood, or the reverse.
//
// A place is all tokens before a text. Only a hash of them is kept. The zero value remembers nothing.
type crossings struct {
	seed  maphash.Seed
	began map[uint64]origin
}

// origin is a set of origins, by their bits.
type origin uint8

// newCrossings returns an empty memory.
func newCrossings() crossings { return crossings{maphash.MakeSeed(), map[uint64]origin{}} }

// walk calls visit with each place of a principal's sequence, the origin of the token there, and whether its text
// begins there. It ends if visit returns false.
func (c *crossings) walk(principal string, tokens []backend.Token, of origins,
	visit func(place uint64, at chattemplate.Origin, begins bool) bool) (end uint64) {
	place := maphash.String(c.seed, principal)
	last := chattemplate.FromTemplate
	for i, t := range tokens {
		at := of.at(i)
		if !visit(place, at, at != last) {
			return place
		}
		last = at
		place = maphash.Comparable(c.seed, [2]uint64{place, uint64(uint32(t))})
	}
	return place
}

// remember notes where the texts of a sequence begin that is given up or cut. goesOn says that unseen text may follow
// its last token, because the engine computes ahead.
func (c *crossings) remember(principal string, tokens []backend.Token, of origins, goesOn bool) {
	if c.began == nil || of == nil {
		return
	}
	if len(c.began) > maxCrossings {
		clear(c.began)
	}
	end := c.walk(principal, tokens, of, func(place uint64, at chattemplate.Origin, begins bool) bool {
		if begins && at != chattemplate.FromTemplate {
			c.began[place] |= 1 << at
		}
		return true
	})
	if goesOn {
		c.began[end] |= 1 << chattemplate.Unseen
	}
}

// cross reports whether a text of a lane's prompt stands where one of the other kind once began.
func (c *crossings) cross(l *lane) (met bool) {
	if len(c.began) == 0 || l.origins == nil {
		return false
	}
	after := chattemplate.Seen // of the newest token that is not the template's
	c.walk(l.principal, l.tokens, l.origins, func(place uint64, at chattemplate.Origin, _ bool) bool {
		if at != chattemplate.FromTemplate {
			after = at
		}
		was := c.began[place]
		if after == chattemplate.Unseen {
			met = at == chattemplate.Unseen && was&(1<<chattemplate.Seen) != 0
		} else {
			met = was&(1<<chattemplate.Unseen) != 0
		}
		return !met
	})
	return met
}
