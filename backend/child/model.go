// Package child runs an engine in a process of its own.
//
// A [Model] is a backend.Model like any other. Its calls become the frames of docs/engine-protocol.md, and package
// serve answers them in the other process.
//
// # Crashes
//
// If the process ends, hangs or breaks the protocol, it is started again. The model knows the tokens of every
// sequence, so it feeds them again and repeats the step. The caller sees a step that takes longer. Where the
// engine's logits depend on the sequence alone, the next tokens are the same as without the crash, because sampling
// depends on seed and position.
//
// After a crash in a step of several sequences, each of them takes its step alone. A sequence that crashes the
// engine twice alone fails with backend.ErrCrashed, and the others go on. If the process cannot be started again,
// every call returns backend.ErrBroken.
//
// # Hangs
//
// A process hangs if it has a request and makes no progress for 5 seconds, or 8 times as long as such a step
// usually takes. Progress is completed work, not a sign of life from a thread that does nothing else. While a model
// loads it is a greater fraction of it, and may take 2 minutes. A text may take 5 seconds, and more if it is long.
// Time in which this process or the machine sleeps does not count.
package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
	"runner/backend/ledger"
	"runner/backend/sample"
	"runner/hint"
)

// Engine says how to run an engine.
type Engine struct {
	Program Program
	// Version is the version of this program. The engine may log it.
	Version string
	// Text reads the vocabulary, the tokenizer and the template from a model's files. It may be nil if the engine sends
	// its vocabulary and tokenizes itself. It may return nil for a model that only the engine can tokenize.
	Text func(path string) (*Text, error)
	// Memory is how much memory the process may take, in bytes, to report where it needs more. The program sets the limit
	// itself. 0 means no limit.
	Memory int64
	// Log reports crashes and restarts, and what the engine writes as debug messages, each with the name of the model's
	// file. A caller that has other names for models adds them. Nil reports nothing.
	Log *slog.Logger

	// times is usualTimes, and ledger is ledger.Models, except in tests. begin starts the program; nil means the function
	// of that name.
	times  times
	ledger *ledger.Ledger
	begin  func(Program) (*process, error)
}

// Text is what a model's files say about its text: a vocabulary with its tokenizer, which is safe for concurrent use,
// and the chat template. An empty ChatTemplate is that of the engine.
type Text struct {
	Vocab        *backend.Vocab
	Tokenize     func(dst []backend.Token, text string) ([]backend.Token, error)
	ChatTemplate string
}

// Model implements backend.Model.
type Model struct {
	engine   Engine
	path     string
	load     protocol.Load // with the sizes that the first process chose
	entry    *ledger.Entry
	info     backend.Info
	vocab    *backend.Vocab
	caps     backend.Capabilities
	tokenize func(dst []backend.Token, text string) ([]backend.Token, error) // nil if the engine does it

	// turn has room for one value, which is in it while a process is started or the model is closed. It guards what
	// follows.
	turn     chan struct{}
	noted    *conn // the last one whose end was counted
	failures int   // starts that failed, since one that did not
	ended    bool  // the model is closed

	conn    atomic.Pointer[conn] // it changes in a turn
	starts  atomic.Int32         // since the last completed step
	open    context.Context      // ends when Close begins, so that no start keeps it waiting
	closing context.CancelFunc
	keeping sync.WaitGroup        // of the goroutines that wait for the end of a process
	lost    atomic.Pointer[error] // why no process can be started; nil if one can

	crashes, hangs, failed atomic.Int64
	pid                    atomic.Int64 // of the process that works; 0 if there is none

	// What follows belongs to the goroutine that steps.
	epoch     int // number of the process; sequences of another one are lost
	seen      *conn
	rows      rows
	sampler   *sample.Sampler
	pace      pace
	sequences []*sequence // open ones, by number
	pieces    uint64      // how many pieces of tokens were fed
	step      uint64
	head, raw []byte
	mask      backend.Mask
	input     protocol.Input
	drafts    []backend.Token  // of input
	one       [1]backend.Input // for feeding tokens again
	oneOut    [1]backend.Output
}

// Open starts the engine and loads a model. Its errors are those of the engine, with a *backend.LoadError where the
// model is to blame.
func (e Engine) Open(ctx context.Context, path string, cfg backend.Config) (*Model, error) {
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	e.Log = e.Log.With("file", filepath.Base(path))
	if e.times == (times{}) {
		e.times = usualTimes
	}
	if e.ledger == nil {
		e.ledger = &ledger.Models
	}
	m := &Model{engine: e, path: path, load: protocol.Load{Path: path, Config: cfg}, pace: pace{times: e.times},
		turn: make(chan struct{}, 1)}
	if f := cfg.Files; f != nil && f.Held() != nil {
		m.engine.Program.Model, m.load.File = f.Held(), protocol.FileModel
	}
	m.open, m.closing = context.WithCancel(context.Background())
	template := ""
	if e.Text != nil {
		t, err := e.Text(path)
		if err != nil {
			return nil, err
		}
		if t != nil {
			template = t.ChatTemplate
			m.vocab, m.tokenize = t.Vocab, t.Tokenize
		}
	}
	var c *conn
	var loaded protocol.Loaded
	var err error
	m.entry, err = e.ledger.Plan(m.Process, func(others backend.Memory) (backend.Memory, error) {
		c, loaded, err = m.begin(ctx, others, cfg.Progress)
		return loaded.Info.Memory, err
	})
	if err != nil {
		var load *backend.LoadError
		if ctx.Err() == nil && !errors.As(err, &load) {
			load = &backend.LoadError{Path: path, Reason: backend.LoadFailed, Detail: err.Error(), Err: err,
				Advice: "choose another engine, or a smaller model or context size"}
			var known *hint.Error // that of TooMuchMemory
			if errors.As(err, &known) {
				load.Reason, load.Detail, load.Advice = backend.LoadTooBig, known.Text, known.Hint()
			}
			err = load
		}
		return nil, err
	}
	m.conn.Store(c)
	m.pid.Store(int64(c.proc.pid))
	m.caps, m.pace.parts, m.pace.weights = loaded.Capabilities, loaded.Parts, loaded.Info.Bytes
	m.caps.Targets, m.caps.Drafts = true, m.caps.Drafts && c.hello.Samples
	m.info = loaded.Info
	m.info.Path, m.info.Backend = path, cmp.Or(m.info.Backend, c.hello.Engine)
	if template != "" {
		m.info.ChatTemplate = template
	}
	m.fix()
	m.sequences = make([]*sequence, m.info.Sequences)
	m.mask = backend.NewMask(m.vocab.Len())
	if !c.hello.Samples {
		m.sampler = sample.New(m.vocab.Len())
	}
	m.keep(c)
	return m, nil
}

// keep waits on a goroutine for the end of a process and starts the next one, so that no request has to wait for that.
// After maxFailures starts without a completed step it leaves the next start to a request.
func (m *Model) keep(c *conn) {
	m.keeping.Go(func() {
		select {
		case <-m.open.Done():
			return
		case <-c.dead:
		}
		if m.starts.Load() < maxFailures {
			_, _ = m.live(m.open, c) // it has logged the error, and the next request gets it
		}
	})
}

// fix makes later processes choose the same sizes as the first one, whatever memory is free then.
func (m *Model) fix() {
	m.load.ContextSize, m.load.Sequences, m.load.BatchSize = m.info.ContextSize, m.info.Sequences, m.info.BatchSize
	m.load.CacheTokens, m.load.Threads, m.load.GPULayers = m.info.CacheTokens, m.info.Threads, m.info.GPULayers
	m.load.FullWindow = "on"
	if m.info.WindowOnly {
		m.load.FullWindow = "off"
	}
}

// begin starts a process and loads the model. It sets the vocabulary if it is not set, and else checks that it is
// the same. others is what other models were promised.
func (m *Model) begin(ctx context.Context, others backend.Memory, progress func(float32) bool) (c *conn,
	l protocol.Loaded, err error) {
	if c, err = dial(ctx, &m.engine); err != nil {
		return nil, l, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	load := m.load
	load.Reserved = others
	f, err := c.ask(ctx, m.engine.times.load, protocol.KindLoad, load)
	stopped := false
	for ; err == nil && f.Kind == protocol.KindProgress; f, err = c.await(ctx) {
		var p protocol.Progress
		err := f.JSON(&p)
		c.more()
		if err == nil && progress != nil && !progress(p.Fraction) {
			stopped = true
			cancel()
		}
	}
	if err != nil {
		return c, l, err
	}
	err = c.take(f, protocol.KindLoaded, &l)
	var vocab *backend.Vocab
	if err == nil {
		vocab, err = l.Decode(f.Raw)
	}
	c.done()
	if err == nil && ctx.Err() != nil { // the engine did not heed it
		err = context.Cause(ctx)
	}
	if err != nil {
		var e *protocol.Error
		switch {
		case stopped:
			err = &backend.LoadError{Path: m.path, Reason: backend.LoadCanceled, Detail: "canceled"}
		case c.reason != nil:
			err = c.end(err)
		case errors.As(err, &e):
			err = e.Backend(m.path)
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		}
		return c, l, err
	}
	if err := m.unchanged(); err != nil {
		return c, l, err
	}
	if err := m.match(vocab); err != nil {
		return c, l, err
	}
	if err := m.same(c, &l.Info); err != nil {
		return c, l, err
	}
	return c, l, m.share(c, &l)
}

// same checks that a process that was started again is like the one before: it has the same model, and the sizes of the
// buffers.
func (m *Model) same(c *conn, i *backend.Info) error {
	before := m.noted // nil if this is the first one
	switch {
	case before == nil:
		return nil
	case i.Header != m.info.Header:
		return errChanged
	case c.hello.Samples == before.hello.Samples && i.ContextSize == m.info.ContextSize &&
		i.Sequences == m.info.Sequences && i.BatchSize == m.info.BatchSize && i.EmbeddingLength == m.info.EmbeddingLength:
		return nil
	}
	return fmt.Errorf("%w: the engine has other sizes than before", protocol.ErrFrame)
}

// unchanged returns an error if the process may have loaded something else than the files that were opened first.
func (m *Model) unchanged() error {
	if m.load.Files == nil {
		return nil
	}
	err := m.load.Files.Unchanged()
	switch {
	case err == nil:
		return nil
	case m.noted == nil:
		return backend.FilesChanged(m.path, err)
	}
	return fmt.Errorf("%w: %w", errChanged, err)
}

// errChanged says that a process that was started again has loaded another model. Its answers would go on with those of
// the model before.
var errChanged = errors.New("the model's files have changed")

// match compares the engine's vocabulary with the model's, or takes it over.
func (m *Model) match(v *backend.Vocab) error {
	switch {
	case v == nil && m.vocab == nil:
		return errors.New("the engine sent no vocabulary")
	case v == nil:
		return nil
	case m.vocab == nil:
		m.vocab = v
		return nil
	}
	same := v.Len() == m.vocab.Len() && v.EOS() == m.vocab.EOS()
	for t := backend.Token(0); same && int(t) < v.Len(); t++ {
		same = v.Piece(t) == m.vocab.Piece(t) && v.Kind(t) == m.vocab.Kind(t) &&
			v.EndsGeneration(t) == m.vocab.EndsGeneration(t)
	}
	if !same {
		return &backend.LoadError{Path: m.path, Reason: backend.LoadFailed,
			Detail: "the engine reads another vocabulary from the model", Advice: "the file may have changed; load it again"}
	}
	return nil
}

// maxFailures is how many starts in a row may fail until the model counts as broken.
const maxFailures = 3

// live returns a process that works, as far as is known, and starts one if old is the last one and is gone. It may be
// called from any goroutine.
func (m *Model) live(ctx context.Context, old *conn) (*conn, error) {
	if m.isClosed() {
		return nil, backend.ErrClosed
	}
	select {
	case <-old.dead:
	default:
		return old, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.open, func() { cancel(backend.ErrClosed) })()
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := m.Failure(); err != nil {
		return nil, err
	}
	if c := m.conn.Load(); c != old {
		return c, nil
	}
	if m.noted != old {
		m.noted = old
		m.note(old)
	}
	old.close()
	for {
		if err := wait(ctx, int(m.starts.Load())); err != nil {
			return nil, err
		}
		began := time.Now()
		c, _, err := m.begin(ctx, m.engine.ledger.Others(m.entry), nil)
		m.starts.Add(1)
		if err == nil {
			m.engine.Log.Info("the engine's process was started again", "took", time.Since(began))
			m.conn.Store(c)
			m.failures = 0
			m.pid.Store(int64(c.proc.pid))
			m.keep(c)
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m.engine.Log.Error("the engine's process could not be started again", "error", err)
		if m.failures++; m.failures >= maxFailures || errors.Is(err, errChanged) {
			if c := (*crash)(nil); errors.As(err, &c) {
				err = c.err // no request is to blame
			}
			lost := fmt.Errorf("%w: %w: its process cannot be started again: %w", backend.ErrBroken, backend.ErrCrashed,
				err)
			m.lost.Store(&lost)
			return nil, lost
		}
	}
}

// note counts and reports the end of a process.
func (m *Model) note(c *conn) {
	m.pid.Store(0)
	m.crashes.Add(1)
	if errors.Is(c.cause, errHang) {
		m.hangs.Add(1)
	}
	m.engine.Log.Error("the engine's process is gone", "error", c.cause)
}

// backOff returns how long to wait after a number of starts: twice as long after each, and at most 3.2 seconds.
func backOff(starts int) time.Duration { return 100 * time.Millisecond << min(starts, 5) }

// wait waits before a start: not at all before the first one, then longer each time.
func wait(ctx context.Context, starts int) error {
	if starts == 0 {
		return context.Cause(ctx)
	}
	select {
	case <-time.After(backOff(starts)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Info implements backend.Model.
func (m *Model) Info() backend.Info { return m.info }

// Vocab implements backend.Model.
func (m *Model) Vocab() *backend.Vocab { return m.vocab }

// Capabilities implements backend.Model.
func (m *Model) Capabilities() backend.Capabilities { return m.caps }

// Failure returns why the engine's process cannot be started again, or nil. It may be called from any goroutine.
func (m *Model) Failure() error {
	if err := m.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// Crashes returns how many processes ended while the model was in use, how many of them made no progress, and how many
// sequences failed with backend.ErrCrashed. It may be called from any goroutine.
func (m *Model) Crashes() (all, hangs, failed int64) {
	return m.crashes.Load(), m.hangs.Load(), m.failed.Load()
}

// Memory returns how many bytes of the engine's process are in memory, the pages of the model's file included, and
// those that a GPU has to itself left out. It is 0 if there is no process, or if the system does not tell. It may be
// called from any goroutine.
func (m *Model) Memory() int64 {
	if pid := m.Process(); pid != 0 {
		return resident(pid)
	}
	return 0
}

// Process returns the number of the engine's process, or 0 if there is none. It may be called from any goroutine.
func (m *Model) Process() int {
	return int(m.pid.Load())
}

// Tokenize implements backend.Model.
func (m *Model) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	if m.tokenize != nil {
		return m.tokenize(dst, text)
	}
	c := m.conn.Load()
	for crashes := 0; ; {
		var err error
		if c, err = m.live(context.Background(), c); err != nil {
			return dst, err
		}
		list, err := c.tokenize(text, m.engine.times.forText(len(text)))
		if err == nil {
			for _, t := range list {
				if !m.vocab.Valid(t) {
					return dst, fmt.Errorf("%w: %d, from the engine's tokenizer", backend.ErrBadToken, t)
				}
				if m.vocab.Kind(t) == backend.Control {
					return dst, fmt.Errorf("the engine's tokenizer made the control token %d of a text", t)
				}
			}
			return append(dst, list...), nil
		}
		if !isCrash(err) {
			return dst, err
		}
		if crashes++; crashes >= maxAlone {
			return dst, fmt.Errorf("%w: %w", backend.ErrCrashed, errors.Unwrap(err))
		}
	}
}

func isCrash(err error) bool {
	if err == nil {
		return false // before c takes memory
	}
	var c *crash
	return errors.As(err, &c)
}

// isClosed reports whether Close has begun.
func (m *Model) isClosed() bool { return m.open.Err() != nil }

// Close implements backend.Model.
func (m *Model) Close() error {
	m.closing()
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if m.ended {
		return nil
	}
	m.ended = true
	m.pid.Store(0)
	m.conn.Load().close()
	m.entry.Remove()
	m.rows.unmap()
	m.keeping.Wait()
	return nil
}
