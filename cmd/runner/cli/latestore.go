package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
)

// retryEvery is how long after a store could not be opened it is tried again.
const retryEvery = time.Second

// lateStore is a store that may be full, read-only or broken when the program begins: who asks for a trace asks for
// an answer first. It is opened when it is first needed, and tried again where that failed. What can be done then
// without writing is done. It may be used by several goroutines at once.
type lateStore struct {
	dir string
	cfg store.Config

	mu     sync.Mutex
	store  *store.Store
	failed error // why store is nil
	tried  time.Time
	reader *store.Reader // reads while store is nil
}

func newLateStore(dir string, cfg store.Config) *lateStore { return &lateStore{dir: dir, cfg: cfg} }

// open returns the store, or why it cannot be opened.
func (l *lateStore) open() (*store.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil || l.failed != nil && time.Since(l.tried) < retryEvery {
		return l.store, l.failed
	}
	// A process cannot have both.
	if err := l.closeReader(); err != nil {
		return nil, err
	}
	l.store, l.failed = store.Open(l.dir, l.cfg)
	l.tried = time.Now()
	return l.store, l.failed
}

// read returns what reads the store, whether or not it can be written.
func (l *lateStore) read() (*store.Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil {
		return l.store.Reader, nil
	}
	if l.reader != nil && l.reader.Stale() {
		if err := l.closeReader(); err != nil {
			return nil, err
		}
	}
	if l.reader == nil {
		r, err := store.Read(l.dir)
		if errors.Is(err, fs.ErrNotExist) && l.failed != nil {
			err = l.failed
		}
		if err != nil {
			return nil, err
		}
		l.reader = r
	}
	return l.reader, nil
}

func (l *lateStore) closeReader() error {
	if l.reader == nil {
		return nil
	}
	r := l.reader
	l.reader = nil
	return r.Close()
}

// Create implements [tracing.Store].
func (l *lateStore) Create(ctx context.Context, info store.Info) (*store.Writer, error) {
	s, err := l.open()
	if err != nil {
		return nil, err
	}
	return s.Create(ctx, info)
}

// Page implements [traces.Store].
func (l *lateStore) Page(ctx context.Context, q store.Query) (list []store.Entry, more bool, err error) {
	r, err := l.read()
	if err != nil {
		return nil, false, err
	}
	return r.Page(ctx, q)
}

// Get implements [traces.Store].
func (l *lateStore) Get(ctx context.Context, id trace.ID) (store.Entry, error) {
	r, err := l.read()
	if err != nil {
		return store.Entry{}, err
	}
	return r.Get(ctx, id)
}

// Blob implements [traces.Store].
func (l *lateStore) Blob(ctx context.Context, id trace.ID) (io.Reader, error) {
	r, err := l.read()
	if err != nil {
		return nil, err
	}
	return r.Blob(ctx, id)
}

// Erase implements [traces.Store]. To erase is what makes room, so it has the room that is kept for it.
func (l *lateStore) Erase(ctx context.Context, ids ...trace.ID) error {
	s, err := l.open()
	if !errors.Is(err, store.ErrNoRoom) {
		if err != nil {
			return err
		}
		return s.Erase(ctx, ids...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.closeReader(); err != nil {
		return err
	}
	eraser, err := store.Open(l.dir, store.Config{Clock: l.cfg.Clock})
	if err != nil {
		return err
	}
	return errors.Join(eraser.Erase(ctx, ids...), eraser.Close())
}

// prune erases the traces that are too old.
func (l *lateStore) prune(ctx context.Context) (int, error) {
	s, err := l.open()
	if err != nil {
		return 0, err
	}
	return s.Prune(ctx)
}

// Close closes the store. All runs have ended.
func (l *lateStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.store != nil {
		err = l.store.Close()
	}
	return errors.Join(err, l.closeReader())
}
