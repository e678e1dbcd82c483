package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"runner/models"
)

// cached sets the user's cache to a new directory.
func cached(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	return dir
}

func must(t *testing.T) string {
	t.Helper()
	path, err := Path(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ok, err := intact(path)
	if err != nil || !ok {
		t.Fatalf("the file at %s is not the model: %v", path, err)
	}
	return path
}

func TestPathUnpacksOnce(t *testing.T) {
	dir := cached(t)
	path := must(t)
	if !strings.HasPrefix(path, dir) {
		t.Fatalf("%s is outside the cache %s", path, dir)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if again := must(t); again != path {
		t.Fatalf("second call gave %s, first %s", again, path)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Fatalf("an intact file was written again (%v)", err)
	}
}

func TestPathRepairs(t *testing.T) {
	cached(t)
	path := must(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"one bit flipped": func() error {
			bad := append([]byte(nil), good...)
			bad[len(bad)/2] ^= 1
			return os.WriteFile(path, bad, 0o644)
		},
		"truncated": func() error { return os.Truncate(path, int64(len(good)/2)) },
		"emptied":   func() error { return os.Truncate(path, 0) },
		"removed":   func() error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if ok, err := intact(path); ok || err != nil {
				t.Fatalf("the spoilt file passes: %v, %v", ok, err)
			}
			must(t)
		})
	}
}

func TestPathRace(t *testing.T) {
	dir := cached(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			path, err := Path(context.Background())
			if err == nil {
				var ok bool
				if ok, err = intact(path); err == nil && !ok {
					err = errors.New("a half-written file was seen")
				}
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "cache", "runner", "models", "*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, "cache", "runner", "models", ".*"))
	if err != nil || len(left) != 1 || len(hidden) != 0 {
		t.Fatalf("the cache holds %v and %v after the race, want one file (%v)", left, hidden, err)
	}
}

func TestPathErrors(t *testing.T) {
	dir := cached(t)
	// A file in place of the directory fails for every user, even for one who may write anywhere.
	if err := os.WriteFile(filepath.Join(dir, "cache"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Path(context.Background())
	var e *models.Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint(), "XDG_CACHE_HOME") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, want one line with a hint at XDG_CACHE_HOME", err)
	}
	if err := os.Remove(filepath.Join(dir, "cache")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Path(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v after cancelling", err)
	}
}
