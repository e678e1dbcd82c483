package download

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/hubtest"
)

// chunk is the size of chunks in tests.
const chunk = 16 << 10

// content returns n bytes that look like weights.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(b)
	return b
}

// place is a hub with one file, and a cache.
type place struct {
	*hubtest.Hub
	t      testing.TB
	repo   cache.Repo
	file   catalog.File
	commit string
	want   []byte
	client *hub.Client

	mu       sync.Mutex
	progress []Progress
}

func newPlace(t testing.TB, want []byte, lfs bool) *place {
	t.Helper()
	h := hubtest.Start(t)
	f := hubtest.File{Path: "sub/model.gguf", Content: want, LFS: lfs}
	m := h.Add(hubtest.Repo{ID: "org/model", Files: []hubtest.File{f}})
	repo, err := cache.At(filepath.Join(t.TempDir(), "hub")).Repo(m.ID)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{Hub: h, t: t, repo: repo, commit: m.Commit, want: want,
		file: catalog.File{Path: f.Path, Size: int64(len(want)), Etag: f.Etag()}}
	c, err := hub.New(config(h.URL, "test"))
	if err != nil {
		t.Fatal(err)
	}
	p.client = c
	return p
}

// config makes a client that waits little. A busy machine must not look like a stalled connection, though.
func config(url, agent string) hub.Config {
	return hub.Config{Endpoint: url, UserAgent: agent, Stall: 2 * time.Second,
		Retry: hub.Retry{Tries: 6, First: time.Millisecond, Most: 4 * time.Millisecond, Patience: time.Second}}
}

// get downloads the file and records what was reported.
func (p *place) get(ctx context.Context) error {
	p.mu.Lock()
	p.progress = nil
	p.mu.Unlock()
	return Get(ctx, p.client, p.repo, p.commit, p.file, Options{Chunk: chunk, Connections: 3, Report: func(r Progress) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.progress = append(p.progress, r)
	}})
}

// states returns the states that were reported, each once where it was repeated.
func (p *place) states() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s []string
	for _, r := range p.progress {
		if len(s) == 0 || s[len(s)-1] != string(r.State) {
			s = append(s, string(r.State))
		}
	}
	return strings.Join(s, " ")
}

func (p *place) last() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress[len(p.progress)-1]
}

// blob returns the content of the blob, nil if there is none.
func (p *place) blob() []byte {
	path, err := p.repo.Blob(p.file.Etag)
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	if err == nil && b == nil {
		b = []byte{}
	}
	return b
}

// right checks that the blob is there, and nothing else.
func (p *place) right() {
	p.t.Helper()
	if b := p.blob(); b == nil || !bytes.Equal(b, p.want) {
		p.t.Errorf("the blob has %d bytes and is not right", len(b))
	}
	if left := find(p.repo.Blobs(), ""); len(left) > 0 {
		p.t.Errorf("folders are left: %+v", left)
	}
}

// asked returns the parts of the file that were asked for, sorted.
func (p *place) asked(since int) (parts [][2]int64, n int64) {
	for _, r := range p.Asked()[since:] {
		if r.Bytes {
			parts = append(parts, [2]int64{r.From, r.To})
			n += r.To - r.From
		}
	}
	slices.SortFunc(parts, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	return parts, n
}

// partial returns the folder of the partial file.
func (p *place) partial() string {
	p.t.Helper()
	all := find(p.repo.Blobs(), p.file.Etag)
	if len(all) != 1 {
		p.t.Fatalf("there are %d partial files", len(all))
	}
	return all[0].dir
}

// verifiedOnDisk lists the parts of the file that are on disk with the hash of a journal, like a resumed download finds
// them.
func verifiedOnDisk(blobs string, f catalog.File) (parts [][2]int64) {
	for _, found := range find(blobs, f.Etag) {
		journal, err := os.ReadFile(filepath.Join(found.dir, "journal"))
		if err != nil {
			continue
		}
		plan, records, err := readJournal(bytes.NewReader(journal), f.Etag, f.Size)
		if err != nil {
			continue
		}
		data, _ := os.ReadFile(filepath.Join(found.dir, "data"))
		for i, r := range records {
			at, _ := plan.span(i)
			if end := at + r.length; end <= int64(len(data)) && recordOf(data[at:end]) == r {
				parts = append(parts, [2]int64{at, end})
			}
		}
	}
	return parts
}

func TestDownloads(t *testing.T) {
	for _, lfs := range []bool{true, false} {
		for _, size := range []int{0, 1, 100, chunk - 1, chunk, chunk + 1, 3*chunk + 7, 100*chunk + 1} {
			t.Run(fmt.Sprint(size, lfs), func(t *testing.T) {
				p := newPlace(t, content(1, size), lfs)
				if err := p.get(t.Context()); err != nil {
					t.Fatal(err)
				}
				p.right()
				if _, n := p.asked(0); n != int64(size) {
					t.Errorf("%d bytes were asked for", n)
				}
				if got := p.states(); got != "downloading finishing done" {
					t.Errorf("the states are %s", got)
				}
				if got := p.last(); got.Done != int64(size) || got.Total != got.Done || got.File != p.file.Path ||
					got.Verified != 0 {
					t.Errorf("the last report is %+v", got)
				}
				n := len(p.Asked())
				if err := p.get(t.Context()); err != nil || p.states() != "there" || len(p.Asked()) != n {
					t.Errorf("the second time: %v, %s, %d requests", err, p.states(), len(p.Asked())-n)
				}
			})
		}
	}
}

// TestCancelLosesNothing cancels downloads in the middle of chunks. Every byte that was reported is not asked for
// again.
func TestCancelLosesNothing(t *testing.T) {
	p := newPlace(t, content(2, 20*chunk+5), true)
	p.Fail(func(r hubtest.Request) hubtest.Fault {
		return hubtest.Fault{Stall: 5000 + int64(r.Number)}
	})
	quick := config(p.URL, "test") // it notices sooner that a connection delivers nothing, and reports that
	quick.Stall, quick.Retry.Tries = 200*time.Millisecond, 100
	patient := p.client
	var err error
	if p.client, err = hub.New(quick); err != nil {
		t.Fatal(err)
	}
	why := errors.New("the user pressed Ctrl-C")
	for had := int64(0); had < p.file.Size/2; {
		since := len(p.Asked())
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for { // until each connection got its bytes
				p.mu.Lock()
				enough := len(p.progress) > 0 && p.progress[len(p.progress)-1].Done > had+10_000
				p.mu.Unlock()
				if enough {
					break
				}
				time.Sleep(time.Millisecond)
			}
			cancel(why)
		}()
		if err := p.get(ctx); !errors.Is(err, why) {
			t.Fatalf("got %v", err)
		}
		parts, _ := p.asked(since)
		for _, u := range Find(p.repo) {
			if u.Active || u.Size != p.file.Size || u.Have < p.last().Done {
				t.Errorf("unfinished: %+v, and %d were reported", u, p.last().Done)
			}
			had = u.Have
		}
		t.Logf("%d bytes are here, asked for %v", had, parts)
	}
	// The rest comes without interruption, and it is exactly what is missing.
	p.Fail(nil)
	p.client = patient
	missing := p.file.Size - Find(p.repo)[0].Have
	since := len(p.Asked())
	if err := p.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.right()
	if _, n := p.asked(since); n != missing {
		t.Errorf("%d bytes were missing and %d asked for", missing, n)
	}
	if got := p.last().Verified; got != p.file.Size-missing {
		t.Errorf("%d bytes were verified", got)
	}
}

// interrupt downloads until the file is whole but for the last request, which then fails for good. That one waits for
// the others, so that a slow one is not cut off in the middle of a chunk.
func (p *place) interrupt() {
	p.t.Helper()
	p.Fail(func(r hubtest.Request) hubtest.Fault {
		if r.Bytes && r.To == p.file.Size {
			for end := time.Now().Add(time.Minute); p.onDisk() < r.From && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			return hubtest.Fault{Status: 500}
		}
		return hubtest.Fault{}
	})
	var e *hub.Error
	if err := p.get(p.t.Context()); !errors.As(err, &e) || e.Kind != hub.Unreachable {
		p.t.Fatalf("got %v", err)
	}
	p.Fail(nil)
	if here, last := p.onDisk(), 2*chunk; here < p.file.Size-int64(last) {
		p.t.Fatalf("%d of %d bytes are here", here, p.file.Size)
	}
}

// onDisk returns how many bytes are on disk with the hash of a journal.
func (p *place) onDisk() (n int64) {
	for _, part := range verifiedOnDisk(p.repo.Blobs(), p.file) {
		n += part[1] - part[0]
	}
	return n
}

// TestDamageOnDisk changes what an interrupted download left. Each change costs the chunks that it concerns and no
// more.
func TestDamageOnDisk(t *testing.T) {
	size := int64(30*chunk + 100)
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		costs  int64 // bytes that are asked for again
	}{
		{"nothing", func(*testing.T, string) {}, 0},
		{"one bit", func(t *testing.T, dir string) {
			change(t, dir, "data", func(b []byte) []byte { b[2*chunk+77] ^= 4; return b })
		}, chunk},
		{"cut data", func(t *testing.T, dir string) {
			change(t, dir, "data", func(b []byte) []byte { return b[:3*chunk+1] })
		}, -1},
		{"no data", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "data")) }, -2},
		{"empty journal", func(t *testing.T, dir string) {
			change(t, dir, "journal", func([]byte) []byte { return nil })
		}, -2},
		{"another file's journal", func(t *testing.T, dir string) {
			change(t, dir, "journal", func(b []byte) []byte { return bytes.Replace(b, []byte(" 1 "), []byte(" 1 0"), 1) })
		}, -2},
		{"torn last line", func(t *testing.T, dir string) {
			change(t, dir, "journal", func(b []byte) []byte { return b[:len(b)-3] })
		}, chunk},
		{"garbage in the journal", func(t *testing.T, dir string) {
			change(t, dir, "journal", func(b []byte) []byte {
				line := bytes.IndexByte(b, '\n') + 1
				return slices.Concat(b[:line], []byte("garbage\n\n999999 1 aa\n-1 5 "+strings.Repeat("0", 64)+"\n"),
					bytes.Repeat([]byte("x"), 10_000), []byte("\n"), b[line:])
			})
		}, 0},
		{"invented hash", func(t *testing.T, dir string) {
			change(t, dir, "journal", func(b []byte) []byte {
				return fmt.Appendf(b, "\n1 %d %s\n", chunk, strings.Repeat("0", 64))
			})
		}, chunk},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t, content(3, int(size)), true)
			p.interrupt()
			dir := p.partial()
			had := p.onDisk()
			c.damage(t, dir)
			left := p.onDisk()
			if c.costs >= 0 && had-left != c.costs {
				t.Fatalf("the damage costs %d bytes", had-left)
			}
			if c.costs == -2 && left != 0 {
				t.Fatalf("%d bytes are left", left)
			}
			since := len(p.Asked())
			if err := p.get(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.right()
			if parts, n := p.asked(since); n != size-left {
				t.Errorf("%d bytes are missing and %d were asked for: %v", size-left, n, parts)
			}
		})
	}
}

func change(t *testing.T, dir, name string, f func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// TestWrongHash sends wrong bytes. Where it happens once, the file is fetched once more. Where it happens again, the
// file is refused by name, and nothing is left.
func TestWrongHash(t *testing.T) {
	p := newPlace(t, content(4, 10*chunk), true)
	flipped := false
	var mu sync.Mutex
	p.Fail(func(r hubtest.Request) hubtest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Bytes && !flipped {
			flipped = true
			return hubtest.Fault{Flip: 100}
		}
		return hubtest.Fault{}
	})
	if err := p.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.right()
	if got := p.states(); got != "downloading again finishing done" {
		t.Errorf("the states are %s", got)
	}
	if _, n := p.asked(0); n != 2*p.file.Size {
		t.Errorf("%d bytes were asked for", n)
	}
	if got := p.last().Done; got != p.file.Size {
		t.Errorf("%d bytes are done", got)
	}

	p = newPlace(t, content(5, 10*chunk), true)
	p.Fail(func(r hubtest.Request) hubtest.Fault { return hubtest.Fault{Flip: 100} })
	err := p.get(t.Context())
	if e := (*Error)(nil); !errors.Is(err, ErrWrongContent) || !errors.As(err, &e) || e.Hint() == "" ||
		!strings.Contains(err.Error(), "org/model/sub/model.gguf") || !strings.Contains(err.Error(), p.file.Etag) {
		t.Errorf("got %v", err)
	}
	if p.blob() != nil || len(find(p.repo.Blobs(), "")) > 0 {
		t.Error("something is left of a file that was refused")
	}
	if _, n := p.asked(0); n != 2*p.file.Size {
		t.Errorf("%d bytes were asked for", n)
	}
}

// TestChangedFile changes the file under its name while it is fetched.
func TestChangedFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		lfs   bool
		fault hubtest.Fault
		kind  hub.Kind
	}{
		{"large", true, hubtest.Fault{Content: content(7, 40*chunk)}, hub.Changed},
		{"small", false, hubtest.Fault{Content: content(7, 40*chunk)}, hub.Changed},
		{"of another size", true, hubtest.Fault{Content: content(7, 41*chunk)}, hub.Changed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t, content(6, 40*chunk), c.lfs)
			p.Fail(func(r hubtest.Request) hubtest.Fault {
				if r.Number < 8 {
					return hubtest.Fault{}
				}
				return c.fault
			})
			err := p.get(t.Context())
			if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != c.kind || !strings.Contains(e.Name, p.file.Path) {
				t.Errorf("got %v", err)
			}
			if p.blob() != nil {
				t.Error("there is a blob")
			}
		})
	}
	// A storage host that has something else, while the hub says nothing, is found out by the hash of the whole.
	p := newPlace(t, content(6, 40*chunk), true)
	p.Fail(func(r hubtest.Request) hubtest.Fault {
		if !r.Storage || r.Number < 8 {
			return hubtest.Fault{}
		}
		return hubtest.Fault{Content: content(7, 40*chunk)}
	})
	if err := p.get(t.Context()); !errors.Is(err, ErrWrongContent) || p.blob() != nil {
		t.Errorf("got %v", err)
	}
	// When the hub is mended, all is well.
	p.Fail(nil)
	if err := p.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.right()
}

// TestServerWithoutRanges fetches from a server that always sends the whole file, and cuts it short twice.
func TestServerWithoutRanges(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		p := newPlace(t, content(8, 20*chunk+3), true)
		if resumed {
			p.interrupt()
		}
		cuts := 0
		var mu sync.Mutex
		p.Fail(func(r hubtest.Request) hubtest.Fault {
			mu.Lock()
			defer mu.Unlock()
			f := hubtest.Fault{Whole: true}
			if r.Bytes && !r.Range && cuts < 2 {
				cuts++
				f.Cut = int64(cuts) * 4 * chunk
			}
			return f
		})
		if err := p.get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if cuts != 2 {
			t.Errorf("%d cuts", cuts)
		}
		p.right()
	}
}

// TestFaults gives each fault to some of the requests. The download ends right.
func TestFaults(t *testing.T) {
	for name, f := range map[string]hubtest.Fault{
		"abort":       {Abort: true},
		"cut":         {Cut: 5000},
		"stall":       {Stall: 5000},
		"whole":       {Whole: true},
		"short":       {Short: 7},
		"unannounced": {Short: 7, Unannounced: true},
		"shift":       {Shift: -1},
		"limited":     {Status: 429, Header: http.Header{"Retry-After": {"0"}}},
		"time-out":    {Status: 408},
		"failing":     {Status: 502},
		"expired":     {Status: 403},
		"compressed":  {Header: http.Header{"Content-Encoding": {"gzip"}}},
		"loop":        {Redirect: "?signature=hidden"},
		"elsewhere":   {Redirect: "http://127.0.0.1:1/"},
		"etag":        {ETag: "other"},
		"delay":       {Delay: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, content(9, 60*chunk), true)
			faults, answers := 0, 0
			var mu sync.Mutex
			p.Fail(func(r hubtest.Request) hubtest.Fault {
				mu.Lock()
				defer mu.Unlock()
				if !r.Storage {
					return hubtest.Fault{}
				}
				if answers++; answers%2 == 1 && faults < 4 {
					faults++
					return f
				}
				return hubtest.Fault{}
			})
			if err := p.get(t.Context()); err != nil {
				t.Fatal(err)
			}
			if faults != 4 {
				t.Errorf("%d faults", faults)
			}
			p.right()
			if leaks := p.Leaks(); len(leaks) > 0 {
				t.Errorf("the storage host got %v", leaks)
			}
		})
	}
}

// TestLimitedInARow: a hub that allows no more requests is asked again after the time that it says, several times in a
// row, for its answers and for parts of files. There is an end to that, and a wait ends with its context.
func TestLimitedInARow(t *testing.T) {
	p := newPlace(t, content(9, 3*chunk), true)
	limited := hubtest.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}}
	var mu sync.Mutex
	left, refused := 0, 0
	p.Fail(func(hubtest.Request) hubtest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			return hubtest.Fault{}
		}
		left--
		refused++
		return limited
	})
	ask := func() error {
		_, err := p.client.Repository(t.Context(), p.repo.ID(), "main")
		return err
	}
	get := func() error {
		return Get(t.Context(), p.client, p.repo, p.commit, p.file, Options{Chunk: chunk, Connections: 1})
	}
	for name, try := range map[string]func() error{"an answer": ask, "a part": get} {
		began := time.Now()
		left, refused = 2, 0
		if err := try(); err != nil || refused != 2 || time.Since(began) < 2*time.Second {
			t.Errorf("%s came after %d refusals and %v: %v", name, refused, time.Since(began), err)
		}
	}
	left, limited.Header = -1, nil
	refused = 0
	if e := (*hub.Error)(nil); !errors.As(ask(), &e) || e.Kind != hub.RateLimited || refused != 6 {
		t.Errorf("%d requests: %v", refused, e)
	}
	limited.Header = http.Header{"Retry-After": {"1"}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.client.Repository(ctx, p.repo.ID(), "main"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait goes on after its context: %v", err)
	}
}

// TestRefusals checks errors that no repetition mends.
func TestRefusals(t *testing.T) {
	p := newPlace(t, content(10, 100), true)
	large := p.file
	large.Size = hub.MaxHTTP + 1
	err := Get(t.Context(), p.client, p.repo, p.commit, large, Options{})
	if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != hub.TooLarge {
		t.Errorf("got %v", err)
	}
	bad := p.file
	bad.Etag = "../../x"
	if err := Get(t.Context(), p.client, p.repo, p.commit, bad, Options{}); !errors.Is(err, cache.ErrName) {
		t.Errorf("got %v", err)
	}
	p.Fail(func(hubtest.Request) hubtest.Fault {
		return hubtest.Fault{Status: 404, Header: http.Header{"X-Error-Code": {"EntryNotFound"}}}
	})
	err = p.get(t.Context())
	if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != hub.NotFound || len(p.Asked()) != 1 {
		t.Errorf("got %v after %d requests", err, len(p.Asked()))
	}
	if left := find(p.repo.Blobs(), ""); len(left) > 0 {
		t.Errorf("folders are left: %+v", left)
	}
}

// TestNoSpace checks that a download which cannot fit asks for nothing. What is here counts.
func TestNoSpace(t *testing.T) {
	p := newPlace(t, content(11, 30*chunk), true)
	p.interrupt()
	missing := p.file.Size - Find(p.repo)[0].Have
	old := free
	defer func() { free = old }()
	free = func(string) (int64, bool) { return missing - 1, true }
	since := len(p.Asked())
	err := p.get(t.Context())
	if e := (*Error)(nil); !errors.Is(err, ErrNoSpace) || !errors.As(err, &e) || !strings.Contains(e.Hint(), "HF_HOME") ||
		len(p.Asked()) != since {
		t.Errorf("got %v after %d requests", err, len(p.Asked())-since)
	}
	free = func(string) (int64, bool) { return missing, true }
	if err := p.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.right()
}
