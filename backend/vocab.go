package backend

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// TokenKind is the kind of a vocabulary entry.
type TokenKind uint8

// The kinds of token, as in GGUF's tokenizer.ggml.token_type.
const (
	// Normal tokens are text.
	Normal TokenKind = iota
	// Control tokens steer the model and are not text. Only a template may produce them.
	Control
	// UserDefined tokens are text that is matched whole, before the ordinary merges.
	UserDefined
	// Byte tokens stand for one byte that no other token covers.
	Byte
	// Unused tokens pad the vocabulary and are never valid.
	Unused
)

// Vocab is a model's vocabulary by id. It is immutable.
type Vocab struct {
	text     string   // all pieces, one after the other
	ends     []uint32 // end of piece i in text
	kinds    []TokenKind
	specials map[string]Token
	eog      Mask
	bos, eos Token
	addBOS   bool
	longest  int // length of the longest piece
}

// VocabConfig is the input of NewVocab.
type VocabConfig struct {
	// Pieces holds each token's exact bytes. For a control token that is its printed name, for instance "<|end|>".
	Pieces []string
	// Kinds holds each token's kind; nil means all Normal.
	Kinds []TokenKind
	// BOS and EOS are NoToken where the model has none. Set them explicitly: 0 is a valid token.
	BOS, EOS Token
	// EOG lists the tokens that end generation, EOS included.
	EOG []Token
	// AddBOS says that prompts start with BOS.
	AddBOS bool
}

// NewVocab checks and indexes a vocabulary.
func NewVocab(c VocabConfig) (*Vocab, error) {
	n := len(c.Pieces)
	if n == 0 {
		return nil, errors.New("vocabulary has no tokens")
	}
	if c.Kinds != nil && len(c.Kinds) != n {
		return nil, fmt.Errorf("vocabulary has %d tokens but %d kinds", n, len(c.Kinds))
	}
	size := 0
	for _, p := range c.Pieces {
		size += len(p)
	}
	if size > math.MaxUint32 || n > math.MaxInt32 {
		return nil, fmt.Errorf("vocabulary of %d tokens and %d bytes is too large", n, size)
	}
	v := &Vocab{
		ends: make([]uint32, n), kinds: make([]TokenKind, n), specials: map[string]Token{},
		eog: NewMask(n), bos: c.BOS, eos: c.EOS, addBOS: c.AddBOS,
	}
	copy(v.kinds, c.Kinds)
	var b strings.Builder
	b.Grow(size)
	for i, p := range c.Pieces {
		b.WriteString(p)
		v.ends[i] = uint32(b.Len())
		v.longest = max(v.longest, len(p))
	}
	v.text = b.String()
	for i := range n {
		if k := v.kinds[i]; k == Control || k == UserDefined {
			if p := v.Piece(Token(i)); p != "" {
				if _, dup := v.specials[p]; !dup {
					v.specials[p] = Token(i)
				}
			}
		}
	}
	for _, t := range append([]Token{c.BOS, c.EOS}, c.EOG...) {
		if t < NoToken || int(t) >= n {
			return nil, fmt.Errorf("vocabulary of %d tokens names token %d as special", n, t)
		}
	}
	for _, t := range append([]Token{c.EOS}, c.EOG...) {
		if t != NoToken {
			v.eog.Set(t)
		}
	}
	return v, nil
}

// Len returns the number of tokens, padding included.
func (v *Vocab) Len() int { return len(v.ends) }

// LongestPiece returns the length of the longest piece in bytes. A text of n bytes has at least n/LongestPiece
// tokens.
func (v *Vocab) LongestPiece() int { return v.longest }

// Valid reports whether t is a token of this vocabulary.
func (v *Vocab) Valid(t Token) bool { return t >= 0 && int(t) < len(v.ends) }

// Piece returns t's exact bytes, which need not be valid UTF-8. For a control token it returns the printed name,
// and for tokens outside the vocabulary the empty string. It does not allocate.
func (v *Vocab) Piece(t Token) string {
	if !v.Valid(t) {
		return ""
	}
	start := uint32(0)
	if t > 0 {
		start = v.ends[t-1]
	}
	return v.text[start:v.ends[t]]
}

// Kind returns t's kind, or Unused outside the vocabulary.
func (v *Vocab) Kind(t Token) TokenKind {
	if !v.Valid(t) {
		return Unused
	}
	return v.kinds[t]
}

// Special returns the control or user-defined token with this printed name.
func (v *Vocab) Special(text string) (Token, bool) {
	t, ok := v.specials[text]
	return t, ok
}

// Specials calls yield for every control and user-defined token, in no particular order.
func (v *Vocab) Specials(yield func(text string, t Token) bool) {
	for s, t := range v.specials {
		if !yield(s, t) {
			return
		}
	}
}

// BOS returns the beginning-of-sequence token, or NoToken.
func (v *Vocab) BOS() Token { return v.bos }

// AddBOS reports whether prompts start with BOS.
func (v *Vocab) AddBOS() bool { return v.addBOS }

// EOS returns the end-of-sequence token, or NoToken.
func (v *Vocab) EOS() Token { return v.eos }

// EndsGeneration reports whether sampling t ends the generation.
func (v *Vocab) EndsGeneration(t Token) bool { return v.eog.Has(t) }

// Ends returns the tokens that end the generation.
func (v *Vocab) Ends() (list []Token) {
	for t := range Token(v.Len()) {
		if v.EndsGeneration(t) {
			list = append(list, t)
		}
	}
	return list
}

// Config returns what makes a vocabulary of the first n tokens. Tokens that v does not have are unused.
func (v *Vocab) Config(n int) VocabConfig {
	c := VocabConfig{Pieces: make([]string, n), Kinds: make([]TokenKind, n), BOS: v.bos, EOS: v.eos, AddBOS: v.addBOS}
	for i := range n {
		c.Pieces[i], c.Kinds[i] = v.Piece(Token(i)), v.Kind(Token(i))
	}
	c.EOG = slices.DeleteFunc(v.Ends(), func(t Token) bool { return int(t) >= n })
	return c
}
