package store

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	reserveName = "reserve"
	// reserveSize is the room in bytes that is kept for erasing on a full disk. It holds the log of erasing smallBatch
	// pieces, the log's index, and an entry.
	reserveSize = 1 << 20
	// reserveLeast is the minimum room in bytes that is enough to erase.
	reserveLeast = 384 << 10
)

// reserve is a file that takes up room. It is removed when the disk is full and something must be erased.
type reserve struct{ dir string }

func (r *reserve) path() string { return filepath.Join(r.dir, reserveName) }

// held reports whether enough room is kept.
func (r *reserve) held() bool { return r.size() >= reserveLeast }

// size returns the size of the file, or 0 if it is missing or not a regular file.
func (r *reserve) size() int64 {
	info, err := os.Lstat(r.path())
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// release removes the file and reports whether there was one.
func (r *reserve) release() bool { return os.Remove(r.path()) == nil }

// fill takes as much of the room as is available. The bytes are random, so that a file system cannot compress them.
func (r *reserve) fill() error {
	size := r.size()
	if size >= reserveSize {
		return nil
	}
	f, err := r.open()
	if err != nil {
		return err
	}
	block := make([]byte, 16<<10)
	for ; err == nil && size < reserveSize; size += int64(len(block)) {
		_, _ = rand.Read(block) // never fails, by its contract
		_, err = f.Write(block)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// open opens the file for appending. It creates a missing one. It removes a link, which somebody who can write to the
// folder may have put there.
func (r *reserve) open() (*os.File, error) {
	was, err := os.Lstat(r.path())
	if err == nil && was.Mode().IsRegular() {
		f, err := os.OpenFile(r.path(), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return nil, err
		}
		if now, err := f.Stat(); err == nil && os.SameFile(was, now) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(r.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(r.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}
