package mlx

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestUnusedWorkersAreRemoved: a new worker takes the place of those that no process uses. The others stay.
func TestUnusedWorkersAreRemoved(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(cache, "mlx")
	old, used := filepath.Join(dir, "worker-1"), filepath.Join(dir, "worker-2")
	left, fresh := filepath.Join(dir, "worker-3.tmp"), filepath.Join(dir, "worker-4.tmp")
	for _, path := range []string{old, used, left, fresh} {
		if err := os.MkdirAll(filepath.Join(path, "worker"), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "worker/main.py", "import os")
	}
	write(t, dir, "worker-1.lock", "")
	before := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(left, before, before); err != nil {
		t.Fatal(err)
	}
	other, err := lock(used+lockSuffix, syscall.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	path, err := writeWorker(cache)
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Dir(path)
	has := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		got, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the cache has %v, %v, want %v", got, err, want)
		}
	}
	has(mine, mine+lockSuffix, used, used+lockSuffix, fresh)
	removeUnused(dir) // as a process with another worker does while this one runs
	has(mine, mine+lockSuffix, used, used+lockSuffix, fresh)
	other.Close()
	if err := os.RemoveAll(path); err != nil { // it is written again
		t.Fatal(err)
	}
	if _, err := writeWorker(cache); err != nil {
		t.Fatal(err)
	}
	has(mine, mine+lockSuffix, fresh)
}

// TestHeldWorkersStay lets programs with several workers come and go. Each removes what is unused, and none may lose
// what it uses.
func TestHeldWorkersStay(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		path := filepath.Join(dir, []string{"worker-a", "worker-b"}[i%2])
		all.Go(func() {
			for range 200 {
				f, err := lock(path+lockSuffix, syscall.LOCK_SH)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
					t.Error(err)
				}
				removeUnused(dir)
				if _, err := os.Stat(path); err != nil {
					t.Errorf("a worker is gone that is in use: %v", err)
				}
				f.Close()
			}
		})
	}
	all.Wait()
}

// TestLockOfARemovedFile: who waits for a lock while its file is removed gets one of the file that is there later.
func TestLockOfARemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lock(path, syscall.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *os.File)
	go func() {
		f, err := lock(path, syscall.LOCK_SH)
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	time.Sleep(100 * time.Millisecond) // it has opened the file and waits
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	first.Close()
	f := <-got
	defer f.Close()
	if !isAt(f, path) {
		t.Error("the lock is of a file that was removed")
	}
}
