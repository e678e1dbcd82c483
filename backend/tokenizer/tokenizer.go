// Package tokenizer converts text to tokens and back, with byte-level byte-pair encoding (Sennrich et al. 2016;
// Radford et al. 2019) or with the pieces of SentencePiece (Kudo and Richardson 2018).
//
// A tokenizer is built from a GGUF file's metadata ([FromGGUF]) or a Hugging Face tokenizer.json ([FromJSON]). The
// first agrees with llama.cpp, the other with its own library. These differ for "gpt-4o": llama.cpp does not count
// combining marks as parts of words. Only GGUF files can have the pieces of SentencePiece here.
//
// [Tokenizer.Encode] is for plain text. Text never becomes a control token. Only code that renders a prompt uses
// those, by id, with [backend.Vocab.Special]. User-defined tokens are matched in plain text, see [backend.UserDefined].
// The pieces of a text's tokens add up to the same byte string, with three exceptions, which are llama.cpp's: many
// vocabularies of SentencePiece put a space before the text, and they take U+2581 for a space; a byte-level vocabulary
// may lack tokens for some bytes, which are left out. There is no normalization.
//
// The package does not run regular expressions. The common split patterns are written out by hand; any other
// pattern is an [ErrPattern].
package tokenizer

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"runner/backend"
	"runner/hint"
)

const useEngine = "use a backend whose engine tokenizes this model itself"

// Reasons why a tokenizer cannot be built, each with a hint. The errors of this package are an [*Error] that wraps one
// of these.
var (
	// ErrPattern: the text is split by a pattern that this package does not support.
	ErrPattern = hint.New("unknown pre-tokenizer", useEngine)
	// ErrModel: the tokenizer is of a kind that this package does not support.
	ErrModel = hint.New("unknown kind of tokenizer", useEngine)
	// ErrVocabulary: tokens, merges or special tokens are missing or contradict each other.
	ErrVocabulary = hint.New("vocabulary is not usable",
		"the model's files are damaged or of different versions; download them again")
)

// Error says why a tokenizer cannot be built.
type Error struct {
	// Kind is one of the errors above.
	Kind error
	// Detail is one line.
	Detail string
}

func (e *Error) Error() string { return e.Kind.Error() + ": " + e.Detail }

// Unwrap returns Kind.
func (e *Error) Unwrap() error { return e.Kind }

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

// Tokenizer encodes text for one vocabulary. It is safe for concurrent use.
type Tokenizer struct {
	vocab   *backend.Vocab
	pattern pattern
	merges  pairs
	bytes   [256]backend.Token
	ids     map[string]backend.Token // normal tokens by their bytes

	// pieces is nil for byte-level vocabularies.
	pieces *pieces

	// whole reports whether a word that is a token is always that token, whatever the merges give.
	whole bool
	// known is a set of tokens that are known to result from merging their own bytes. It fills up as words are
	// encoded.
	known []atomic.Uint32

	// gaps reports that some bytes have no token.
	gaps    bool
	defined defined

	scratch sync.Pool // *scratch
}

// Vocab returns the vocabulary.
func (t *Tokenizer) Vocab() *backend.Vocab { return t.vocab }

// Encode appends the tokens of plain text to dst. The error is an *Error if the vocabulary has no token for a part of
// the text.
func (t *Tokenizer) Encode(dst []backend.Token, text string) ([]backend.Token, error) {
	if t.gaps {
		if err := t.checkBytes(text); err != nil {
			return dst, err
		}
	}
	s := t.scratch.Get().(*scratch)
	defer t.scratch.Put(s)
	first := true // of the text, or after a user-defined token
	err := t.defined.split(text, func(part string, id backend.Token) (err error) {
		switch {
		case id != backend.NoToken:
			dst = append(dst, id)
		case t.pieces != nil:
			dst, err = t.pieces.encode(dst, part, first, t, s)
		default:
			dst = t.encode(dst, part, s)
		}
		first = id != backend.NoToken
		return err
	})
	return dst, err
}

// checkBytes returns an error if a byte of the text has no token and is not a part of a character.
func (t *Tokenizer) checkBytes(text string) error {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 && t.bytes[text[i]] == backend.NoToken {
			return vocabularyError("no token is the byte 0x%02x, and the text is not valid UTF-8", text[i])
		}
		i += n
	}
	return nil
}

// encode appends the tokens of text without user-defined tokens.
func (t *Tokenizer) encode(dst []backend.Token, text string, s *scratch) []backend.Token {
	for i := 0; i < len(text); {
		end := t.pattern.next(text, i)
		dst = t.word(dst, text[i:end], s)
		i = end
	}
	return dst
}

// word appends the tokens of one word.
func (t *Tokenizer) word(dst []backend.Token, word string, s *scratch) []backend.Token {
	if len(word) == 1 && !t.gaps {
		return append(dst, t.bytes[word[0]])
	}
	id, isToken := t.ids[word]
	if isToken && (t.whole || t.known[id/32].Load()>>(id%32)&1 != 0) {
		return append(dst, id)
	}
	start := len(dst)
	dst = slices.Grow(dst, len(word))
	for i := range len(word) {
		dst = append(dst, t.bytes[word[i]])
	}
	n := t.merges.apply(dst[start:], s)
	if isToken && n == 1 {
		t.known[id/32].Or(1 << (id % 32))
	}
	dst = dst[:start+n]
	if t.gaps {
		kept := slices.DeleteFunc(dst[start:], func(id backend.Token) bool { return id == backend.NoToken })
		dst = dst[:start+len(kept)]
	}
	return dst
}

// parts is the input that the constructors collect.
type parts struct {
	vocab     *backend.Vocab
	pattern   pattern
	whole     bool
	firstWins bool // a field of defined
	// eachMerge calls yield for every merge in order of rank, with left and right as bytes.
	eachMerge func(yield func(left, right string) error) error
}

// newVocab is backend.NewVocab with an error of this package.
func newVocab(c backend.VocabConfig) (*backend.Vocab, error) {
	v, err := backend.NewVocab(c)
	if err != nil {
		return nil, &Error{ErrVocabulary, err.Error()}
	}
	return v, nil
}

// build checks the parts and builds the tokenizer.
func build(p parts) (*Tokenizer, error) {
	t := &Tokenizer{
		vocab: p.vocab, pattern: p.pattern, whole: p.whole, ids: make(map[string]backend.Token, p.vocab.Len()),
		known: make([]atomic.Uint32, p.vocab.Len()/32+1), defined: newDefined(p.vocab, p.firstWins),
	}
	t.scratch.New = func() any { return &scratch{} }
	for i := range t.vocab.Len() {
		id := backend.Token(i)
		piece := t.vocab.Piece(id)
		switch t.vocab.Kind(id) {
		case backend.Normal:
			if piece != "" {
				t.ids[piece] = id
			}
		case backend.Byte:
			if _, dup := t.ids[piece]; !dup {
				t.ids[piece] = id
			}
		}
	}
	for b := range t.bytes {
		id, ok := t.ids[string([]byte{byte(b)})]
		if !ok { // as in llama.cpp
			t.gaps, id = true, backend.NoToken
		}
		t.bytes[b] = id
	}
	if err := t.readMerges(p); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tokenizer) readMerges(p parts) error {
	t.merges = newPairs(len(t.ids))
	rank := int32(0)
	return p.eachMerge(func(left, right string) error {
		l, okL := t.ids[left]
		r, okR := t.ids[right]
		both, ok := t.ids[left+right]
		if !okL || !okR || !ok {
			return vocabularyError("merge %d names an unknown token", rank)
		}
		t.merges.add(l, r, rank, both)
		rank++
		return nil
	})
}
