package tokenizer

import (
	"fmt"
	"slices"

	"runner/backend"
)

// RanksConfig is the input of FromRanks.
type RanksConfig struct {
	// Ranks maps every token's bytes to its rank, which is also its id.
	Ranks map[string]int
	// Pattern is "r50k", "cl100k" or "o200k" (tiktoken's names without "_base"), or a regular expression used by
	// one of these or by a known tokenizer.json.
	Pattern string
	// Special holds the control tokens.
	Special map[string]backend.Token
	// Size is the number of tokens, padding included; 0 means one more than the largest id.
	Size int
	// BOS, EOS and EOG are as in backend.VocabConfig. Set them explicitly: 0 is a valid token.
	BOS, EOS backend.Token
	EOG      []backend.Token
}

// FromRanks builds a tokenizer that agrees with tiktoken. It derives the merges from the ranks, which takes a
// fraction of a second for a large vocabulary.
func FromRanks(c RanksConfig) (*Tokenizer, error) {
	p, ok := map[string]pattern{"r50k": gpt2, "cl100k": cl100k, "o200k": o200k}[c.Pattern]
	if !ok {
		if p, ok = regexps[c.Pattern]; !ok {
			return nil, patternError(c.Pattern)
		}
	}
	size := c.Size
	for _, id := range c.Ranks {
		size = max(size, id+1)
	}
	for _, id := range c.Special {
		size = max(size, int(id)+1)
	}
	if most := len(c.Ranks) + len(c.Special) + maxPadding; size > most || c.Size > 0 && size > c.Size {
		return nil, vocabularyError("the largest id is %d, but there can be only %d tokens", size-1, most)
	}
	v := backend.VocabConfig{
		Pieces: make([]string, size), Kinds: make([]backend.TokenKind, size), BOS: c.BOS, EOS: c.EOS, EOG: c.EOG,
	}
	for i := range v.Kinds {
		v.Kinds[i] = backend.Unused
	}
	place := func(piece string, id int, kind backend.TokenKind) error {
		if id < 0 || piece == "" || v.Kinds[id] != backend.Unused {
			return vocabularyError("id %d is out of range, empty or given twice", id)
		}
		v.Pieces[id], v.Kinds[id] = piece, kind
		return nil
	}
	byRank := make([]string, 0, len(c.Ranks))
	for piece, id := range c.Ranks {
		if err := place(piece, id, backend.Normal); err != nil {
			return nil, err
		}
		byRank = append(byRank, piece)
	}
	for piece, id := range c.Special {
		if err := place(piece, int(id), backend.Control); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(byRank, func(a, b string) int { return c.Ranks[a] - c.Ranks[b] })
	vocab, err := newVocab(v)
	if err != nil {
		return nil, err
	}
	t, err := build(parts{vocab: vocab, pattern: p, whole: true, eachMerge: func(func(l, r string) error) error {
		return nil
	}})
	if err != nil {
		return nil, err
	}
	t.deriveMerges(byRank)
	return t, nil
}

// maxPadding is the maximum number of unused ids in a vocabulary.
const maxPadding = 1 << 16

// deriveMerges enters, for every token in order of rank, the merge that makes it. That merge joins the two tokens
// to which the merges of lower rank reduce its bytes. If they leave more than two tokens, the token only occurs
// where it is a whole word.
func (t *Tokenizer) deriveMerges(byRank []string) {
	var ids []backend.Token
	var s scratch
	for _, piece := range byRank {
		if len(piece) < 2 {
			continue
		}
		ids = ids[:0]
		for i := range len(piece) {
			ids = append(ids, t.bytes[piece[i]])
		}
		if n := t.merges.apply(ids, &s); n == 2 {
			id := t.ids[piece]
			t.merges.add(ids[0], ids[1], int32(id), id)
		}
	}
}

// Merges calls yield for every merge, in no particular order, with its rank and the bytes of the two tokens that it
// joins.
func (t *Tokenizer) Merges(yield func(rank int, left, right string) bool) {
	for _, e := range t.merges.table {
		if e.key != noPair && !yield(int(e.rank), t.vocab.Piece(backend.Token(e.key>>32)),
			t.vocab.Piece(backend.Token(uint32(e.key)))) {
			return
		}
	}
}

func vocabularyError(format string, args ...any) error {
	return &Error{ErrVocabulary, fmt.Sprintf(format, args...)}
}

func patternError(name string) error {
	const most = 300
	if len(name) > most {
		name = name[:most] + "..."
	}
	return &Error{ErrPattern, fmt.Sprintf("%q", name)}
}
