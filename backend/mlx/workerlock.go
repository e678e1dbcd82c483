package mlx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A worker's folder has a lock file beside it, of the same name with lockSuffix. A folder with freshSuffix is one that
// is being written.
const (
	lockSuffix  = ".lock"
	freshSuffix = ".tmp"
)

// abandoned is the age at which a folder that is being written counts as left over.
const abandoned = time.Hour

// held has the locks of the workers that this process uses, by path. They end with the process.
var held struct {
	sync.Mutex
	files map[string]*os.File
}

// hold keeps other processes from removing a worker.
func hold(path string) error {
	held.Lock()
	defer held.Unlock()
	if f := held.files[path]; f != nil {
		if isAt(f, path) {
			return nil
		}
		f.Close() // somebody has removed the cache
	}
	f, err := lock(path, syscall.LOCK_SH)
	if errors.Is(err, syscall.ENOLCK) || errors.Is(err, errors.ErrUnsupported) {
		return nil // here removeUnused gets no lock either, and removes nothing
	}
	if err != nil {
		return err
	}
	if held.files == nil {
		held.files = map[string]*os.File{}
	}
	held.files[path] = f
	return nil
}

// lock makes a file if it is not there, and locks it.
func lock(path string, how int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.EINTR
		for errors.Is(err, syscall.EINTR) {
			err = syscall.Flock(int(f.Fd()), how)
		}
		if err != nil {
			f.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		if isAt(f, path) {
			return f, nil
		}
		f.Close() // another process has removed it in between
	}
}

// isAt reports whether a path leads to an open file.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	there, err2 := os.Lstat(path)
	return err == nil && err2 == nil && os.SameFile(open, there)
}

// removeUnused removes the workers in a folder that no process holds. What cannot be removed takes little space, so
// errors do not matter.
func removeUnused(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if worker, ok := strings.CutSuffix(path, lockSuffix); ok {
			f, err := lock(path, syscall.LOCK_EX|syscall.LOCK_NB)
			if err != nil {
				continue
			}
			if os.RemoveAll(worker) == nil {
				_ = os.Remove(path) // before the lock ends, so that nobody else gets a lock of this file
			}
			f.Close()
		} else if info, err := e.Info(); err == nil && strings.HasSuffix(path, freshSuffix) &&
			time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(path)
		}
	}
}
