package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/models/catalog"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	helloA = "ce013625030ba8dba906f756967f9e9ca394464a" // git's name of "hello\n"
	helloB = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
)

func repo(t *testing.T) Repo {
	t.Helper()
	r, err := At(filepath.Join(t.TempDir(), "hub")).Repo("Org/Model")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Prepare(); err != nil {
		t.Fatal(err)
	}
	for _, etag := range []string{helloA, helloB} {
		if err := os.WriteFile(filepath.Join(r.Blobs(), etag), []byte("hello\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestHashNamesBlobs(t *testing.T) {
	for _, etag := range []string{helloA, helloB} {
		h, err := NewHash(etag, 6)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = h.Write([]byte("hello"))
		if h.Matches() {
			t.Error("half of the bytes match")
		}
		if _, _ = h.Write([]byte("\n")); !h.Matches() {
			t.Errorf("the hash of %s is %s", etag, h.Name())
		}
	}
	for _, bad := range []string{"", "../x", strings.ToUpper(helloA), helloA + "0"} {
		if _, err := NewHash(bad, 1); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestPublish makes snapshots with links, and on systems without links and without hard links.
func TestPublish(t *testing.T) {
	defer func(a, b func(string, string) error) { symlink, hardlink = a, b }(symlink, hardlink)
	not := func(string, string) error { return errors.ErrUnsupported }
	for _, c := range []struct {
		name        string
		sym, hard   func(string, string) error
		linked, old bool
	}{
		{"links", os.Symlink, os.Link, true, false}, {"hard links", not, os.Link, false, false},
		{"no links", not, not, false, false}, {"links into a snapshot", os.Symlink, os.Link, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			symlink, hardlink = c.sym, c.hard
			r := repo(t)
			if c.old {
				if _, err := r.Publish(commit, []catalog.File{{Path: "old", Etag: helloA}}); err != nil {
					t.Fatal(err)
				}
			}
			files := []catalog.File{{Path: "a.json", Size: 6, Etag: helloA}, {Path: "b.json", Size: 6, Etag: helloA},
				{Path: "x/y/z.gguf", Size: 6, Etag: helloB}}
			for range 2 { // the second time changes nothing
				linked, err := r.Publish(commit, files)
				if err != nil || linked != c.linked {
					t.Fatalf("linked: %v, %v", linked, err)
				}
			}
			for _, f := range files {
				place, _ := r.Entry(commit, f.Path)
				if text, err := os.ReadFile(place); err != nil || string(text) != "hello\n" {
					t.Errorf("%s has %q, %v", f.Path, text, err)
				}
				if target, err := os.Readlink(place); c.linked && (err != nil || filepath.IsAbs(target)) {
					t.Errorf("%s leads to %q, %v", f.Path, target, err)
				}
				if r.HasEntry(commit, f) == c.linked {
					t.Errorf("%s is %s itself", f.Path, f.Etag)
				}
			}
			if list, err := r.Files(commit); err != nil || len(list) != 3 && !c.old || len(list) != 4 && c.old {
				t.Errorf("the snapshot has %+v, %v", list, err)
			}
			if left, _ := filepath.Glob(filepath.Join(r.Dir(), ".new-*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestPublishIsWholeOrNothing names a blob that is not there.
func TestPublishIsWholeOrNothing(t *testing.T) {
	r := repo(t)
	for _, bad := range []catalog.File{
		{Path: "b", Etag: strings.Repeat("0", 40)}, {Path: "../b", Etag: helloA}, {Path: "b", Etag: "../x"},
	} {
		if _, err := r.Publish(commit, []catalog.File{{Path: "a", Etag: helloA}, bad}); err == nil {
			t.Errorf("%v was published", bad)
		}
		if list, _ := r.Commits(); len(list) > 0 {
			t.Errorf("snapshots: %v", list)
		}
	}
}

func TestSetRef(t *testing.T) {
	r := repo(t)
	for _, name := range []string{"main", "refs/pr/1"} {
		if err := r.SetRef(name, commit); err != nil {
			t.Fatal(err)
		}
		path, _ := r.Ref(name)
		if text, err := os.ReadFile(path); err != nil || string(text) != commit {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	if err := r.SetRef("../x", commit); !errors.Is(err, ErrName) {
		t.Errorf("got %v", err)
	}
}

// TestLockIsExclusive counts who has the lock while many take it, and while the lock's file is removed.
func TestLockIsExclusive(t *testing.T) {
	r := repo(t)
	var mu sync.Mutex
	holders, waits := 0, 0
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			unlock, err := r.WaitLock(t.Context(), helloA, func() { mu.Lock(); waits++; mu.Unlock() })
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if holders++; holders > 1 {
				t.Error("two have the lock")
			}
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			if !r.Locked(helloA) {
				t.Error("the lock is not seen")
			}
			mu.Lock()
			holders--
			mu.Unlock()
			unlock()
		})
	}
	work.Wait()
	if waits == 0 {
		t.Error("nobody waited")
	}
	unlock, err := r.LockNow(helloA)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.WaitLock(ctx, helloA, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	unlock()
	if r.Locked(helloA) {
		t.Error("the lock is still held")
	}
}

func TestFree(t *testing.T) {
	if n, known := Free(filepath.Join(t.TempDir(), "not", "there")); known && n <= 0 {
		t.Errorf("%d bytes are free", n)
	}
}
