package cache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrBusy says that another descriptor has the lock.
var ErrBusy = errors.New("the lock is held")

// lockPoll is how often a lock that is held is tried again.
const lockPoll = 100 * time.Millisecond

// lockTries is how often the file of a lock is made, if others remove its folder.
const lockTries = 100

// WaitLock takes the lock for the blob with this etag, as huggingface_hub does. While another program holds it,
// waiting is called once, and WaitLock returns when it is free or ctx ends. The lock is a courtesy, so that two
// programs do not fetch the same bytes: where locks do not work it takes none, and nothing may depend on it. The caller
// calls unlock.
func (r Repo) WaitLock(ctx context.Context, etag string, waiting func()) (unlock func(), err error) {
	for {
		unlock, err := r.LockNow(etag)
		if !errors.Is(err, ErrBusy) {
			return unlock, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// LockNow is [Repo.WaitLock] without waiting: the error is [ErrBusy] while another program holds the lock.
func (r Repo) LockNow(etag string) (unlock func(), err error) {
	path, err := r.Lock(etag)
	if err != nil {
		return nil, err
	}
	var f *os.File
	for range lockTries { // another program may remove the folder at any time, even while MkdirAll makes it
		if err = os.MkdirAll(filepath.Dir(path), 0o777); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o664)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if err := TryLock(f); errors.Is(err, ErrBusy) || !isAt(f, path) {
		_ = f.Close()
		return nil, ErrBusy
	}
	return func() { _ = f.Close() }, nil
}

// Locked reports whether a program holds the lock for the blob with this etag. It creates no file.
func (r Repo) Locked(etag string) bool {
	path, err := r.Lock(etag)
	if err != nil {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(TryLock(f), ErrBusy)
}

// isAt reports whether path is still the open file f, and has not been removed or replaced.
func isAt(f *os.File, path string) bool {
	a, err := f.Stat()
	b, err2 := os.Stat(path)
	return err == nil && err2 == nil && os.SameFile(a, b)
}
