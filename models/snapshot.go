package models

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"runner/backend"
)

// ErrChanged says that a model's files differ from a snapshot. Errors wrap it.
var ErrChanged = errors.New("has changed since it was loaded")

// Snapshot is a model's files as they were when it was loaded. It says which weights the model has, and whether the
// files still hold them. It is safe for concurrent use.
//
// It keeps the files open until it is closed. So a file can still be read when another one has got its name.
type Snapshot struct {
	paths []string
	files []*os.File
	// first is the state of the files when they were opened.
	first []state
	// origin is the snapshot that this one continues, or this one. It says what the files hold.
	origin *Snapshot
	// now is the last state in which the files are known to hold what they held first.
	now atomic.Pointer[[]state]
	// held is set if the model is one file that can be opened again by its descriptor, whatever its name leads to.
	held bool
	// digest is the digest of everything. It is nil until it is known.
	digest atomic.Pointer[string]

	mu    sync.Mutex // guards users
	users int        // of files, which the last one closes

	// reading is held while contents are compared, which can take a long time. It guards what follows.
	reading sync.Mutex
	// sums are the digests of the files. They are nil until computed.
	sums [][sha256.Size]byte
	// differs is the state of other files that were found to hold something else. why is the error of that comparison.
	differs []state
	why     error
}

// state tells files and their versions apart. Whoever writes to a file can set modified, but not changed.
type state struct {
	device, inode           uint64
	size, modified, changed int64
}

// written reports whether a file was written to since a state of it. Its names do not count, which set changed too.
func (a state) written(b state) bool { return a.size != b.size || a.modified != b.modified }

// Snapshot opens the files as they are now. A folder may have others than when it was found.
func (m Model) Snapshot() (*Snapshot, error) {
	if m.Source == Folder {
		if now, ok, err := folder(m.Path); ok && err == nil {
			m.Files = now.Files
		}
	}
	return Take(m.Files.Parts())
}

// Take opens a model's files and notes their state. It does not read their contents; Hash does.
func Take(paths []string) (*Snapshot, error) { return take(paths, paths) }

// take is Take for files that are opened by other names than their paths.
func take(paths, names []string) (*Snapshot, error) {
	s := &Snapshot{paths: paths, users: 1}
	s.origin = s
	var err error
	for _, name := range names {
		f, openErr := os.Open(name)
		if openErr != nil {
			return nil, errors.Join(openErr, s.Close())
		}
		s.files = append(s.files, f)
	}
	if s.first, err = statFiles(s.files); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.now.Store(&s.first)
	if len(s.files) == 1 {
		st, err := statPath(backend.NameOf(s.files[0]))
		s.held = err == nil && st == s.first[0]
	}
	return s, nil
}

// use keeps the files open until Close is called once more. It reports false if they were closed.
func (s *Snapshot) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 {
		s.users++
		return true
	}
	return false
}

// opened returns the files, which stay open until done is called. If they were closed, they are opened again.
func (s *Snapshot) opened() (files []*os.File, done func() error, err error) {
	if s.use() {
		return s.files, s.Close, nil
	}
	again, err := Take(s.paths)
	if err != nil {
		return nil, nil, err
	}
	for i := range s.first {
		if again.first[i] != s.first[i] {
			return nil, nil, errors.Join(s.changed(i), again.Close())
		}
	}
	return again.files, again.Close, nil
}

// Close closes the files, after a digest that is being computed. What is known of them stays known.
func (s *Snapshot) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

func statFiles(files []*os.File) ([]state, error) {
	list := make([]state, len(files))
	for i, f := range files {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return nil, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
		}
		list[i] = stateOf(&st)
	}
	return list, nil
}

func statPath(path string) (state, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return state{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return stateOf(&st), nil
}

func stateOf(st *unix.Stat_t) state {
	//nolint:unconvert // systems have other types
	return state{uint64(st.Dev), uint64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// Size is the total size of the files, in bytes.
func (s *Snapshot) Size() (n int64) {
	for _, f := range s.first {
		n += f.size
	}
	return n
}

// Held implements backend.Files.
func (s *Snapshot) Held() *os.File {
	if !s.held {
		return nil
	}
	return s.files[0]
}

// Unchanged implements backend.Files. A held file may have lost its name, which looks as if somebody had written to it
// and set its time back. So it is read again. Files that are opened by their names must be the same in every respect.
func (s *Snapshot) Unchanged() error {
	was := *s.now.Load()
	if s.held {
		if !s.use() {
			return fmt.Errorf("%s: %w", s.paths[0], os.ErrClosed)
		}
		defer s.Close()
		now, err := statFiles(s.files)
		switch {
		case err != nil || now[0] == was[0]:
			return err
		case now[0].written(was[0]):
			return s.changed(0)
		}
		return s.recheck(context.Background(), false)
	}
	for i, path := range s.paths {
		now, err := statPath(path)
		if err != nil {
			return err
		}
		if now != was[i] {
			return s.changed(i)
		}
	}
	return nil
}

func (s *Snapshot) changed(i int) error { return fmt.Errorf("%s %w", s.paths[i], ErrChanged) }

// Key identifies the files by where and how they lie on the disk, and by a digest of their headers. It is known at once
// and stays the same as long as nobody touches the files. A snapshot that continues another one has its key.
func (s *Snapshot) Key(header string) string {
	b := []byte("runner/model key v1\x00" + header)
	for _, f := range s.origin.first {
		for _, n := range []uint64{f.device, f.inode, uint64(f.size), uint64(f.modified), uint64(f.changed)} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Digest identifies the contents: the SHA-256 of a file in hexadecimal. It is empty until Hash has computed it, and
// then stays the same. For several files it is that of a list with the digest of each.
func (s *Snapshot) Digest() string {
	if d := s.origin.digest.Load(); d != nil {
		return *d
	}
	return ""
}

// Claimed is the digest that a file's name claims, as names in the caches of Hugging Face and Ollama do; else empty.
func (s *Snapshot) Claimed() string {
	if len(s.paths) != 1 {
		return ""
	}
	path, err := filepath.EvalSymlinks(s.paths[0])
	name := strings.TrimPrefix(filepath.Base(path), "sha256-")
	if b, bad := hex.DecodeString(name); err != nil || bad != nil || len(b) != sha256.Size {
		return ""
	}
	return name
}

// Hash computes the digest if it is not known. With gently it uses at most half of a processor's time. The error wraps
// ErrChanged if the files were written to meanwhile, because then their earlier contents are unknown.
func (s *Snapshot) Hash(ctx context.Context, gently bool) error {
	s = s.origin
	s.reading.Lock()
	defer s.reading.Unlock()
	return s.hash(ctx, gently)
}

// maxPasses is how often files are read whose state changes meanwhile.
const maxPasses = 3

func (s *Snapshot) hash(ctx context.Context, gently bool) error {
	if s.sums != nil {
		return nil
	}
	files, done, err := s.opened()
	if err != nil {
		return err
	}
	defer func() { _ = done() }() // the files were only read
	// Whoever writes can set the time back, but not that of the change. So those contents count that nobody touched while
	// they were read.
	before := []state(nil)
	for passes := 0; ; passes++ {
		after, err := statFiles(files)
		if err != nil {
			return err
		}
		for i := range after {
			if after[i].written(s.first[i]) || passes > maxPasses {
				return s.changed(i)
			}
		}
		if slices.Equal(before, after) {
			break
		}
		if s.sums, err = digests(ctx, files, gently); err != nil {
			s.sums = nil
			return err
		}
		before = after
	}
	d := s.total()
	s.digest.Store(&d)
	return nil
}

// total returns the digest of all files. The parts of a split file follow each other; other files are found by name.
func (s *Snapshot) total() string {
	if len(s.sums) == 1 {
		return hex.EncodeToString(s.sums[0][:])
	}
	h := sha256.New()
	for i, sum := range s.sums {
		name := ""
		if !isGGUF(s.paths[i]) {
			name = filepath.Base(s.paths[i])
		}
		fmt.Fprintf(h, "%x  %q\n", sum, name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Touched reports whether the files may have been written to. Files that were replaced by others do not count, because
// a program that has the old ones open still has them.
func (s *Snapshot) Touched() bool {
	was := *s.now.Load()
	if s.held {
		if !s.use() {
			return false
		}
		defer s.Close()
		now, err := statFiles(s.files)
		return err == nil && now[0] != was[0]
	}
	for i, path := range s.paths {
		now, err := statPath(path)
		if err == nil && now.device == was[i].device && now.inode == was[i].inode && now != was[i] {
			return true
		}
	}
	return false
}

// Recheck reads files again that somebody has touched. The error wraps ErrChanged if they do not hold any more what
// they held. It uses at most half of a processor's time.
func (s *Snapshot) Recheck(ctx context.Context) error { return s.recheck(ctx, true) }

func (s *Snapshot) recheck(ctx context.Context, gently bool) error {
	if !s.use() {
		return fmt.Errorf("%s: %w", s.paths[0], os.ErrClosed)
	}
	defer s.Close()
	names := s.paths
	if s.held {
		names = []string{backend.NameOf(s.files[0])}
	}
	now, err := take(s.paths, names)
	if err != nil {
		return err
	}
	defer now.Close()
	if err := s.origin.Continue(ctx, now, gently); err != nil {
		return err
	}
	s.now.Store(&now.first)
	return nil
}

// Continue makes a later snapshot, which nobody uses yet, one of the same model. The error wraps ErrChanged if its
// files do not hold what those of s held, or if that is unknown. States are compared first, then sizes, then contents.
// The last result is remembered. Other errors say that the files cannot be read.
func (s *Snapshot) Continue(ctx context.Context, later *Snapshot, gently bool) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	switch {
	case slices.Equal(later.first, *s.now.Load()):
		later.origin = s
		return nil
	case s.differs != nil && slices.Equal(later.first, s.differs):
		return s.why
	}
	err := s.compare(ctx, later, gently)
	switch {
	case err == nil:
		later.origin = s
		s.now.Store(&later.first)
	case errors.Is(err, ErrChanged):
		s.differs, s.why = later.first, err
	}
	return err
}

func (s *Snapshot) compare(ctx context.Context, later *Snapshot, gently bool) error {
	if !slices.Equal(later.paths, s.paths) {
		return fmt.Errorf("%s %w: it has other files", filepath.Dir(s.paths[0]), ErrChanged)
	}
	for i, was := range s.first {
		if now := later.first[i]; now.size != was.size {
			return fmt.Errorf("%w: it had %d bytes and has %d", s.changed(i), was.size, now.size)
		}
	}
	if err := s.hash(ctx, gently); err != nil {
		return err
	}
	if err := later.Hash(ctx, gently); err != nil {
		return err
	}
	for i := range s.sums {
		if later.sums[i] != s.sums[i] {
			return fmt.Errorf("%w: its SHA-256 was %x and is %x", s.changed(i), s.sums[i], later.sums[i])
		}
	}
	return nil
}

// digests reads files and returns their digests.
func digests(ctx context.Context, files []*os.File, gently bool) (sums [][sha256.Size]byte, err error) {
	buf := make([]byte, 1<<20)
	for _, f := range files {
		sum, err := digestOf(ctx, f, buf, gently)
		if err != nil {
			return nil, err
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

func digestOf(ctx context.Context, f *os.File, buf []byte, gently bool) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	r := io.NewSectionReader(f, 0, math.MaxInt64) // others read the file, too
	for {
		if ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
		began := time.Now()
		n, err := r.Read(buf)
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
	}
}
