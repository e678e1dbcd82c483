// Package pool keeps the models that a server has: loaded when they are first asked for, shared by all requests,
// and unloaded when they have been idle for long or when another needs their memory.
//
// It knows names, models and time, nothing of HTTP, and opens no model itself: it is given a function that does. A
// model is never unloaded while somebody holds it, unless its engine has failed.
package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"runner/generation"
	"runner/server/wire"
)

// Errors, wrapped.
var (
	// ErrUnknown: there is no model of that name.
	ErrUnknown = errors.New("there is no such model")
	// ErrNoMemory: the models in use leave no room for another; try again later.
	ErrNoMemory = errors.New("the models in use leave no room for another")
	// ErrClosed: the pool was closed.
	ErrClosed = errors.New("the models are being unloaded")
	// ErrChanged: the model's files are not those that were loaded.
	ErrChanged = generation.ErrChanged
	// ErrBroken: the model's engine failed right after it had been loaded; try again later.
	ErrBroken = errors.New("the model's engine fails")
)

// Config says which models there are. Open and Models are required.
type Config struct {
	// Open loads a model. It is called for one model at a time.
	Open func(ctx context.Context, name string) (wire.Loaded, error)
	// Models lists the models, the default first.
	Models []Entry
	// Check, when not nil, says whether a model's files are still those that were loaded. failure is why its engine
	// failed, or nil where it works and only might use what has changed. An error that wraps ErrChanged says that
	// they are not; others are logged.
	Check func(ctx context.Context, name string, failure error) error
	// KeepAlive is how long an idle model stays loaded; 0 means 5 minutes, negative for ever.
	KeepAlive time.Duration
	// Memory is the most bytes of weights that are loaded at once, by Entry.Size; 0 is no limit. One model alone
	// may exceed it.
	Memory int64
	// Clock gives the time; nil means time.Now.
	Clock func() time.Time
	// Logger receives names, sizes and times; nil is silent.
	Logger *slog.Logger
}

// Entry is a model that can be loaded.
type Entry struct {
	// Name is what requests call it.
	Name string
	// Size is what its weights take in bytes.
	Size int64
	// Pinned models are never unloaded.
	Pinned bool
}

// Pool is a set of models. Its methods may be called by several goroutines at once.
type Pool struct {
	cfg Config
	// stop ends loading.
	stop   context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	models map[string]*model
	// loading is held by who loads or unloads, so that memory is not promised twice.
	loading chan struct{}
	// freed is closed and made anew whenever a model is given back.
	freed chan struct{}
	timer *time.Timer
}

type model struct {
	entry  Entry
	loaded wire.Loaded // nil while it is not loaded
	users  int
	used   time.Time
	// since is when it was loaded, and broken what was loaded before and has failed, until that is closed; nil for none.
	since  time.Time
	broken wire.Loaded
	// loading is the attempt to load it that is under way; nil for none.
	loading *attempt
	// failed is why the last attempt failed; until then nobody tries again.
	failed error
	until  time.Time
	// failure is why the engine failed of a model that was not loaded again since; nil for none.
	failure error
	// unwanted models are unloaded as soon as nobody uses them.
	unwanted bool
}

// attempt is one attempt to load a model, for all who wait for it.
type attempt struct {
	done chan struct{}
	// err is why it failed, once done is closed.
	err error
}

// New returns a pool in which nothing is loaded.
func New(cfg Config) *Pool {
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = 5 * time.Minute
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	p := &Pool{cfg: cfg, models: map[string]*model{}, loading: make(chan struct{}, 1), freed: make(chan struct{})}
	p.stop, p.cancel = context.WithCancel(context.Background())
	for _, e := range cfg.Models {
		p.models[e.Name] = &model{entry: e}
	}
	if cfg.KeepAlive > 0 {
		p.timer = time.AfterFunc(cfg.KeepAlive, p.expire)
	}
	return p
}

// Names lists the models, the default first.
func (p *Pool) Names() []string {
	names := make([]string, len(p.cfg.Models))
	for i, e := range p.cfg.Models {
		names[i] = e.Name
	}
	return names
}

// Loaded returns a model that is in memory, or nil, without holding it: it may be closed at any time.
func (p *Pool) Loaded(name string) wire.Loaded {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.models[name]; m != nil {
		return m.loaded
	}
	return nil
}

// Expires returns when a loaded model is unloaded if nobody uses it from now on; zero for never, and for a model
// that is not loaded.
func (p *Pool) Expires(name string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.models[name]
	if m == nil || m.loaded == nil || m.entry.Pinned || p.cfg.KeepAlive < 0 {
		return time.Time{}
	}
	used := m.used
	if m.users > 0 {
		used = p.cfg.Clock()
	}
	return used.Add(p.cfg.KeepAlive)
}

// retryAfter is how long a model that could not be loaded is not tried again.
const retryAfter = 5 * time.Second

// Use returns a model, loading it where that is needed, and what gives it back; calling that twice is
// harmless. All who wait for a model that cannot be loaded get the error of one attempt, and so do those who come
// within a few seconds of it. A model whose engine has failed is loaded anew, every few seconds at most. The errors
// are ErrUnknown, ErrNoMemory, ErrClosed, ErrBroken, the context's and what Open returns.
func (p *Pool) Use(ctx context.Context, name string) (wire.Loaded, func(), error) {
	began := time.Now()
	for {
		r, release, attempt, err := p.take(name)
		if r != nil || err != nil {
			return r, release, err
		}
		select {
		case <-attempt.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		err = attempt.err
		if errors.Is(err, ErrNoMemory) && time.Since(began) < patience/2 {
			continue // it was another's patience that came to its end
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// take holds a model if it is loaded. Otherwise it returns the attempt to load it, which goes on when its callers
// have left.
func (p *Pool) take(name string) (wire.Loaded, func(), *attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.models[name]
	switch {
	case p.closed:
		return nil, nil, nil, ErrClosed
	case m == nil:
		return nil, nil, nil, fmt.Errorf("%q: %w", name, ErrUnknown)
	case m.loaded != nil && m.loaded.Failure() != nil:
		if p.cfg.Clock().Before(m.since.Add(retryAfter)) {
			return nil, nil, nil, ErrBroken
		}
		m.broken, m.loaded, m.unwanted, m.failure = m.loaded, nil, false, m.loaded.Failure()
	}
	switch {
	case m.loaded != nil:
		m.users++
		m.unwanted = false
		return m.loaded, sync.OnceFunc(func() { p.release(m) }), nil, nil
	case m.failed != nil && p.cfg.Clock().Before(m.until):
		return nil, nil, nil, m.failed
	case m.loading == nil:
		m.loading = &attempt{done: make(chan struct{})}
		go p.try(m)
	}
	return nil, nil, m.loading, nil
}

// try loads a model, once for all who wait.
func (p *Pool) try(m *model) {
	err := p.load(m.entry.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	m.failed = nil
	if err != nil && !errors.Is(err, ErrNoMemory) && !errors.Is(err, ErrClosed) {
		m.failed, m.until = err, p.cfg.Clock().Add(retryAfter)
	}
	m.loading.err = err
	close(m.loading.done)
	m.loading = nil
}

func (p *Pool) release(m *model) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.users--
	m.used = p.cfg.Clock()
	if m.users == 0 && m.unwanted {
		go p.expire()
	}
	close(p.freed)
	p.freed = make(chan struct{})
}

// patience is how long a request waits for models in use to become idle.
const patience = 10 * time.Second

// load brings a model into memory. While it waits for room, others may load and unload.
func (p *Pool) load(name string) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		freed, err := p.tryLoad(name)
		if !errors.Is(err, ErrNoMemory) {
			return err
		}
		select {
		case <-freed:
		case <-timeout.C:
			return err
		case <-p.stop.Done():
			return ErrClosed
		}
	}
}

// tryLoad brings a model into memory if there is room, once it is its turn. With ErrNoMemory it returns what is
// closed when there may be room.
func (p *Pool) tryLoad(name string) (freed <-chan struct{}, err error) {
	select {
	case p.loading <- struct{}{}:
	case <-p.stop.Done():
		return nil, ErrClosed
	}
	defer func() { <-p.loading }()
	p.mu.Lock()
	m := p.models[name]
	there, closed, broken, failure := m.loaded != nil, p.closed, m.broken, m.failure
	m.broken = nil
	p.mu.Unlock()
	if broken != nil {
		p.unload(name, broken, "its engine failed")
	}
	switch {
	case closed:
		return nil, ErrClosed
	case there:
		return nil, nil
	}
	if failure != nil {
		if err := p.check(p.stop, name, failure); err != nil {
			return nil, err
		}
	}
	if freed, err := p.makeRoom(m.entry.Size); err != nil {
		return freed, err
	}
	begin := p.cfg.Clock()
	r, err := p.cfg.Open(p.stop, name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(ErrClosed, r.Close())
	}
	m.loaded, m.used, m.failure = r, p.cfg.Clock(), nil
	m.since = m.used
	p.cfg.Logger.Info("model loaded", "model", name, "bytes", m.entry.Size, "seconds", m.used.Sub(begin).Seconds())
	return nil, nil
}

// check returns an error that wraps ErrChanged if a model's files are not those that were loaded.
func (p *Pool) check(ctx context.Context, name string, failure error) error {
	if p.cfg.Check == nil {
		return nil
	}
	err := p.cfg.Check(ctx, name, failure)
	if errors.Is(err, ErrChanged) {
		p.cfg.Logger.Error("a model is not what was loaded", "model", name, "error", err)
	} else if err != nil {
		p.cfg.Logger.Warn("a model's files cannot be compared", "model", name, "error", err)
		return nil
	}
	return err
}

// Inspect has a look at the files of a loaded model, and ends its runs if they are not those that were loaded.
func (p *Pool) Inspect(ctx context.Context, name string) {
	r := p.Loaded(name)
	if r == nil || r.Failure() != nil {
		return
	}
	if err := p.check(ctx, name, nil); err != nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = r.Fail(ctx, err) // where it was closed meanwhile there is nothing to end
	}
}

// Failure returns why a model's engine failed, or why the model could not be loaded again since; nil where it works.
func (p *Pool) Failure(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.models[name]
	switch {
	case m == nil:
		return nil
	case m.loaded != nil:
		return m.loaded.Failure()
	case m.failure != nil && m.failed != nil:
		return m.failed
	}
	return m.failure
}

// makeRoom unloads idle models, the one used least recently first, until size more bytes fit, or returns
// ErrNoMemory and what is closed when a model is given back.
func (p *Pool) makeRoom(size int64) (freed <-chan struct{}, err error) {
	if p.cfg.Memory <= 0 {
		return nil, nil
	}
	for {
		p.mu.Lock()
		total := int64(0)
		var oldest *model
		for _, m := range p.models {
			if m.loaded == nil {
				continue
			}
			total += m.entry.Size
			if m.users == 0 && !m.entry.Pinned && (oldest == nil || m.used.Before(oldest.used)) {
				oldest = m
			}
		}
		if total == 0 || total+size <= p.cfg.Memory {
			p.mu.Unlock()
			return nil, nil
		}
		if oldest == nil {
			freed := p.freed
			p.mu.Unlock()
			return freed, ErrNoMemory
		}
		r := oldest.loaded
		oldest.loaded = nil
		p.mu.Unlock()
		p.unload(oldest.entry.Name, r, "another model needs the memory")
	}
}

func (p *Pool) unload(name string, r wire.Loaded, why string) {
	if err := r.Close(); err != nil {
		p.cfg.Logger.Error("unloading a model failed", "model", name, "error", err)
		return
	}
	p.cfg.Logger.Info("model unloaded", "model", name, "why", why)
}

// Unload unloads a model, whatever its configuration, when nobody uses it any more; at once where nobody does, and
// Unload waits for that. Who asks for it before gets it, and then it stays. The errors are ErrUnknown, ErrClosed
// and the context's.
func (p *Pool) Unload(ctx context.Context, name string) error {
	p.mu.Lock()
	m := p.models[name]
	switch {
	case p.closed:
		p.mu.Unlock()
		return ErrClosed
	case m == nil:
		p.mu.Unlock()
		return fmt.Errorf("%q: %w", name, ErrUnknown)
	}
	m.unwanted = m.loaded != nil
	now := m.unwanted && m.users == 0
	p.mu.Unlock()
	if !now {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.expire()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// expire unloads what has been idle for too long or is not wanted, and comes again when the next could be.
func (p *Pool) expire() {
	select {
	case p.loading <- struct{}{}:
	case <-p.stop.Done():
		return
	}
	defer func() { <-p.loading }()
	now := p.cfg.Clock()
	next := p.cfg.KeepAlive
	type leaving struct {
		name, why string
		loaded    wire.Loaded
	}
	var gone []leaving
	p.mu.Lock()
	for name, m := range p.models {
		if m.loaded == nil || m.users > 0 {
			continue
		}
		why := "no longer wanted"
		if !m.unwanted {
			if m.entry.Pinned || p.cfg.KeepAlive < 0 {
				continue
			}
			if left := p.cfg.KeepAlive - now.Sub(m.used); left > 0 {
				next = min(next, left)
				continue
			}
			why = "idle"
		}
		gone = append(gone, leaving{name, why, m.loaded})
		m.loaded, m.unwanted = nil, false
	}
	if !p.closed && p.timer != nil {
		p.timer.Reset(max(next, time.Millisecond))
	}
	p.mu.Unlock()
	for _, m := range gone {
		p.unload(m.name, m.loaded, m.why)
	}
}

// Close unloads everything. Requests that are under way end with [generation.ErrClosed].
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.cancel()
	p.loading <- struct{}{} // what is being loaded sees that it is too late
	defer func() { <-p.loading }()
	p.mu.Lock()
	var all []wire.Loaded
	for _, name := range slices.Sorted(maps.Keys(p.models)) {
		m := p.models[name]
		all = append(all, m.broken, m.loaded)
		m.loaded, m.broken = nil, nil
	}
	p.mu.Unlock()
	var errs []error
	for _, r := range all {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}
