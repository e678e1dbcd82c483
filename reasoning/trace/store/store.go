package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"runner/reasoning/trace"
)

// The limits that a zero Config has, in bytes.
const (
	DefaultMaxTrace = 64 << 20
	DefaultMaxTotal = 4 << 30
)

// Config says how a Store works.
type Config struct {
	// Recipients are whom new traces are sealed to. A store without any is for reading, checking and erasing; Open then does not make the folder.
	Recipients []trace.Recipient
	// MaxTrace is the most bytes of one blob, and MaxTotal of all together. A trace that reaches MaxTrace is cut; where MaxTotal is
	// reached no new one begins. 0 is the default.
	MaxTrace, MaxTotal int64
	// MaxAge is how long after its end a trace is erased, by Open and Prune; 0 is never.
	MaxAge time.Duration
	// Clock is time.Now where nil.
	Clock func() time.Time
}

// Store is a folder of sealed traces.
type Store struct {
	cfg    Config
	db     *sql.DB
	signer *signer
	lock   *os.File

	mu     sync.Mutex
	shared bool // the lock is held
}

const (
	// rowPadding is more of a row than SQLite keeps in the pages of a tree, whose rows it copies about: pageSize - 35 bytes at most. What comes
	// after it lies in overflow pages.
	pageSize   = 1024
	rowPadding = 1024

	schema = `
CREATE TABLE IF NOT EXISTS chain (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, trace BLOB NOT NULL, at INTEGER NOT NULL, began INTEGER NOT NULL,
	size INTEGER NOT NULL, digest BLOB NOT NULL, principal TEXT NOT NULL, model TEXT NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL, signature BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS chain_trace ON chain (trace, kind);
CREATE TABLE IF NOT EXISTS open (trace BLOB PRIMARY KEY, began INTEGER NOT NULL, principal TEXT NOT NULL, model TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pieces (piece INTEGER PRIMARY KEY, trace BLOB NOT NULL, number INTEGER NOT NULL, padding BLOB NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS pieces_trace ON pieces (trace, number);
PRAGMA user_version = 1`
)

// Open opens the store in a folder, which it makes with cfg.Recipients given; else a missing one is fs.ErrNotExist. Traces that a crash
// left open are noted as cut, where no other process writes traces, and those over cfg.MaxAge are erased.
func Open(dir string, cfg Config) (s *Store, err error) {
	defer func() {
		if err != nil {
			if known := (*Error)(nil); !errors.As(err, &known) {
				err = fmt.Errorf("traces: %w", err)
			}
			s, err = nil, errors.Join(err, s.Close())
		}
	}()
	s = &Store{cfg: cfg}
	setDefault(&s.cfg.MaxTrace, DefaultMaxTrace)
	setDefault(&s.cfg.MaxTotal, DefaultMaxTotal)
	if s.cfg.Clock == nil {
		s.cfg.Clock = time.Now
	}
	path := filepath.Join(dir, "traces.db")
	if len(cfg.Recipients) > 0 {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return s, err
		}
	} else if _, err := os.Stat(path); err != nil {
		return s, err
	}
	if s.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return s, err
	}
	// SQLite gives the files beside a database its mode.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return s, err
	}
	if err := f.Close(); err != nil {
		return s, err
	}
	if s.db, err = openDatabase(path); err != nil {
		return s, err
	}
	if err := s.loadSigner(filepath.Join(dir, "sign.key")); err != nil {
		return s, err
	}
	if err := s.recover(context.Background()); err != nil {
		return s, err
	}
	_, err = s.Prune(context.Background())
	return s, err
}

func setDefault(v *int64, def int64) {
	if *v == 0 {
		*v = def
	}
}

// openDatabase opens the database and makes it where there is none yet.
func openDatabase(path string) (*sql.DB, error) {
	if err := createDatabase(path); err != nil {
		return nil, err
	}
	db, err := connect(path, "journal_mode(wal)", "synchronous(full)", "secure_delete(on)", "temp_store(memory)", "trusted_schema(off)", "cell_size_check(on)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	var version, size, vacuum int
	err = errors.Join(db.QueryRow("PRAGMA user_version").Scan(&version), db.QueryRow("PRAGMA page_size").Scan(&size), db.QueryRow("PRAGMA auto_vacuum").Scan(&vacuum))
	if err == nil && (version != 1 || size != pageSize || vacuum != 0) {
		err = fmt.Errorf("the database is of version %d with pages of %d bytes, and not one of version 1 as this program makes them", version, size)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// createDatabase makes the tables, all or none, where there are none. It takes a connection of its own: a page size counts before anything is
// written, and the driver sets it after the journal's mode.
func createDatabase(path string) (err error) {
	db, err := connect(path, fmt.Sprintf("page_size(%d)", pageSize))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var version int
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != 0 {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(schema); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func connect(path string, pragmas ...string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": append(pragmas, "busy_timeout(10000)")}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: abs}).EscapedPath()+"?"+query.Encode())
}

// loadSigner reads the signing key, and makes one where the chain is empty.
func (s *Store) loadSigner(path string) (err error) {
	if s.signer, err = loadSigner(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var entries int
	if err := s.db.QueryRow("SELECT count(*) FROM chain").Scan(&entries); err != nil {
		return err
	}
	if entries > 0 {
		return ErrNoSigner
	}
	s.signer, err = createSigner(path)
	return err
}

// Close closes the store. Traces under way are left as a crash would leave them.
func (s *Store) Close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// update runs f in a transaction and commits it durably.
func (s *Store) update(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	if err := f(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	return nil
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// recover notes traces that a crash left open as cut, and brings the log of a crash into the database.
func (s *Store) recover(ctx context.Context) error {
	alone, err := tryLockAlone(s.lock)
	if err != nil || !alone {
		return err
	}
	err = s.update(ctx, func(tx *sql.Tx) error {
		left, err := openTraces(ctx, tx)
		if err != nil {
			return err
		}
		for i := range left {
			e := &left[i]
			if e.size, e.digest, err = digest(ctx, tx, e.id); err != nil {
				return err
			}
			if err := s.settle(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = s.checkpoint(ctx)
	}
	return errors.Join(err, unlock(s.lock))
}

func openTraces(ctx context.Context, tx *sql.Tx) (list []entry, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT trace, began, principal, model FROM open ORDER BY began, trace")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		e := entry{kind: StateCut}
		var id []byte
		if err := rows.Scan(&id, &e.began, &e.principal, &e.model); err != nil {
			return nil, err
		}
		copy(e.id[:], id)
		list = append(list, e)
	}
	return list, rows.Err()
}

// settle makes an open trace an entry.
func (s *Store) settle(ctx context.Context, tx *sql.Tx, e *entry) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM open WHERE trace = ?", e.id[:]); err != nil {
		return err
	}
	return s.chain(ctx, tx, e)
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// pieceData is a piece, or null for what is longer than any that is written: a database that was altered must not take the memory.
const pieceData = "CASE WHEN length(data) <= 32768 THEN data END"

// digest returns size and SHA-256 of the blob that a trace has now.
func digest(ctx context.Context, q querier, id trace.ID) (size int64, sum [sha256.Size]byte, err error) {
	rows, err := q.QueryContext(ctx, "SELECT length(data), "+pieceData+" FROM pieces WHERE trace = ? ORDER BY number", id[:])
	if err != nil {
		return 0, sum, err
	}
	defer rows.Close()
	h := sha256.New()
	for rows.Next() {
		var length int64
		var piece sql.RawBytes
		if err := rows.Scan(&length, &piece); err != nil {
			return 0, sum, err
		}
		size += length
		h.Write(piece)
	}
	h.Sum(sum[:0])
	return size, sum, rows.Err()
}

// Blob returns the sealed blob of a trace that has ended. It reads piece by piece; a trace that is erased meanwhile makes it answer ErrErased.
// Errors: ErrNotFound, ErrErased, ErrOpen.
func (s *Store) Blob(ctx context.Context, id trace.ID) (io.Reader, error) {
	e, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case e.State == StateErased:
		return nil, ErrErased
	case e.State == StateOpen:
		return nil, ErrOpen
	}
	return &blob{ctx: ctx, store: s, id: id, left: e.Size}, nil
}

type blob struct {
	ctx   context.Context
	store *Store
	id    trace.ID
	next  int
	piece []byte
	left  int64
}

func (b *blob) Read(p []byte) (int, error) {
	for len(b.piece) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		err := b.store.db.QueryRowContext(b.ctx, "SELECT "+pieceData+" FROM pieces WHERE trace = ? AND number = ?", b.id[:], b.next).Scan(&b.piece)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			if e, err := b.store.Get(b.ctx, b.id); err == nil && e.State == StateErased {
				return 0, ErrErased
			}
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, fmt.Errorf("traces: %w", err)
		case len(b.piece) == 0 || int64(len(b.piece)) > b.left:
			return 0, trace.ErrTampered
		}
		b.next++
		b.left -= int64(len(b.piece))
	}
	n := copy(p, b.piece)
	b.piece = b.piece[n:]
	return n, nil
}
