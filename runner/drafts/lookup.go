package drafts

import "runner/backend"

const (
	// least is the shortest end of a text that is looked up, and longest the longest that is told from longer ones.
	least, longest = 3, 16
	// tries is how many earlier places are compared.
	tries = 8
	// none is no place in the text.
	none = -1
)

// Lookup guesses the tokens that follow a growing text. It is made for one text, and reads it with Read.
type Lookup struct {
	// heads has the newest place after each hash of least tokens, and chain has for each place the one before it with
	// the same hash. The newest token of the text has no place yet, because nothing follows it.
	heads, chain []int32
	// read is how many tokens were read.
	read int
	// at is the place of the guess for the next token, or none. matched is how many tokens before it are those at the
	// end of the text. It is less than least where a single token of a repeated text was replaced by another.
	at, matched int
	odds        odds
}

// NewLookup returns a lookup for a text of about so many tokens.
func NewLookup(size int) *Lookup {
	n := 256
	for n < size {
		n *= 2
	}
	l := &Lookup{heads: make([]int32, n), chain: make([]int32, least, max(size, least)), at: none, odds: newOdds()}
	for i := range l.heads {
		l.heads[i] = none
	}
	return l
}

// Read takes the tokens of a text that are new, but at most most of them. It reports whether it has read all.
func (l *Lookup) Read(text []backend.Token, most int) bool {
	for end := min(len(text), l.read+most); l.read < end; {
		l.add(text[:l.read+1])
	}
	return l.read == len(text)
}

// add takes the last token of text.
func (l *Lookup) add(text []backend.Token) {
	last := len(text) - 1
	if last >= least { // what came before the token now has a place
		h := hash(text[last-least:last]) & uint32(len(l.heads)-1)
		l.chain = append(l.chain, l.heads[h])
		l.heads[h] = int32(last)
	}
	l.read++
	if l.at != none {
		right := text[l.at] == text[last]
		l.odds.note(l.matched, right)
		if l.at++; right {
			l.matched++
		} else {
			l.matched = 0
		}
		if l.matched >= least {
			return
		}
	}
	at, matched := l.find(text)
	if matched > 0 && (l.at == none || l.odds.of(matched) >= l.odds.of(l.matched)) {
		l.at, l.matched = at, matched
	}
}

// find returns the place after the longest end of text that came before, and its length, 0 if there is none. Among
// equals it takes the newest.
func (l *Lookup) find(text []backend.Token) (at, matched int) {
	if len(text) < least {
		return none, 0
	}
	place := l.heads[hash(text[len(text)-least:])&uint32(len(l.heads)-1)]
	for range tries {
		if place == none {
			break
		}
		n := 0
		for last, end := int(place)-1, len(text)-1; n < longest && last-n >= 0 && text[last-n] == text[end-n]; {
			n++
		}
		if n >= least && n > matched {
			at, matched = int(place), n
		}
		place = l.chain[place]
	}
	return at, matched
}

func hash(t []backend.Token) uint32 {
	h := uint64(0)
	for _, x := range t {
		h = (h + uint64(uint32(x)) + 1) * 0x9e3779b97f4a7c15
	}
	return uint32(h >> 32)
}

// Guess returns the i-th token from the end of the text on, from 0, and false if there is no guess. text must have been
// read. A guess beyond the end of the text repeats the guesses before it.
func (l *Lookup) Guess(text []backend.Token, i int) (backend.Token, bool) {
	if l.at == none {
		return backend.NoToken, false
	}
	return text[l.at+i%(len(text)-l.at)], true
}

// Odds returns how likely the i-th guess is right if those before it are.
func (l *Lookup) Odds(i int) float64 {
	if l.at == none {
		return 0
	}
	return l.odds.of(l.matched + i)
}

// odds are how often guesses were right, by how many tokens before them were those of the earlier place.
type odds struct {
	right, all [classes]float64
}

const (
	classes = 5
	// memory is the share of what is known that counts after one more guess.
	memory = 0.98
)

// classOf returns the class of a match: fewer than least tokens, up to 4, up to 8, up to 15, and more.
func classOf(matched int) int {
	switch {
	case matched < least:
		return 0
	case matched < 5:
		return 1
	case matched < 9:
		return 2
	case matched < longest:
		return 3
	}
	return 4
}

// newOdds begins with what is usual, as if it were known from two guesses. So the first guesses of a text count much.
func newOdds() (o odds) {
	for i, p := range [classes]float64{0.4, 0.3, 0.5, 0.75, 0.9} {
		o.right[i], o.all[i] = 2*p, 2
	}
	return o
}

func (o *odds) note(matched int, right bool) {
	c := classOf(matched)
	o.right[c], o.all[c] = o.right[c]*memory, o.all[c]*memory+1
	if right {
		o.right[c]++
	}
}

func (o *odds) of(matched int) float64 {
	c := classOf(matched)
	return o.right[c] / o.all[c]
}
