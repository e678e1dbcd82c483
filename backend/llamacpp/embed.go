package llamacpp

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"runner/backend"
)

// embedder is a second context over the same weights, made when it is first needed, so that embedding a text does not
// disturb the sequences.
type embedder struct {
	ctx   *C.struct_llama_context
	mem   C.llama_memory_t
	batch *batch
	room  int
}

// maxEmbed is the most tokens that one text may have.
const maxEmbed = 2048

// Embed implements backend.Embedder: the mean over all tokens of the last hidden state, scaled to length 1. Like Step it
// must not run beside another call.
func (m *Model) Embed(ctx context.Context, tokens []backend.Token) ([]float32, error) {
	switch {
	case m.closed:
		return nil, backend.ErrClosed
	case m.broken != nil:
		return nil, m.broken
	case len(tokens) == 0:
		return nil, backend.ErrNoTokens
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, t := range tokens {
		if !m.vocab.Valid(t) {
			return nil, fmt.Errorf("%w: %d of %d", backend.ErrBadToken, t, m.vocab.Len())
		}
	}
	if err := m.openEmbedder(); err != nil {
		return nil, err
	}
	e := m.embeds
	if len(tokens) > e.room {
		return nil, fmt.Errorf("%w: %d tokens, at most %d", backend.ErrContextFull, len(tokens), e.room)
	}
	m.watcher.watch(ctx)
	defer C.llama_memory_seq_rm(e.mem, 0, -1, -1)
	sum := make([]float64, m.info.EmbeddingLength)
	for at := 0; at < len(tokens); {
		n := min(len(tokens)-at, len(e.batch.token))
		e.batch.clear()
		e.batch.add(0, at, tokens[at:at+n], false)
		for i := range n {
			e.batch.logits[i] = 1 // pooling takes in only tokens with an output
		}
		if rc := C.shim_decode(e.ctx, e.batch.c, m.failure); rc != 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			err := fmt.Errorf("embedding failed (status %d)", int(rc))
			if rc < -1 { // as in a step: the device has failed, and with it all that is on it
				err = fmt.Errorf("%w: %w", backend.ErrBroken, err)
				m.broken = engineError(err, m.failure)
				return nil, m.broken
			}
			return nil, engineError(err, m.failure)
		}
		p := C.llama_get_embeddings_seq(e.ctx, 0)
		if p == nil {
			return nil, errors.New("the engine gave no embedding")
		}
		for i, x := range unsafe.Slice((*float32)(unsafe.Pointer(p)), len(sum)) {
			sum[i] += float64(x) * float64(n)
		}
		at += n
	}
	return normalised(sum), nil
}

func (m *Model) openEmbedder() error {
	e := m.embeds
	if e.ctx != nil {
		return nil
	}
	size := min(m.info.ContextSize, maxEmbed)
	batchSize := min(size, m.info.BatchSize)
	c := C.llama_context_default_params()
	c.n_ctx, c.n_batch, c.n_ubatch, c.n_seq_max = C.uint32_t(size), C.uint32_t(batchSize), C.uint32_t(batchSize), 1
	c.n_threads, c.n_threads_batch = C.int32_t(m.threads), C.int32_t(m.threads)
	c.pooling_type = C.LLAMA_POOLING_TYPE_MEAN
	c.embeddings = true
	c.swa_full = false
	c.offload_kqv = m.info.GPULayers > 0
	c.op_offload = m.info.GPULayers > 0
	e.ctx = C.shim_context(m.model, c, m.pool, (*C.int32_t)(unsafe.Pointer(m.cancel)), m.failure)
	if e.ctx == nil {
		return engineError(errors.New("no room for embeddings"), m.failure)
	}
	e.mem, e.batch, e.room = C.llama_get_memory(e.ctx), newBatch(batchSize, 1), size
	return nil
}

func (e *embedder) free() {
	if e.ctx != nil {
		C.llama_free(e.ctx)
		e.batch.free()
	}
}

func normalised(v []float64) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	out := make([]float32, len(v))
	if sum > 0 {
		for i, x := range v {
			out[i] = float32(x / math.Sqrt(sum))
		}
	}
	return out
}
