//go:build unix

package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/reasoning/internal/base64url"
	"runner/reasoning/trace"
	"runner/testenv"
)

var background = context.Background()

const canary = "canary-51c7e0d2"

func open(t testing.TB, dir string, cfg Config) *Store {
	t.Helper()
	s, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fresh returns a new store and the identity that can read its traces.
func fresh(t testing.TB) (s *Store, dir string, reader *trace.Identity) {
	t.Helper()
	dir, reader = filepath.Join(t.TempDir(), "a folder? #1"), trace.NewIdentity()
	return open(t, dir, Config{Recipients: []trace.Recipient{reader.Recipient()}}), dir, reader
}

func create(t testing.TB, s *Store) *Writer {
	t.Helper()
	w, err := s.Create(background, Info{Principal: "local", Model: "sha256:12"})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// stored stores a trace of the records.
func stored(t testing.TB, s *Store, records ...string) trace.ID {
	t.Helper()
	w := create(t, s)
	for _, r := range records {
		if err := w.Append([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// read returns the records of a trace, and the error at its end unless it is io.EOF.
func read(t testing.TB, s interface {
	Blob(ctx context.Context, id trace.ID) (io.Reader, error)
}, id trace.ID, with *trace.Identity) (records []string, err error) {
	t.Helper()
	blob, err := s.Blob(background, id)
	if err != nil {
		return nil, err
	}
	r, err := trace.NewReader(blob, with)
	if err != nil {
		return nil, err
	}
	if r.Header().ID != id {
		t.Fatalf("trace %s is stored as %s", r.Header().ID, id)
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return records, err
		}
		records = append(records, string(rec))
	}
}

func verified(t testing.TB, s *Store, kept *Head) *Report {
	t.Helper()
	r, err := s.Verify(background, kept)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sound(t testing.TB, s *Store) *Report {
	t.Helper()
	r := verified(t, s, nil)
	for _, p := range r.Problems {
		t.Error(p)
	}
	return r
}

// files returns the contents of all files below a folder, by name.
func files(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestStoreAndRead(t *testing.T) {
	s, dir, reader := fresh(t)
	long := strings.Repeat(canary, 5000)
	ids := []trace.ID{stored(t, s, "one", "two"), stored(t, s), stored(t, s, long, long)}
	for i, want := range [][]string{{"one", "two"}, nil, {long, long}} {
		got, err := read(t, s, ids[i], reader)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d records, %v, want %d", len(got), err, len(want))
		}
	}
	if _, err := read(t, s, ids[0], trace.NewIdentity()); !errors.Is(err, trace.ErrNotRecipient) {
		t.Errorf("%v, want ErrNotRecipient", err)
	}
	list, err := s.List(background)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d traces, %v", len(list), err)
	}
	for _, e := range list {
		if e.State != StateComplete || e.Principal != "local" || e.Model != "sha256:12" || e.Size == 0 || e.Began.IsZero() ||
			e.Ended.Before(e.Began) {
			t.Errorf("%+v", e)
		}
	}
	if _, err := s.Get(background, trace.NewID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
	if r := sound(t, s); r.Traces != 3 || r.Entries != 6 || r.Head.Number != 6 {
		t.Errorf("%+v", r)
	}
	for path, data := range files(t, dir) {
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s holds the text", path)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
}

func TestWhileItIsWritten(t *testing.T) {
	s, dir, reader := fresh(t)
	w := create(t, s)
	id := w.sink.begun.id
	if err := errors.Join(w.Append([]byte("one")), w.Flush(), w.Append([]byte("two"))); err != nil {
		t.Fatal(err)
	}
	other := open(t, dir, Config{}) // must not take it for what a crash left
	if e, err := other.Get(background, id); err != nil || e.State != StateOpen {
		t.Errorf("%+v, %v, want it open", e, err)
	}
	for _, err := range []error{other.Erase(background, id), func() error {
		_, err := other.Blob(background, id)
		return err
	}()} {
		if !errors.Is(err, ErrOpen) {
			t.Errorf("%v, want ErrOpen", err)
		}
	}
	if r := sound(t, other); r.Open != 1 || r.Entries != 1 {
		t.Errorf("%+v", r)
	}
	if err := w.Abandon(); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, other, id, reader); !errors.Is(err, trace.ErrTruncated) || !slices.Equal(got, []string{"one"}) {
		t.Errorf("%q, %v, want one record and ErrTruncated", got, err)
	}
	if e, err := s.Get(background, id); err != nil || e.State != StateCut {
		t.Errorf("%+v, %v, want it cut", e, err)
	}
	if _, err := w.Close(); !errors.Is(err, errClosed) {
		t.Errorf("%v, want errClosed", err)
	}
	if err := w.Abandon(); err != nil {
		t.Error(err)
	}
	sound(t, s)
}

func TestManyAtOnce(t *testing.T) {
	s, _, reader := fresh(t)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 5 {
				w := create(t, s)
				for i := range 10 {
					if err := errors.Join(w.Append(fmt.Appendf(nil, "%d %d", n, i)), w.Flush()); err != nil {
						t.Error(err)
					}
				}
				id, err := w.Close()
				if err != nil {
					t.Error(err)
				}
				if got, err := read(t, s, id, reader); err != nil || len(got) != 10 || !strings.HasPrefix(got[9], fmt.Sprint(n)) {
					t.Errorf("%q, %v", got, err)
				}
				if n%2 == 0 {
					if err := s.Erase(background, id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if r := sound(t, s); r.Traces != 20 || r.Erased != 20 {
		t.Errorf("%d traces and %d erased", r.Traces, r.Erased)
	}
}

// TestErasedBytesAreGone stores traces with interleaved chunks, erases some, and searches all files for any part of
// their blobs.
func TestErasedBytesAreGone(t *testing.T) {
	testenv.SkipRaced(t)
	s, dir, reader := fresh(t)
	rng := rand.New(rand.NewPCG(5, 6))
	erased, kept := map[trace.ID][]byte{}, map[trace.ID]int{}
	for range 4 {
		var writers []*Writer
		for range 12 {
			writers = append(writers, create(t, s))
		}
		for range 40 {
			w := writers[rng.IntN(len(writers))]
			if err := w.Append(bytes.Repeat([]byte("x"), 1+rng.IntN(6000))); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		var ids []trace.ID
		for _, w := range writers {
			id, err := w.Close()
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		for i, id := range ids {
			blob, err := s.Blob(background, id)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(blob)
			if err != nil {
				t.Fatal(err)
			}
			if i%3 == 0 {
				kept[id] = len(data)
				continue
			}
			erased[id] = data
			if err := s.Erase(background, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Windows of 16 bytes at every fourth place. The first 26 bytes of a blob are not secret, and its id stays in
	// the chain.
	windows := map[string]bool{}
	for id, data := range erased {
		for at := 26; at+16 <= len(data); at += 4 {
			windows[string(data[at:at+16])] = true
		}
		if _, err := s.Blob(background, id); !errors.Is(err, ErrErased) {
			t.Errorf("%v, want ErrErased", err)
		}
	}
	// All are sealed to one public key, which is also in the headers of the traces that stay.
	public := reader.Recipient().Bytes()
	for at := 0; at+16 <= len(public); at++ {
		delete(windows, string(public[at:at+16]))
	}
	search := func() (where string, found bool) {
		for path, data := range files(t, dir) {
			for at := 0; at+16 <= len(data); at++ {
				if windows[string(data[at:at+16])] {
					return fmt.Sprintf("%s at %d", path, at), true
				}
			}
		}
		return "", false
	}
	if where, found := search(); found {
		t.Errorf("%s: bytes of an erased trace", where)
	}
	for id, size := range kept {
		blob, err := s.Blob(background, id)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(blob); err != nil || len(data) != size {
			t.Errorf("%d bytes of %d, %v", len(data), size, err)
		}
	}
	if r := sound(t, s); r.Erased != len(erased) || r.Traces != len(kept) {
		t.Errorf("%+v", r)
	}
	// The search does find bytes that are there.
	blob, err := s.Blob(background, stored(t, s, canary))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(blob)
	if err != nil {
		t.Fatal(err)
	}
	for at := 26; at+16 <= len(data); at += 4 {
		windows[string(data[at:at+16])] = true
	}
	if _, found := search(); !found {
		t.Error("a trace that is there is not found in any file")
	}
}

// TestErasedKeysAreGone stores many short traces, whose rows SQLite moves from page to page while it erases others,
// and searches for their keys.
func TestErasedKeysAreGone(t *testing.T) {
	testenv.SkipRaced(t)
	s, dir, _ := fresh(t)
	rng := rand.New(rand.NewPCG(8, 9))
	var ids []trace.ID
	keys := map[trace.ID]string{} // a part of what was sealed with the key's box
	for range 120 {
		id := stored(t, s)
		blob, err := s.Blob(background, id)
		if err != nil {
			t.Fatal(err)
		}
		header := make([]byte, 138)
		if _, err := io.ReadFull(blob, header); err != nil {
			t.Fatal(err)
		}
		ids, keys[id] = append(ids, id), string(header[90:122])
	}
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for n, id := range ids {
		if err := s.Erase(background, id); err != nil {
			t.Fatal(err)
		}
		if n%10 != 9 {
			continue
		}
		all := files(t, dir)
		for i, id := range ids {
			found := false
			for _, data := range all {
				found = found || bytes.Contains(data, []byte(keys[id]))
			}
			if erased := i <= n; found == erased {
				t.Fatalf("trace %d of %d erased: its key is found: %v", i+1, n+1, found)
			}
		}
	}
}

// TestEraseBesideAReader erases while another process reads the earlier state of the store.
func TestEraseBesideAReader(t *testing.T) {
	s, dir, _ := fresh(t)
	id := stored(t, s, "one")
	other := open(t, dir, Config{})
	tx, err := other.db.BeginTx(background, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM pieces").Scan(&n); err != nil || n == 0 {
		t.Fatalf("%d, %v", n, err)
	}
	ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	if err := s.Erase(ctx, id); !errors.Is(err, ErrInLog) {
		t.Errorf("%v, want ErrInLog", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Erase(background, id); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "traces.db-wal")); err != nil || info.Size() != 0 {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
	sound(t, s)
}

// TestEraseBeforeTriesOnceMore: what an erasure by age left in the log is removed by the next one, even if it finds
// nothing to erase.
func TestEraseBeforeTriesOnceMore(t *testing.T) {
	s, dir, _ := fresh(t)
	stored(t, s, "one")
	other := open(t, dir, Config{})
	tx, err := other.db.BeginTx(background, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM pieces").Scan(&n); err != nil || n == 0 {
		t.Fatalf("%d, %v", n, err)
	}
	later := s.cfg.Clock().Add(time.Hour)
	for _, want := range []int{1, 0} {
		ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
		defer cancel()
		if n, err := s.EraseBefore(ctx, later); n != want || !errors.Is(err, ErrInLog) {
			t.Errorf("%d, %v, want %d and ErrInLog", n, err, want)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.EraseBefore(background, later); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "traces.db-wal")); err != nil || info.Size() != 0 {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
}

func TestEraseIsAllOrNothing(t *testing.T) {
	s, _, _ := fresh(t)
	id := stored(t, s, "one")
	if err := s.Erase(background, id, trace.NewID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
	if e, err := s.Get(background, id); err != nil || e.State != StateComplete {
		t.Errorf("%+v, %v", e, err)
	}
	for range 2 {
		if err := s.Erase(background, id); err != nil {
			t.Error(err)
		}
	}
	if r := sound(t, s); r.Entries != 3 || r.Erased != 1 || r.Traces != 0 {
		t.Errorf("%+v", r)
	}
	e, err := s.Get(background, id)
	if err != nil || e.State != StateErased || e.ErasedAt.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestLimits(t *testing.T) {
	reader := trace.NewIdentity()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cfg := Config{
		Recipients: []trace.Recipient{reader.Recipient()}, MaxTrace: 100_000, MaxTotal: 150_000, MaxAge: time.Hour,
		Clock: func() time.Time { return now },
	}
	dir := t.TempDir()
	s := open(t, dir, cfg)
	for range 2 {
		w := create(t, s)
		var err error
		for err == nil {
			err = w.Append(make([]byte, 10_000))
		}
		if !errors.Is(err, ErrTooLarge) {
			t.Fatalf("%v, want ErrTooLarge", err)
		}
		if _, err := w.Close(); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v, want ErrTooLarge", err)
		}
		if err := w.Abandon(); err != nil {
			t.Error(err)
		}
		if e, err := s.Get(background, w.sink.begun.id); err != nil || e.State != StateCut || e.Size < 80_000 ||
			e.Size > 100_000 {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if _, err := s.Create(background, Info{}); !errors.Is(err, ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	now = now.Add(time.Hour)
	if n, err := s.Prune(background); err != nil || n != 0 {
		t.Errorf("%d erased, %v", n, err)
	}
	now = now.Add(time.Second)
	if n, err := s.Prune(background); err != nil || n != 2 {
		t.Errorf("%d erased, %v", n, err)
	}
	stored(t, s, "there is room again")
	now = now.Add(2 * time.Hour)
	s = open(t, dir, cfg)
	if r := sound(t, s); r.Erased != 3 || r.Traces != 0 {
		t.Errorf("opening left %+v", r)
	}
}

func TestVerifyFinds(t *testing.T) {
	testenv.SkipRaced(t)
	// Each alters a store of six traces. The second was erased. There are two entries for each, then the 13th.
	for _, tt := range []struct{ name, alter, want string }{
		{"a byte of a blob", "UPDATE pieces SET data = zeroblob(length(data)) WHERE piece = (SELECT min(piece) FROM pieces)",
			"entry 2: trace ID: its bytes were changed"},
		{"a piece removed", "DELETE FROM pieces WHERE trace = (SELECT trace FROM chain WHERE number = 6) AND number = 1",
			"entry 6: trace ID: its bytes were changed"},
		{"a blob removed", "DELETE FROM pieces WHERE trace = (SELECT trace FROM chain WHERE number = 6)",
			"entry 6: trace ID: its bytes were removed"},
		{"blobs exchanged", `UPDATE pieces SET number = number + 100 WHERE trace = (SELECT trace FROM chain WHERE number = 6);
			UPDATE pieces SET trace = (SELECT trace FROM chain WHERE number = 6)
				WHERE trace = (SELECT trace FROM chain WHERE number = 8);
			UPDATE pieces SET trace = (SELECT trace FROM chain WHERE number = 8), number = number - 100
				WHERE number >= 100`, "entry 6: trace ID: its bytes were changed"},
		{"a piece more", "INSERT INTO pieces (trace, number, padding, data) SELECT trace, 99, x'', x'00' FROM chain " +
			"WHERE number = 8", "entry 8: trace ID: its bytes were changed"},
		{"bytes of an erased trace", "INSERT INTO pieces (trace, number, padding, data) SELECT trace, 0, x'', x'00' " +
			"FROM chain WHERE number = 4", "entry 4: trace ID: it was erased, and bytes of it are there"},
		{"bytes of no trace", "INSERT INTO pieces (trace, number, padding, data) VALUES (x'0102', 0, x'', x'00')",
			"there are bytes that no entry knows, of 0102"},
		{"a piece of no possible length", "UPDATE pieces SET data = zeroblob(40000) WHERE piece = (SELECT min(piece) " +
			"FROM pieces)", "entry 2: trace ID: its bytes were changed"},
		{"an entry removed", "DELETE FROM chain WHERE number = 6", "entry 7: trace ID: entries 6 to 6 are missing"},
		{"an entry and its place",
			"DELETE FROM chain WHERE number = 6; UPDATE chain SET number = number - 1 WHERE number > 6",
			"entry 6: trace ID: it does not follow the entry before it"},
		{"an erasure removed", "DELETE FROM chain WHERE number = 13", "entry 4: trace ID: its bytes were removed"},
		{"a time", "UPDATE chain SET at = at + 1 WHERE number = 10", "entry 10: trace ID: it was changed"},
		{"a principal", "UPDATE chain SET principal = 'another' WHERE number = 10", "entry 10: trace ID: it was changed"},
		{"a model", "UPDATE chain SET model = '' WHERE number = 12", "entry 12: trace ID: it was changed"},
		{"a size", "UPDATE chain SET size = size + 1 WHERE number = 2", "entry 2: trace ID: it was changed"},
		{"a kind", "UPDATE chain SET kind = 2 WHERE number = 2", "entry 2: trace ID: it was changed"},
		{"a kind of none", "UPDATE chain SET kind = 9 WHERE number = 2", "entry 2: trace ID: it is not an entry"},
		{"a signature", "UPDATE chain SET signature = zeroblob(64) WHERE number = 12",
			"entry 12: trace ID: its signature is not this store's"},
		{"a signature of another entry", "UPDATE chain SET signature = (SELECT signature FROM chain WHERE number = 2) " +
			"WHERE number = 12", "entry 12: trace ID: its signature is not this store's"},
		{"a hash", "UPDATE chain SET hash = zeroblob(32) WHERE number = 12", "entry 12: trace ID: it was changed"},
		{"a digest cut short", "UPDATE chain SET digest = x'01' WHERE number = 12", "entry 12: trace ID: it is not an entry"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _, _ := fresh(t)
			var ids []trace.ID
			for i := range 6 {
				ids = append(ids, stored(t, s, fmt.Sprint("record ", i)))
			}
			if err := s.Erase(background, ids[1]); err != nil {
				t.Fatal(err)
			}
			sound(t, s)
			if _, err := s.db.Exec(tt.alter); err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, p := range verified(t, s, nil).Problems {
				line := p.String()
				if p.Trace != "" {
					line = strings.ReplaceAll(line, p.Trace, "ID")
				}
				all = append(all, line)
			}
			if !slices.Contains(all, tt.want) {
				t.Errorf("found %q, want %q", all, tt.want)
			}
		})
	}
}

func TestKeptHead(t *testing.T) {
	s, dir, reader := fresh(t)
	for range 3 {
		stored(t, s, "one")
	}
	text := sound(t, s).Head.String()
	kept, err := ParseHead(text)
	if err != nil || kept.Number != 6 {
		t.Fatalf("%+v, %v", kept, err)
	}
	stored(t, s, "two")
	if r := verified(t, s, &kept); len(r.Problems) > 0 {
		t.Errorf("%v in a chain that went on", r.Problems)
	}
	for i := range text {
		bad := text[:i] + "A" + text[i+1:]
		if _, err := ParseHead(bad); bad != text && !errors.Is(err, ErrNotHead) {
			t.Errorf("altered at %d: %v", i, err)
		}
	}
	another, _, _ := fresh(t)
	for range 3 {
		stored(t, another, "one")
	}
	if r := verified(t, another, &kept); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "another chain") {
		t.Errorf("%v in another chain", r.Problems)
	}
	// Somebody who can alter the database removes the newest entries with everything that belongs to them.
	if _, err := s.db.Exec("DELETE FROM pieces WHERE trace IN (SELECT trace FROM chain WHERE number > 4); DELETE " +
		"FROM chain WHERE number > 4"); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	if r := verified(t, s, &kept); len(r.Problems) != 1 ||
		r.Problems[0].What != "the chain ends at entry 4 and was once 6 long: its tail was cut off" {
		t.Errorf("%v", r.Problems)
	}
	// The process that has seen them adds nothing more. Another process cannot know them and goes on.
	if _, err := s.Create(background, Info{}); !errors.Is(err, ErrAltered) {
		t.Errorf("%v, want ErrAltered", err)
	}
	s = open(t, dir, Config{Recipients: []trace.Recipient{reader.Recipient()}})
	stored(t, s, "three")
	sound(t, s)
	if r := verified(t, s, &kept); len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0].What, "entry 6 is not the one of the kept head") {
		t.Errorf("%v", r.Problems)
	}
}

func TestSigningKey(t *testing.T) {
	s, dir, reader := fresh(t)
	stored(t, s, "one")
	if err := os.Remove(filepath.Join(dir, "sign.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Config{Recipients: []trace.Recipient{reader.Recipient()}}); !errors.Is(err, ErrNoSigner) {
		t.Errorf("%v, want ErrNoSigner", err)
	}
	for _, content := range []string{"", "{}", `{"version":1,"seed":"AAAA"}`, `{"version":2,"seed":"` +
		base64url.Encoding.EncodeToString(make([]byte, 32)) + `"}`} {
		if err := os.WriteFile(filepath.Join(dir, "sign.key"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Config{}); err == nil || errors.Is(err, ErrNoSigner) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestMissingFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := Open(dir, Config{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v: the folder was made", err)
	}
}

// TestHugePiece reads a trace with a piece that is larger than any that is written.
func TestHugePiece(t *testing.T) {
	testenv.SkipRaced(t)
	s, _, reader := fresh(t)
	id := stored(t, s, "one")
	if _, err := s.db.Exec("UPDATE pieces SET data = zeroblob(100000000) WHERE number = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, s, id, reader); !errors.Is(err, trace.ErrTampered) {
		t.Errorf("%v, want ErrTampered", err)
	}
}

// TestNotADatabase opens files that anybody may have put there.
func TestNotADatabase(t *testing.T) {
	for _, content := range []string{"not a database, but longer than its header, which is a hundred bytes long, so " +
		"that it is read whole", strings.Repeat("\x00", 5000)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "traces.db"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(dir, Config{}); err == nil {
			s.Close()
			t.Error("it was opened")
		}
	}
}

func FuzzParseHead(f *testing.F) {
	s, _, _ := fresh(f)
	stored(f, s, "one")
	f.Add(sound(f, s).Head.String())
	f.Add("rthead1-")
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := ParseHead(text); err == nil && h.String() != text {
			t.Errorf("%q is spelled %q", text, h)
		}
	})
}

func BenchmarkStore(b *testing.B) {
	s, _, _ := fresh(b)
	record := bytes.Repeat([]byte("x"), 120)
	for b.Loop() {
		w := create(b, s)
		for range 400 {
			if err := w.Append(record); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
