// Package tokenizer converts text to tokens and back with byte-level byte-pair encoding (Sennrich et al. 2016;
// Radford et al. 2019). It serves tests on real vocabularies and backends whose engine does not tokenize.
//
// A tokenizer is built from a GGUF file's metadata ([FromGGUF]), a Hugging Face tokenizer.json ([FromJSON]) or
// tiktoken's ranks ([FromRanks]). The first agrees with llama.cpp, the others with their own libraries. These
// differ for "gpt-4o": llama.cpp does not count combining marks as parts of words.
//
// [Tokenizer.Encode] is for plain text. Text never becomes a control token, nor a user-defined token that looks
// like a tag, such as <think>. Only code that renders a prompt uses those, by id, with [backend.Vocab.Special].
// User-defined tokens that are text, such as runs of spaces, are matched whole, longest first. Every byte string
// can be encoded, and the pieces of its tokens add up to the same byte string. There is no normalization.
//
// The package does not run regular expressions. The common split patterns are written out by hand; any other
// pattern is an [ErrPattern].
package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"runner/backend"
)

// Reasons why a tokenizer cannot be built. The errors of this package are an [*Error] that wraps one of these.
var (
	// ErrPattern: the text is split by a pattern that this package does not support.
	ErrPattern = errors.New("unknown pre-tokenizer")
	// ErrModel: the tokenizer is not byte-level byte-pair encoding.
	ErrModel = errors.New("unknown kind of tokenizer")
	// ErrVocabulary: tokens, merges or special tokens are missing or contradict each other.
	ErrVocabulary = errors.New("vocabulary is not usable")
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

// Hint tells the user what to do next.
func (e *Error) Hint() string {
	if e.Kind == ErrVocabulary {
		return "the model's files are damaged or of different versions; download them again"
	}
	return "use a backend whose engine tokenizes this model itself"
}

// Tokenizer encodes text for one vocabulary. It is safe for concurrent use.
type Tokenizer struct {
	vocab   *backend.Vocab
	pattern pattern
	merges  pairs
	bytes   [256]backend.Token
	ids     map[string]backend.Token // normal tokens by their bytes

	// whole reports whether a word that is a token is always that token, whatever the merges give.
	whole bool
	// known is a set of tokens that are known to result from merging their own bytes. It fills up as words are
	// encoded.
	known []atomic.Uint32

	userDefined [256][]string // by first byte, longest first

	scratch sync.Pool // *scratch
}

// Vocab returns the vocabulary.
func (t *Tokenizer) Vocab() *backend.Vocab { return t.vocab }

// Encode appends the tokens of plain text to dst.
func (t *Tokenizer) Encode(dst []backend.Token, text string) []backend.Token {
	s := t.scratch.Get().(*scratch)
	defer t.scratch.Put(s)
	start := 0
	for i := 0; i < len(text); {
		name := t.userDefinedAt(text[i:])
		if name == "" {
			i++
			continue
		}
		dst = t.encode(dst, text[start:i], s)
		id, _ := t.vocab.Special(name)
		dst = append(dst, id)
		i += len(name)
		start = i
	}
	return t.encode(dst, text[start:], s)
}

func (t *Tokenizer) userDefinedAt(text string) string {
	for _, name := range t.userDefined[text[0]] {
		if strings.HasPrefix(text, name) {
			return name
		}
	}
	return ""
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
	if len(word) == 1 {
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
	return dst[:start+n]
}

// parts is the input that the constructors collect.
type parts struct {
	vocab   backend.VocabConfig
	pattern pattern
	whole   bool
	// eachMerge calls yield for every merge in order of rank, with left and right as bytes.
	eachMerge func(yield func(left, right string) error) error
}

// build checks the parts and builds the tokenizer.
func build(p parts) (*Tokenizer, error) {
	vocab, err := backend.NewVocab(p.vocab)
	if err != nil {
		return nil, &Error{ErrVocabulary, err.Error()}
	}
	t := &Tokenizer{
		vocab: vocab, pattern: p.pattern, whole: p.whole, ids: make(map[string]backend.Token, vocab.Len()),
		known: make([]atomic.Uint32, vocab.Len()/32+1),
	}
	t.scratch.New = func() any { return &scratch{} }
	for i := range vocab.Len() {
		id := backend.Token(i)
		piece := vocab.Piece(id)
		switch vocab.Kind(id) {
		case backend.Normal:
			if piece != "" {
				t.ids[piece] = id
			}
		case backend.Byte:
			if _, dup := t.ids[piece]; !dup {
				t.ids[piece] = id
			}
		case backend.UserDefined:
			if piece != "" && !IsTag(piece) {
				list := &t.userDefined[piece[0]]
				*list = append(*list, piece)
			}
		}
	}
	for _, list := range t.userDefined {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	for b := range t.bytes {
		id, ok := t.ids[string([]byte{byte(b)})]
		if !ok {
			return nil, vocabularyError("no token is the byte 0x%02x", b)
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

// IsTag reports whether a user-defined token marks structure, such as <think> or [TOOL_CALLS]. Other user-defined
// tokens are text that is matched whole, such as runs of spaces.
func IsTag(piece string) bool {
	if len(piece) < 3 {
		return false
	}
	first, last := piece[0], piece[len(piece)-1]
	return first == '<' && last == '>' || first == '[' && last == ']'
}
