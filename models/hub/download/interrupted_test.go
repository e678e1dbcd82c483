package download

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/hubtest"
)

// job is a download for a process of its own.
type job struct {
	Endpoint, Cache, Commit string
	File                    catalog.File
	Connections             int
	Attempt                 string
}

// childVariable has the job of a process that a test started.
const childVariable = "RUNNER_TEST_DOWNLOAD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(child(text))
	}
	os.Exit(m.Run())
}

// Exit codes of a child.
const (
	childDone    = 0
	childFailed  = 3
	childRefused = 4
)

func child(text string) int {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		fmt.Println(err)
		return 1
	}
	client, err := hub.New(config(j.Endpoint, j.Attempt))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	repo, err := cache.At(j.Cache).Repo("org/model")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	err = Get(context.Background(), client, repo, j.Commit, j.File, Options{Chunk: chunk, Connections: j.Connections})
	switch {
	case errors.Is(err, ErrWrongContent):
		return childRefused
	case err != nil:
		fmt.Println(err)
		return childFailed
	}
	return childDone
}

// tally counts what happened in all interrupted downloads.
type tally struct {
	right, refused, kills, cancels, failures, damages, faults, requests, exempt atomic.Int64
}

// TestInterruptedDownloads interrupts downloads again and again: by faults of every kind, by cancelling, by killing the
// process, and by changing what is on disk. Each ends right or is refused by name, the blob is never wrong, and no byte
// that is on disk with its journal's hash is asked for, unless all bytes are there and some came wrong, or the server
// ignored ranges. There are 200 downloads, and 500 with RUNNER_LONG=1.
func TestInterruptedDownloads(t *testing.T) {
	const atOnce = 16 // most of the time goes into waiting for the disk and for stalled connections
	downloads := 200
	if os.Getenv("RUNNER_LONG") != "" {
		downloads = 500
	}
	var sum tally
	began := time.Now()
	var work sync.WaitGroup
	for part := range atOnce {
		work.Go(func() {
			for i := part; i < downloads; i += atOnce {
				if !t.Run(fmt.Sprint(i), func(t *testing.T) { interrupted(t, uint64(i), &sum) }) {
					return
				}
			}
		})
	}
	work.Wait()
	t.Logf("%d right, %d refused by name; interrupted %d times: %d killed, %d cancelled, %d failed; %d changes on disk; "+
		"%d requests, %d with a fault, %d exempt; %v", sum.right.Load(), sum.refused.Load(),
		sum.kills.Load()+sum.cancels.Load()+sum.failures.Load(), sum.kills.Load(), sum.cancels.Load(),
		sum.failures.Load(), sum.damages.Load(), sum.requests.Load(), sum.faults.Load(), sum.exempt.Load(),
		time.Since(began).Round(time.Second))
	if n := sum.right.Load() + sum.refused.Load(); n != int64(downloads) && !t.Failed() {
		t.Errorf("%d downloads ended", n)
	}
	// The order in which requests arrive decides how many files come wrong. Each is asked for again, and one of 1 MB alone
	// takes 30 requests and more.
	if sum.kills.Load() < int64(downloads/5) || sum.refused.Load() < int64(downloads/25) ||
		sum.exempt.Load() > sum.requests.Load()/20 {
		t.Error("the downloads were not interrupted as they should be")
	}
}

// trial is one file that is downloaded with interruptions.
type trial struct {
	*place
	sum    *tally
	random *rand.Rand
	// wrong reports that all bytes come wrong.
	wrong bool
	// interruptions counts attempts that ended early.
	interruptions int

	mu sync.Mutex
	// chance chooses faults.
	chance *rand.Rand
	// rate is the part of requests that fail, and slow is a wait in each answer.
	rate float64
	slow time.Duration
	// tainted reports that bytes came wrong, so that the hash of the whole is wrong at the end. again is set when all
	// bytes were here after that: then all may be asked for once more. whole counts answers to a request for a part that
	// had the whole file.
	tainted, again bool
	whole          int
	// stop ends the attempt when so many requests arrived. It is nil after it was called.
	stop func()
	left int
	// name is what the requests of this attempt are called. Those of the one before may arrive late.
	name     string
	attempts int
}

func interrupted(t *testing.T, seed uint64, sum *tally) {
	random := rand.New(rand.NewPCG(seed, 22))
	size := 1 << (4 + random.IntN(16)) // up to 512 KB
	killed := random.IntN(3) == 0
	if killed {
		size = 1 << (17 + random.IntN(3))
	}
	size += random.IntN(size)
	tr := &trial{place: newPlace(t, content(seed, size), random.IntN(4) > 0), sum: sum, random: random,
		chance: rand.New(rand.NewPCG(seed, 23)), wrong: random.IntN(12) == 0}
	tr.Fail(tr.fault)
	connections := 1 + random.IntN(4)
	times := 1 + random.IntN(5)
	for tries := 0; times > 0; tries++ {
		was := tr.interruptions
		rate, slow := random.Float64()*0.6, time.Duration(0)
		if killed {
			slow = time.Duration(1+random.IntN(4)) * time.Millisecond
		}
		tr.begin(rate, slow)
		var err error
		if killed {
			err = tr.kill(connections)
		} else {
			err = tr.cancel(connections)
		}
		b := tr.blob()
		switch {
		case b != nil && (tr.wrong || !bytes.Equal(b, tr.want)):
			t.Fatal("the blob is wrong")
		case errors.Is(err, ErrWrongContent) && !tr.isTainted():
			t.Fatal("refused without a cause")
		case err != nil && !isTyped(err):
			t.Fatal(err)
		}
		if errors.Is(err, ErrWrongContent) || err == nil && b != nil {
			tr.clean()
		}
		switch {
		case tr.interruptions > was:
			times--
		case tries < 50 && tr.interruptions == 0:
			tr.forget() // it was not interrupted yet
		default:
			times = 0
		}
		if random.IntN(3) == 0 {
			tr.damage()
		}
	}
	if tr.interruptions == 0 {
		t.Error("the download was never interrupted")
	}
	tr.begin(0, 0)
	err := tr.attempt(t.Context(), connections)
	switch b := tr.blob(); {
	case tr.wrong && errors.Is(err, ErrWrongContent) && b == nil:
		sum.refused.Add(1)
	case !tr.wrong && err == nil && bytes.Equal(b, tr.want):
		sum.right.Add(1)
	default:
		t.Errorf("it ended with %v and a blob of %d bytes (wrong bytes: %v)", err, len(b), tr.wrong)
	}
	if left := find(tr.repo.Blobs(), ""); len(left) > 0 {
		t.Errorf("folders are left: %+v", left)
	}
}

// begin begins an attempt.
func (tr *trial) begin(rate float64, slow time.Duration) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.rate, tr.slow, tr.whole, tr.stop = rate, slow, 0, nil
	tr.attempts++
	tr.name = fmt.Sprint("attempt ", tr.attempts)
}

// clean forgets that bytes came wrong, because nothing of them is left.
func (tr *trial) clean() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.tainted, tr.again = false, false
}

func (tr *trial) isTainted() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.tainted
}

// isTyped reports whether an error is one that the documentation of Get names.
func isTyped(err error) bool {
	var h *hub.Error
	var d *Error
	return errors.Is(err, errStopped) || errors.Is(err, ErrWrongContent) ||
		errors.As(err, &h) && h.Hint() != "" || errors.As(err, &d) && d.Hint() != ""
}

var errStopped = errors.New("stopped by the test")

func (tr *trial) attempt(ctx context.Context, connections int) error {
	client, err := hub.New(config(tr.URL, tr.name))
	if err != nil {
		return err
	}
	return Get(ctx, client, tr.repo, tr.commit, tr.file, Options{Chunk: chunk, Connections: connections})
}

// cancel downloads and cancels at a random request.
func (tr *trial) cancel(connections int) error {
	ctx, stop := context.WithCancelCause(tr.t.Context())
	defer stop(nil)
	tr.until(func() { stop(errStopped) })
	err := tr.attempt(ctx, connections)
	switch {
	case errors.Is(err, errStopped):
		tr.interrupted(&tr.sum.cancels)
	case err != nil && !errors.Is(err, ErrWrongContent):
		tr.interrupted(&tr.sum.failures)
	}
	return err
}

// kill downloads in a process of its own, and kills it at a random request, some time later.
func (tr *trial) kill(connections int) error {
	text, err := json.Marshal(job{tr.URL, tr.repo.Cache().Dir(), tr.commit, tr.file, connections, tr.name})
	if err != nil {
		tr.t.Fatal(err)
	}
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), childVariable+"="+string(text))
	var out bytes.Buffer
	process.Stdout = &out
	if err := process.Start(); err != nil {
		tr.t.Fatal(err)
	}
	wait := time.Duration(tr.random.IntN(20_000)) * time.Microsecond
	tr.until(func() {
		time.AfterFunc(wait, func() { _ = process.Process.Kill() })
	})
	err = process.Wait()
	switch process.ProcessState.ExitCode() {
	case childDone:
		return nil
	case -1: // a signal
		tr.interrupted(&tr.sum.kills)
		return nil
	case childRefused:
		return ErrWrongContent
	case childFailed:
		tr.interrupted(&tr.sum.failures)
		return nil
	}
	return fmt.Errorf("the process ended with %w: %s", err, out.String())
}

func (tr *trial) interrupted(how *atomic.Int64) {
	tr.interruptions++
	how.Add(1)
}

// forget removes the blob.
func (tr *trial) forget() {
	path, err := tr.repo.Blob(tr.file.Etag)
	if err != nil {
		tr.t.Fatal(err)
	}
	_ = os.Remove(path)
}

// until calls stop at a random request from now on.
func (tr *trial) until(stop func()) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.stop, tr.left = stop, 1+tr.random.IntN(8)
}

// damage changes something of what is on disk.
func (tr *trial) damage() {
	for _, f := range find(tr.repo.Blobs(), tr.file.Etag) {
		name := filepath.Join(f.dir, []string{"data", "journal"}[tr.random.IntN(2)])
		b, err := os.ReadFile(name)
		if err != nil || len(b) == 0 {
			continue
		}
		switch i := tr.random.IntN(len(b)); tr.random.IntN(3) {
		case 0:
			b[i] ^= 1 << tr.random.IntN(8)
		case 1:
			b = b[:i]
		case 2:
			b = append(b, content(uint64(i), 100)...)
		}
		if err := os.WriteFile(name, b, 0o644); err != nil {
			tr.t.Fatal(err)
		}
		tr.sum.damages.Add(1)
	}
}

// fault checks what a request asks for, and chooses what is wrong with the answer.
func (tr *trial) fault(r hubtest.Request) hubtest.Fault {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.sum.requests.Add(1)
	if r.Agent != tr.name {
		return hubtest.Fault{Abort: true}
	}
	if r.Bytes {
		tr.check(r)
	}
	if tr.left--; tr.left <= 0 && tr.stop != nil {
		tr.stop()
		tr.stop = nil
	}
	f := hubtest.Fault{Slow: tr.slow}
	if tr.wrong && r.Bytes {
		f.Flip, tr.tainted = 1, true
	}
	if tr.chance.Float64() >= tr.rate {
		return f
	}
	tr.sum.faults.Add(1)
	some := 1 + tr.chance.Int64N(max(1, r.To-r.From))
	switch tr.chance.IntN(16) {
	case 0:
		f.Abort = true
	case 1, 2, 3, 4:
		f.Cut = some
	case 5:
		f.Status = []int{408, 500, 502, 503}[tr.chance.IntN(4)]
	case 6:
		f.Status, f.Header = 429, http.Header{"Retry-After": {"0"}}
	case 7:
		if r.Storage || r.Bytes {
			f.Whole = true
			tr.whole++
		}
	case 8:
		f.Short, f.Unannounced = min(some, r.To-r.From), true
	case 9:
		f.Shift = 1 - 2*tr.chance.Int64N(2)
	case 10:
		f.Redirect = []string{"?signature=hidden", "http://127.0.0.1:1/", tr.Storage, "file:///x"}[tr.chance.IntN(4)]
	case 11:
		if tr.chance.IntN(8) == 0 {
			f.Stall = some
		}
	case 12:
		f.Delay = time.Duration(tr.chance.IntN(20)) * time.Millisecond
	case 13:
		if r.Storage {
			f.ETag = "another"
		}
	case 14:
		if r.Bytes && tr.chance.IntN(4) == 0 {
			f.Flip, tr.tainted = some, true
		}
	case 15:
		if r.Storage && tr.chance.IntN(4) == 0 {
			f.Content, tr.tainted = content(99, len(tr.want)), true
		}
	}
	return f
}

// check reports a request for bytes that are here.
func (tr *trial) check(r hubtest.Request) {
	parts := verifiedOnDisk(tr.repo.Blobs(), tr.file)
	if tr.tainted && !tr.again {
		have := int64(0)
		for _, part := range parts {
			have += part[1] - part[0]
		}
		tr.again = have >= tr.file.Size // the chunks of two folders may be counted twice
	}
	if tr.again || tr.whole >= insists && !r.Range {
		if !tr.wrong {
			tr.sum.exempt.Add(1)
		}
		return
	}
	for _, part := range parts {
		if part[0] < r.To && r.From < part[1] {
			tr.t.Errorf("bytes %d-%d are asked for, and %d-%d are here", r.From, r.To, part[0], part[1])
		}
	}
}
