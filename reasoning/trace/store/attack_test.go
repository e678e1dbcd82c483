//go:build unix

package store

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/nacl/sign"

	"runner/reasoning/trace"
	"runner/testenv"
)

// victim is a store that is not in use and that an attacker can write to. The attacker has the recipient's public
// key and earlier copies of the folder, but neither the signing key nor the private key.
type victim struct {
	*testing.T
	dir    string
	reader *trace.Identity
	// first and second are complete, erased is erased, and a crash left the last one open.
	first, second, erased, left trace.ID
	blobs                       map[trace.ID][]byte
	// before is the folder before the second trace, and early the folder before the erasure.
	before, early string
	head          Head // of all of it
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{T: t, dir: filepath.Join(t.TempDir(), "traces"), reader: trace.NewIdentity()}
	v.blobs = map[trace.ID][]byte{}
	keep := func() string {
		dir := filepath.Join(t.TempDir(), "copy")
		copyFolder(t, v.dir, dir)
		return dir
	}
	session := func(f func(s *Store)) {
		s, err := Open(v.dir, v.config())
		if err != nil {
			t.Fatal(err)
		}
		f(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	session(func(s *Store) {
		w := create(t, s)
		if err := errors.Join(w.Append([]byte("first 1")), w.Flush(), w.Append([]byte("first 2")), w.Flush()); err != nil {
			t.Fatal(err)
		}
		var err error
		if v.first, err = w.Close(); err != nil {
			t.Fatal(err)
		}
	})
	v.before = keep()
	session(func(s *Store) { v.second, v.erased = stored(t, s, "second"), stored(t, s, "erased") })
	v.early = keep()
	session(func(s *Store) {
		if err := s.Erase(background, v.erased); err != nil {
			t.Fatal(err)
		}
		w := create(t, s)
		for _, record := range []string{"left 1", "left 2"} {
			if err := errors.Join(w.Append([]byte(record)), w.Flush()); err != nil {
				t.Fatal(err)
			}
		}
		v.left = w.sink.begun.id
		v.head = sound(t, s).Head
	})
	// The traces as they were written.
	db := v.open(v.dir)
	for _, id := range []trace.ID{v.first, v.second, v.left} {
		rows, err := db.Query("SELECT data FROM pieces WHERE trace = ? ORDER BY number", id[:])
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var piece []byte
			if err := rows.Scan(&piece); err != nil {
				t.Fatal(err)
			}
			v.blobs[id] = append(v.blobs[id], piece...)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *victim) config() Config { return Config{Recipients: []trace.Recipient{v.reader.Recipient()}} }

func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, data := range files(t, from) {
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (v *victim) open(dir string) *sql.DB {
	v.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, databaseName))
	if err != nil {
		v.Fatal(err)
	}
	return db
}

// exec alters the database with SQL statements.
func (v *victim) exec(statements string, args ...any) {
	v.Helper()
	db := v.open(v.dir)
	_, err := db.Exec(statements, args...)
	if err = errors.Join(err, db.Close()); err != nil {
		v.Fatal(err)
	}
}

// forged is a trace that an attacker sealed for the recipient: its pieces, the header first.
func (v *victim) forged(id trace.ID, records ...string) [][]byte {
	v.Helper()
	var p pieces
	w, err := trace.NewWriter(&p, id, v.config().Recipients)
	for _, r := range records {
		err = errors.Join(err, w.Append([]byte(r)), w.Flush())
	}
	if err = errors.Join(err, w.Close()); err != nil {
		v.Fatal(err)
	}
	return p
}

// pieces are the writes of a trace.Writer.
type pieces [][]byte

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, bytes.Clone(b))
	return len(b), nil
}

// plant puts pieces into the database.
func (v *victim) plant(id trace.ID, pieces [][]byte) {
	v.Helper()
	for i, p := range pieces {
		v.exec("INSERT OR REPLACE INTO pieces (trace, number, padding, data) VALUES (?, ?, zeroblob(1024), ?)", id[:], i, p)
	}
}

// entry adds an entry after the newest one, signed with a key of the attacker.
func (v *victim) entry(e entry) {
	v.Helper()
	db := v.open(v.dir)
	list, err := scanEntries(db.Query("SELECT " + entryColumns + " FROM chain c ORDER BY c.number DESC LIMIT 1"))
	if err = errors.Join(err, db.Close()); err != nil {
		v.Fatal(err)
	}
	_, secret, err := sign.GenerateKey(rand.Reader)
	if err != nil {
		v.Fatal(err)
	}
	e.number, e.previous, e.at = list[0].number+1, list[0].hash, list[0].at
	e.hash = e.sum()
	signature := sign.Sign(nil, signed(e.number, e.hash), secret)[:signatureSize]
	v.exec("INSERT INTO chain VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		e.number, e.kind, e.id[:], e.at, e.began, e.size, e.digest[:],
		e.principal, e.model, e.previous[:], e.hash[:], signature)
}

const victimPrincipal = "the victim"

// forge returns a forged trace that claims an owner, with a new id.
func (v *victim) forge() (id trace.ID, e entry) {
	id = trace.NewID()
	pieces := v.forged(id, "forged 1", "forged 2")
	v.plant(id, pieces)
	all := bytes.Join(pieces, nil)
	return id, entry{id: id, size: int64(len(all)), digest: sha256.Sum256(all), principal: victimPrincipal}
}

// outcome is the expected outcome of an attack.
type outcome struct {
	// read is the error of opening the store to read it, or nil.
	read error
	// problem is a part of what Verify finds without a head, and headed with the kept head. They are empty if it
	// finds nothing.
	problem, headed string
	// write is the error of opening the store for writing, or of beginning a trace; nil if both work.
	write error
	// after and afterHeaded are like problem and headed, after the store was written to; - means the same as before.
	after, afterHeaded string
}

const same = "-"

// found is an attack that Verify finds both before and after the store is written to.
func found(problem string) outcome {
	return outcome{problem: problem, headed: same, after: same, afterHeaded: same}
}

// stops is an attack that Verify finds, and after which nothing is added to the store.
func stops(problem string) outcome {
	o := found(problem)
	o.write = ErrAltered
	return o
}

// settled is an attack on an open trace. A writer ends the trace with its authentic pieces, and Verify finds the
// rest.
func settled(problem, after string) outcome {
	return outcome{problem: problem, headed: same, after: after, afterHeaded: after}
}

const (
	// putBack restores the pieces of a trace from an earlier copy of the database.
	putBack = `ATTACH ?1 AS early;
		INSERT INTO pieces SELECT NULL, trace, number, padding, data, signature FROM early.pieces WHERE trace = ?2`
	// cutToFirst leaves only the first trace.
	cutToFirst = `DELETE FROM pieces WHERE trace NOT IN (SELECT trace FROM chain WHERE number <= 2);
		DELETE FROM chain WHERE number > 2`
)

// docs/security.md documents the attacks that are not found without a head: removing the newest entries, and
// replacing the store by one with another key.
var attacks = []struct {
	name string
	do   func(v *victim)
	outcome
}{
	{"nothing", func(*victim) {}, outcome{}},

	{"plant: pieces and a row in a table of version 1", func(v *victim) {
		id, e := v.forge()
		v.exec("CREATE TABLE open (trace BLOB PRIMARY KEY, began INTEGER, principal TEXT, model TEXT)")
		v.exec("INSERT INTO open VALUES (?, ?, ?, '')", id[:], 1, e.principal)
	}, stops("the definitions of the database were changed: table open")},
	{"plant: pieces alone", func(v *victim) { v.forge() }, found("there are bytes that no entry knows")},
	{"plant: an entry that begins a trace", func(v *victim) {
		_, e := v.forge()
		e.kind = kindBegun
		v.entry(e)
	}, stops("its signature is not this store's")},
	{"plant: an entry that ends a trace", func(v *victim) {
		_, e := v.forge()
		e.kind = StateCut
		v.entry(e)
	}, stops("its signature is not this store's")},
	{"plant: a trace begun and ended", func(v *victim) {
		_, e := v.forge()
		e.kind = kindBegun
		v.entry(e)
		e.kind = StateComplete
		v.entry(e)
	}, stops("its signature is not this store's")},
	{"plant: in a database made one of version 1", func(v *victim) {
		v.forge()
		v.exec("PRAGMA user_version = 1")
	}, outcome{read: ErrDamaged, write: ErrDamaged}},
	{"plant: the end of the trace that a crash left", func(v *victim) {
		v.entry(entry{id: v.left, kind: StateComplete, principal: victimPrincipal})
	}, stops("its signature is not this store's")},

	{"replay: the pieces of an erased trace", func(v *victim) {
		v.exec(putBack, filepath.Join(v.early, databaseName), v.erased[:])
		// A writer erases them again.
	}, outcome{problem: "it was erased, and bytes of it are there", headed: same}},
	{"replay: an erased trace without its tombstone", func(v *victim) {
		v.exec(putBack+"; DELETE FROM chain WHERE kind = 3", filepath.Join(v.early, databaseName), v.erased[:])
	}, found("are missing")},
	{"replay: an entry under a number of its own", func(v *victim) {
		v.exec(`INSERT INTO chain SELECT (SELECT max(number) + 1 FROM chain), kind, trace, at, began, size, digest,
			principal, model, previous, hash, signature FROM chain WHERE number = 2`)
	}, stops("it does not follow the entry before it")},
	{"replay: the entry that began a trace which has ended", func(v *victim) {
		v.exec("DELETE FROM chain WHERE trace = ? AND kind = 1", v.second[:])
	}, found("are missing")},
	{"replay: a tombstone for another trace", func(v *victim) {
		v.exec("UPDATE chain SET trace = ? WHERE kind = 3", v.first[:])
	}, found("it was changed")},

	{"splice: a piece of another trace", func(v *victim) {
		v.exec(`UPDATE pieces SET (data, signature) = (SELECT data, signature FROM pieces WHERE trace = ?1 AND number = 1)
			WHERE trace = ?2 AND number = 1`, v.first[:], v.second[:])
	}, found("its bytes were changed")},
	{"splice: all of a forged trace under a known id", func(v *victim) {
		v.exec("DELETE FROM pieces WHERE trace = ?", v.first[:])
		v.plant(v.first, v.forged(v.first, "forged"))
	}, found("its bytes were changed")},
	{"splice: all of a forged trace under the id of one left open", func(v *victim) {
		v.exec("DELETE FROM pieces WHERE trace = ?", v.left[:])
		v.plant(v.left, v.forged(v.left, "forged"))
	}, settled("piece 0 is not one that this store wrote", "its bytes were changed")},
	{"splice: a forged piece after those of a trace left open", func(v *victim) {
		v.exec("INSERT INTO pieces (trace, number, padding, data) VALUES (?, 3, zeroblob(1024), ?)",
			v.left[:], v.forged(v.left, "forged")[1])
	}, settled("piece 3 is not one that this store wrote", "its bytes were changed")},
	{"splice: a piece of another trace after those of one left open", func(v *victim) {
		v.exec("INSERT INTO pieces SELECT NULL, ?1, 3, padding, data, signature FROM pieces WHERE trace = ?2 AND number = 1",
			v.left[:], v.first[:])
	}, settled("piece 3 is not one that this store wrote", "its bytes were changed")},
	{"splice: the pieces of a trace left open change places", func(v *victim) {
		v.exec(`UPDATE pieces SET number = 9 WHERE trace = ?1 AND number = 1;
			UPDATE pieces SET number = 1 WHERE trace = ?1 AND number = 2;
			UPDATE pieces SET number = 2 WHERE trace = ?1 AND number = 9`, v.left[:])
	}, settled("piece 1 is not one that this store wrote", "its bytes were changed")},
	{"splice: a signature of another piece", func(v *victim) {
		v.exec(`UPDATE pieces SET signature = (SELECT signature FROM pieces WHERE trace = ?1 AND number = 1)
			WHERE trace = ?1 AND number = 2`, v.first[:])
	}, found("piece 2 is not one that this store wrote")},

	{"truncate: the last piece of a trace", func(v *victim) {
		v.exec("DELETE FROM pieces WHERE trace = ? AND number = 3", v.first[:])
	}, found("its bytes were changed")},
	{"truncate: all pieces of a trace left open", func(v *victim) {
		v.exec("DELETE FROM pieces WHERE trace = ?", v.left[:])
	}, found("its bytes were removed")},
	// Documented: a crash a moment earlier would have left the same.
	{"truncate: the last piece of a trace left open", func(v *victim) {
		v.exec("DELETE FROM pieces WHERE trace = ? AND number = 2", v.left[:])
	}, outcome{}},
	// Documented: only a head shows it.
	{"truncate: the newest entries and what belongs to them", func(v *victim) {
		v.exec(cutToFirst)
	}, outcome{headed: "its tail was cut off", afterHeaded: "its tail was cut off"}},
	{"truncate: all rows", func(v *victim) {
		v.exec("DELETE FROM pieces; DELETE FROM chain")
	}, outcome{headed: "its tail was cut off", afterHeaded: "its tail was cut off"}},
	{"truncate: the file to nothing", func(v *victim) {
		if err := os.Truncate(filepath.Join(v.dir, databaseName), 0); err != nil {
			v.Fatal(err)
		}
	}, outcome{read: ErrEmptied, write: ErrEmptied}},
	{"truncate: the file removed", func(v *victim) {
		if err := os.Remove(filepath.Join(v.dir, databaseName)); err != nil {
			v.Fatal(err)
		}
	}, outcome{read: ErrEmptied, write: ErrEmptied}},
	{"truncate: the file to its first pages", func(v *victim) {
		if err := os.Truncate(filepath.Join(v.dir, databaseName), 6*pageSize); err != nil {
			v.Fatal(err)
		}
	}, outcome{read: ErrDamaged, write: ErrDamaged}},
	{"truncate: another file in its place", func(v *victim) {
		if err := os.WriteFile(filepath.Join(v.dir, databaseName), bytes.Repeat([]byte("x"), 5000), 0o600); err != nil {
			v.Fatal(err)
		}
	}, outcome{read: ErrDamaged, write: ErrDamaged}},

	{"swap: the principals of two traces", func(v *victim) {
		v.exec("UPDATE chain SET principal = ? WHERE trace = ?", victimPrincipal, v.first[:])
	}, found("it was changed")},
	{"swap: the principal of a trace left open", func(v *victim) {
		v.exec("UPDATE chain SET principal = ? WHERE trace = ?", victimPrincipal, v.left[:])
	}, stops("it was changed")},
	{"swap: two entries", func(v *victim) {
		v.exec(`UPDATE chain SET number = 99 WHERE number = 2; UPDATE chain SET number = 2 WHERE number = 4;
			UPDATE chain SET number = 4 WHERE number = 99`)
	}, found("it does not follow the entry before it")},
	{"swap: the pieces of two traces", func(v *victim) {
		v.exec(`UPDATE pieces SET trace = x'00' WHERE trace = ?1; UPDATE pieces SET trace = ?1 WHERE trace = ?2;
			UPDATE pieces SET trace = ?2 WHERE trace = x'00'`, v.first[:], v.second[:])
	}, found("its bytes were changed")},

	// Documented: only a head shows it.
	{"roll back: the whole folder", func(v *victim) {
		if err := os.RemoveAll(v.dir); err != nil {
			v.Fatal(err)
		}
		copyFolder(v, v.before, v.dir)
	}, outcome{headed: "its tail was cut off", afterHeaded: "its tail was cut off"}},
	{"roll back: another store with keys of its own", func(v *victim) {
		another, dir, _ := fresh(v)
		stored(v, another, "forged")
		if err := os.RemoveAll(v.dir); err != nil {
			v.Fatal(err)
		}
		copyFolder(v, dir, v.dir)
	}, outcome{headed: "signed with another key", afterHeaded: "signed with another key"}},
	{"roll back: the public key of another store", func(v *victim) {
		_, dir, _ := fresh(v)
		data, err := os.ReadFile(filepath.Join(dir, publicName))
		if err == nil {
			err = os.WriteFile(filepath.Join(v.dir, publicName), data, 0o600)
		}
		if err != nil {
			v.Fatal(err)
		}
	}, outcome{read: ErrPublic, write: ErrPublic}},

	{"schema: a trigger that keeps what is erased", func(v *victim) {
		v.exec(`CREATE TABLE stash (data BLOB);
			CREATE TRIGGER keep AFTER DELETE ON pieces BEGIN INSERT INTO stash VALUES (old.data); END`)
	}, stops("the definitions of the database were changed: trigger keep")},
	{"schema: a view in place of the chain", func(v *victim) {
		v.exec(`ALTER TABLE chain RENAME TO other; CREATE VIEW chain AS SELECT * FROM other WHERE number < 3`)
	}, stops("the definitions of the database were changed: view chain")},
	{"padding: of a piece", func(v *victim) {
		v.exec("UPDATE pieces SET padding = randomblob(1024) WHERE trace = ? AND number = 1", v.first[:])
	}, found("the padding of its pieces was changed")},
}

func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			a.do(v)
			if a.headed == same {
				a.headed = a.problem
			}
			if a.after == same {
				a.after = a.problem
			}
			if a.afterHeaded == same {
				a.afterHeaded = a.headed
			}
			was := files(t, v.dir)
			v.look(a.read, a.problem, a.headed)
			if a.read == nil {
				v.lookAtCopy(a.problem, a.headed)
			}
			if now := files(t, v.dir); !equalFiles(was, now) {
				t.Error("reading has changed the folder")
			}
			id, err := v.write()
			if !errors.Is(err, a.write) || (err == nil) != (a.write == nil) {
				t.Errorf("writing: %v, want %v", err, a.write)
			}
			v.look(a.read, a.after, a.afterHeaded)
			if err == nil {
				s, err := Read(v.dir)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if e, err := s.Get(background, id); err != nil || e.Unattested {
					t.Errorf("the trace that was stored then: %+v, %v", e, err)
				}
			}
		})
	}
}

func equalFiles(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for path, data := range a {
		if other, ok := b[path]; !ok || !bytes.Equal(data, other) {
			return false
		}
	}
	return true
}

// write opens the store as its owner does, and stores a trace.
func (v *victim) write() (id trace.ID, err error) {
	s, err := Open(v.dir, v.config())
	if err != nil {
		return id, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	w, err := s.Create(background, Info{Principal: "local"})
	if err != nil {
		return id, err
	}
	if err := w.Append([]byte("another")); err != nil {
		return id, err
	}
	return w.Close()
}

// look reads the store as its owner does. No list may vouch for a trace that the owner did not store.
func (v *victim) look(refused error, problem, headed string) {
	v.Helper()
	s, err := Read(v.dir)
	if err == nil {
		defer s.Close()
	}
	if refused != nil && err != nil {
		if !errors.Is(err, refused) {
			v.Errorf("reading: %v, want %v", err, refused)
		}
		return
	}
	if err != nil {
		v.Fatal(err)
	}
	v.trust(s)
	if problem == "" && refused == nil {
		list, err := s.List(background)
		page, _, err2 := s.Page(background, Query{All: true, Limit: 100, OldestFirst: true})
		if err != nil || err2 != nil || !slices.Equal(page, list) {
			v.Errorf("%v, %v, a page of all is not the list: %v, %v", err, err2, page, list)
		}
	}
	for _, check := range []struct {
		kept *Head
		want string
	}{{nil, problem}, {&v.head, headed}} {
		r, err := s.Verify(background, check.kept)
		if refused != nil {
			if !errors.Is(err, refused) {
				v.Errorf("verifying: %v, want %v", err, refused)
			}
			continue
		}
		if err != nil {
			v.Fatal(err)
		}
		var lines []string
		for _, p := range r.Problems {
			lines = append(lines, p.String())
		}
		all := strings.Join(lines, "\n")
		if !strings.Contains(all, check.want) || (check.want == "") != (all == "") {
			v.Errorf("with head %v: found %q, want %q", check.kept != nil, all, check.want)
		}
	}
}

// lookAtCopy reads a copy with only the database and the public key, and one with only the database.
func (v *victim) lookAtCopy(problem, headed string) {
	v.Helper()
	there := v.dir
	defer func() { v.dir = there }()
	v.dir = filepath.Join(v.TempDir(), "copy")
	copyFolder(v, there, v.dir)
	for _, name := range []string{signerName, reserveName, lockName} {
		if err := os.Remove(filepath.Join(v.dir, name)); err != nil {
			v.Fatal(err)
		}
	}
	v.look(nil, problem, headed)
	if err := os.Remove(filepath.Join(v.dir, publicName)); err != nil {
		v.Fatal(err)
	}
	s, err := Read(v.dir)
	if err != nil {
		v.Fatal(err)
	}
	defer s.Close()
	v.trust(s)
	r, err := s.Verify(background, &v.head)
	if err != nil || len(r.Problems) == 0 && headed != "" {
		v.Errorf("with a head alone: %+v, %v, want %q", r, err, headed)
	}
}

// TestForeignPublicHalf puts the public key of another signing key into a copy without a signing key.
func TestForeignPublicHalf(t *testing.T) {
	v := newVictim(t)
	_, dir, _ := fresh(t)
	data, err := os.ReadFile(filepath.Join(dir, publicName))
	if err == nil {
		err = os.WriteFile(filepath.Join(v.dir, publicName), data, 0o600)
	}
	if err = errors.Join(err, os.Remove(filepath.Join(v.dir, signerName))); err != nil {
		t.Fatal(err)
	}
	v.look(nil, "its signature is not this store's", "the kept head was signed with another key")
	s, err := Read(v.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.List(background)
	for _, e := range list {
		if !e.Unattested {
			t.Errorf("%+v is attested", e)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// trust fails if a list or a blob vouches for something that the owner did not store.
func (v *victim) trust(s *Reader) {
	v.Helper()
	list, err := s.List(background)
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
			v.Error(err)
		}
		return
	}
	for _, e := range list {
		blob, mine := v.blobs[e.ID]
		if e.Principal == victimPrincipal && !e.Unattested {
			v.Errorf("the forged trace %+v is attested", e)
		}
		if !mine || e.State == StateOpen || e.State == StateErased {
			continue
		}
		from, err := s.Blob(background, e.ID)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(from)
		}
		if known := (*Error)(nil); err != nil && !errors.Is(err, trace.ErrTampered) && !errors.As(err, &known) {
			v.Errorf("%s: %v", e.ID, err)
		}
		if !bytes.HasPrefix(blob, data) {
			v.Errorf("%s reads as %d bytes that nobody stored", e.ID, len(data))
		}
		if err == nil && e.State == StateComplete && len(data) != len(blob) {
			v.Errorf("%s reads as complete with %d bytes of %d", e.ID, len(data), len(blob))
		}
	}
}

// TestRollBackUnderAProcess restores an earlier state of the store while a process has it open.
func TestRollBackUnderAProcess(t *testing.T) {
	v := newVictim(t)
	s := open(t, v.dir, v.config())
	stored(t, s, "known to this process")
	v.exec(cutToFirst)
	if _, err := s.Create(background, Info{}); !errors.Is(err, ErrAltered) {
		t.Errorf("%v, want ErrAltered", err)
	}
	if err := s.Erase(background, v.first); !errors.Is(err, ErrAltered) {
		t.Errorf("%v, want ErrAltered", err)
	}
}

// TestReadWithoutKeys removes the keys or makes them unreadable. Traces can still be read.
func TestReadWithoutKeys(t *testing.T) {
	v := newVictim(t)
	if err := os.Remove(filepath.Join(v.dir, publicName)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(v.dir, signerName)
	for _, do := range []func() error{
		func() error { return os.Chmod(path, 0o644) },
		func() error { return os.WriteFile(path, []byte("broken"), 0o600) },
		func() error { return os.Remove(path) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		r, err := Read(v.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := read(t, r, v.first, v.reader); err != nil || len(got) != 2 || r.Signed() {
			t.Errorf("%q, %v", got, err)
		}
		if list, err := r.List(background); err != nil || len(list) == 0 || !list[0].Unattested {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := r.Verify(background, nil); !errors.Is(err, ErrNoPublic) {
			t.Errorf("%v, want ErrNoPublic", err)
		}
		if report, err := r.Verify(background, &v.head); err != nil || len(report.Problems) > 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if _, err := v.write(); err == nil {
			t.Error("it was written to without its key")
		}
	}
}

// TestReserveIsNoLink replaces the reserve by a link to a file of the owner.
func TestReserveIsNoLink(t *testing.T) {
	v := newVictim(t)
	path, other := filepath.Join(v.dir, reserveName), filepath.Join(t.TempDir(), "other")
	err := errors.Join(os.WriteFile(other, []byte("mine"), 0o600), os.Remove(path), os.Symlink(other, path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.write(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != "mine" {
		t.Errorf("the other file has %d bytes, %v", len(data), err)
	}
	if !(&reserve{dir: v.dir}).held() {
		t.Error("no room is reserved")
	}
}

// TestEveryByte flips bytes of the database and of the public key. Each flip is refused by name, found by Verify,
// or changes nothing that is read.
func TestEveryByte(t *testing.T) {
	testenv.SkipRaced(t)
	v := newVictim(t)
	if _, err := v.write(); err != nil { // which brings the trace that a crash left to its end
		t.Fatal(err)
	}
	v.kept()
	every := 499 // a prime, so that every column of every kind of page is met
	if testenv.Long() {
		every = 97
	}
	became := v.flip(databaseName, every)
	if became["found"] == 0 || became["refused"] == 0 {
		t.Error("the flips met too little")
	}
	if v.flip(publicName, 1)["refused"] == 0 {
		t.Error("no other public key is refused")
	}
}

// TestEveryByteOfTheLog flips bytes of a log that a crash left. What SQLite does not take from it is missing, as a
// kept head shows.
func TestEveryByteOfTheLog(t *testing.T) {
	testenv.SkipRaced(t)
	v := newVictim(t)
	s := open(t, v.dir, v.config())
	stored(t, s, "in the log")
	crashed := filepath.Join(t.TempDir(), "crashed")
	copyFolder(t, v.dir, crashed)
	v.dir = crashed
	v.kept()
	if became := v.flip(databaseName+"-wal", 89); became["found"] == 0 {
		t.Error("the flips met too little")
	}
}

// kept returns the store with its current head.
func (v *victim) kept() {
	v.Helper()
	s, err := Read(v.dir)
	if err != nil {
		v.Fatal(err)
	}
	r, err := s.Verify(background, nil)
	if err = errors.Join(err, s.Close()); err != nil || len(r.Problems) > 0 {
		v.Fatal(err, r)
	}
	v.head = r.Head
}

// flip flips a bit in every so many bytes of a file, one at a time, and counts the outcomes.
func (v *victim) flip(name string, step int) map[string]int {
	v.Helper()
	if os.Getenv("RUNNER_LONG") != "" {
		step = min(step, 7)
	}
	became := map[string]int{}
	want := v.readAll()
	path := filepath.Join(v.dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		v.Fatal(err)
	}
	for at := step / 2; at < len(data); at += step {
		bad := bytes.Clone(data)
		bad[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			v.Fatal(err)
		}
		what, err := v.flipped(want)
		if err != nil {
			v.Errorf("%s at %d: %v", name, at, err)
		}
		became[what]++
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		v.Fatal(err)
	}
	v.Log(name, became)
	return became
}

// flipped returns the outcome for a store with a flipped bit. It is an error if something else than was written is
// read without being noticed.
func (v *victim) flipped(want string) (string, error) {
	s, err := Read(v.dir)
	if err == nil {
		defer s.Close()
		var r *Report
		if r, err = s.Verify(background, &v.head); err == nil {
			if len(r.Problems) > 0 {
				v.trust(s)
				return "found", nil
			}
			if got := v.readAll(); got != want {
				return "unseen", fmt.Errorf("it reads otherwise: %s", got[commonPrefix(got, want):])
			}
			return "without effect", nil
		}
	}
	known := (*Error)(nil)
	if !errors.As(err, &known) {
		return "", fmt.Errorf("an error without a name: %w", err)
	}
	return "refused", nil
}

func commonPrefix(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// readAll returns everything that can be read, as text.
func (v *victim) readAll() string {
	s, err := Read(v.dir)
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	list, err := s.List(background)
	text := fmt.Sprintf("%+v %v", list, err)
	for _, e := range list {
		if e.State == StateErased {
			continue
		}
		from, err := s.Blob(background, e.ID)
		if err != nil {
			return text + err.Error()
		}
		data, err := io.ReadAll(from)
		text += fmt.Sprintf(" %x %v", sha256.Sum256(data), err)
	}
	return text
}
