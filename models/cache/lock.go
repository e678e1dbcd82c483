package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// ErrBusy is returned by [TryLock] if another descriptor has the lock.
var ErrBusy = errors.New("the lock is held")

// lockPoll is how often a lock that is held is tried again.
const lockPoll = 100 * time.Millisecond

// WaitLock takes the lock for the blob with this etag, as huggingface_hub does. While another program holds it,
// waiting is called once, and WaitLock returns when it is free or ctx ends. The lock is a courtesy, so that two programs
// do not fetch the same bytes: where locks do not work it takes none, and nothing may depend on it. The caller calls
// unlock.
func (r Repo) WaitLock(ctx context.Context, etag string, waiting func()) (unlock func(), err error) {
	path, err := r.Lock(etag)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o664)
		if err != nil {
			return nil, err
		}
		switch err := TryLock(f); {
		case err == nil && isAt(f, path):
			return func() { _ = f.Close() }, nil
		case err != nil && !errors.Is(err, ErrBusy):
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
		if waiting != nil {
			waiting()
			waiting = nil
		}
		t := time.NewTimer(lockPoll)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// isAt reports whether path is still the open file f, and has not been removed or replaced.
func isAt(f *os.File, path string) bool {
	a, err := f.Stat()
	b, err2 := os.Stat(path)
	return err == nil && err2 == nil && os.SameFile(a, b)
}
