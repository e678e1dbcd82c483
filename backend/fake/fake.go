// Package fake is a backend without an engine, for tests of the packages above the contract.
//
// A [Model] has a real cache of cells with reference counts and follows every rule of package backend. It computes
// the next token's logits from the cells of a sequence: noise that depends on the history alone, plus a large bonus
// for the token that a [Script] names. It is deterministic, needs no file, and allocates little. [Replies] makes a
// script from texts. [Harmony] and [Think] are small vocabularies of two model families.
//
// It passes the conformance suite in package backendtest.
package fake

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"runner/backend"
	"runner/backend/sample"
)

// Script returns the token that should follow tokens, the whole sequence. backend.NoToken leaves the choice to the
// noise. The result must depend on the argument alone. A Script must not keep its argument.
type Script func(tokens []backend.Token) backend.Token

// Config describes the model. The zero value is usable: the Harmony vocabulary, and noise for replies.
type Config struct {
	// Vocab is the vocabulary; nil means Harmony(). Tokenize takes the longest normal token that matches, so every
	// byte needs a token of its own.
	Vocab *backend.Vocab
	// Script chooses the replies; nil leaves them to the noise. Vote is the bonus for its token's logit; 0 means 50, which
	// is more than any noise, penalty or usual bias.
	Script Script
	Vote   float32
	// ChatTemplate and Name appear in Info.
	ChatTemplate, Name string

	// ContextSize, Sequences, CacheTokens and BatchSize are as in backend.Config; 0 means 8192, 8,
	// ContextSize*Sequences and 512.
	ContextSize, Sequences, CacheTokens, BatchSize int

	// Delay, when not nil, returns how long a step of that many tokens takes. A cancelled step returns at once.
	Delay func(tokens int) time.Duration
	// Pace, when not nil, makes the model a backend.Paced. It returns how long it takes to sample after the first length
	// tokens of a sequence.
	Pace func(id, length int) time.Duration
	// Fail, when not nil, is called before each step, numbered from 0. Its error becomes the step's error, and
	// nothing changes. After an error that wraps backend.ErrBroken every later step fails with the same error.
	Fail func(step int, inputs []backend.Input) error
	// Record keeps the shape of every step for Steps.
	Record bool
}

// Step is the shape of one successful step.
type Step struct {
	Inputs []Fed
}

// Fed is the shape of one input.
type Fed struct {
	// ID identifies the sequence. Every NewSequence and Fork takes the next number, from 1.
	ID int
	// Before is the sequence's length before the step. Tokens is how many tokens were fed.
	Before, Tokens int
	// Drafts is how many drafts there were, and Right how many of them were right.
	Drafts, Right int
	// Sampled reports whether a token was asked for, Constrained whether a constraint applied.
	Sampled, Constrained bool
}

// Model implements backend.Model. The methods that are not part of the contract may be called from any goroutine.
type Model struct {
	cfg   Config
	info  backend.Info
	vocab *backend.Vocab
	trie  *trie
	cells cells

	logits  []float32
	sampler *sample.Sampler
	steps   int
	nextID  int
	checks  uint64 // steps that were asked for
	broken  error
	ready   chan struct{}

	mu     sync.Mutex // guards what tests read while steps run
	open   int
	record []Step
	closed bool
}

// New returns a model. It panics if the configuration is impossible: a vocabulary without all 256 bytes, or a
// negative size.
func New(cfg Config) *Model {
	if cfg.Vocab == nil {
		cfg.Vocab = Harmony()
	}
	def := func(n *int, d int) {
		if *n < 0 {
			panic(fmt.Sprintf("fake: negative size %d", *n))
		}
		if *n == 0 {
			*n = d
		}
	}
	def(&cfg.ContextSize, 8192)
	def(&cfg.Sequences, 8)
	def(&cfg.CacheTokens, cfg.ContextSize*cfg.Sequences)
	def(&cfg.BatchSize, 512)
	if cfg.Name == "" {
		cfg.Name = "fake"
	}
	n := cfg.Vocab.Len()
	return &Model{
		cfg: cfg, vocab: cfg.Vocab, trie: newTrie(cfg.Vocab), cells: newCells(cfg.CacheTokens),
		ready:  make(chan struct{}, 1),
		logits: make([]float32, n), sampler: sample.New(n),
		info: backend.Info{
			Name: cfg.Name, Architecture: "fake", Backend: "fake", Device: "none", Quantization: "none",
			ContextSize: cfg.ContextSize, TrainedContext: cfg.ContextSize, Sequences: cfg.Sequences,
			CacheTokens: cfg.CacheTokens, BatchSize: cfg.BatchSize, Threads: 1, EmbeddingLength: embeddingLength,
			ChatTemplate: cfg.ChatTemplate, Header: fmt.Sprintf("%064x", n), Digest: fmt.Sprintf("%064x", n),
		},
	}
}

// Info implements backend.Model.
func (m *Model) Info() backend.Info { return m.info }

// Vocab implements backend.Model.
func (m *Model) Vocab() *backend.Vocab { return m.vocab }

// Capabilities implements backend.Model.
func (m *Model) Capabilities() backend.Capabilities {
	return backend.Capabilities{Logits: true, Embeddings: m.cfg.Pace == nil, Targets: true, ExactTruncate: true,
		Drafts: true, Paced: m.cfg.Pace != nil}
}

// Tokenize implements backend.Model.
func (m *Model) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	return m.trie.tokenize(dst, text), nil
}

// NewSequence implements backend.Model.
func (m *Model) NewSequence() (backend.Sequence, error) { return m.newSequence() }

func (m *Model) newSequence() (*sequence, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, backend.ErrClosed
	case m.broken != nil:
		return nil, m.broken
	case m.open >= m.cfg.Sequences:
		return nil, backend.ErrNoSequence
	}
	m.open++
	m.nextID++
	return &sequence{Member: backend.Member{Of: m}, model: m, id: m.nextID}, nil
}

// Step implements backend.Model.
func (m *Model) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	if err := m.check(inputs, outputs); err != nil {
		return err
	}
	step := m.steps
	m.steps++
	if m.broken != nil {
		return m.broken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.cfg.Fail != nil {
		if err := m.cfg.Fail(step, inputs); err != nil {
			m.noteBroken(err)
			return err
		}
	}
	if err := m.wait(ctx, inputs); err != nil {
		return err
	}
	if m.cfg.Pace != nil {
		return m.runPaced(inputs, outputs)
	}
	return m.run(inputs, outputs)
}

// check returns the error of a bad step before anything changes.
func (m *Model) check(inputs []backend.Input, outputs []backend.Output) error {
	if m.isClosed() {
		return backend.ErrClosed
	}
	m.checks++
	if err := backend.CheckSequences(m, inputs, m.checks); err != nil {
		return err
	}
	return backend.CheckInputs(&m.info, m.Capabilities(), m.vocab, inputs, outputs)
}

// run feeds and samples. After an error every sequence is as it was.
func (m *Model) run(inputs []backend.Input, outputs []backend.Output) error {
	if total(inputs) > m.cells.free() {
		return backend.ErrCacheFull
	}
	fed := 0
	var err error
	for i := range inputs {
		in := &inputs[i]
		s := in.Sequence.(*sequence)
		outputs[i].Reset()
		scored := len(in.Targets)
		for j, target := range in.Targets {
			s.feed(in.Tokens[j : j+1])
			m.next(s)
			_ = m.sampler.Score(m.logits, target, in.TargetTop, outputs[i].NextScore()) // the fake's logits are never bad
		}
		s.feed(in.Tokens[scored:])
		fed++
		if in.Logits != nil {
			m.next(s)
			copy(in.Logits, m.logits)
		}
		if in.Sampling == nil {
			continue
		}
		if e := m.sample(s, in, &outputs[i]); e != nil {
			err = &backend.InputError{Index: i, Err: e}
			break
		}
	}
	if err != nil {
		for i := range inputs[:fed] {
			s := inputs[i].Sequence.(*sequence)
			s.shorten(len(s.tokens) - len(inputs[i].Tokens) - len(outputs[i].More))
		}
		return err
	}
	for i := range inputs {
		addHidden(inputs[i].Hidden, inputs[i].Tokens)
	}
	m.note(inputs, outputs)
	return nil
}

// sample samples after the last token of a sequence, and feeds the drafts that are right.
func (m *Model) sample(s *sequence, in *backend.Input, out *backend.Output) error {
	length := len(s.tokens)
	err := m.sampler.Follow(in, length, func(n int) ([]float32, error) {
		if n > 0 {
			draft := [1]backend.Token{in.Drafts[n-1].Token}
			s.feed(draft[:])
		}
		m.next(s)
		return m.logits, nil
	}, out)
	s.shorten(length + len(out.More))
	return err
}

// total is the number of tokens in a step.
func total(inputs []backend.Input) (n int) {
	for i := range inputs {
		n += len(inputs[i].Tokens) + len(inputs[i].Drafts)
	}
	return n
}

func (m *Model) wait(ctx context.Context, inputs []backend.Input) error {
	if m.cfg.Delay == nil {
		return nil
	}
	t := time.NewTimer(m.cfg.Delay(total(inputs)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next computes the logits after a sequence's last token.
func (m *Model) next(s *sequence) {
	h := m.cells.hash(s.cells[len(s.cells)-1])
	for i := range m.logits {
		m.logits[i] = noise(h, uint64(i))
	}
	if m.cfg.Script != nil {
		if t := m.cfg.Script(s.tokens); m.vocab.Valid(t) {
			m.logits[t] += cmp.Or(m.cfg.Vote, vote)
		}
	}
}

// vote is the usual bonus for a script's token.
const vote = 50

// noise returns a value between -4 and 4, denser around 0, that depends on a history's hash and a token.
func noise(h, token uint64) float32 {
	x := mix(h ^ token*0x9e3779b97f4a7c15)
	sum := uint32(x&0xffff) + uint32(x>>16&0xffff) + uint32(x>>32&0xffff) + uint32(x>>48)
	return float32(sum)/(2*0xffff/4.0) - 4
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Close implements backend.Model.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *Model) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// OpenSequences returns how many sequences are open.
func (m *Model) OpenSequences() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// UsedCells returns how many tokens the cache holds. A prefix that forks share counts once. Like Step it must not
// run concurrently with methods of sequences.
func (m *Model) UsedCells() int { return len(m.cells.all) - m.cells.free() }

// Steps returns the shapes of the successful steps so far, if Config.Record is set.
func (m *Model) Steps() []Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Step(nil), m.record...)
}

func (m *Model) note(inputs []backend.Input, outputs []backend.Output) {
	if !m.cfg.Record {
		return
	}
	var s Step
	for i := range inputs {
		q := inputs[i].Sequence.(*sequence)
		s.Inputs = append(s.Inputs, Fed{
			ID: q.id, Before: len(q.tokens) - len(inputs[i].Tokens) - len(outputs[i].More), Tokens: len(inputs[i].Tokens),
			Drafts: len(inputs[i].Drafts), Right: len(outputs[i].More),
			Sampled: inputs[i].Sampling != nil, Constrained: inputs[i].Constraint != nil,
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record = append(m.record, s)
}
