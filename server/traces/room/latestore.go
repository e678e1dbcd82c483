package room

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

// retryEvery is the time between attempts to open a store.
const retryEvery = time.Second

// lateStore is a trace store that may be full, read-only or broken when the program begins, because an answer matters
// more than its trace. It is opened when it is first needed. If that fails, it is tried again later; until then,
// operations that only read still work. It may be used by several goroutines at once.
type lateStore struct {
	dir string
	cfg store.Config

	mu     sync.Mutex
	store  *store.Store
	failed error // why store is nil
	tried  time.Time
	reader *store.Reader // used while store is nil
}

func newLateStore(dir string, cfg store.Config) *lateStore { return &lateStore{dir: dir, cfg: cfg} }

// open returns the store, or the error that prevents opening it.
func (l *lateStore) open() (*store.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil || l.failed != nil && time.Since(l.tried) < retryEvery {
		return l.store, l.failed
	}
	// A process cannot have a store and a reader at once.
	if err := l.closeReader(); err != nil {
		return nil, err
	}
	l.store, l.failed = store.Open(l.dir, l.cfg)
	l.tried = time.Now()
	return l.store, l.failed
}

// read returns a reader of the store, even if the store cannot be written.
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

// Erase implements [traces.Store]. It works on a full disk too, because the store reserves space for it.
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

// Close closes the store. Call it after all runs have ended.
func (l *lateStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.store != nil {
		err = l.store.Close()
	}
	return errors.Join(err, l.closeReader())
}
