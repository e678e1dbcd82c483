package download

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"runner/hint"
	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
)

// State says what a download is doing.
type State string

// The states of a download, in their usual order.
const (
	// Waiting: another program holds the cache's lock for the file.
	Waiting State = "waiting"
	// Downloading: bytes come from the disk or the hub.
	Downloading State = "downloading"
	// Again: the whole hash was wrong, and the file comes once more.
	Again State = "again"
	// Finishing: everything is here and is written to disk.
	Finishing State = "finishing"
	// Done: the file is in the cache.
	Done State = "done"
	// There: the file was in the cache before.
	There State = "there"
)

// Progress is where a download is.
type Progress struct {
	// File is the file's path in the repository.
	File  string
	State State
	// Done and Total are bytes of the file. Done can fall: when a chunk on disk was not what the journal said, and when
	// the file comes again.
	Done, Total int64
	// Verified is how many of the bytes done were here before, and have the hash of the journal.
	Verified int64
	// Retry is why a request is repeated after the time Wait. It is nil in all other events.
	Retry error
	Wait  time.Duration
}

// Options are the settings of a download. The zero value is usual.
type Options struct {
	// Connections is the number of connections. 0 means 4.
	Connections int
	// Chunk is the size of chunks in bytes. 0 means 4 MiB. A download that goes on keeps its chunks. Each is written at
	// once. From 2 MiB on, Linux keeps it in pages of that size, from which weights are read faster.
	Chunk int64
	// Report is told about progress: each change of the state, each wait, and bytes about ten times a second. Calls for
	// one file come one after the other, from any goroutine. It may be nil.
	Report func(Progress)
}

// Errors that [Error] wraps.
var (
	// ErrWrongContent says that the hub's file does not have the hash that the hub lists.
	ErrWrongContent = errors.New("wrong content")
	// ErrNoSpace says that the disk is too full.
	ErrNoSpace = errors.New("no space")
)

// Error is an error about a file that is not the hub's alone.
type Error struct {
	// Name is ORG/REPO/FILE.
	Name string
	// Detail is one line without the name.
	Detail string
	hint.Advice
	// Err is the cause.
	Err error
}

func (e *Error) Error() string { return e.Name + ": " + e.Detail }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// free is replaced by tests of full disks.
var free = cache.Free

// download is one file on its way.
type download struct {
	Options
	client *hub.Client
	repo   cache.Repo
	commit string
	file   catalog.File
	part   *partial

	mu sync.Mutex
	// progress is what was last told, or would have been.
	progress Progress
	told     time.Time
	// etag is what the storage host calls the version of the file that it sends, "" before its first answer.
	etag string
	// ranges is false for a server that ignores them.
	ranges bool
}

// Get brings a file of a commit into the cache's blobs, if it is not there. It goes on where an earlier download of the
// same content ended, and keeps what it got when ctx ends. The error is the context's cause, a [*hub.Error] or an
// [*Error]; each of the latter two has a hint. Errors of the disk are wrapped.
func Get(ctx context.Context, client *hub.Client, repo cache.Repo, commit string, f catalog.File, o Options) error {
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.Chunk <= 0 {
		o.Chunk = 4 << 20
	}
	d := &download{Options: o, client: client, repo: repo, commit: commit, file: f, ranges: true,
		progress: Progress{File: f.Path, Total: f.Size}}
	err := d.get(ctx)
	if errors.Is(err, syscall.ENOSPC) {
		err = noSpace(d.name(), "the disk is full", err)
	}
	return err
}

func (d *download) name() string { return d.repo.ID() + "/" + d.file.Path }

func (d *download) get(ctx context.Context) (err error) {
	blob, err := d.repo.Blob(d.file.Etag)
	if err != nil {
		return err
	}
	if d.repo.HasBlob(d.file) {
		d.sweep()
		d.there()
		return nil
	}
	if err := d.repo.Prepare(); err != nil {
		return err
	}
	unlock, err := d.repo.WaitLock(ctx, d.file.Etag, func() { d.enter(Waiting) })
	if err != nil {
		return err
	}
	defer unlock()
	if d.repo.HasBlob(d.file) {
		_, _ = discard(d.repo.Blobs(), d.file.Etag)
		d.there()
		return nil
	}
	if d.part, err = obtain(d.repo.Blobs(), newPlan(d.file.Etag, d.file.Size, d.Chunk), d.file.Path); err != nil {
		return err
	}
	missing := d.file.Size - d.part.claimed()
	if room, known := free(d.repo.Blobs()); known && room < missing {
		d.part.release()
		return NoRoom(d.name(), missing, room, d.repo.Blobs())
	}
	d.enter(Downloading)
	right, err := d.all(ctx, true)
	if err == nil && !right {
		d.enter(Again)
		if right, err = d.all(ctx, false); err == nil && !right {
			d.part.remove()
			return &Error{Name: d.name(), Err: ErrWrongContent,
				Detail: fmt.Sprintf("what the hub sends does not have the hash that it lists (%s), also the second time",
					d.file.Etag),
				Advice: "try again later; if it stays, the file is damaged at the hub or on the way, for instance by a proxy"}
		}
	}
	if err != nil {
		d.part.release()
		return err
	}
	d.enter(Finishing)
	if err := d.part.publish(blob); err != nil {
		d.part.release()
		return err
	}
	_, _ = discard(d.repo.Blobs(), d.file.Etag) // what other owners left is of no use any more
	d.enter(Done)
	return nil
}

// sweep removes what a program left that was ended after it published the file and before it removed its folder.
func (d *download) sweep() {
	if len(find(d.repo.Blobs(), d.file.Etag)) > 0 {
		_, _ = Discard(d.repo, d.file.Etag)
	}
}

// NoRoom is the error of a disk on which missing bytes are needed and fewer are free below dir.
func NoRoom(name string, missing, free int64, dir string) error {
	const mib = 1 << 20
	return noSpace(name, fmt.Sprintf("%.1f MiB more are needed and %.1f MiB are free in %s", float64(missing)/mib,
		float64(free)/mib, dir), nil)
}

func noSpace(name, detail string, err error) error {
	return &Error{Name: name, Detail: detail, Err: errors.Join(ErrNoSpace, err),
		Advice: "make room, or set HF_HOME or HF_HUB_CACHE to a folder on another disk"}
}

// all brings every chunk here and reports whether the whole has the right hash. With trust it keeps what is on disk and
// has the journal's hash. Else it fetches everything.
func (d *download) all(ctx context.Context, trust bool) (right bool, err error) {
	for {
		d.restart()
		right, err := d.pass(ctx, trust)
		if !errors.Is(err, hub.ErrNoRanges) || !d.ranges {
			return right, err
		}
		d.ranges, trust = false, false
	}
}

// pass fetches chunks over several connections while it hashes the whole.
func (d *download) pass(ctx context.Context, trust bool) (right bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chunks, workers := d.part.chunks(), d.Connections
	// A run is what one worker takes at a time. Short ones keep the workers even, long ones save requests.
	run := min(16, max(1, chunks/(4*workers)))
	if !d.ranges {
		workers, run = 1, chunks
	}
	runs := make(chan int, chunks)
	for first := 0; first < chunks; first += run {
		runs <- first
	}
	close(runs)
	here := make(chan int, chunks)
	var work sync.WaitGroup
	for range min(workers, len(runs)) {
		work.Go(func() {
			buf := make([]byte, min(d.part.chunk, d.file.Size))
			for first := range runs {
				if err := d.run(ctx, first, min(first+run, chunks), trust, buf, here); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	right, err = d.hash(ctx, here)
	if err != nil {
		cancel(err)
	}
	work.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	return right, err
}

// run brings the chunks from first up to last here, and sends their numbers.
func (d *download) run(ctx context.Context, first, last int, trust bool, buf []byte, here chan<- int) error {
	var s *stream
	defer func() { s.close() }()
	for i := first; i < last; i++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at, length := d.part.span(i)
		have := int64(0)
		if trust {
			have = d.part.verified(i, buf[:length])
			d.verified(have)
		}
		if have < length {
			if s == nil || s.at != at+have || s.at == s.to {
				s.close()
				s = &stream{ctx: ctx, download: d, at: at + have, to: d.until(i, last, trust)}
			}
			n, err := s.fill(buf[have:length])
			if err := d.part.write(i, buf[:have+n], have); err != nil {
				return err
			}
			if err != nil {
				return err
			}
		}
		here <- i
	}
	return nil
}

// until returns where the request for chunk i should end: before the next chunk that may be here, or at last.
func (d *download) until(i, last int, trust bool) int64 {
	for i++; i < last; i++ {
		if _, ok := d.part.get(i); ok && trust {
			break
		}
	}
	at, length := d.part.span(i - 1)
	return at + length
}

// hash computes the hash of the whole from what is on disk, following the chunks in order as they come, and reports
// whether it is right.
func (d *download) hash(ctx context.Context, here <-chan int) (right bool, err error) {
	whole, err := cache.NewHash(d.file.Etag, d.file.Size)
	if err != nil {
		return false, err
	}
	buf := make([]byte, min(1<<20, d.file.Size))
	early := make(map[int]bool)
	for next := 0; next < d.part.chunks(); next++ {
		for !early[next] {
			select {
			case i := <-here:
				early[i] = true
			case <-ctx.Done():
				return false, context.Cause(ctx)
			}
		}
		delete(early, next)
		at, length := d.part.span(next)
		for end := at + length; at < end; {
			n, err := d.part.data.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
			if n == 0 {
				return false, fmt.Errorf("reading %s back: %w", d.name(), err)
			}
			_, _ = whole.Write(buf[:n])
			at += int64(n)
		}
	}
	return whole.Matches(), nil
}

// enter changes the state.
func (d *download) enter(s State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.State = s
	d.tell()
}

// there reports a file that was in the cache.
func (d *download) there() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.State, d.progress.Done, d.progress.Verified = There, d.file.Size, d.file.Size
	d.tell()
}

// restart sets the counts to nothing.
func (d *download) restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.Done, d.progress.Verified = 0, 0
}

// verified counts bytes that are on disk and have the journal's hash.
func (d *download) verified(n int64) {
	d.mu.Lock()
	d.progress.Verified += n
	d.mu.Unlock()
	d.got(n)
}

// got counts bytes that are here now.
func (d *download) got(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.Done += n
	if time.Since(d.told) >= 100*time.Millisecond {
		d.tell()
	}
}

// retry reports that a request is repeated after a wait.
func (d *download) retry(err error, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.Retry, d.progress.Wait = err, wait
	d.tell()
	d.progress.Retry, d.progress.Wait = nil, 0
}

// tell reports progress. The caller holds mu.
func (d *download) tell() {
	d.told = time.Now()
	if d.Report != nil {
		d.Report(d.progress)
	}
}
