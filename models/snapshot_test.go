package models

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// at is the modification time of the files of these tests, and later that of a change.
var (
	at    = time.Unix(1_700_000_000, 0)
	later = at.Add(time.Hour)
)

// put writes a file in place.
func put(t *testing.T, path, content string, when time.Time) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, when, when)); err != nil {
		t.Fatal(err)
	}
}

// replace puts another file in the place of one.
func replace(t *testing.T, path, content string, when time.Time) {
	t.Helper()
	put(t, path+".new", content, when)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func mustTake(t *testing.T, paths ...string) *Snapshot {
	t.Helper()
	s, err := Take(paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustHash(t *testing.T, s *Snapshot) string {
	t.Helper()
	if err := s.Hash(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return s.Digest()
}

// changes are what can happen to a file with the content "weights".
var changes = map[string]struct {
	change func(t *testing.T, path string)
	// written says that it was written to in place, touched that it may have been, and other that the path leads to other
	// weights now.
	written, touched, other bool
}{
	"nothing":                 {func(*testing.T, string) {}, false, false, false},
	"the time":                {func(t *testing.T, p string) { put(t, p, "weights", later) }, true, true, false},
	"the bytes":               {func(t *testing.T, p string) { put(t, p, "wEights", later) }, true, true, true},
	"the bytes, not the time": {func(t *testing.T, p string) { put(t, p, "wEights", at) }, false, true, true},
	"the length":              {func(t *testing.T, p string) { put(t, p, "weight", at) }, true, true, true},
	"another file":            {func(t *testing.T, p string) { replace(t, p, "wEights", at) }, false, false, true},
	"another file, as good":   {func(t *testing.T, p string) { replace(t, p, "weights", later) }, false, false, false},
}

// wait lets the system's clock go on: two changes within one of its ticks look like one.
func wait() { time.Sleep(20 * time.Millisecond) }

// TestSplitModelsThatChange changes a part of a model whose files are opened by their names.
func TestSplitModelsThatChange(t *testing.T) {
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			paths := []string{filepath.Join(dir, "1.gguf"), filepath.Join(dir, "2.gguf")}
			put(t, paths[0], "header", at)
			put(t, paths[1], "weights", at)
			wait()
			s := mustTake(t, paths...)
			digest := mustHash(t, s)
			if err := s.Unchanged(); err != nil || s.Held() != nil {
				t.Errorf("at first: %v, held %v", err, s.Held())
			}
			c.change(t, paths[1])
			if got := s.Touched(); got != c.touched {
				t.Errorf("touched: %v", got)
			}
			if err := s.Unchanged(); (err == nil) != (name == "nothing") || err != nil && !errors.Is(err, ErrChanged) {
				t.Errorf("unchanged: %v", err)
			}
			now := mustTake(t, paths...)
			if same := now.Key("h") == s.Key("h"); same != (name == "nothing") {
				t.Errorf("the key is the same: %v", same)
			}
			if got := mustHash(t, now); (got == digest) == c.other {
				t.Errorf("the digest was %s and is %s", digest, got)
			}
			for range 2 {
				now := mustTake(t, paths...)
				err := s.Continue(t.Context(), now, false)
				if same := now.Key("h") == s.Key("h") && now.Digest() == digest; same == c.other {
					t.Errorf("it is the same model: %v", same)
				}
				if errors.Is(err, ErrChanged) != c.other || !c.other && err != nil {
					t.Errorf("compared: %v", err)
				}
			}
			replace(t, paths[1], "weights", at.Add(2*time.Hour))
			if err := s.Continue(t.Context(), mustTake(t, paths...), false); err != nil {
				t.Errorf("once it was put back: %v", err)
			}
			if s.Digest() != digest || s.Key("h") == s.Key("i") {
				t.Errorf("the digest is %s and the keys are the same", s.Digest())
			}
		})
	}
}

// TestHeldFile changes a model of one file, which a program keeps open. Another file in its place makes no difference.
func TestHeldFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system opens no file by its descriptor")
	}
	for name, c := range changes {
		for _, rechecked := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", read again: ", rechecked), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "model.gguf")
				put(t, path, "weights", at)
				wait()
				s := mustTake(t, path)
				if s.Held() == nil {
					t.Fatal("it is not held")
				}
				digest := mustHash(t, s)
				if want := fmt.Sprintf("%x", sha256.Sum256([]byte("weights"))); digest != want {
					t.Errorf("the digest is %s, want %s", digest, want)
				}
				c.change(t, path)
				bad, replaced := c.touched && c.other, !c.touched && name != "nothing"
				// Losing its name looks like a touch until it is read again.
				if got := s.Touched(); got != (c.touched || replaced) {
					t.Errorf("touched: %v", got)
				}
				if rechecked {
					if err := s.Recheck(t.Context()); errors.Is(err, ErrChanged) != bad || !bad && err != nil {
						t.Errorf("read again: %v", err)
					}
				}
				want := bad || c.written && !rechecked
				if err := s.Unchanged(); (err != nil) != want || want && !errors.Is(err, ErrChanged) {
					t.Errorf("unchanged: %v", err)
				}
				if got := s.Touched(); got != want {
					t.Errorf("touched after that: %v", got)
				}
				if err := s.Continue(t.Context(), mustTake(t, path), false); errors.Is(err, ErrChanged) != c.other {
					t.Errorf("compared with what its path leads to: %v", err)
				}
			})
		}
	}
}

// TestHashReadsTheFileThatWasOpened checks that the digest is that of the file that was opened, even if another one has
// its name by then, and that it is unknown if the file was written to.
func TestHashReadsTheFileThatWasOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	put(t, path, "weights", at)
	want := mustHash(t, mustTake(t, path))

	s := mustTake(t, path)
	replace(t, path, "wEights", at)
	if got := mustHash(t, s); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}

	s = mustTake(t, path)
	put(t, path, "others!", at.Add(time.Hour))
	if err := s.Hash(t.Context(), false); !errors.Is(err, ErrChanged) || s.Digest() != "" {
		t.Errorf("the digest of a file that was written to is %q, %v", s.Digest(), err)
	}
	if err := s.Continue(t.Context(), mustTake(t, path), false); !errors.Is(err, ErrChanged) {
		t.Errorf("unknown contents are the same: %v", err)
	}
}

// TestClosedSnapshots are hashed by their paths, if these still lead to the same files.
func TestClosedSnapshots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	put(t, path, "weights", at)
	same, other := mustTake(t, path), mustTake(t, path)
	if err := errors.Join(same.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	if mustHash(t, same) == "" {
		t.Error("no digest")
	}
	replace(t, path, "wEights", at)
	if err := other.Hash(t.Context(), false); !errors.Is(err, ErrChanged) || other.Digest() != "" {
		t.Errorf("the digest of another file: %v", err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mustTake(t, path).Hash(stopped, true); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped hash: %v", err)
	}
}

// TestDigestsOfSeveralFiles: what a folder's files are called matters, and what a split model is called does not.
func TestDigestsOfSeveralFiles(t *testing.T) {
	digest := func(names ...string) string {
		dir := t.TempDir()
		for i := range names {
			names[i] = filepath.Join(dir, names[i])
			put(t, names[i], fmt.Sprint("content ", i), at)
		}
		return mustHash(t, mustTake(t, names...))
	}
	split, folder := digest("a-1.gguf", "a-2.gguf"), digest("config.json", "model.safetensors")
	if split != digest("b-1.gguf", "b-2.gguf") {
		t.Error("a split model with another name has another digest")
	}
	if folder == digest("other.json", "model.safetensors") || folder == split || split == digest("a-1.gguf") {
		t.Error("models with other files have the same digest")
	}
}

// TestClaims: a name in a cache claims a digest, which the contents may not have.
func TestClaims(t *testing.T) {
	dir := t.TempDir()
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("weights")))
	for name, want := range map[string]string{
		digest: digest, "sha256-" + digest: digest, "model.gguf": "", digest[1:]: "", strings.Repeat("g", 64): "",
	} {
		put(t, filepath.Join(dir, name), "weights", at)
		if got := mustTake(t, filepath.Join(dir, name)).Claimed(); got != want {
			t.Errorf("%s claims %q", name, got)
		}
	}
	link := filepath.Join(dir, "link.gguf")
	if err := os.Symlink(digest, link); err != nil {
		t.Fatal(err)
	}
	s := mustTake(t, link)
	if s.Claimed() != digest || mustHash(t, s) != digest {
		t.Errorf("a link claims %q", s.Claimed())
	}
	put(t, filepath.Join(dir, digest), "wEights", at)
	if s = mustTake(t, link); s.Claimed() != digest || mustHash(t, s) == digest {
		t.Error("a claim counts")
	}
}

// TestHashOfAFileInUse: the digest is that of a whole file, while others read it at their own places.
func TestHashOfAFileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	content := bytes.Repeat([]byte("weights"), 1<<19)
	put(t, path, string(content), at)
	s := mustTake(t, path)
	if f := s.Held(); f != nil {
		if _, err := f.Seek(1<<20, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := mustHash(t, s), fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := Take([]string{filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a file that is not there has a snapshot")
	}
}
