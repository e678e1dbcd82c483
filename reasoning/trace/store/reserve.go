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
	// reserveSize is the room that is kept for erasing on a full disk: the log of erasing smallBatch pieces, its index,
	// and an entry.
	reserveSize = 1 << 20
	// reserveLeast is the least that does.
	reserveLeast = 384 << 10
)

// reserve is a file that takes up room, to be removed when there is none left and something is to be erased.
type reserve struct{ dir string }

func (r *reserve) path() string { return filepath.Join(r.dir, reserveName) }

// held reports whether the room is there.
func (r *reserve) held() bool { return r.size() >= reserveLeast }

// size is the size of the file; 0 where there is none, or something else in its place.
func (r *reserve) size() int64 {
	info, err := os.Lstat(r.path())
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// release gives the room back to the disk. It reports whether there was any.
func (r *reserve) release() bool { return os.Remove(r.path()) == nil }

// fill takes the room, or as much of it as there is. Its bytes are random, so that no file system saves them up.
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

// open opens the file to add to it, and makes it where there is none. Who can write to the folder may have put a link
// to another file in its place, which is removed.
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
