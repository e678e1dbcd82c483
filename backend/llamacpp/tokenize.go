package llamacpp

// #include "shim.h"
import "C"

import (
	"errors"
	"sort"
	"strings"
	"unicode/utf8"
	"unsafe"

	"runner/backend"
	"runner/backend/tokenizer"
)

// Tokenize implements backend.Model.
func (m *Model) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	if m.closed {
		return dst, backend.ErrClosed
	}
	if m.pure != nil {
		return m.pure.Encode(dst, text), nil
	}
	return m.text.append(dst, text)
}

// textTokenizer is for vocabularies that package tokenizer does not support. It tokenizes plain text with the
// engine, in pieces that keep three promises the engine does not make: names of control tokens stay text, invalid
// UTF-8 is kept, and long words do not exhaust the stack of its regular expressions.
type textTokenizer struct {
	vocab engineVocab
	// names are the texts that the engine must not match as control tokens, by their first byte.
	names [256][]string
	bytes [256]backend.Token
	// prefixes reports that the engine puts a space before every text.
	prefixes bool
}

func newTextTokenizer(c engineVocab, v *backend.Vocab) *textTokenizer {
	t := &textTokenizer{vocab: c, prefixes: C.shim_vocab_type(c.e, c.c) == C.LLAMA_VOCAB_TYPE_SPM}
	for i := range t.bytes {
		t.bytes[i] = backend.NoToken
	}
	for i := range v.Len() {
		id := backend.Token(i)
		p, kind := v.Piece(id), v.Kind(id)
		switch {
		case C.shim_attr(c.e, c.c, C.llama_token(i))&C.LLAMA_TOKEN_ATTR_USER_DEFINED != 0:
			if len(p) > 1 && (kind == backend.Control || tokenizer.IsTag(p)) {
				t.names[p[0]] = append(t.names[p[0]], p)
			}
		case kind == backend.Normal || kind == backend.Byte:
			if len(p) == 1 && (t.bytes[p[0]] == backend.NoToken || kind == backend.Byte) {
				t.bytes[p[0]] = id
			}
		}
	}
	for _, list := range t.names {
		sort.Slice(list, func(i, j int) bool { return len(list[i]) > len(list[j]) })
	}
	return t
}

// maxRun is the longest text given to the engine at once, in bytes. Its regular expressions recurse per character.
const maxRun = 4 << 10

func (t *textTokenizer) append(dst []backend.Token, text string) ([]backend.Token, error) {
	start := 0 // of the current stretch; 0 is the beginning of the text
	var err error
	for i := 0; i < len(text) && err == nil; {
		if r, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			if dst, err = t.runs(dst, text[start:i], start > 0); err != nil {
				break
			}
			id := t.bytes[text[i]]
			if id == backend.NoToken {
				return dst, errors.New("text is not valid UTF-8 and the vocabulary has no token for one of its bytes")
			}
			dst = append(dst, id)
			i++
			start = i
			continue
		} else if name := t.nameAt(text[i:]); name != "" {
			// Cut inside the name, so that neither part is one.
			dst, err = t.runs(dst, text[start:i+1], start > 0)
			i++
			start = i
		} else {
			i += size
		}
	}
	if err != nil {
		return dst, err
	}
	return t.runs(dst, text[start:], start > 0)
}

func (t *textTokenizer) nameAt(text string) string {
	for _, name := range t.names[text[0]] {
		if strings.HasPrefix(text, name) {
			return name
		}
	}
	return ""
}

// runs tokenizes text in stretches of at most maxRun bytes. Where it can, it cuts before a space that follows
// another character, because no word crosses such a place.
func (t *textTokenizer) runs(dst []backend.Token, text string, inside bool) ([]backend.Token, error) {
	for len(text) > maxRun {
		cut := 0
		for i := maxRun; i > maxRun/2; i-- {
			if text[i] == ' ' && isLetter(text[i-1]) && isLetter(text[i+1]) {
				cut = i
				break
			}
		}
		for cut == 0 || !utf8.RuneStart(text[cut]) {
			if cut == 0 {
				cut = maxRun
			} else {
				cut--
			}
		}
		var err error
		if dst, err = t.run(dst, text[:cut], inside); err != nil {
			return dst, err
		}
		text, inside = text[cut:], true
	}
	return t.run(dst, text, inside)
}

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }

// mark is put before a run inside a text and removed afterwards, together with the space that the engine puts
// before it. It merges with nothing.
const mark = "\x01"

func (t *textTokenizer) run(dst []backend.Token, text string, inside bool) ([]backend.Token, error) {
	if text == "" {
		return dst, nil
	}
	marked := inside && t.prefixes && t.bytes[mark[0]] != backend.NoToken
	if marked {
		text = mark + text
	}
	var room [maxRun + 16]C.llama_token
	n := C.shim_tokenize(t.vocab.e, t.vocab.c, (*C.char)(unsafe.Pointer(unsafe.StringData(text))),
		C.int32_t(len(text)), &room[0], C.int32_t(len(room)))
	if n < 0 {
		return dst, errors.New("the engine cannot tokenize the text")
	}
	tokens := room[:n]
	for i, id := range tokens {
		if marked && backend.Token(id) == t.bytes[mark[0]] {
			tokens = tokens[i+1:]
			break
		}
	}
	for _, id := range tokens {
		dst = append(dst, backend.Token(id))
	}
	return dst, nil
}
