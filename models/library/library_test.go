package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/backendtest"
	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/hubtest"
	"runner/models/installed"
)

// shelf is a library over a stand-in hub with the repository Org/Tiny-GGUF.
type shelf struct {
	*Library
	hub   *hubtest.Hub
	cache cache.Cache
	names string
}

var weights = bytes.Repeat([]byte("GGUF weights "), 100_000)

func open(t *testing.T, change func(*Config)) shelf {
	t.Helper()
	h := hubtest.Start(t)
	h.Add(hubtest.Repo{ID: "Org/Tiny-GGUF", Files: []hubtest.File{
		{Path: "tiny-Q4_K_M.gguf", Content: weights, LFS: true},
		{Path: "tiny-Q8_0.gguf", Content: append(weights, weights...), LFS: true},
		{Path: "README.md", Content: []byte("# Tiny")}}})
	s := shelf{hub: h, cache: cache.At(t.TempDir()), names: filepath.Join(t.TempDir(), "data", "names.json")}
	cfg := Config{Cache: s.cache, Names: s.names, Client: func() (*hub.Client, error) {
		return hub.New(hub.Config{Endpoint: h.URL, Retry: hub.Retry{Tries: 2, First: time.Millisecond}})
	}}
	if change != nil {
		change(&cfg)
	}
	s.Library = New(cfg)
	t.Cleanup(func() { s.Close(errStopping) })
	return s
}

// errStopping is why the tests close a library.
var errStopping = errors.New("the program is stopping")

func silent(Progress) error { return nil }

// pull pulls a model, which must succeed, and returns its name and what was reported.
func (s shelf) pull(t *testing.T, name string) (string, []Progress) {
	t.Helper()
	var told []Progress
	got, err := s.Pull(t.Context(), name, func(p Progress) error {
		told = append(told, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, told
}

func TestPullReportsItsSteps(t *testing.T) {
	s := open(t, nil)
	name, told := s.pull(t, "org/tiny:q4_k_m")
	if name != "Org/Tiny-GGUF:Q4_K_M" {
		t.Errorf("it is called %q", name)
	}
	stages := []Stage{}
	for _, p := range told {
		if len(stages) == 0 || stages[len(stages)-1] != p.Stage {
			stages = append(stages, p.Stage)
		}
		if p.Stage == Fetching && (len(p.Etag) != 64 || p.Total != int64(len(weights)) || p.Done > p.Total) {
			t.Errorf("%+v", p)
		}
	}
	if want := []Stage{Asking, Fetching, Checking, Linking}; !slices.Equal(stages, want) {
		t.Errorf("stages %v, want %v", stages, want)
	}
	last := told[slices.IndexFunc(told, func(p Progress) bool { return p.Stage == Checking })-1]
	if last.Done != last.Total {
		t.Errorf("the last of the file is %+v", last)
	}
	if m, err := s.Find("ORG/tiny-gguf"); err != nil || m.Spelled() != name || m.Files[0].Etag != last.Etag ||
		m.Bytes() != int64(len(weights)) || installed.Modified(&m).IsZero() {
		t.Errorf("%+v, %v", m, err)
	}
	if !s.Has("hf.co/org/tiny:Q4_K_M") || s.Has("org/tiny:Q8_0") || s.Has("/etc/passwd") {
		t.Error("it does not know what it has")
	}
	sent := s.hub.Sent()
	if s.pull(t, "org/tiny:q4_k_m"); s.hub.Sent() != sent {
		t.Error("what is here was fetched again")
	}
}

// What is here is pulled also while the hub fails, and what is not here is not.
func TestPullWithoutTheHub(t *testing.T) {
	s := open(t, nil)
	name, _ := s.pull(t, "org/tiny:Q4_K_M")
	s.hub.Fail(func(hubtest.Request) hubtest.Fault { return hubtest.Fault{Abort: true} })
	if again, _ := s.pull(t, "org/tiny:q4_k_m"); again != name {
		t.Errorf("it is called %q", again)
	}
	if _, err := s.Pull(t.Context(), "org/tiny:Q8_0", silent); err == nil {
		t.Error("what is not here was pulled")
	}
}

// wait waits until a condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// slow lets the hub send files slowly until the test says otherwise.
func (s shelf) slow() {
	s.hub.Fail(func(r hubtest.Request) hubtest.Fault {
		if !r.Bytes {
			return hubtest.Fault{}
		}
		return hubtest.Fault{Slow: 5 * time.Millisecond}
	})
}

// Two clients share one download, however they spell the name. One that goes away leaves it to the other. When the last
// goes away it ends, and what it got is used by the next.
func TestPullsAreShared(t *testing.T) {
	s := open(t, func(c *Config) { c.Pulls = 1 })
	s.slow()
	begin := func(ctx context.Context, name string) (moved *atomic.Bool, result chan error) {
		moved, result = &atomic.Bool{}, make(chan error, 1)
		go func() {
			_, err := s.Pull(ctx, name, func(p Progress) error {
				moved.Store(moved.Load() || p.Done > 0)
				return nil
			})
			result <- err
		}()
		return moved, result
	}
	ctx, leave := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	firstMoved, first := begin(ctx, "org/tiny-gguf:Q4_K_M")
	wait(t, "the first moves", firstMoved.Load)
	both, leaveBoth := context.WithCancel(t.Context())
	secondMoved, second := begin(both, "hf.co/Org/Tiny-GGUF:q4_k_m")
	wait(t, "the second moves", secondMoved.Load)
	if _, err := s.Pull(t.Context(), "org/tiny-gguf:Q8_0", silent); !errors.Is(err, ErrBusy) {
		t.Errorf("a second transfer: %v", err)
	}
	if err := s.Remove("org/tiny-gguf"); !errors.Is(err, ErrNotFound) {
		t.Errorf("removing what is not here yet: %v", err)
	}
	leave(gone)
	if err := <-first; !errors.Is(err, gone) {
		t.Errorf("the first ended with %v", err)
	}
	select {
	case err := <-second:
		t.Fatalf("the second ended with %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	leaveBoth()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the second ended with %v", err)
	}
	idle := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.active) == 0 && len(s.transfers) == 0
	}
	wait(t, "the transfer ends", idle)
	s.hub.Fail(nil)
	before := s.hub.Sent()
	s.pull(t, "org/tiny-gguf:Q4_K_M")
	if rest := s.hub.Sent() - before; rest <= 0 || rest >= int64(len(weights)) {
		t.Errorf("%d of %d bytes were sent again", rest, len(weights))
	}
}

// Many clients that come and go leave no transfer and no error but their own.
func TestPullsComeAndGo(t *testing.T) {
	s := open(t, nil)
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%6+1)*15*time.Millisecond)
			if i%6 == 0 {
				ctx = t.Context()
			}
			defer cancel()
			_, err := s.Pull(ctx, []string{"org/tiny:Q4_K_M", "org/tiny:Q8_0"}[i%2], silent)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrBusy) {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	all.Wait()
	s.pull(t, "org/tiny:Q8_0")
	s.Close(errStopping)
	if len(s.active)+len(s.transfers) > 0 {
		t.Errorf("%d transfers are left", len(s.active))
	}
	if _, err := s.Pull(t.Context(), "org/tiny", silent); !errors.Is(err, errStopping) {
		t.Errorf("after the end: %v", err)
	}
}

// A pull that is closed ends, with an error of its own.
func TestCloseEndsPulls(t *testing.T) {
	s := open(t, nil)
	s.slow()
	result := make(chan error, 1)
	var moved atomic.Bool
	go func() {
		_, err := s.Pull(t.Context(), "org/tiny:Q4_K_M", func(p Progress) error {
			moved.Store(moved.Load() || p.Done > 0)
			return nil
		})
		result <- err
	}()
	wait(t, "it moves", moved.Load)
	s.Close(errStopping)
	if err := <-result; !errors.Is(err, errStopping) {
		t.Errorf("%v", err)
	}
}

// TestCloseLeavesNoGoroutine closes a library after a pull, after one that was given up, and during one.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	backendtest.Goroutines(t, func() {
		t.Run("pulls", func(t *testing.T) { // the hub is closed at the end
			s := open(t, nil)
			s.pull(t, "org/tiny:Q8_0")
			s.slow()
			gone := errors.New("gone")
			giveUp := func(Progress) error { return gone }
			if _, err := s.Pull(t.Context(), "org/tiny:Q4_K_M", giveUp); !errors.Is(err, gone) {
				t.Errorf("given up: %v", err)
			}
			var running sync.WaitGroup
			var moved atomic.Bool
			running.Go(func() {
				_, err := s.Pull(t.Context(), "org/tiny:Q4_K_M", func(p Progress) error {
					moved.Store(moved.Load() || p.Done > 0)
					return nil
				})
				if !errors.Is(err, errStopping) {
					t.Errorf("closed: %v", err)
				}
			})
			wait(t, "it moves", moved.Load)
			s.Close(errStopping)
			running.Wait()
		})
	})
}

func TestRemove(t *testing.T) {
	served := filepath.Join(t.TempDir(), "served.gguf")
	s := open(t, func(c *Config) { c.Served = []string{served} })
	s.pull(t, "org/tiny:Q4_K_M")
	s.pull(t, "org/tiny:Q8_0")
	if err := s.Remove("org/tiny"); !errors.Is(err, ErrSeveral) {
		t.Errorf("one of two: %v", err)
	}
	if err := s.Name("other", "Org/Tiny-GGUF:Q4_K_M"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("org/tiny:q4_k_m"); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "other") {
		t.Errorf("a model with another name: %v", err)
	}
	if err := s.Remove("other:latest"); err != nil {
		t.Errorf("another name: %v", err)
	}
	if err := s.Remove("other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another name again: %v", err)
	}
	if err := s.Remove("org/tiny:q4_k_m"); err != nil || s.Has("org/tiny:Q4_K_M") || !s.Has("org/tiny:Q8_0") {
		t.Errorf("%v", err)
	}
	m, err := s.Find("org/tiny")
	if err != nil {
		t.Fatal(err)
	}
	s.served[real(m.At())] = true
	if err := s.Remove("org/tiny"); !errors.Is(err, ErrInUse) || len(s.List()) > 0 {
		t.Errorf("what is served: %v", err)
	}
	delete(s.served, real(m.At()))
	if err := s.Remove("org/tiny"); err != nil {
		t.Error(err)
	}
	if repos, _ := s.cache.Repos(); len(repos) > 0 {
		t.Errorf("%v is left", repos)
	}
}

// A blob that another revision uses stays.
func TestRemoveKeepsSharedBlobs(t *testing.T) {
	s := open(t, nil)
	s.pull(t, "org/tiny:Q4_K_M")
	repo, _ := s.cache.Find("Org/Tiny-GGUF")
	m, _ := s.Find("org/tiny")
	const older = "0123456789012345678901234567890123456789"
	if _, err := repo.Publish(older, []catalog.File{{Path: "old.gguf", Etag: m.Files[0].Etag},
		{Path: "old-Q8_0.gguf", Etag: m.Files[0].Etag}}); err != nil {
		t.Fatal(err)
	}
	blob, err := repo.Blob(m.Files[0].Etag)
	if err != nil {
		t.Fatal(err)
	}
	s.pull(t, "org/tiny:Q8_0")
	if err := s.Remove("org/tiny:Q4_K_M"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(blob); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	s := open(t, nil)
	s.pull(t, "org/tiny:Q4_K_M")
	for _, bad := range []string{"", "../up", "/etc/passwd", "https://x.example/a/b", "a b", "a/b/../c", "x@y"} {
		if err := s.Name(bad, "demo"); err == nil {
			t.Errorf("the name %q was taken", bad)
		}
	}
	if err := s.Name("org/tiny", "demo"); !errors.Is(err, ErrTaken) {
		t.Errorf("the name of a model: %v", err)
	}
	for _, to := range []string{"demo", "Org/Tiny-GGUF:Q4_K_M"} {
		if err := s.Name("mine:latest", to); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := s.Named("mine"); got != to || !ok || err != nil {
			t.Errorf("%q, %v, %v", got, ok, err)
		}
	}
	again := New(Config{Cache: s.cache, Names: s.names})
	if m, err := again.Find("mine"); err != nil || m.Repo != "Org/Tiny-GGUF" {
		t.Errorf("%+v, %v", m, err)
	}
	all := map[string]string{}
	for i := range maxNames {
		all[fmt.Sprint("n", i)] = "demo"
	}
	if err := s.Library.names.write(all); err != nil {
		t.Fatal(err)
	}
	if err := s.Name("mine", "demo"); !errors.Is(err, ErrFull) {
		t.Errorf("one more name: %v", err)
	}
	if err := os.WriteFile(s.names, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Name("mine", "demo"); err == nil {
		t.Error("a damaged file was replaced")
	}
}

// Errors of a pull are those of the hub, and a name that means nothing is not asked for.
func TestPullErrors(t *testing.T) {
	s := open(t, nil)
	kind := func(name string) hub.Kind {
		_, err := s.Pull(t.Context(), name, silent)
		var e *hub.Error
		if errors.As(err, &e) {
			return e.Kind
		}
		t.Errorf("%s: %v", name, err)
		return 0
	}
	if k := kind("org/nothing"); k != hub.NotFound {
		t.Errorf("kind %d", k)
	}
	s.hub.Add(hubtest.Repo{ID: "Org/Gated", Gated: true, Token: "hf_secret", Files: []hubtest.File{
		{Path: "a-Q4_K_M.gguf", Content: weights, LFS: true}}})
	if k := kind("org/gated"); k != hub.Gated {
		t.Errorf("kind %d", k)
	}
	asked := len(s.hub.Asked())
	if _, err := s.Pull(t.Context(), "gpt-os-20b", silent); !errors.Is(err, ErrUnknown) ||
		!strings.Contains(err.Error(), "gpt-oss") {
		t.Errorf("%v", err)
	}
	gone := errors.New("gone")
	if _, err := s.Pull(t.Context(), "org/tiny", func(Progress) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if _, err := s.Pull(t.Context(), "../tiny", silent); err == nil || len(s.hub.Asked()) > asked+4 {
		t.Errorf("%v", err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"org/repo": "org/repo", "hf.co/org/repo:Q4_K_M": "org/repo:Q4_K_M", "HF.CO/org/repo": "org/repo",
		"huggingface.co/org/repo:latest": "org/repo", "gpt-oss:20b": "gpt-oss:20b", "llama3.2:latest": "llama3.2",
		"org/repo/folder/a.gguf": "org/repo:folder/a.gguf", "org/repo.v2": "org/repo.v2", "o.rg/repo": "o.rg/repo",
	} {
		if n, err := Parse(text); err != nil || n.String() != want {
			t.Errorf("%q: %v, %v", text, n, err)
		}
	}
	for _, text := range []string{
		"", " ", "/etc/passwd", "/", "./a.gguf", "../a/b", "a/../b", "a/b/../../c", "~/a", "~", `a\b`, `C:\a`, "a/b:../c",
		"http://x.example/a/b", "https://huggingface.co/org/repo", "hf://org/repo", "file:///etc/passwd", "hf.co//etc/passwd",
		"hf.co/../a", "hf.co/hf.co/a/b", "hf.co/evil.example/a/b", "evil.example/org/repo", "localhost:5000/org/repo",
		"127.0.0.1:80/a/b", "evil.example:80/a", "ollama.com/library/llama3.2", "registry.ollama.ai/library/x", "hf.co/a",
		"org/repo@main", "org/repo@refs/pr/1", "org/repo%2f..", "org/repo?x=y", "org/repo#x", "a\x00b", "a/b\n", "org/repo:",
		"[::1]/a/b", "//host/a", "user:pw@host/a", strings.Repeat("a", 600), "a/b--c", " a/b",
	} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q: %+v", text, n)
		}
	}
}

// Whatever a name is, it leads to no path outside of the cache and to no other host.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"org/repo:Q4_K_M", "hf.co/org/repo", "../a", "http://a/b", "a/b@c", "llama3.2", "/a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Parse(text)
		if err != nil {
			return
		}
		if strings.Contains(text, "://") || strings.HasPrefix(text, "/") || strings.Contains(text, "..") || n.Revision != "" {
			t.Errorf("%q was taken: %+v", text, n)
		}
		c := cache.At("/cache")
		repos, selector := n.OnHub()
		for _, id := range repos {
			repo, err := c.Repo(id)
			if err != nil || filepath.Dir(repo.Dir()) != "/cache" {
				t.Errorf("%q: %q, %v", text, repo.Dir(), err)
			}
		}
		if filepath.IsAbs(selector) || !filepath.IsLocal(filepath.Join("x", selector)) {
			t.Errorf("%q selects %q", text, selector)
		}
		if again, err := Parse(n.String()); err != nil || again != n {
			t.Errorf("%q is %q, and that is %v, %v", text, n, again, err)
		}
	})
}
