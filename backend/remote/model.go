package remote

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
)

// Config says how to run a model.
type Config struct {
	Engine Engine
	// Vocab and Tokenize are those of the model. They are compared with the engine's.
	Vocab    *backend.Vocab
	Tokenize func(dst []backend.Token, text string) ([]backend.Token, error)
	// Architecture and ChatTemplate come from the model's files. An empty template leaves it to the engine's.
	Architecture, ChatTemplate string
	// Load has the sizes that the user chose. Only ContextSize, Sequences and
	// BatchSize have a meaning.
	Load backend.Config
	// NoSharedCache asks the engine not to reuse prefixes.
	NoSharedCache bool
	Patience      Patience
	// Known remembers the model for the next time that the engine is opened; nil means that nobody asks for that.
	Known *Known
	// Warn, when not nil, gets lines that an operator should read. They have no address, no key and no text of a request.
	// It may be called from any goroutine, and never twice with the same news.
	Warn func(line string)
}

// Patience says how long to wait. Zero values mean the defaults.
type Patience struct {
	// FirstToken is how long the first token of a stream may take; 0 means 5 minutes. NextToken is how long each further
	// one may take; 0 means 1 minute.
	FirstToken, NextToken time.Duration
	// Faults is how long a sequence may go without a new token while the engine cannot be reached, is busy or fails; 0
	// means 30 seconds.
	Faults time.Duration
	// Open is how long it may take to ask the engine what it is and to compare the vocabularies; 0 means 1 minute.
	// Describe is how long each later question what it is may take; 0 means 10 seconds.
	Open, Describe time.Duration
}

func (p *Patience) fill() {
	p.FirstToken, p.NextToken = cmp.Or(p.FirstToken, 5*time.Minute), cmp.Or(p.NextToken, time.Minute)
	p.Faults = cmp.Or(p.Faults, 30*time.Second)
	p.Open, p.Describe = cmp.Or(p.Open, time.Minute), cmp.Or(p.Describe, 10*time.Second)
}

// Model implements backend.Paced.
type Model struct {
	engine   Engine
	vocab    *backend.Vocab
	tokenize func(dst []backend.Token, text string) ([]backend.Token, error)
	info     backend.Info
	about    Description
	noCache  bool
	patience Patience
	secret   [32]byte
	breaker  breaker
	counts   counts
	// noForms are the forms that are not sent. blame has those that the engine failed at once.
	noForms, blame formSet
	blameOnce      sync.Once

	ready chan struct{}
	mask  backend.Mask
	plans []plan

	open   int
	steps  uint64
	nextID atomic.Uint64
	closed atomic.Bool
	// lost says why the model must be loaded again; nil if it need not be.
	lost atomic.Pointer[error]
	// watch knows whether the engine still runs the model.
	watch watch
	warn  func(line string)
	// streams waits for the goroutines of all streams and for the questions in the background. They end with ctx.
	streams sync.WaitGroup
	stop    context.CancelFunc
	ctx     context.Context
}

// counts are for metrics.
type counts struct {
	opened, replaced, faults, gaveUp, unformed atomic.Int64
}

// defaultSequences is how many sequences an engine is taken to compute at a time if nobody says so.
const defaultSequences = 64

// Open asks the engine what it is, compares the vocabularies and returns the model. The engine is closed with the
// model, and after an error.
func Open(ctx context.Context, c Config) (*Model, error) {
	c.Patience.fill()
	var about Description
	if err := within(ctx, c.Patience.Open, func(ctx context.Context) (err error) {
		if about, err = Describe(ctx, c.Engine); err != nil {
			return err
		}
		if err := c.Known.Check(&about); err != nil {
			return err
		}
		return compare(ctx, c.Engine, &about, c.Vocab, c.Tokenize)
	}); err != nil {
		c.Engine.Close()
		return nil, err
	}
	m := &Model{engine: c.Engine, vocab: c.Vocab, tokenize: c.Tokenize, about: about, noCache: c.NoSharedCache,
		patience: c.Patience, ready: make(chan struct{}, 1), mask: backend.NewMask(c.Vocab.Len())}
	c.Known.keep(&about)
	m.info = infoOf(&c, &about)
	m.watch.turn = make(chan struct{}, 1)
	if m.warn = c.Warn; m.warn == nil {
		m.warn = func(string) {}
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	rand.Read(m.secret[:])
	return m, nil
}

func infoOf(c *Config, d *Description) backend.Info {
	info := backend.Info{
		Name: shortName(d.Model), Architecture: c.Architecture, Backend: c.Engine.Kind(), Device: "another machine",
		Parameters: d.Parameters, Bytes: d.Bytes, Quantization: d.Quantization,
		ContextSize:    d.ContextSize - 1, // after which one more token can be sampled
		TrainedContext: d.TrainedContext, Sequences: c.Load.Sequences, ChatTemplate: c.ChatTemplate, Header: identity(d),
	}
	if d.Version != "" {
		info.Backend += " " + d.Version
	}
	if n := c.Load.ContextSize; n > 0 && n < info.ContextSize {
		info.ContextSize, info.ContextReason = n, "what was asked for"
	} else {
		info.ContextReason = "what the engine has for a sequence"
	}
	if info.Sequences <= 0 {
		// A run takes one sequence and its summary another one.
		info.Sequences = 2 * cmp.Or(max(d.Parallel, 0), d.Usual, defaultSequences)
	}
	info.CacheTokens = info.ContextSize * info.Sequences
	// Only the last tokens of a step go to the engine, with all before them, so its size has no cost.
	if info.BatchSize = c.Load.BatchSize; info.BatchSize <= 0 {
		info.BatchSize = max(info.ContextSize, 64*info.Sequences)
	}
	if info.ChatTemplate == "" {
		info.ChatTemplate = d.ChatTemplate
	}
	return info
}

// shortName returns the name of a model's file without its path and extension, or another name as it is.
func shortName(name string) string {
	if base := path.Base(name); strings.HasSuffix(base, ".gguf") {
		return strings.TrimSuffix(base, ".gguf")
	}
	return name
}

// Info implements backend.Model.
func (m *Model) Info() backend.Info { return m.info }

// About returns what the engine said about itself when the model was opened.
func (m *Model) About() Description { return m.about }

// Vocab implements backend.Model.
func (m *Model) Vocab() *backend.Vocab { return m.vocab }

// Tokenize implements backend.Model.
func (m *Model) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	return m.tokenize(dst, text)
}

// Capabilities implements backend.Model.
func (m *Model) Capabilities() backend.Capabilities {
	return backend.Capabilities{ExactTruncate: true, Paced: true, MixesOwners: !m.about.Salted && !m.noCache}
}

// CheckSampling returns a *backend.SettingError for the first setting for which the engine has no equal.
func (m *Model) CheckSampling(p *backend.Sampling) error {
	rest := p.Plain()
	rest.PresencePenalty, rest.FrequencyPenalty = 0, 0 // these are added to the bias
	for _, x := range rest.Settings() {
		if x.Effect == backend.Penalty && x.On() {
			return &backend.SettingError{Setting: x.Field, Detail: "an engine on another machine has no equal for " + x.Name +
				", because it counts other tokens"}
		}
	}
	return m.engine.Check(p)
}

// Ready implements backend.Paced.
func (m *Model) Ready() <-chan struct{} { return m.ready }

// wake says that a step may have results.
func (m *Model) wake() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// StreamCounts returns how often streams were opened, tokens were replaced because a constraint did not allow them,
// streams failed, and sequences were given up after faults. It may be called from any goroutine.
func (m *Model) StreamCounts() (opened, replaced, faults, gaveUp int64) {
	c := &m.counts
	return c.opened.Load(), c.replaced.Load(), c.faults.Load(), c.gaveUp.Load()
}

// FormsRefused returns how many forms the engine refused to follow. Those answers were checked here alone. It may be
// called from any goroutine.
func (m *Model) FormsRefused() int64 { return m.counts.unformed.Load() }

// Down reports whether the engine counts as down because it failed several times in a row. It may be called from any
// goroutine.
func (m *Model) Down() bool { return m.breaker.open() }

// salt returns what keeps an owner's prefixes apart at the engine. It does not tell the owner's name.
func (m *Model) salt(owner string) string {
	if !m.about.Salted {
		return ""
	}
	h := hmac.New(sha256.New, m.secret[:])
	h.Write([]byte(owner))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// id returns a name for a request that no other request of this program has. All have the same length, because SGLang
// ends every request whose name begins with that of the one to end.
func (m *Model) id() string { return fmt.Sprintf("runner-%x-%016x", m.secret[:6], m.nextID.Add(1)) }

// lose makes all further steps fail: the model must be loaded again.
func (m *Model) lose(why error) {
	err := fmt.Errorf("%w: %w: %w", backend.ErrBroken, backend.ErrUnavailable, why)
	m.lost.CompareAndSwap(nil, &err)
	m.wake()
}

// within calls do with a context that ends after a time. It then returns errTooSlow.
func within(ctx context.Context, most time.Duration, do func(ctx context.Context) error) error {
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := do(short)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return errTooSlow
	}
	return err
}

// Close implements backend.Model. It ends all streams, and gives the engine a second to be told so.
func (m *Model) Close() error {
	if !m.closed.Swap(true) {
		m.stop()
		m.streams.Wait()
		m.engine.Close()
	}
	return nil
}
