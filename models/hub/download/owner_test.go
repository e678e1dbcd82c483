package download

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"runner/models/cache"
	"runner/models/hub/hubtest"
)

// rename gives the partial file another owner.
func (p *place) rename(o owner) string {
	p.t.Helper()
	dir := filepath.Join(p.repo.Blobs(), p.file.Etag+"."+o.String()+suffix)
	if err := os.Rename(p.partial(), dir); err != nil {
		p.t.Fatal(err)
	}
	return dir
}

// bootedOwner returns this program as the owner of a folder. It skips the test where the system does not say which boot
// this is.
func bootedOwner(t *testing.T) owner {
	t.Helper()
	me := newOwner()
	if me.boot == unknown {
		if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
			t.Fatal("the name of this boot was not found")
		}
		t.Skip("no name of a boot is known on this system")
	}
	return me
}

// TestOwners says which folders a download takes over. It fetches the file into a folder of its own if it does not.
func TestOwners(t *testing.T) {
	me := bootedOwner(t)
	for _, c := range []struct {
		name   string
		owner  owner
		locked bool // another descriptor has the lock on the journal
		lies   bool // locks are granted to everybody
		takes  bool
	}{
		{"free", owner{nobody, "0", "A"}, false, false, true},
		{"free where locks lie", owner{nobody, "0", "A"}, false, true, true},
		{"killed", owner{me.machine, me.boot, "A"}, false, false, true},
		{"killed in another container", owner{"other", me.boot, "A"}, false, false, true},
		{"at work", owner{me.machine, me.boot, "A"}, true, false, false},
		{"killed or at work, where locks lie", owner{me.machine, me.boot, "A"}, false, true, false},
		{"of an earlier boot", owner{me.machine, "earlier", "A"}, false, false, me.machine != unknown},
		{"of another machine", owner{"other", "other", "A"}, false, false, false},
		{"of an unknown boot", owner{me.machine, unknown, "A"}, false, false, false},
		{"of an unknown machine", owner{unknown, "earlier", "A"}, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t, content(12, 20*chunk), true)
			p.interrupt()
			here := p.onDisk()
			dir := p.rename(c.owner)
			if c.locked {
				f, err := os.Open(filepath.Join(dir, "journal"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if err := cache.TryLock(f); err != nil {
					t.Fatal(err)
				}
			}
			if c.lies {
				tryLock = func(*os.File) error { return nil }
				defer func() { tryLock = cache.TryLock }()
			}
			since := len(p.Asked())
			if err := p.get(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(p.blob(), p.want) {
				t.Error("the blob is wrong")
			}
			want := p.file.Size
			if c.takes {
				want -= here
			}
			if _, n := p.asked(since); n != want {
				t.Errorf("%d bytes were asked for, not %d", n, want)
			}
			if _, err := os.Stat(dir); (err == nil) == c.takes {
				t.Errorf("the folder: %v", err)
			}
		})
	}
}

// TestTwoAtOnce downloads the same file several times at once: where locks work, where they lie, and where the lock's
// file is removed all the time.
func TestTwoAtOnce(t *testing.T) {
	for _, how := range []string{"locks", "locks that lie", "no lock files"} {
		t.Run(how, func(t *testing.T) {
			p := newPlace(t, content(13, 40*chunk), true)
			if how == "locks that lie" {
				tryLock = func(*os.File) error { return nil }
				defer func() { tryLock = cache.TryLock }()
			}
			p.Fail(func(hubtest.Request) hubtest.Fault {
				if how != "locks" {
					_ = os.RemoveAll(p.repo.Locks())
				}
				return hubtest.Fault{}
			})
			var work sync.WaitGroup
			for range 4 {
				work.Go(func() {
					if err := Get(t.Context(), p.client, p.repo, p.commit, p.file, Options{Chunk: chunk}); err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
			if !bytes.Equal(p.blob(), p.want) {
				t.Error("the blob is wrong")
			}
			if _, n := p.asked(0); how == "locks" && n != p.file.Size {
				t.Errorf("%d bytes were asked for", n)
			}
		})
	}
}

func TestDiscard(t *testing.T) {
	p := newPlace(t, content(14, 20*chunk), true)
	p.interrupt()
	unlock, err := p.repo.LockNow(p.file.Etag)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := Discard(p.repo, p.file.Etag); err != nil || !left || len(Find(p.repo)) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	unlock()
	if left, err := Discard(p.repo, p.file.Etag); err != nil || left || len(Find(p.repo)) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// FuzzJournal reads any journal. What comes out is possible for the file, and is read again as it was written.
func FuzzJournal(f *testing.F) {
	p := newPlan(strings.Repeat("a", 64), 100, 10)
	good := p.line() + recordOf([]byte("0123456789")).line(3) + recordOf([]byte("0")).line(9)
	f.Add([]byte(good), int64(100))
	f.Add([]byte(good[:len(good)-30]), int64(100))
	f.Add([]byte(strings.Replace(good, " 10\n", " 0\n", 1)), int64(100))
	f.Add([]byte(strings.Replace(good, " 100 ", " 0 ", 1)), int64(0))
	f.Fuzz(func(t *testing.T, text []byte, size int64) {
		if size < 0 || size > 1<<50 {
			return
		}
		got, records, err := readJournal(bytes.NewReader(text), p.etag, size)
		if err != nil {
			return
		}
		if got.size != size || got.chunk <= 0 || got.chunk > maxChunk || got.chunks() > maxChunks {
			t.Fatalf("the plan is %+v", got)
		}
		again := got.line()
		for i, r := range records {
			at, length := got.span(i)
			if at < 0 || at >= size || r.length <= 0 || r.length > length || at+length > size {
				t.Fatalf("chunk %d has %d bytes of %d at %d", i, r.length, length, at)
			}
			again += r.line(i)
		}
		plan2, records2, err := readJournal(strings.NewReader(again), p.etag, size)
		if err != nil || plan2 != got || len(records2) != len(records) {
			t.Fatalf("read again: %+v, %d records, %v", plan2, len(records2), err)
		}
	})
}

// TestLeftOfAPublishedFile says that the folder of a program which was ended between publishing the file and removing
// the folder goes with the next download of the file, and that the folder of a program at work stays.
func TestLeftOfAPublishedFile(t *testing.T) {
	me := bootedOwner(t)
	p := newPlace(t, content(14, 20*chunk), true)
	p.interrupt()
	dir := p.rename(owner{me.machine, me.boot, "A"})
	path, err := p.repo.Blob(p.file.Etag)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, p.want, 0o644); err != nil {
		t.Fatal(err)
	}
	journal, err := os.Open(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	if err := cache.TryLock(journal); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{1, 0} {
		if err := p.get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(find(p.repo.Blobs(), p.file.Etag)); n != left {
			t.Errorf("%d folders are left, want %d", n, left)
		}
		_ = journal.Close() // its owner is gone
	}
}
