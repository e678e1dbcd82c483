package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"

	"runner/reasoning/trace"
)

// Reader reads a folder of sealed traces. It writes nothing, signs nothing, and needs neither a private key nor the
// signing key. It may be used by several goroutines. A process cannot open a [Store] in a folder while it has a Reader
// there, because SQLite shares the log's index between the two.
type Reader struct {
	db *sql.DB
	// public is the signing key's public key; nil if it is not known.
	public *public
	// frozen is the database's file if SQLite reads it as immutable; it must not change meanwhile. Otherwise it is nil.
	frozen *frozen
	// copied is a temporary folder that Close removes; empty if there is none.
	copied string
}

// frozen is a file and its state at one moment.
type frozen struct {
	path string
	info fs.FileInfo
}

func freeze(path string) (*frozen, error) {
	info, err := os.Stat(path)
	return &frozen{path, info}, err
}

// moved reports whether the file has changed since.
func (f *frozen) moved() bool {
	if f == nil {
		return false
	}
	info, err := os.Stat(f.path)
	return err != nil || !os.SameFile(info, f.info) || info.Size() != f.info.Size() ||
		!info.ModTime().Equal(f.info.ModTime())
}

// Read opens the store in a folder for reading. The folder may be read-only, or a copy with traces.db alone. Errors:
// fs.ErrNotExist if there is no store, ErrEmptied, ErrDamaged, ErrPublic.
func Read(dir string) (*Reader, error) {
	for attempt := 0; ; attempt++ {
		r, err := openReader(dir)
		if err == nil {
			return r, nil
		}
		err = errors.Join(err, r.Close())
		switch {
		case !errors.Is(nameOf(err), ErrReadOnly), errors.As(err, new(*fs.PathError)):
			return nil, named(err)
		case attempt == readAttempts:
			return nil, fmt.Errorf("traces: it cannot be read: %w", err)
		}
		// A writer has created or removed its files between two looks at them.
		time.Sleep(time.Duration(attempt) * time.Millisecond)
	}
}

// readAttempts is how often Read tries again while a writer creates and removes its files.
const readAttempts = 10

func openReader(dir string) (r *Reader, err error) {
	r = &Reader{}
	path := filepath.Join(dir, databaseName)
	if err := present(dir); err != nil {
		return r, err
	}
	if r.public, err = findPublic(dir); err != nil {
		return r, err
	}
	if err := r.open(path); err != nil {
		return r, err
	}
	return r, check(r.db)
}

// readError is named for errors of reading. There, SQLite reports read-only if a writer has just created or removed the
// log.
func readError(err error) error {
	if errors.As(err, new(*sqlite.Error)) && errors.Is(nameOf(err), ErrReadOnly) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return named(err)
}

// present returns nil if a folder holds a store. If the keys are there and the database is not, it was removed.
func present(dir string) error {
	made := false
	for _, name := range []string{signerName, publicName} {
		_, err := os.Stat(filepath.Join(dir, name))
		made = made || err == nil
	}
	info, err := os.Stat(filepath.Join(dir, databaseName))
	switch {
	case errors.Is(err, fs.ErrNotExist) && made:
		return ErrEmptied
	case err != nil:
		return err
	case info.Size() == 0:
		return ErrEmptied
	}
	return nil
}

// findPublic returns the public key from sign.pub, or from sign.key if only that can be read. If both can be read they
// must agree. Without either it returns nil: traces can still be read, but none is attested.
func findPublic(dir string) (*public, error) {
	p, err := loadPublic(filepath.Join(dir, publicName))
	signer, signerErr := loadSigner(filepath.Join(dir, signerName))
	switch {
	case err == nil && signerErr == nil && signer.public != p:
		return nil, ErrPublic
	case err == nil:
		return &p, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case signerErr == nil:
		return &signer.public, nil
	}
	return nil, nil
}

// open opens the database without writing. SQLite alone cannot do that: it creates a log in a folder without one.
//
//   - Without a log no program has the database open, so it is read as it is (immutable). Later reads check whether
//     the file has changed.
//   - With a log and its index, SQLite coordinates readers and writers. The index is mapped read-only.
//   - A log without an index was left by a crash or a copy. The files are copied to a temporary folder.
func (r *Reader) open(path string) (err error) {
	pragmas := []string{"query_only(on)", "trusted_schema(off)", "cell_size_check(on)", "temp_store(memory)"}
	logSize, logErr := sizeOf(path + "-wal")
	_, indexErr := sizeOf(path + "-shm")
	if errors.Is(logErr, fs.ErrNotExist) || logErr == nil && logSize == 0 && errors.Is(indexErr, fs.ErrNotExist) {
		if r.frozen, err = freeze(path); err != nil {
			return err
		}
		r.db, err = connect(path, url.Values{"mode": {"ro"}, "immutable": {"1"}}, pragmas...)
		return err
	}
	if indexErr == nil {
		if r.db, err = connect(path, url.Values{"mode": {"ro"}, "readonly_shm": {"1"}}, pragmas...); err != nil {
			return err
		}
		r.db.SetMaxOpenConns(4)
		var n int
		err = r.db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&n)
		if name := nameOf(err); !errors.Is(name, ErrReadOnly) && !errors.Is(name, ErrBusy) {
			return err
		}
		if err := r.db.Close(); err != nil {
			return err
		}
	}
	if r.copied, err = os.MkdirTemp("", "traces-"); err != nil {
		return err
	}
	to := filepath.Join(r.copied, databaseName)
	if err := copyDatabase(path, to); err != nil {
		return err
	}
	r.db, err = connect(to, nil, pragmas...)
	return err
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// copyDatabase copies a database and its log. The database changes only when the log is written into it. So a log that
// is copied after the database fits it, unless the database has changed meanwhile.
func copyDatabase(path, to string) error {
	was, err := freeze(path)
	if err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal"} {
		err := copyFile(path+suffix, to+suffix)
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			return ErrBusy // a program that closed the database has removed its log
		}
		if err != nil {
			return err
		}
	}
	if was.moved() {
		return ErrBusy
	}
	return nil
}

func copyFile(path, to string) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// Signed reports whether signatures can be checked, because the public key is known.
func (r *Reader) Signed() bool { return r.public != nil }

// Stale reports whether the store was changed in a way that this Reader cannot follow. All its methods then return
// ErrBusy.
func (r *Reader) Stale() bool { return r.frozen.moved() }

// Close closes the store.
func (r *Reader) Close() error {
	var err error
	if r.db != nil {
		err = r.db.Close()
	}
	if r.copied != "" {
		err = errors.Join(err, os.RemoveAll(r.copied))
	}
	return err
}

// begin begins a transaction that reads.
func (r *Reader) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	return tx, readError(err)
}

// end ends a transaction that has read.
func (r *Reader) end(tx *sql.Tx) error {
	err := ignoreDone(tx.Rollback())
	if r.frozen.moved() {
		err = errors.Join(ErrBusy, err)
	}
	return err
}

// pieceData selects a piece and its signature, or null for one that is longer than any that is written, so that an
// altered database cannot exhaust the memory.
const pieceData = "CASE WHEN length(data) <= 32768 THEN data END, CASE WHEN length(signature) <= 64 THEN signature END"

// blobCheck is the result of reading the pieces of a trace.
type blobCheck struct {
	size int64
	sum  [sha256.Size]byte
	// good is the number of pieces before the first that is missing or not this store's, with their bytes and digest.
	good     int
	goodSize int64
	goodSum  [sha256.Size]byte
	pieces   int
	// padded says that the padding is unchanged.
	padded bool
}

// inspect reads the pieces of a trace and checks their signatures with key. A nil key checks none.
func inspect(ctx context.Context, q querier, id trace.ID, key *public) (c blobCheck, err error) {
	rows, err := q.QueryContext(ctx, "SELECT number, length(data), "+pieceData+
		", coalesce(padding = zeroblob(?), 0) FROM pieces WHERE trace = ? ORDER BY number", rowPadding, id[:])
	if err != nil {
		return c, err
	}
	defer rows.Close()
	h := sha256.New()
	c.padded = true
	h.Sum(c.goodSum[:0])
	for rows.Next() {
		var number, length any
		var piece, signature sql.RawBytes
		var padded bool
		if err := rows.Scan(&number, &length, &piece, &signature, &padded); err != nil {
			return c, err
		}
		n, _ := length.(int64)
		c.size += n
		h.Write(piece)
		h.Sum(c.sum[:0])
		c.padded = c.padded && padded
		if c.good == c.pieces && number == int64(c.good) && piece != nil &&
			(key == nil || key.signed(signedPiece(id, c.good, c.size, c.sum), signature)) {
			c.good, c.goodSize, c.goodSum = c.good+1, c.size, c.sum
		}
		c.pieces++
	}
	if c.pieces == 0 {
		h.Sum(c.sum[:0])
	}
	return c, rows.Err()
}

// Blob returns the sealed blob of a trace that has ended. The blob is read piece by piece, and each piece is checked
// before it is returned: a changed one is trace.ErrTampered. If the trace is erased meanwhile, reading returns
// ErrErased. Errors: ErrNotFound, ErrErased, ErrOpen, trace.ErrTampered.
func (r *Reader) Blob(ctx context.Context, id trace.ID) (_ io.Reader, err error) {
	tx, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = readError(errors.Join(err, r.end(tx))) }()
	all, err := histories(ctx, tx, "WHERE c.trace = ?", id[:])
	if err != nil {
		return nil, err
	}
	h := all[id]
	switch {
	case h == nil || h.begun == nil && h.ended == nil:
		return nil, ErrNotFound
	case h.gone(r.public):
		return nil, ErrErased
	case h.ended == nil:
		return nil, ErrOpen
	case h.begun == nil, !h.ended.authentic(r.public), !h.begun.authentic(r.public):
		return nil, trace.ErrTampered
	}
	b := &blob{ctx: ctx, reader: r, ended: *h.ended, left: h.ended.size, sum: sha256.New()}
	if r.public == nil { // pieces cannot be checked one by one
		c, err := inspect(ctx, tx, id, nil)
		if err != nil {
			return nil, err
		}
		if c.size != b.ended.size || c.sum != b.ended.digest {
			return nil, trace.ErrTampered
		}
	}
	return b, nil
}

type blob struct {
	ctx    context.Context
	reader *Reader
	ended  entry
	next   int
	piece  []byte
	left   int64
	sum    hash.Hash
}

func (b *blob) Read(p []byte) (int, error) {
	for len(b.piece) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		if err := b.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.piece)
	b.piece = b.piece[n:]
	return n, nil
}

// fetch reads the next piece.
func (b *blob) fetch() error {
	var piece, signature []byte
	err := b.reader.db.QueryRowContext(b.ctx, "SELECT "+pieceData+
		" FROM pieces WHERE trace = ? AND number = ?", b.ended.id[:], b.next).Scan(&piece, &signature)
	switch {
	case b.reader.frozen.moved():
		return ErrBusy
	case errors.Is(err, sql.ErrNoRows):
		if e, err := b.reader.Get(b.ctx, b.ended.id); err == nil && e.State == StateErased {
			return ErrErased
		}
		return trace.ErrTampered
	case err != nil:
		return readError(err)
	case len(piece) == 0 || int64(len(piece)) > b.left:
		return trace.ErrTampered
	}
	b.sum.Write(piece)
	b.left -= int64(len(piece))
	sum := [sha256.Size]byte(b.sum.Sum(nil))
	place := signedPiece(b.ended.id, b.next, b.ended.size-b.left, sum)
	if key := b.reader.public; key != nil && !key.signed(place, signature) {
		return trace.ErrTampered
	}
	if b.left == 0 && !bytes.Equal(sum[:], b.ended.digest[:]) {
		return fmt.Errorf("%w: its pieces do not match its last entry", trace.ErrTampered)
	}
	b.piece = piece
	b.next++
	return nil
}
