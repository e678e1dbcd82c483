package llamacpp

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"runner/backend"
	"runner/backend/ledger"
	"runner/backend/sample"
	"runner/backend/tokenizer"
)

// Model implements backend.Model.
type Model struct {
	info  backend.Info
	entry *ledger.Entry
	caps  backend.Capabilities
	vocab *backend.Vocab
	// pure is set if package tokenizer supports the vocabulary. Otherwise it is nil and text is used.
	pure *tokenizer.Tokenizer
	text *textTokenizer

	engine  *C.struct_shim_engine
	model   *C.struct_llama_model
	threads int // of the engine
	pool    *C.struct_ggml_threadpool
	ctx     *C.struct_llama_context
	mem     C.llama_memory_t
	// window is the width of the sliding-window layers, or 0. A small cache (small is true) forgets the tokens
	// before the window. In a full one the engine might still overwrite them; sequence.protect prevents that.
	window         int
	small, guarded bool

	batch *batch
	// cancel is in the engine's memory. A nonzero value stops a computation. It may be left over from the last one,
	// so call watch before computing.
	cancel  *int32
	failure *C.struct_shim_error
	watcher watcher
	turns   turns
	sampler *sample.Sampler

	unused []C.llama_seq_id
	step   uint64
	broken error
	closed bool
}

// Info implements backend.Model.
func (m *Model) Info() backend.Info { return m.info }

// Vocab implements backend.Model.
func (m *Model) Vocab() *backend.Vocab { return m.vocab }

// Capabilities implements backend.Model.
func (m *Model) Capabilities() backend.Capabilities { return m.caps }

// Step implements backend.Model.
func (m *Model) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	if err := m.check(inputs, outputs); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(inputs) == 0 {
		return nil
	}
	m.turns.give()
	m.watcher.watch(ctx)
	for i := range inputs {
		if s := inputs[i].Sequence.(*sequence); s.held < len(s.tokens) {
			if err := m.restore(ctx, s); err != nil {
				return err
			}
		}
	}
	m.batch.clear()
	hidden := false
	for i := range inputs {
		in := &inputs[i]
		s := in.Sequence.(*sequence)
		last := 0
		switch {
		case in.Hidden != nil:
			hidden, last = true, len(in.Tokens)
		case in.Sampling != nil || in.Logits != nil:
			last = 1
		}
		end := m.batch.add(s.id, len(s.tokens), in.Tokens, len(in.Targets), last)
		m.batch.addDrafts(s.id, end, in.Drafts)
	}
	if hidden {
		C.shim_embeddings(m.engine, m.ctx, true)
		defer C.shim_embeddings(m.engine, m.ctx, false)
	}
	if err := m.decode(ctx); err != nil {
		if m.broken == nil {
			for i := range inputs { // recurrent layers may have taken a part of the tokens
				s := inputs[i].Sequence.(*sequence)
				s.held = m.rewind(s, s.held)
			}
		}
		return err
	}
	err := m.sample(inputs, outputs)
	if err == nil {
		err = ctx.Err() // devices other than the CPU do not stop early
	}
	if err != nil {
		m.rollBack(inputs)
		return err
	}
	m.settle(inputs, outputs)
	if hidden {
		return m.addHidden(inputs)
	}
	return nil
}

// settle records the tokens that a step fed and the drafts that were right. It removes the other drafts.
func (m *Model) settle(inputs []backend.Input, outputs []backend.Output) {
	for i := range inputs {
		in := &inputs[i]
		s := in.Sequence.(*sequence)
		right := len(outputs[i].More)
		s.tokens = append(s.tokens, in.Tokens...)
		for k := range right {
			s.tokens = append(s.tokens, in.Drafts[k].Token)
		}
		s.held = len(s.tokens)
		if right < len(in.Drafts) {
			s.held = m.rewind(s, s.held)
		}
		s.protect()
	}
}

// addHidden adds the hidden states of the last decode for the inputs that asked for them.
func (m *Model) addHidden(inputs []backend.Input) error {
	at := 0
	for i := range inputs {
		in := &inputs[i]
		if in.Hidden == nil {
			at += len(in.Tokens)
			continue
		}
		for range in.Tokens {
			p := C.shim_hidden(m.engine, m.ctx, C.int32_t(at))
			if p == nil {
				m.broken = fmt.Errorf("%w: no hidden state for batch index %d", backend.ErrBroken, at)
				return m.broken
			}
			for k, x := range unsafe.Slice((*float32)(unsafe.Pointer(p)), len(in.Hidden)) {
				in.Hidden[k] += float64(x)
			}
			at++
		}
	}
	return nil
}

// check returns the error of a bad step before anything changes.
func (m *Model) check(inputs []backend.Input, outputs []backend.Output) error {
	if m.closed {
		return backend.ErrClosed
	}
	if m.broken != nil {
		return m.broken
	}
	m.step++
	if err := backend.CheckSequences(m, inputs, m.step); err != nil {
		return err
	}
	return backend.CheckInputs(&m.info, m.caps, m.vocab, inputs, outputs)
}

// noMemory is the status of a decode that got no memory for its results.
const noMemory = -2

// decode runs the batch. After any error except ErrBroken the cache is as before, except in models that cannot rewind.
func (m *Model) decode(ctx context.Context) error {
	switch rc := C.shim_decode(m.engine, m.ctx, m.batch.c, m.failure); rc {
	case 0:
		return nil
	case 1:
		return backend.ErrCacheFull
	case 2:
		if err := ctx.Err(); err != nil {
			return err
		}
		return context.Canceled
	case -1:
		return engineError(errors.New("engine refused the batch"), m.failure)
	default:
		m.broken = engineError(fmt.Errorf("%w (status %d)", backend.ErrBroken, int(rc)), m.failure)
		if rc == noMemory || backend.IsMemoryMessage(m.broken.Error()) {
			m.broken = fmt.Errorf("%w: %w", backend.ErrMemory, m.broken)
		}
		return m.broken
	}
}

// sample fills the outputs from the logits of the last decode. The sequences do not include the tokens fed yet.
func (m *Model) sample(inputs []backend.Input, outputs []backend.Output) error {
	end := 0
	for i := range inputs {
		in, out := &inputs[i], &outputs[i]
		begin := end
		last := begin + len(in.Tokens) - 1
		end += len(in.Tokens) + len(in.Drafts)
		out.Reset()
		for j, target := range in.Targets {
			logits, err := m.logits(begin + j)
			if err != nil {
				return err
			}
			if err := m.sampler.Score(logits, target, in.TargetTop, out.NextScore()); err != nil {
				return &backend.InputError{Index: i, Err: err}
			}
		}
		if in.Logits != nil {
			logits, err := m.logits(last)
			if err != nil {
				return err
			}
			copy(in.Logits, logits)
		}
		if in.Sampling == nil {
			continue
		}
		length := len(in.Sequence.Tokens()) + len(in.Tokens)
		row := func(n int) ([]float32, error) { return m.logits(last + n) }
		if err := m.sampler.Follow(in, length, row, out); m.broken != nil {
			return m.broken
		} else if err != nil {
			return &backend.InputError{Index: i, Err: err}
		}
	}
	return nil
}

// logits returns the logits, in the engine's memory, after an entry of the batch that asked for them.
func (m *Model) logits(index int) ([]float32, error) {
	p := C.shim_logits(m.engine, m.ctx, C.int32_t(index))
	if p == nil {
		m.broken = fmt.Errorf("%w: no logits for batch index %d", backend.ErrBroken, index)
		return nil, m.broken
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(p)), m.vocab.Len()), nil
}

// rollBack removes the tokens that this step fed.
func (m *Model) rollBack(inputs []backend.Input) {
	for i := range inputs {
		s := inputs[i].Sequence.(*sequence)
		s.held = m.rewind(s, len(s.tokens))
	}
}

// rewind removes the cached tokens of a sequence from position n on and returns how many are left: n, or 0 if the
// engine cannot rewind. It does not check that the sliding window is still covered; right after a step it is.
func (m *Model) rewind(s *sequence, n int) int {
	if !bool(C.shim_remove(m.engine, m.mem, s.id, C.llama_pos(n), -1)) {
		C.shim_remove(m.engine, m.mem, s.id, -1, -1)
		n = 0
	}
	if s.protected > n {
		C.shim_remove(m.engine, m.mem, s.guard(), C.llama_pos(n), -1)
		s.protected = n
	}
	return n
}

// restore feeds the lost tokens of a sequence again after a step was undone on a model that cannot rewind, such as
// one with recurrent layers.
func (m *Model) restore(ctx context.Context, s *sequence) error {
	for s.held < len(s.tokens) {
		n := min(len(s.tokens)-s.held, m.info.BatchSize)
		m.batch.clear()
		m.batch.add(s.id, s.held, s.tokens[s.held:s.held+n], 0, 0)
		if err := m.decode(ctx); err != nil {
			s.held = m.rewind(s, s.held)
			return err
		}
		s.held += n
		s.protect()
	}
	return nil
}

// NewSequence implements backend.Model.
func (m *Model) NewSequence() (backend.Sequence, error) {
	s, err := m.newSequence()
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (m *Model) newSequence() (*sequence, error) {
	switch {
	case m.closed:
		return nil, backend.ErrClosed
	case m.broken != nil:
		return nil, m.broken
	case len(m.unused) == 0:
		return nil, backend.ErrNoSequence
	}
	id := m.unused[len(m.unused)-1]
	m.unused = m.unused[:len(m.unused)-1]
	return &sequence{Member: backend.Member{Of: m}, model: m, id: id}, nil
}

// Close implements backend.Model.
func (m *Model) Close() error {
	if m.closed {
		return nil
	}
	m.closed = true
	m.free()
	return nil
}

// free frees the engine's objects; fields may be unset.
func (m *Model) free() {
	m.watcher.stop()
	if m.ctx != nil {
		C.shim_context_free(m.engine, m.ctx)
	}
	if m.pool != nil {
		C.shim_pool_free(m.engine, m.pool)
	}
	if m.model != nil {
		C.shim_model_free(m.engine, m.model)
	}
	m.batch.free()
	C.free(unsafe.Pointer(m.cancel))
	C.free(unsafe.Pointer(m.failure))
	m.entry.Remove()
	m.ctx, m.pool, m.model, m.batch, m.cancel, m.failure = nil, nil, nil, nil, nil, nil
}

// sequence implements backend.Sequence.
type sequence struct {
	backend.Member
	model  *Model
	id     C.llama_seq_id
	tokens []backend.Token
	// held is how many of tokens are in the engine's cache. That is all, except after a step was undone on a model
	// that cannot rewind.
	held int
	// protected is how many of the first tokens also belong to the second sequence id.
	protected int
}

// protect keeps the engine from overwriting cells of sliding-window layers that have left the window. It does so
// even if the cache is full-size and has free cells, but only to cells of a single sequence. So a second id, used
// for nothing else, holds the cells too. That costs one call per window.
func (s *sequence) protect() {
	m := s.model
	if m.window == 0 || !m.guarded || s.held-s.protected < m.window {
		return
	}
	C.shim_copy(m.engine, m.mem, s.id, s.guard(), C.llama_pos(s.protected), C.llama_pos(s.held))
	s.protected = s.held
}

// guard returns the second id.
func (s *sequence) guard() C.llama_seq_id { return s.id + C.llama_seq_id(s.model.info.Sequences) }

func (s *sequence) Tokens() []backend.Token { return s.tokens }

func (s *sequence) Truncate(n int) (int, error) {
	m := s.model
	switch {
	case s.Closed || m.closed:
		return 0, backend.ErrClosed
	case n < 0:
		return len(s.tokens), errors.New("cannot truncate to a negative length")
	case n >= len(s.tokens):
		return len(s.tokens), nil
	}
	if n < s.held {
		if m.window > 0 && n > 0 {
			// The next token looks back to n-window+1. The engine has every position from its lowest on.
			if low := int(C.shim_lowest(m.engine, m.mem, s.id)); low < 0 || low > max(n-m.window+1, 0) {
				n = 0
			}
		}
		n = m.rewind(s, n)
		s.held = n
	}
	s.tokens = s.tokens[:n]
	return n, nil
}

func (s *sequence) Fork() (backend.Sequence, error) {
	m := s.model
	if s.Closed {
		return nil, backend.ErrClosed
	}
	f, err := m.newSequence()
	if err != nil {
		return nil, err
	}
	if s.held > 0 {
		from := -1
		if m.small {
			from = max(s.held-m.window+1, 0)
		}
		if !bool(C.shim_fork(m.engine, m.ctx, s.id, f.id, C.llama_pos(from), m.failure)) {
			f.Close()
			return nil, engineError(backend.ErrCacheFull, m.failure)
		}
	}
	f.tokens, f.held = append(f.tokens, s.tokens...), s.held
	f.protect()
	return f, nil
}

func (s *sequence) Close() {
	if s.Closed {
		return
	}
	s.Closed = true
	if m := s.model; !m.closed {
		m.rewind(s, 0)
		m.unused = append(m.unused, s.id)
	}
}
