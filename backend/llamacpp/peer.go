//go:build peer

package llamacpp

// #cgo CPPFLAGS: -DRUNNER_PEER
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"runner/backend"
)

// PeerGrammar is llama.cpp's own engine for constrained decoding. Tests and benchmarks compare package grammar with it.
// The build tag peer keeps it out of the program.
//
// Only use grammars written by a developer. The engine overflows its stack on left recursion through rules that can be
// empty, and on repetitions of something that can be empty. It prints what it does not understand to standard error.
//
// It differs from package grammar on purpose in two ways. It allows control tokens where a grammar spells their names,
// and it does not require bytes to be valid UTF-8.
//
// Close it before the model. It is not safe for concurrent use.
type PeerGrammar struct {
	grammar *C.struct_llama_sampler
	room    []C.llama_token_data
	failure C.struct_shim_error
}

// NewPeerGrammar reads a grammar in GBNF for the vocabulary of a model that this package has loaded.
func NewPeerGrammar(model backend.Model, text string) (*PeerGrammar, error) {
	m, ok := model.(*Model)
	if !ok || m.closed || m.engine != builtin.c {
		return nil, errors.New("the model is not one of the compiled-in engine's, or closed")
	}
	g := &PeerGrammar{room: make([]C.llama_token_data, m.vocab.Len())}
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	if g.grammar = C.shim_grammar(C.shim_vocab(m.engine, m.model), c, &g.failure); g.grammar == nil {
		return nil, engineError(errPeer, &g.failure)
	}
	return g, nil
}

var errPeer = errors.New("llama.cpp's grammar engine failed")

// Fill sets the bit of every token that may come next and clears all others. Where the text may end, these are
// among them those that end generation.
func (g *PeerGrammar) Fill(mask backend.Mask) error {
	if len(mask) != (len(g.room)+63)/64 {
		return errors.New("the mask is not of the vocabulary's size")
	}
	if !C.shim_grammar_fill(g.grammar, nil, C.size_t(len(g.room)), &g.room[0], (*C.uint64_t)(&mask[0]), &g.failure) {
		return engineError(errPeer, &g.failure)
	}
	return nil
}

// Allows reports whether t may come next. The engine asks so about the one token that was sampled before it asks
// about all.
func (g *PeerGrammar) Allows(t backend.Token) (bool, error) {
	token, bit := C.llama_token(t), C.uint64_t(0)
	if !C.shim_grammar_fill(g.grammar, &token, 1, &g.room[0], &bit, &g.failure) {
		return false, engineError(errPeer, &g.failure)
	}
	return bit != 0, nil
}

// Accept moves on by t. After an error the grammar must not be used again.
func (g *PeerGrammar) Accept(t backend.Token) error {
	if !C.shim_grammar_accept(g.grammar, C.llama_token(t), &g.failure) {
		return engineError(errPeer, &g.failure)
	}
	return nil
}

// Close frees the grammar.
func (g *PeerGrammar) Close() {
	C.llama_sampler_free(g.grammar)
	g.grammar = nil
}
