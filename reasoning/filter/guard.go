package filter

import (
	"unicode"
	"unicode/utf8"

	"runner/backend"
)

// MaxQuote and MinQuote bound the most consecutive words of the reasoning that a summary may hold; see
// [QuoteLimit].
const (
	MaxQuote = 12
	MinQuote = 3
)

// QuoteLimit returns the most consecutive words of a reasoning of so many words that its summary may hold: a third
// of them, but at least MinQuote and at most MaxQuote. So a short reasoning cannot be quoted whole.
func QuoteLimit(words int) int { return min(MaxQuote, max(MinQuote, words/3)) }

// Guard keeps a summary from quoting the reasoning: it is the constraint of the summary pass. It lets no token pass
// that would make the text, as it then stands, hold a run of more consecutive words of the reasoning than
// [QuoteLimit] allows. A word at the end of the text counts as it stands, because the text may end there; so the
// rule holds for every text that was accepted token by token, wherever it ends. Tokens without text, and those that
// end generation, are always allowed.
//
// A word is a run of letters, digits and marks, without regard to case, or a stretch of other characters that
// stands alone between white space. Punctuation at a word is not part of it. In scripts that do not put spaces
// between words every letter is a word.
//
// Where the reasoning goes on with a number after the longest run that may be quoted, no other number may take its
// place: a summary that has to say something else must not say something wrong.
//
// Runs are compared by 64-bit hashes, so that a token may be refused without need, about once in 10^14, but never
// accepted wrongly. A Guard must not be used by several goroutines at once, except for Allows and Fill.
type Guard struct {
	vocab *backend.Vocab
	// limit is the most consecutive words. A run of nearWords shows that a quotation may be under way. Unless the
	// text ends in one, a token would have to add limit+1-(nearWords-1) words to make a run too long, for which it
	// needs at least farPiece bytes.
	limit, nearWords, farPiece int
	// long holds the hashes of all runs of limit+1 words of the reasoning, full those of limit words, with whether a
	// number follows, and near those of nearWords words.
	long, near map[uint64]struct{}
	full       map[uint64]bool
	cutter     wordCutter
	words      wordRing // the text's finished words
	// closeBy says that they end in nearWords words of the reasoning, or that the text ends inside a rune.
	closeBy bool
	// last is the hash of the last limit finished words; atLimit says that they are a run of the reasoning.
	last    uint64
	atLimit bool
}

// NewGuard returns a guard over the words of reasoning. It takes time and memory in proportion to them.
func NewGuard(v *backend.Vocab, reasoning string) *Guard {
	var all []uint64
	var isNumber []bool
	var c wordCutter
	collect := func(w uint64) bool {
		all, isNumber = append(all, w), append(isNumber, c.wasNumber)
		return true
	}
	c.feed(reasoning, collect)
	c.finish(collect)
	limit := QuoteLimit(len(all))
	g := &Guard{
		vocab: v, limit: limit, nearWords: (limit + 1) / 2,
		long: map[uint64]struct{}{}, full: map[uint64]bool{}, near: map[uint64]struct{}{},
	}
	g.farPiece = 2*(limit+1-g.nearWords) - 1
	var words wordRing
	for i, w := range all {
		words.push(w)
		if h, ok := words.last(limit + 1); ok {
			g.long[h] = struct{}{}
		}
		if h, ok := words.last(limit); ok {
			g.full[h] = g.full[h] || i+1 < len(all) && isNumber[i+1]
		}
		if h, ok := words.last(g.nearWords); ok {
			g.near[h] = struct{}{}
		}
	}
	return g
}

// Allows reports whether t may come next.
func (g *Guard) Allows(t backend.Token) bool {
	piece := g.vocab.Piece(t)
	if !g.closeBy && len(piece) < g.farPiece || piece == "" || g.silent(t) {
		return true
	}
	return g.clean(piece)
}

// Fill sets the bits of the tokens that may come next.
func (g *Guard) Fill(m backend.Mask) {
	m.Clear()
	for t := range backend.Token(g.vocab.Len()) {
		if g.Allows(t) {
			m.Set(t)
		}
	}
}

// Accept adds t's text. It need not be allowed.
func (g *Guard) Accept(t backend.Token) {
	if g.silent(t) {
		return
	}
	g.cutter.feed(g.vocab.Piece(t), func(w uint64) bool { g.words.push(w); return true })
	h, ok := g.words.last(g.nearWords)
	if ok {
		_, ok = g.near[h]
	}
	g.closeBy = ok || g.cutter.nPart > 0
	if g.last, g.atLimit = g.words.last(g.limit); g.atLimit {
		_, g.atLimit = g.full[g.last]
	}
}

// silent reports whether t has no text of its own.
func (g *Guard) silent(t backend.Token) bool {
	return g.vocab.Kind(t) == backend.Control || g.vocab.EndsGeneration(t)
}

// clean reports whether the text can go on with more without a run of the reasoning that is too long.
func (g *Guard) clean(more string) bool {
	var words wordRing
	c := g.cutter
	added := 0
	short := func(w uint64) bool {
		if added++; added == 1 { // the usual case, without the words before
			words.words[0] = w
			if !g.atLimit {
				return true
			}
			_, quoted := g.long[mix(g.last, w)]
			return !quoted && !(c.wasNumber && g.full[g.last])
		}
		if added == 2 {
			first := words.words[0]
			words = g.words
			words.push(first)
		}
		if c.wasNumber {
			if h, ok := words.last(g.limit); ok && g.full[h] {
				return false
			}
		}
		words.push(w)
		h, ok := words.last(g.limit + 1)
		if ok {
			_, ok = g.long[h]
		}
		return !ok
	}
	return c.feed(more, short) && c.finish(short)
}

// Quotes reports whether text is no summary of reasoning that a Guard would let pass.
func Quotes(reasoning, text string) bool { return !NewGuard(nil, reasoning).clean(text) }

// wordRing remembers the hashes of the last words.
type wordRing struct {
	words [MaxQuote + 1]uint64 // word i at i%len(words)
	n     int
}

func (r *wordRing) push(w uint64) {
	r.words[r.n%len(r.words)] = w
	r.n++
}

// last returns the hash of the last k words, if there are so many. That of k+1 is that of the first k mixed with
// the last.
func (r *wordRing) last(k int) (uint64, bool) {
	if r.n < k {
		return 0, false
	}
	h := uint64(0)
	for i := r.n - k; i < r.n; i++ {
		h = mix(h, r.words[i%len(r.words)])
	}
	return h, true
}

// wordCutter cuts text that comes in pieces into words. It is a value: a copy goes its own way.
type wordCutter struct {
	// word is the hash of the unfinished word, and symbols of the characters since the last white space if there has been
	// no word since; 0 when there is none.
	word, symbols uint64
	// single says that the unfinished word takes no more letters.
	single bool
	// number says that the unfinished word begins with a digit, and wasNumber that the last finished one does.
	number, wasNumber bool
	// attached says that there has been a word since the last white space, so that symbols do not stand alone.
	attached bool
	// part holds the bytes of an unfinished rune.
	part  [utf8.UTFMax]byte
	nPart int
}

// feed reads text and gives the hash of each finished word to done, until that returns false; then feed does too.
func (c *wordCutter) feed(text string, done func(uint64) bool) bool {
	for c.nPart > 0 && text != "" {
		c.part[c.nPart] = text[0]
		c.nPart++
		text = text[1:]
		for c.nPart > 0 && utf8.FullRune(c.part[:c.nPart]) {
			r, n := utf8.DecodeRune(c.part[:c.nPart])
			c.nPart = copy(c.part[:], c.part[n:c.nPart])
			if w := c.rune(r); w != 0 && !done(w) {
				return false
			}
		}
	}
	for len(text) > 0 {
		r, n := rune(text[0]), 1
		if r >= utf8.RuneSelf {
			if !utf8.FullRuneInString(text) {
				c.nPart = copy(c.part[:], text)
				return true
			}
			r, n = utf8.DecodeRuneInString(text)
		}
		text = text[n:]
		if w := c.rune(r); w != 0 && !done(w) {
			return false
		}
	}
	return true
}

// finish takes the end of the text like white space, and calls done as feed does.
func (c *wordCutter) finish(done func(uint64) bool) bool {
	for ; c.nPart > 0; c.nPart-- {
		if w := c.rune(utf8.RuneError); w != 0 && !done(w) {
			return false
		}
	}
	w := c.end()
	return w == 0 || done(w)
}

// rune takes the next character and returns the hash of the word that it finished, or 0. No character finishes two.
func (c *wordCutter) rune(r rune) uint64 {
	if r < utf8.RuneSelf {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return c.letter(r, false)
		case r >= 'A' && r <= 'Z':
			return c.letter(r+'a'-'A', false)
		}
	} else if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) {
		return c.letter(unicode.ToLower(r), unspaced(r))
	}
	if unicode.IsSpace(r) {
		c.attached = false
		return c.end()
	}
	finished := uint64(0)
	if c.word != 0 {
		finished = c.end()
	}
	if !c.attached {
		c.symbols = mix(c.symbols, uint64(r))
	}
	return finished
}

// unspaced reports whether a letter is of a script that puts no spaces between words: Thai to Burmese, Khmer,
// Japanese, Chinese.
func unspaced(r rune) bool {
	switch {
	case r < 0x0E00:
		return false
	case r <= 0x109F, r >= 0x1780 && r <= 0x17FF, r >= 0x3005 && r <= 0x30FF, r >= 0x31F0 && r <= 0x31FF,
		r >= 0x3400 && r <= 0x9FFF, r >= 0xF900 && r <= 0xFAFF, r >= 0x20000 && r <= 0x3FFFF:
		return true
	}
	return false
}

// letter takes a character of a word; single says that it is a word by itself.
func (c *wordCutter) letter(r rune, single bool) uint64 {
	finished := uint64(0)
	if c.word != 0 && (single || c.single) {
		finished = c.end()
	}
	if c.word == 0 {
		c.number = unicode.IsNumber(r)
	}
	c.symbols, c.attached, c.single = 0, true, single
	c.word = mix(c.word, uint64(r))
	return finished
}

// end finishes the word that is under way, if there is one.
func (c *wordCutter) end() uint64 {
	w := c.word
	if w == 0 {
		w = c.symbols
	}
	c.wasNumber = c.number && c.word != 0
	c.word, c.symbols, c.single, c.number = 0, 0, false, false
	return w
}

// mix adds x to the hash h, with the finaliser of splitmix64 (Steele, Lea and Flood 2014). It is never 0.
func mix(h, x uint64) uint64 {
	h = h*0x9e3779b97f4a7c15 + x + 1
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return (h ^ h>>31) | 1
}
