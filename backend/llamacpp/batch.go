package llamacpp

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"unsafe"

	"runner/backend"
)

// batch is a llama_batch in the engine's memory, allocated once, with its arrays as Go slices.
type batch struct {
	c      *C.struct_llama_batch
	ids    []C.llama_seq_id // id i at index i; entries of seq point here
	token  []C.llama_token
	pos    []C.llama_pos
	count  []C.int32_t
	seq    []*C.llama_seq_id
	logits []C.int8_t
}

// cArray returns a zeroed array outside Go's heap.
func cArray[T any](n int) []T {
	var zero T
	p := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(zero)))
	return unsafe.Slice((*T)(p), n)
}

func cFree[T any](s []T) { C.free(unsafe.Pointer(unsafe.SliceData(s))) }

func newBatch(tokens, sequences int) *batch {
	b := &batch{
		c:      &cArray[C.struct_llama_batch](1)[0],
		ids:    cArray[C.llama_seq_id](sequences),
		token:  cArray[C.llama_token](tokens),
		pos:    cArray[C.llama_pos](tokens),
		count:  cArray[C.int32_t](tokens),
		seq:    cArray[*C.llama_seq_id](tokens),
		logits: cArray[C.int8_t](tokens),
	}
	for i := range b.ids {
		b.ids[i] = C.llama_seq_id(i)
	}
	for i := range b.count {
		b.count[i] = 1
	}
	b.c.token, b.c.pos, b.c.n_seq_id = &b.token[0], &b.pos[0], &b.count[0]
	b.c.seq_id, b.c.logits = &b.seq[0], &b.logits[0]
	return b
}

func (b *batch) clear() { b.c.n_tokens = 0 }

// add appends tokens of sequence id, starting at position pos, and returns the position after them. The engine returns
// outputs for the first `first` tokens and the last `last` ones.
func (b *batch) add(id C.llama_seq_id, pos int, tokens []backend.Token, first, last int) int {
	n := int(b.c.n_tokens)
	for i, t := range tokens {
		b.token[n+i] = C.llama_token(t)
		b.pos[n+i] = C.llama_pos(pos + i)
		b.seq[n+i] = &b.ids[id]
		b.logits[n+i] = 0
		if i < first {
			b.logits[n+i] = 1
		}
	}
	n += len(tokens)
	for i := range last {
		b.logits[n-1-i] = 1
	}
	b.c.n_tokens = C.int32_t(n)
	return pos + len(tokens)
}

// addDrafts appends drafts. The engine returns an output for each.
func (b *batch) addDrafts(id C.llama_seq_id, pos int, drafts []backend.Draft) {
	for i := range drafts {
		token := [1]backend.Token{drafts[i].Token}
		pos = b.add(id, pos, token[:], 1, 0)
	}
}

func (b *batch) free() {
	if b == nil {
		return
	}
	cFree(b.ids)
	cFree(b.token)
	cFree(b.pos)
	cFree(b.count)
	cFree(b.seq)
	cFree(b.logits)
	C.free(unsafe.Pointer(b.c))
}
