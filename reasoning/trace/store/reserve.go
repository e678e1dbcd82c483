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
func (r *reserve) held() bool {
	size, err := sizeOf(r.path())
	return err == nil && size >= reserveLeast
}

// release gives the room back to the disk. It reports whether there was any.
func (r *reserve) release() bool { return os.Remove(r.path()) == nil }

// fill takes the room, or as much of it as there is. Its bytes are random, so that no file system saves them up.
func (r *reserve) fill() error {
	size, err := sizeOf(r.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) || size >= reserveSize {
		return err
	}
	f, err := os.OpenFile(r.path(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	block := make([]byte, 16<<10)
	for err == nil && size < reserveSize {
		_, _ = rand.Read(block) // never fails, by its contract
		var n int
		n, err = f.Write(block)
		size += int64(n)
	}
	return errors.Join(err, f.Sync(), f.Close())
}
