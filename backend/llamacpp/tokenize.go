package llamacpp

// #include "shim.h"
import "C"

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"runner/backend"
)

// Tokenize implements backend.Model.
func (m *Model) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	if m.closed {
		return dst, backend.ErrClosed
	}
	if m.pure != nil {
		return m.pure.Encode(dst, text)
	}
	return m.text.append(dst, text)
}

// textTokenizer is for vocabularies that package tokenizer does not support, which are byte-level ones. It tokenizes
// plain text with the engine, in stretches that keep three promises the engine does not make: names of control tokens
// stay text, invalid UTF-8 is kept, and long words do not exhaust the stack of its regular expressions.
type textTokenizer struct {
	engine engineVocab
	vocab  *backend.Vocab
	// names are the control tokens that the engine matches in plain text, by their first byte.
	names [256][]string
	bytes [256]backend.Token
}

func newTextTokenizer(c engineVocab, v *backend.Vocab) *textTokenizer {
	t := &textTokenizer{engine: c, vocab: v}
	for i := range t.bytes {
		t.bytes[i] = backend.NoToken
	}
	for i := range v.Len() {
		id := backend.Token(i)
		p, kind := v.Piece(id), v.Kind(id)
		switch {
		case kind == backend.Control && len(p) > 1:
			if C.shim_attr(c.e, c.c, C.llama_token(i))&C.LLAMA_TOKEN_ATTR_USER_DEFINED != 0 {
				t.names[p[0]] = append(t.names[p[0]], p)
			}
		case kind == backend.Normal || kind == backend.Byte:
			if len(p) == 1 && (t.bytes[p[0]] == backend.NoToken || kind == backend.Byte) {
				t.bytes[p[0]] = id
			}
		}
	}
	for _, list := range t.names {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	return t
}

func (t *textTokenizer) append(dst []backend.Token, text string) ([]backend.Token, error) {
	start := 0 // of the current stretch
	var err error
	for i := 0; i < len(text); {
		if r, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			if dst, err = t.stretch(dst, text[start:i]); err != nil {
				return dst, err
			}
			id := t.bytes[text[i]]
			if id == backend.NoToken {
				return dst, errors.New("text is not valid UTF-8 and the vocabulary has no token for one of its bytes")
			}
			dst = append(dst, id)
			i++
			start = i
		} else if t.nameAt(text[i:]) {
			// Cut inside the name, so that neither part is one.
			i += size
			if dst, err = t.stretch(dst, text[start:i]); err != nil {
				return dst, err
			}
			start = i
		} else {
			i += size
		}
	}
	return t.stretch(dst, text[start:])
}

func (t *textTokenizer) nameAt(text string) bool {
	for _, name := range t.names[text[0]] {
		if strings.HasPrefix(text, name) {
			return true
		}
	}
	return false
}

const (
	// maxRun is the longest text given to the engine at once, in bytes. Its regular expressions recurse per character.
	maxRun = 4 << 10
	// margin is how much of a longer text's run follows a cut at least. A word that the end of the run cuts off is
	// shorter, and so is the name of a user-defined token.
	margin = 512
	// maxCuts is how many places are tried for a cut.
	maxCuts = 16
)

// stretch tokenizes valid UTF-8 of any length.
func (t *textTokenizer) stretch(dst []backend.Token, text string) ([]backend.Token, error) {
	for len(text) > maxRun {
		end := maxRun
		for !utf8.RuneStart(text[end]) {
			end--
		}
		tokens, err := t.run(text[:end])
		if err != nil {
			return dst, err
		}
		cut, n, err := t.cut(text[:end], tokens)
		if err != nil {
			return dst, err
		}
		dst, text = append(dst, tokens[:n]...), text[cut:]
	}
	tokens, err := t.run(text)
	return append(dst, tokens...), err
}

// cut returns a place where a run can be cut, and how many of its tokens are before that: what follows has the same
// tokens with and without what comes before. If there is none among those that are tried, as in one word that goes on
// and on, it is the end of the run.
func (t *textTokenizer) cut(text string, tokens []backend.Token) (at, n int, err error) {
	tried := 0
	for _, p := range t.places(text, tokens) {
		if tried++; tried > maxCuts {
			break
		}
		rest, err := t.run(text[p:])
		if err != nil {
			return 0, 0, err
		}
		if n := len(tokens) - len(rest); n >= 0 && slices.Equal(tokens[n:], rest) {
			return p, n, nil
		}
	}
	return len(text), len(tokens), nil
}

// places returns where a run may be cut, the best places first: before words, then between other tokens, each from the
// end of the run on.
func (t *textTokenizer) places(text string, tokens []backend.Token) (list []int) {
	var others []int
	at := 0
	for _, id := range tokens {
		if at >= maxRun/2 && at <= len(text)-margin {
			if startsWord(text, at) {
				list = append(list, at)
			} else {
				others = append(others, at)
			}
		}
		at += len(t.vocab.Piece(id))
	}
	if at != len(text) { // the vocabulary lacks tokens for some characters, so places are not known from the pieces
		list, others = nil, nil
		for i := maxRun / 2; i <= len(text)-margin; i++ {
			if startsWord(text, i) {
				list = append(list, i)
			}
		}
	}
	slices.Reverse(list)
	slices.Reverse(others)
	return append(list, others...)
}

// startsWord reports whether a word starts at a place by nearly every rule: a letter after a line break, or a space
// between two letters.
func startsWord(text string, at int) bool {
	return text[at-1] == '\n' && isLetter(text[at]) ||
		text[at] == ' ' && isLetter(text[at-1]) && isLetter(text[at+1])
}

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }

// run lets the engine tokenize valid UTF-8. Merges may make the text of a control token. Such a text is cut.
func (t *textTokenizer) run(text string) ([]backend.Token, error) {
	tokens, err := t.engine.tokenize(text)
	if err != nil {
		return nil, err
	}
	for _, id := range tokens {
		if t.vocab.Kind(id) != backend.Control {
			continue
		}
		name := t.vocab.Piece(id)
		_, size := utf8.DecodeRuneInString(name)
		at := strings.Index(text, name)
		if size == 0 || size == len(name) || at < 0 {
			return nil, errors.New("the engine makes a control token of the text")
		}
		left, err := t.run(text[:at+size])
		if err != nil {
			return nil, err
		}
		right, err := t.run(text[at+size:])
		return append(left, right...), err
	}
	return tokens, nil
}

// tokenize is the engine's own tokenization, without any limit.
func (v engineVocab) tokenize(text string) ([]backend.Token, error) {
	if text == "" {
		return nil, nil
	}
	tokens := make([]backend.Token, len(text)+16)
	n := C.shim_tokenize(v.e, v.c, (*C.char)(unsafe.Pointer(unsafe.StringData(text))),
		C.int32_t(len(text)), (*C.llama_token)(unsafe.Pointer(&tokens[0])), C.int32_t(len(tokens)))
	if n < 0 {
		return nil, errors.New("the engine cannot tokenize the text")
	}
	return tokens[:n], nil
}
