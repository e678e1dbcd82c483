package runner

import (
	"hash/maphash"
	"sync"

	"runner/backend"
	"runner/chattemplate"
)

// maxCrossings is how many places are remembered for all principals together.
const maxCrossings = 1 << 20

// Crossings remembers where the texts of sequences began that are gone. It is for engines at addresses: such an engine
// keeps prompts for longer than the runner keeps sequences, and compares tokens alone. So the runner must know whether
// a caller's text stands where a hidden text once stood, or the reverse.
//
// A place is all tokens before a text. Only a hash of them is kept. If there are too many places, those of the
// principal with the most are dropped. From then on that principal's prompts count as crossing, whatever they are: what
// was forgotten must not be taken for what never was.
//
// Runners of the same engine may share one, one after the other or at the same time. A nil *Crossings remembers
// nothing.
type Crossings struct {
	seed maphash.Seed
	most int

	mu     sync.Mutex
	of     map[string]*begun
	places int
}

// begun has the places where a principal's texts began. They are nil once they were dropped.
type begun struct{ places map[uint64]origin }

// origin is a set of origins, by their bits.
type origin uint8

// More bits of an origin. An engine stops at the end of a turn, so only a caller's own text can meet what it wrote
// ahead.
const (
	// ahead: the engine may have gone on after a seen text, and nobody read what it wrote.
	ahead origin = 1 << 7
	// strayed: the engine went on here with another token than the sequence did. kept marks the place after that one.
	strayed origin = 1 << 6
	kept    origin = 1 << 5
)

// NewCrossings returns an empty memory.
func NewCrossings() *Crossings {
	return &Crossings{seed: maphash.MakeSeed(), most: maxCrossings, of: map[string]*begun{}}
}

// walk calls visit with each place of a sequence, the index of the token there, and whether its text begins there. It
// ends if visit returns false.
func (c *Crossings) walk(tokens []backend.Token, of origins,
	visit func(place uint64, i int, begins bool) bool) (end uint64) {
	place := uint64(0)
	last := chattemplate.FromTemplate
	for i, t := range tokens {
		at := of.at(i)
		if !visit(place, i, at != last) {
			return place
		}
		last = at
		place = c.after(place, t)
	}
	return place
}

// after returns the place after a token.
func (c *Crossings) after(place uint64, t backend.Token) uint64 {
	return maphash.Comparable(c.seed, [2]uint64{place, uint64(uint32(t))})
}

// remember notes where the texts of a principal's sequence begin that is given up or cut, and what may follow its last
// token, because the engine computes ahead.
func (c *Crossings) remember(principal string, tokens []backend.Token, of origins, next origin) {
	if c == nil || of == nil {
		return
	}
	c.note(principal, func(places map[uint64]origin) {
		end := c.walk(tokens, of, func(place uint64, i int, begins bool) bool {
			if at := of.at(i); begins && at != chattemplate.FromTemplate {
				places[place] |= 1 << at
			}
			return true
		})
		if next != 0 {
			places[end] |= next
		}
	})
}

// stray notes that the engine had gone another way than a principal's sequence after so many of its tokens.
func (c *Crossings) stray(principal string, tokens []backend.Token, of origins, at int) {
	at = min(at, len(tokens))
	c.note(principal, func(places map[uint64]origin) {
		place := c.walk(tokens[:at], of, func(uint64, int, bool) bool { return true })
		if at == len(tokens) {
			places[place] |= ahead
			return
		}
		places[place] |= strayed
		places[c.after(place, tokens[at])] |= kept
	})
}

// note calls add with the places of a principal, unless they were dropped.
func (c *Crossings) note(principal string, add func(places map[uint64]origin)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.of[principal]
	if own == nil {
		own = &begun{map[uint64]origin{}}
		c.of[principal] = own
	}
	if own.places == nil {
		return
	}
	c.places -= len(own.places)
	add(own.places)
	c.places += len(own.places)
	for c.places > c.most {
		c.drop()
	}
}

// drop drops the places of the principal with the most.
func (c *Crossings) drop() {
	var most *begun
	for _, own := range c.of {
		if most == nil || len(own.places) > len(most.places) {
			most = own
		}
	}
	c.places -= len(most.places)
	most.places = nil
}

// cross reports whether a text of a lane's prompt stands where one of the other kind once began.
func (c *Crossings) cross(principal string, l *lane) (met bool) {
	if c == nil || l.origins == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.of[principal]
	if own == nil || own.places == nil {
		return own != nil
	}
	after := chattemplate.Seen // of the newest token that is not the template's
	c.walk(l.tokens, l.origins, func(place uint64, i int, _ bool) bool {
		at := l.origins.at(i)
		if at != chattemplate.FromTemplate {
			after = at
		}
		was := own.places[place]
		switch {
		case at == chattemplate.Seen && was&ahead != 0,
			at == chattemplate.Seen && was&strayed != 0 && own.places[c.after(place, l.tokens[i])]&kept == 0:
			met = true
		case after == chattemplate.Unseen:
			met = at == chattemplate.Unseen && was&(1<<chattemplate.Seen) != 0
		default:
			met = was&(1<<chattemplate.Unseen) != 0
		}
		return !met
	})
	return met
}
