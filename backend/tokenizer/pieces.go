package tokenizer

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"runner/backend"
)

// pieces is what a vocabulary of SentencePiece has besides its merges. Every two tokens whose texts make the text of a
// third can be merged, and the third token's score is the rank of the merge. A text is one word.
type pieces struct {
	// chars has the symbols of the characters that occur in tokens. A symbol is a token, or for a character that is none
	// the number of tokens and its place in unknown.
	chars   map[string]backend.Token
	unknown []string
	// prefix reports that a space is put before a text.
	prefix bool
}

const (
	// spaceMark is how tokens write a space.
	spaceMark = "\u2581"
	// longestPiece is the length in bytes of the longest token that merges make. It bounds the time to find the merges
	// of a hostile file.
	longestPiece = 512
)

// newPieces builds a tokenizer of a vocabulary whose tokens have the texts and scores of a GGUF file.
func newPieces(v *backend.Vocab, texts []string, scores []float64, prefix bool) *Tokenizer {
	t := &Tokenizer{vocab: v, ids: make(map[string]backend.Token, v.Len()), defined: newDefined(v, false),
		pieces: &pieces{chars: map[string]backend.Token{}, prefix: prefix}}
	t.scratch.New = func() any { return &scratch{} }
	for i := range t.bytes {
		t.bytes[i] = backend.NoToken
	}
	for i, text := range texts {
		id := backend.Token(i)
		switch kind := v.Kind(id); {
		case kind == backend.Byte && len(v.Piece(id)) == 1:
			t.bytes[v.Piece(id)[0]] = id
		case kind == backend.Normal || kind == backend.UserDefined:
			t.ids[text] = id
		}
	}
	for b, id := range t.bytes {
		if same, ok := t.ids[string([]byte{byte(b)})]; ok && id == backend.NoToken {
			t.bytes[b] = same
		}
	}
	t.merges = newPairs(2 * v.Len())
	rank := ranksOf(scores)
	for text, id := range t.ids {
		t.pieces.split(t, text, rank[id], id)
	}
	return t
}

// ranksOf returns the place of each token's score among all scores, the highest first.
func ranksOf(scores []float64) []int32 {
	sorted := slices.Clone(scores)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	sorted = slices.Compact(sorted)
	ranks := make([]int32, len(scores))
	for i, s := range scores {
		n, _ := slices.BinarySearchFunc(sorted, s, func(a, b float64) int { return cmp.Compare(b, a) })
		ranks[i] = int32(n)
	}
	return ranks
}

// split adds the merges that make a token.
func (p *pieces) split(t *Tokenizer, text string, rank int32, id backend.Token) {
	if len(text) > longestPiece {
		return
	}
	symbol := func(part string, chars int) (backend.Token, bool) {
		if chars == 1 {
			return p.symbol(t, part), true
		}
		id, ok := t.ids[part]
		return id, ok
	}
	all := utf8.RuneCountInString(text)
	for i, chars := 0, 0; i < len(text); chars++ {
		if chars > 0 {
			left, okLeft := symbol(text[:i], chars)
			right, okRight := symbol(text[i:], all-chars)
			if okLeft && okRight {
				t.merges.add(left, right, rank, id)
			}
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		i += n
	}
	if all == 1 {
		p.symbol(t, text)
	}
}

// symbol returns the symbol of a character that occurs in a token.
func (p *pieces) symbol(t *Tokenizer, char string) backend.Token {
	id, ok := p.chars[char]
	if !ok {
		if id, ok = t.ids[char]; !ok {
			id = backend.Token(t.vocab.Len() + len(p.unknown))
			p.unknown = append(p.unknown, char)
		}
		p.chars[char] = id
	}
	return id
}

// encode appends the tokens of a text without user-defined tokens. first reports that no text is before it.
func (p *pieces) encode(dst []backend.Token, text string, first bool, t *Tokenizer, s *scratch) ([]backend.Token,
	error) {
	start := len(dst)
	var err error
	if first && p.prefix {
		if dst, err = p.char(dst, spaceMark, t); err != nil {
			return dst, err
		}
	}
	for i := 0; i < len(text); {
		_, n := utf8.DecodeRuneInString(text[i:])
		char := text[i : i+n]
		if char == " " {
			char = spaceMark
		}
		if dst, err = p.char(dst, char, t); err != nil {
			return dst, err
		}
		i += n
	}
	dst = dst[:start+t.merges.apply(dst[start:], s)]
	if len(p.unknown) == 0 {
		return dst, nil
	}
	merged := slices.Clone(dst[start:])
	dst = dst[:start]
	for _, id := range merged {
		if i := int(id) - t.vocab.Len(); i < 0 {
			dst = append(dst, id)
		} else if dst, err = p.spell(dst, p.unknown[i], t); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// char appends the symbol of a character. One that occurs in no token is spelled at once, because it merges with
// nothing.
func (p *pieces) char(dst []backend.Token, char string, t *Tokenizer) ([]backend.Token, error) {
	if id, ok := p.chars[char]; ok {
		return append(dst, id), nil
	}
	return p.spell(dst, char, t)
}

// spell appends the tokens of a character's bytes.
func (p *pieces) spell(dst []backend.Token, char string, t *Tokenizer) ([]backend.Token, error) {
	for i := range len(char) {
		id := t.bytes[char[i]]
		if id == backend.NoToken {
			return dst, vocabularyError("no token is the byte 0x%02x", char[i])
		}
		dst = append(dst, id)
	}
	return dst, nil
}
