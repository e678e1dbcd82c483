package filter

import (
	"unicode"
	"unicode/utf8"

	"runner/backend"
)

// MaxQuote and MinQuote bound the result of [QuoteLimit].
const (
	MaxQuote = 12
	MinQuote = 3
)

// QuoteLimit returns how many consecutive words of the reasoning its summary may contain. words is the length of the
// reasoning. The limit is a third of it, but at least MinQuote and at most MaxQuote, so a short reasoning cannot be
// quoted whole.
func QuoteLimit(words int) int { return min(MaxQuote, max(MinQuote, words/3)) }

// Guard keeps a summary from quoting the reasoning. It is the constraint of the summary pass. It forbids every token
// after which the text would contain more consecutive words of the reasoning than [QuoteLimit] allows. A word at the
// end of the text counts as it is, because the text may end there. So the rule holds for every prefix of a text that
// was accepted token by token. Tokens without text and tokens that end generation are always allowed.
//
// A word is a run of letters, digits and marks; case is ignored. A run of other characters is a word if it stands
// alone between white space. Punctuation next to a word is not part of it. In scripts without spaces between words,
// every letter is a word.
//
// If the longest run that may be quoted is followed by a number in the reasoning, the summary may not continue with
// any other number. Otherwise a summary that must avoid a quotation could state a wrong number.
//
// Runs are compared by 64-bit hashes. So a token may be forbidden without need, about once in 10^14, but is never
// wrongly allowed. A Guard is for one goroutine at a time, except for Allows and Fill.
type Guard struct {
	vocab *backend.Vocab
	// limit is the maximum number of consecutive words. A run of nearWords means that a quotation may be under way. If
	// the text does not end in such a run, a token needs at least farPiece bytes to make a run too long: it would have to
	// add limit+1-(nearWords-1) words.
	limit, nearWords, farPiece int
	// long, full and near hold the hashes of the runs of words in the reasoning: runs of limit+1, of limit and of
	// nearWords words. full also says whether a number follows.
	long, near map[uint64]struct{}
	full       map[uint64]bool
	cutter     wordCutter
	words      wordRing // the text's finished words
	// closeBy means that the words end in nearWords words of the reasoning, or that the text ends inside a rune.
	closeBy bool
	// last is the hash of the last limit finished words, and atLimit means that they are a run of the reasoning.
	last    uint64
	atLimit bool
}

// NewGuard returns a guard over the words of reasoning. Its time and memory are proportional to their number.
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

// Accept adds t's text, even if Allows returns false for t.
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

// clean reports whether the text can continue with more and contain no run that is too long.
func (g *Guard) clean(more string) bool {
	var words wordRing
	c := g.cutter
	added := 0
	short := func(w uint64) bool {
		if added++; added == 1 { // the usual case, which needs no earlier words
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

// wordRing remembers the hashes of the last words.
type wordRing struct {
	words [MaxQuote + 1]uint64 // word i at i%len(words)
	n     int
}

func (r *wordRing) push(w uint64) {
	r.words[r.n%len(r.words)] = w
	r.n++
}

// last returns the hash of the last k words. It returns false if there are fewer. The hash of k+1 words is the hash of
// the first k, mixed with the last word.
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

// wordCutter cuts text that comes in pieces into words. A copy is independent of the original.
type wordCutter struct {
	// word is the hash of the unfinished word, or 0. symbols is the hash of the characters since the last white space if
	// there has been no word since, or 0.
	word, symbols uint64
	// single means that the unfinished word takes no more letters.
	single bool
	// number means that the unfinished word begins with a digit, and wasNumber that the last finished word does.
	number, wasNumber bool
	// attached means that there has been a word since the last white space, so symbols do not stand alone.
	attached bool
	// part holds the bytes of an unfinished rune.
	part  [utf8.UTFMax]byte
	nPart int
}

// feed reads text and calls done with the hash of each finished word. It stops and returns false when done does.
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

// finish ends the text as white space would. It calls done as feed does.
func (c *wordCutter) finish(done func(uint64) bool) bool {
	for ; c.nPart > 0; c.nPart-- {
		if w := c.rune(utf8.RuneError); w != 0 && !done(w) {
			return false
		}
	}
	w := c.end()
	return w == 0 || done(w)
}

// rune reads the next character. It returns the hash of the word that the character finishes, or 0. No character
// finishes two words.
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

// unspaced reports whether a letter's script has no spaces between words: Thai to Burmese, Khmer, Japanese and
// Chinese.
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

// letter reads a character of a word. single means that the character is a whole word.
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

// end finishes the current word, if there is one.
func (c *wordCutter) end() uint64 {
	w := c.word
	if w == 0 {
		w = c.symbols
	}
	c.wasNumber = c.number && c.word != 0
	c.word, c.symbols, c.single, c.number = 0, 0, false, false
	return w
}

// mix adds x to the hash h with the finaliser of splitmix64 (Steele, Lea and Flood 2014). The result is never 0.
func mix(h, x uint64) uint64 {
	h = h*0x9e3779b97f4a7c15 + x + 1
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return (h ^ h>>31) | 1
}
