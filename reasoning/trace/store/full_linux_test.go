package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"runner/reasoning/trace"
	"runner/testenv"
)

// disk mounts a small disk.
func disk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	testenv.Mount(t, "tmpfs", dir, "tmpfs", 0, "size="+size)
	return dir
}

// fill fills the rest of a disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// TestFullDisk records until a disk is full, then erases, both with the store open and with it opened again.
func TestFullDisk(t *testing.T) {
	testenv.SkipRaced(t)
	if !testenv.Mounts(t) {
		return
	}
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint("opened again ", again), func(t *testing.T) {
			mount := disk(t, "6m")
			dir, reader := filepath.Join(mount, "traces"), trace.NewIdentity()
			cfg := Config{Recipients: []trace.Recipient{reader.Recipient()}}
			s, err := Open(dir, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { s.Close() }()
			large := stored(t, s, strings.Repeat("x", 1<<20)) // larger than the room that is kept
			var ids []trace.ID
			var w *Writer
			for err == nil {
				if w, err = s.Create(background, Info{Principal: "local"}); err != nil {
					break
				}
				if err = w.Append(bytes.Repeat([]byte("y"), 200<<10)); err == nil {
					var id trace.ID
					if id, err = w.Close(); err == nil {
						ids = append(ids, id)
					}
				}
			}
			if !errors.Is(err, ErrNoRoom) {
				t.Fatalf("%v, want ErrNoRoom", err)
			}
			if w != nil {
				_ = w.Abandon() // there may be no room for that either; the store tries again
			}
			fill(t, mount)
			w, err = s.Create(background, Info{}) // the log may have room within
			for err == nil {
				err = w.Append(bytes.Repeat([]byte("z"), 20<<10))
			}
			if !errors.Is(err, ErrNoRoom) {
				t.Errorf("%v, want ErrNoRoom", err)
			}
			if w != nil {
				_ = w.Abandon()
			}
			if again {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				fill(t, mount)
				if r, err := Read(dir); err != nil {
					t.Errorf("reading on a full disk: %v", err)
				} else {
					r.Close()
				}
				if s, err = Open(dir, Config{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range append([]trace.ID{large}, ids...) {
				if err := s.Erase(background, id); err != nil {
					t.Fatalf("erasing on a full disk: %v", err)
				}
				fill(t, mount)
			}
			r := sound(t, s)
			if r.Erased != len(ids)+1 || r.Open != 0 {
				t.Errorf("%+v", r)
			}
			if info, err := os.Stat(filepath.Join(dir, "traces.db-wal")); err != nil || info.Size() != 0 {
				t.Errorf("the log is not cut, %v", err)
			}
			if !s.reserved() {
				t.Error("no room is kept for the next erasure")
			}
			if err := os.Remove(filepath.Join(mount, "filler")); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(dir, cfg); err != nil {
				t.Fatal(err)
			}
			stored(t, s, "there is room again")
			if r := sound(t, s); r.Open != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// readOnly mounts a folder a second time, read-only.
func readOnly(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	testenv.Mount(t, dir, to, "", syscall.MS_BIND, "")
	if err := syscall.Mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestReadOnlyFolder reads stores that cannot be written, in each possible state.
func TestReadOnlyFolder(t *testing.T) {
	if !testenv.Mounts(t) {
		return
	}
	dir, reader := filepath.Join(t.TempDir(), "traces"), trace.NewIdentity()
	cfg := Config{Recipients: []trace.Recipient{reader.Recipient()}}
	s, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	first := stored(t, s, "first")
	at := readOnly(t, dir)
	check := func(name string, ids ...trace.ID) {
		t.Helper()
		was := files(t, dir)
		r, err := Read(at)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer r.Close()
		report, err := r.Verify(background, nil)
		if err != nil || len(report.Problems) > 0 || report.Traces != len(ids) {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		for _, id := range ids {
			if got, err := read(t, r, id, reader); err != nil || len(got) != 1 {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		now := files(t, dir)
		for path, data := range now {
			if strings.HasSuffix(path, "-shm") && strings.HasPrefix(name, "open") {
				continue // this process maps it for the writer as well
			}
			if !bytes.Equal(was[path], data) || len(was) != len(now) {
				t.Errorf("%s: reading has changed the folder: %s", name, path)
			}
		}
	}
	check("open elsewhere", first)
	second := stored(t, s, "second") // is in the log only
	check("open elsewhere, with a log", first, second)
	if _, err := Open(at, cfg); !errors.Is(err, ErrReadOnly) {
		t.Errorf("opened to write: %v, want ErrReadOnly", err)
	}
	// As a crash leaves it.
	crashed := filepath.Join(t.TempDir(), "crashed")
	copyFolder(t, dir, crashed)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check("closed", first, second)
	dir = crashed
	at = readOnly(t, dir)
	check("after a crash", first, second)
	if err := os.Remove(filepath.Join(dir, databaseName+"-shm")); err != nil {
		t.Fatal(err)
	}
	check("after a crash, without the log's index", first, second)
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{signerName, reserveName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	check("without the signing key", first, second)
	if err := os.Remove(filepath.Join(dir, publicName)); err != nil {
		t.Fatal(err)
	}
	r, err := Read(at)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Verify(background, nil); !errors.Is(err, ErrNoPublic) {
		t.Errorf("%v, want ErrNoPublic", err)
	}
}
