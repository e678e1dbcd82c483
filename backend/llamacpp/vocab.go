package llamacpp

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/tokenizer"
)

// engineVocab is a vocabulary in an engine's memory.
type engineVocab struct {
	e *C.struct_shim_engine
	c *C.struct_llama_vocab
}

// newVocab builds the vocabulary. Bytes come from the engine. Kinds come from the file, because the engine turns
// some control tokens of harmony into text. Tokens that only the engine counts as control tokens become control
// tokens too.
func newVocab(v engineVocab, f *gguf.File) (*backend.Vocab, error) {
	n := int(C.shim_vocab_size(v.e, v.c))
	if n <= 0 || C.shim_vocab_type(v.e, v.c) == C.LLAMA_VOCAB_TYPE_NONE {
		return nil, errors.New("the model has no vocabulary")
	}
	c := backend.VocabConfig{
		Pieces: make([]string, n), Kinds: make([]backend.TokenKind, n),
		BOS: special(f, "bos", n), EOS: special(f, "eos", n), AddBOS: bool(C.shim_vocab_adds_bos(v.e, v.c)),
	}
	types, _ := f.Array("tokenizer.ggml.token_type")
	texts, _ := f.Array("tokenizer.ggml.tokens")
	buf := make([]byte, 256)
	for i := range n {
		t := C.llama_token(i)
		kind := kindOf(C.shim_attr(v.e, v.c, t))
		if types != nil && i < types.Len() && kind != backend.Control {
			k, _ := types.Int(i)
			if known, ok := tokenizer.KindOf(k); ok {
				kind = known
			}
		}
		piece, err := pieceOf(v, t, &buf)
		if err != nil {
			return nil, err
		}
		if piece == "" && kind == backend.Byte && texts != nil && i < texts.Len() {
			if b, ok := tokenizer.ByteOf(texts.String(i)); ok { // a byte-level vocabulary may still have such tokens
				piece = string([]byte{b})
			}
		}
		c.Pieces[i], c.Kinds[i] = piece, kind
		if bool(C.shim_ends(v.e, v.c, t)) && (kind == backend.Control || backend.Token(i) == c.EOS) {
			c.EOG = append(c.EOG, backend.Token(i))
		}
	}
	if tokenizer.EndsMessageOnly(&c) {
		c.EOG = slices.DeleteFunc(c.EOG, func(t backend.Token) bool { return c.Pieces[t] == tokenizer.End })
		if c.EOS != backend.NoToken && c.Pieces[c.EOS] == tokenizer.End {
			c.EOS = backend.NoToken
		}
	}
	return backend.NewVocab(c)
}

// special reads a token id from the metadata, because the engine invents defaults for missing ones.
func special(f *gguf.File, name string, n int) backend.Token {
	id, ok := f.Int("tokenizer.ggml." + name + "_token_id")
	if !ok || id < 0 || id >= int64(n) {
		return backend.NoToken
	}
	return backend.Token(id)
}

// pieceOf returns a token's bytes; buf grows if needed.
func pieceOf(v engineVocab, t C.llama_token, buf *[]byte) (string, error) {
	for range 2 {
		p := (*C.char)(unsafe.Pointer(&(*buf)[0]))
		n := int(C.shim_piece(v.e, v.c, t, p, C.int32_t(len(*buf))))
		if n >= 0 {
			return string((*buf)[:n]), nil
		}
		*buf = make([]byte, -n)
	}
	return "", fmt.Errorf("token %d has no text", int(t))
}

func kindOf(attr C.enum_llama_token_attr) backend.TokenKind {
	switch {
	case attr&(C.LLAMA_TOKEN_ATTR_CONTROL|C.LLAMA_TOKEN_ATTR_UNKNOWN) != 0:
		return backend.Control
	case attr&C.LLAMA_TOKEN_ATTR_USER_DEFINED != 0:
		return backend.UserDefined
	case attr&C.LLAMA_TOKEN_ATTR_BYTE != 0:
		return backend.Byte
	case attr&C.LLAMA_TOKEN_ATTR_UNUSED != 0:
		return backend.Unused
	}
	return backend.Normal
}
