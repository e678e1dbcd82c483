package models

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrChanged says that a model's files differ from a snapshot. Errors wrap it.
var ErrChanged = errors.New("has changed since it was loaded")

// Snapshot records a model's files at one time: their identity, sizes, modification times and SHA-256 digests. It is
// safe for concurrent use.
type Snapshot struct {
	paths []string

	// files is the state of the files when their contents were last known to equal the snapshot.
	files atomic.Pointer[[]os.FileInfo]

	// mu is held while files are read, which can take a long time.
	mu sync.Mutex
	// sums are the digests of the files. They are nil until computed.
	sums [][sha256.Size]byte
	// differs is the state of the files when they were last found to have changed. why is the error of that comparison.
	differs []os.FileInfo
	why     error
}

// Take takes a snapshot of a model's files. It does not read their contents; Hash does.
func Take(paths []string) (*Snapshot, error) {
	files, err := statAll(paths)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{paths: paths}
	s.files.Store(&files)
	return s, nil
}

func statAll(paths []string) ([]os.FileInfo, error) {
	var files []os.FileInfo
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files = append(files, info)
	}
	return files, nil
}

// Size is the total size of the files, in bytes.
func (s *Snapshot) Size() (n int64) {
	for _, f := range *s.files.Load() {
		n += f.Size()
	}
	return n
}

// Hash computes the digests if they are not known. With gently it uses at most half of a processor's time. The error
// wraps ErrChanged if the files change meanwhile, because then their earlier contents are unknown.
func (s *Snapshot) Hash(ctx context.Context, gently bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hash(ctx, gently)
}

func (s *Snapshot) hash(ctx context.Context, gently bool) error {
	if s.sums != nil {
		return nil
	}
	sums, files, err := digest(ctx, s.paths, gently)
	if err == nil {
		err = sameFiles(s.paths, *s.files.Load(), files)
	}
	if err == nil {
		s.sums = sums
	}
	return err
}

// Touched reports whether the files were written to in place. Files that were replaced by others do not count, because
// a program that has the old ones open still has them.
func (s *Snapshot) Touched() bool {
	now, err := statAll(s.paths)
	if err != nil {
		return false
	}
	for i, was := range *s.files.Load() {
		if os.SameFile(now[i], was) && !same(now[i], was) {
			return true
		}
	}
	return false
}

// Compare returns an error that wraps ErrChanged if the contents of the files differ from the snapshot. It compares
// sizes first and then digests. It reuses the last result if nobody has written to the files since. Other errors say
// that the files cannot be read.
func (s *Snapshot) Compare(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := statAll(s.paths)
	if err != nil {
		return err
	}
	if s.differs != nil && sameFiles(s.paths, s.differs, now) == nil {
		return s.why
	}
	s.differs, s.why = nil, nil
	if err := s.compare(ctx, now); err != nil {
		if errors.Is(err, ErrChanged) {
			s.differs, s.why = now, err
		}
		return err
	}
	s.files.Store(&now)
	return nil
}

func (s *Snapshot) compare(ctx context.Context, now []os.FileInfo) error {
	for i, was := range *s.files.Load() {
		if now[i].Size() != was.Size() {
			return fmt.Errorf("%s %w: it had %d bytes and has %d", s.paths[i], ErrChanged, was.Size(), now[i].Size())
		}
	}
	if err := s.hash(ctx, false); err != nil {
		return err
	}
	sums, read, err := digest(ctx, s.paths, false)
	if err != nil {
		return err
	}
	if err := sameFiles(s.paths, now, read); err != nil {
		return err // it is being written to
	}
	for i := range sums {
		if sums[i] != s.sums[i] {
			return fmt.Errorf("%s %w: its SHA-256 was %x and is %x", s.paths[i], ErrChanged, s.sums[i], sums[i])
		}
	}
	return nil
}

// sameFiles returns an error that wraps ErrChanged if files have been replaced or written to.
func sameFiles(paths []string, a, b []os.FileInfo) error {
	for i := range a {
		if !os.SameFile(a[i], b[i]) || !same(a[i], b[i]) {
			return fmt.Errorf("%s %w", paths[i], ErrChanged)
		}
	}
	return nil
}

// same reports whether two states of a file have the same size and modification time.
func same(a, b os.FileInfo) bool { return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) }

// digest reads files. It returns their digests and their state afterwards.
func digest(ctx context.Context, paths []string, gently bool) (sums [][sha256.Size]byte, files []os.FileInfo,
	err error) {
	buf := make([]byte, 1<<20)
	for _, path := range paths {
		sum, err := digestOf(ctx, path, buf, gently)
		if err != nil {
			return nil, nil, err
		}
		sums = append(sums, sum)
	}
	files, err = statAll(paths)
	return sums, files, err
}

func digestOf(ctx context.Context, path string, buf []byte, gently bool) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	for {
		began := time.Now()
		n, err := f.Read(buf)
		h.Write(buf[:n])
		switch {
		case err == io.EOF:
			return [sha256.Size]byte(h.Sum(nil)), nil
		case err != nil:
			return sum, err
		case gently:
			select {
			case <-time.After(time.Since(began)):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
	}
}
