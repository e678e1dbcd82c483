// Package pool keeps the models of a server. It loads a model when it is first needed and shares it between all
// requests. It unloads models that have been idle for long or whose memory another model needs.
//
// It knows names, models and time, but no HTTP and no engine: its configuration has the function that opens a model. A
// model is never unloaded while a request holds it, unless its engine has failed.
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
	// ErrNoMemory: the models in use leave no memory for another one; try again later.
	ErrNoMemory = errors.New("the models in use leave no room for another")
	// ErrChanged: the model's files do not hold what was loaded.
	ErrChanged = generation.ErrChanged
	// ErrBroken: the model's engine failed right after it had been loaded; try again later.
	ErrBroken = errors.New("the model's engine fails")
)

// Config is the configuration of a pool. Open and Models are required.
type Config struct {
	// Open loads a model. It is called for one model at a time. The error wraps ErrChanged if the model was loaded before
	// and its files hold something else now.
	Open func(ctx context.Context, name string) (wire.Loaded, error)
	// Models lists the models, the default first.
	Models []Entry
	// Check, if not nil, returns an error that wraps ErrChanged if somebody has written to the files that a model in
	// memory computes from; other errors are only logged.
	Check func(ctx context.Context, name string) error
	// KeepAlive is how long an idle model stays loaded; 0 means 5 minutes, negative means forever.
	KeepAlive time.Duration
	// Memory is the maximum total size of the loaded models in bytes, by Entry.Size; 0 means no limit. No model may be
	// larger.
	Memory int64
	// Clock gives the time; nil means time.Now.
	Clock func() time.Time
	// Logger receives names, sizes and times; nil is silent.
	Logger *slog.Logger
}

// Entry is a model that can be loaded.
type Entry struct {
	// Name is its name in requests.
	Name string
	// Size is the size of its weights in bytes.
	Size int64
	// Pinned models are never unloaded.
	Pinned bool
}

// Pool is a set of models. Its methods may be called by several goroutines at once.
type Pool struct {
	cfg Config
	// stop is done when the pool is closed, which ends work: all loading and unloading in the background.
	stop   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	models map[string]*model
	// loading is a lock for loading and unloading, so that the same memory is not used twice.
	loading chan struct{}
	// freed is closed and replaced whenever a model is given back.
	freed chan struct{}
	timer *time.Timer
	// held, when not nil, is closed when loaded models are given to new requests again. It is not set before rested.
	held   chan struct{}
	rested time.Time
	// opening is how long the last loading took.
	opening time.Duration
}

type model struct {
	entry  Entry
	loaded wire.Loaded // nil if it is not loaded
	users  int
	used   time.Time
	// since is when it was loaded. fresh means that no request has held it since. broken is what was loaded before and
	// failed, until that is closed; else nil.
	since  time.Time
	fresh  bool
	broken wire.Loaded
	// loading is the current attempt to load it; nil if there is none.
	loading *attempt
	// failed is why the last attempt failed. It is not loaded again before until.
	failed error
	until  time.Time
	// crowded says that the last attempt found no memory.
	crowded bool
	// failure is why its engine failed, if it was not loaded again since; else nil.
	failure error
	// unwanted models are unloaded as soon as no request holds them.
	unwanted bool
}

// attempt is one attempt to load a model, for all requests that wait for it.
type attempt struct {
	done chan struct{}
	// err is why it failed. It is set before done is closed.
	err error
	// others means that it is an attempt to load other models, which need the memory of this one.
	others bool
}

// New returns a pool without loaded models.
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
	p.mu.Lock() // expire reads timer
	defer p.mu.Unlock()
	if cfg.KeepAlive > 0 {
		p.timer = time.AfterFunc(cfg.KeepAlive, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.start(p.expire)
		})
	}
	return p
}

// start runs f in the background, unless the pool is closed. The caller holds the lock.
func (p *Pool) start(f func()) {
	if !p.closed {
		p.work.Go(f)
	}
}

// Names returns the names of the models, the default first.
func (p *Pool) Names() []string {
	names := make([]string, len(p.cfg.Models))
	for i, e := range p.cfg.Models {
		names[i] = e.Name
	}
	return names
}

// Loaded returns a model that is in memory, or nil. The model is not held, so it may be closed at any time.
func (p *Pool) Loaded(name string) wire.Loaded {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.models[name]; m != nil {
		return m.loaded
	}
	return nil
}

// Expires returns when a loaded model is unloaded if it is not used again. It is zero for never, and for a model
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

// retryAfter is how long to wait before loading a model again that could not be loaded or failed right after that.
const retryAfter = 5 * time.Second

// Use returns a model, and loads it if necessary. The function that it returns gives the model back; calling it
// twice is harmless. If a model cannot be loaded, all calls that wait for it, and those within a few seconds after,
// return the error of one attempt. A model whose engine has failed is loaded again, but only every few seconds.
// Errors are ErrUnknown, ErrNoMemory, generation.ErrClosed, ErrBroken, those of the context and those of Open.
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
		if attempt.others {
			continue
		}
		err = attempt.err
		if errors.Is(err, ErrNoMemory) && time.Since(began) < patience/2 {
			continue // the attempt was begun for an earlier call, which has waited long enough
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// take holds a model if it is loaded. Otherwise it returns the attempt to load it, which continues even if nobody waits
// for it any more.
func (p *Pool) take(name string) (wire.Loaded, func(), *attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.models[name]
	switch {
	case p.closed:
		return nil, nil, nil, generation.ErrClosed
	case m == nil:
		return nil, nil, nil, fmt.Errorf("%q: %w", name, ErrUnknown)
	case m.loaded != nil && m.loaded.Failure() != nil:
		if p.cfg.Clock().Before(m.since.Add(retryAfter)) {
			return nil, nil, nil, ErrBroken
		}
		m.broken, m.loaded, m.unwanted, m.failure = m.loaded, nil, false, m.loaded.Failure()
	}
	switch {
	case m.loaded != nil && p.held != nil && !m.entry.Pinned:
		return nil, nil, &attempt{done: p.held, others: true}, nil
	case m.loaded != nil:
		m.users++
		m.unwanted, m.fresh = false, false
		return m.loaded, sync.OnceFunc(func() { p.release(m) }), nil, nil
	case m.failed != nil && p.cfg.Clock().Before(m.until):
		return nil, nil, nil, m.failed
	case m.loading == nil:
		m.loading = &attempt{done: make(chan struct{})}
		p.start(func() { p.try(m) })
	}
	return nil, nil, m.loading, nil
}

// try loads a model once for all calls that wait for it.
func (p *Pool) try(m *model) {
	err := p.load(m.entry.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	m.failed, m.crowded = nil, errors.Is(err, ErrNoMemory)
	if err != nil && !errors.Is(err, ErrNoMemory) && !errors.Is(err, generation.ErrClosed) {
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
		p.start(p.expire)
	}
	close(p.freed)
	p.freed = make(chan struct{})
}

// patience is how long an attempt waits for models in use to become idle.
const patience = 10 * time.Second

// Requests that follow each other closely could keep a model in memory without an end. So while another model waits for
// memory, new requests for loaded models are delayed.
const (
	// holdAfter is the minimum wait before such a delay; if loading takes long, it is twice the time of the last loading.
	holdAfter = time.Second
	// holdTime is the maximum delay. After one that freed nothing, requests take longer than that, so none is made for
	// holdAgain.
	holdTime, holdAgain = 4 * time.Second, time.Minute
)

// load loads a model. While it waits for memory, other models may be loaded and unloaded.
func (p *Pool) load(name string) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	p.mu.Lock()
	hold := time.NewTimer(min(max(holdAfter, 2*p.opening), patience-holdTime))
	p.mu.Unlock()
	defer hold.Stop()
	end := func(bool) {}
	for {
		freed, err := p.tryLoad(name, func() { end(false) })
		if !errors.Is(err, ErrNoMemory) {
			end(false)
			return err
		}
		select {
		case <-freed:
		case <-hold.C:
			end(true)
			end = p.hold()
			hold.Reset(holdTime)
		case <-timeout.C:
			end(true)
			return err
		case <-p.stop.Done():
			end(false)
			return generation.ErrClosed
		}
	}
}

// hold keeps loaded models from new requests until end is called, unless they are kept already or that freed nothing
// lately. end may be called twice.
func (p *Pool) hold() (end func(vain bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil || p.cfg.Clock().Before(p.rested) {
		return func(bool) {}
	}
	held := make(chan struct{})
	p.held = held
	return func(vain bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held != held {
			return
		}
		if close(held); vain {
			p.rested = p.cfg.Clock().Add(holdAgain)
		}
		p.held = nil
	}
}

// tryLoad waits for its turn and loads a model if there is enough memory. It calls room when there is, before it loads.
// With ErrNoMemory it also returns a channel that is closed when there may be enough.
func (p *Pool) tryLoad(name string, room func()) (freed <-chan struct{}, err error) {
	select {
	case p.loading <- struct{}{}:
	case <-p.stop.Done():
		return nil, generation.ErrClosed
	}
	defer func() { <-p.loading }()
	p.mu.Lock()
	m := p.models[name]
	there, closed, broken := m.loaded != nil, p.closed, m.broken
	m.broken = nil
	p.mu.Unlock()
	if broken != nil {
		p.unload(name, broken, "its engine failed")
	}
	switch {
	case closed:
		return nil, generation.ErrClosed
	case there:
		return nil, nil
	}
	if freed, err := p.makeRoom(m.entry.Size); err != nil {
		return freed, err
	}
	room()
	begin := p.cfg.Clock()
	r, err := p.cfg.Open(p.stop, name)
	if errors.Is(err, ErrChanged) {
		p.logChanged(name, err)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(generation.ErrClosed, r.Close())
	}
	m.loaded, m.used, m.failure = r, p.cfg.Clock(), nil
	m.since, m.fresh, p.opening = m.used, true, m.used.Sub(begin)
	p.cfg.Logger.Info("model loaded", "model", name, "bytes", m.entry.Size, "seconds", m.used.Sub(begin).Seconds())
	return nil, nil
}

func (p *Pool) logChanged(name string, err error) {
	p.cfg.Logger.Error("a model is not what was loaded", "model", name, "error", err)
}

// Inspect checks the files of a loaded model and ends its runs if they do not hold any more what was loaded.
func (p *Pool) Inspect(ctx context.Context, name string) {
	r := p.Loaded(name)
	if p.cfg.Check == nil || r == nil || r.Failure() != nil {
		return
	}
	err := p.cfg.Check(ctx, name)
	switch {
	case errors.Is(err, ErrChanged):
		p.logChanged(name, err)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = r.Fail(ctx, err) // if it was closed in the meantime, it has no runs
	case err != nil:
		p.cfg.Logger.Warn("a model's files cannot be compared", "model", name, "error", err)
	}
}

// Failure returns why Use would fail, as far as the last attempt to load the model and its engine show; nil if it would
// not.
func (p *Pool) Failure(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.models[name]
	switch {
	case m == nil:
		return nil
	case m.loaded != nil:
		return m.loaded.Failure()
	case m.failed != nil:
		return m.failed
	case m.crowded && !p.fits(m.entry.Size):
		return ErrNoMemory
	}
	return m.failure
}

// fits reports whether size bytes fit if idle models are unloaded.
func (p *Pool) fits(size int64) bool {
	total := int64(0)
	for _, m := range p.models {
		if m.loaded != nil && (m.users > 0 || m.entry.Pinned) {
			total += m.entry.Size
		}
	}
	return p.cfg.Memory <= 0 || total+size <= p.cfg.Memory
}

// makeRoom unloads idle models, the least recently used first, until size more bytes fit. If they cannot, it returns
// ErrNoMemory and a channel that is closed when a model is given back.
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
			// A model that was just loaded is for the requests that waited for it.
			free := m.users == 0 && !m.entry.Pinned && !(m.fresh && p.cfg.Clock().Before(m.since.Add(holdAfter)))
			if free && (oldest == nil || m.used.Before(oldest.used)) {
				oldest = m
			}
		}
		if total+size <= p.cfg.Memory {
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

// Unload unloads a model, even a pinned one, as soon as no request holds it. If none does, it waits until the model is
// unloaded. A call of Use in between keeps the model loaded. Errors are ErrUnknown, generation.ErrClosed and those of
// the context.
func (p *Pool) Unload(ctx context.Context, name string) error {
	p.mu.Lock()
	m := p.models[name]
	switch {
	case p.closed:
		p.mu.Unlock()
		return generation.ErrClosed
	case m == nil:
		p.mu.Unlock()
		return fmt.Errorf("%q: %w", name, ErrUnknown)
	}
	m.unwanted = m.loaded != nil
	now := m.unwanted && m.users == 0
	done := make(chan struct{})
	if now {
		p.start(func() {
			defer close(done)
			p.expire()
		})
	}
	p.mu.Unlock()
	if !now {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// expire unloads models that have been idle for too long or are unwanted. It sets the timer for the next one.
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

// Close unloads all models. Current runs end with [generation.ErrClosed].
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
	p.work.Wait() // a model that is being loaded sees that the pool is closed
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
