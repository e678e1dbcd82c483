package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"runner/reasoning/internal/private"
	"runner/reasoning/trace"
)

// The limits of a zero Config, in bytes.
const (
	DefaultMaxTrace = 64 << 20
	DefaultMaxTotal = 4 << 30
)

// Config is the configuration of a Store.
type Config struct {
	// Recipients are the keys that new traces are sealed to. A store without recipients is for erasing; Open then does
	// not create the folder.
	Recipients []trace.Recipient
	// MaxTrace is the maximum size of one blob in bytes, and MaxTotal of all blobs together. A trace that reaches
	// MaxTrace is cut. While MaxTotal is reached, no trace begins. 0 means the default.
	MaxTrace, MaxTotal int64
	// MaxAge is the age, counted from its end, at which Open and Prune erase a trace; 0 means never.
	MaxAge time.Duration
	// Clock gives the time; nil means time.Now.
	Clock func() time.Time
}

// Store is a folder of sealed traces, open for writing. It signs what it adds to the chain.
type Store struct {
	*Reader
	cfg     Config
	dir     string
	signer  *signer
	lock    *os.File
	reserve reserve

	mu     sync.Mutex
	shared bool // the lock is held
	// known is the newest entry that this process has added. The chain must still contain it.
	known entry
	// unsettled are abandoned traces that could not be recorded as cut yet.
	unsettled []*sink
}

// Open opens the store in a folder for writing. It creates a missing store if cfg has recipients; otherwise the error
// is fs.ErrNotExist. If no other process writes traces, traces that a crash left open are recorded as cut, as far as
// the signing key has signed them. Traces older than cfg.MaxAge are erased. Errors: ErrReadOnly, ErrNoRoom,
// ErrNoSigner, ErrPublic, ErrEmptied, ErrAltered, ErrDamaged, ErrBusy.
func Open(dir string, cfg Config) (s *Store, err error) {
	setDefault(&cfg.MaxTrace, DefaultMaxTrace)
	setDefault(&cfg.MaxTotal, DefaultMaxTotal)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s, err = openStore(dir, cfg)
	if scarce(err) && len(cfg.Recipients) == 0 && (&reserve{dir: dir}).release() {
		s, err = openStore(dir, cfg) // a store without recipients is opened to erase, which makes room
	}
	return s, err
}

func openStore(dir string, cfg Config) (s *Store, err error) {
	defer func() {
		if err != nil {
			s, err = nil, named(errors.Join(err, s.Close()))
		}
	}()
	s = &Store{Reader: &Reader{}, cfg: cfg, dir: dir, reserve: reserve{dir: dir}}
	if len(cfg.Recipients) > 0 {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return s, err
		}
	}
	path := filepath.Join(dir, databaseName)
	err = present(dir)
	// A crash may leave an empty file, but then without a signing key, which is created after the tables.
	isNew := errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, ErrEmptied) && !exists(filepath.Join(dir, signerName)) && !exists(filepath.Join(dir, publicName))
	if err != nil && (!isNew || len(cfg.Recipients) == 0) {
		return s, err
	}
	if s.lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return s, err
	}
	// SQLite gives the database's mode to its other files.
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
	if err := s.loadSigner(); err != nil {
		return s, err
	}
	if err := s.takeOver(context.Background()); err != nil {
		return s, err
	}
	if len(cfg.Recipients) > 0 {
		_ = s.reserve.fill() // Create reports an error if there is no room
	}
	_, err = s.Prune(context.Background())
	return s, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func setDefault(v *int64, def int64) {
	if *v == 0 {
		*v = def
	}
}

// loadSigner reads the signing key and its public key. It creates them if the chain is empty.
func (s *Store) loadSigner() (err error) {
	path := filepath.Join(s.dir, signerName)
	if s.signer, err = loadSigner(path); errors.Is(err, fs.ErrNotExist) {
		var entries int
		if err := s.db.QueryRow("SELECT count(*) FROM chain").Scan(&entries); err != nil {
			return err
		}
		if entries > 0 || exists(filepath.Join(s.dir, publicName)) {
			return ErrNoSigner
		}
		s.signer, err = createSigner(path)
	}
	if err != nil {
		return err
	}
	s.public = &s.signer.public
	path = filepath.Join(s.dir, publicName)
	p, err := loadPublic(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = private.Create(path, []byte(s.signer.public.String()+"\n"))
		if errors.Is(err, fs.ErrExist) || len(s.cfg.Recipients) == 0 {
			err = nil // another process has just created it, or there may be no room for it
		}
		return err
	case err == nil && p != s.signer.public:
		err = ErrPublic
	}
	return err
}

// Close closes the store. It leaves open traces as a crash would.
func (s *Store) Close() error {
	err := s.Reader.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// update runs f in a transaction and commits it durably.
func (s *Store) update(ctx context.Context, f func(tx *change) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return named(err)
	}
	c := &change{Tx: tx}
	if err := f(c); err != nil {
		return named(errors.Join(err, ignoreDone(tx.Rollback())))
	}
	if err := tx.Commit(); err != nil {
		return named(err)
	}
	if c.newest != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.newest.number > s.known.number {
			s.known = *c.newest
		}
	}
	return nil
}

// takeOver repairs what a crash left, if no other process writes traces.
func (s *Store) takeOver(ctx context.Context) error {
	alone, err := tryLockAlone(s.lock)
	if err != nil || !alone {
		return err
	}
	err = s.recover(ctx)
	if err == nil {
		err = s.checkpoint(ctx)
	}
	return errors.Join(err, unlock(s.lock))
}

// unended selects the entries of traces that began and did not end.
const unended = "WHERE c.kind = 4 AND NOT EXISTS (SELECT 1 FROM chain e WHERE e.trace = c.trace AND e.kind IN (1, 2))"

// recover records traces that a crash left open as cut, with the pieces that their writer signed, and finishes
// erasures.
func (s *Store) recover(ctx context.Context) error {
	names, err := foreign(ctx, s.db)
	if err != nil || len(names) > 0 {
		return errors.Join(ErrAltered, err)
	}
	left, err := scanEntries(s.db.QueryContext(ctx, "SELECT "+entryColumns+" FROM chain c "+unended+" ORDER BY c.number"))
	if err != nil {
		return err
	}
	for i := range left {
		begun := &left[i]
		if !begun.authentic(s.public) {
			continue // Verify reports it
		}
		err := s.update(ctx, func(tx *change) error {
			c, err := inspect(ctx, tx, begun.id, s.public)
			if err != nil {
				return err
			}
			return s.chain(ctx, tx, begun.end(StateCut, c.goodSize, c.goodSum))
		})
		if err != nil {
			return err
		}
	}
	return s.finishErasures(ctx)
}

// end returns the entry that ends the trace that e begins.
func (e *entry) end(kind State, size int64, digest [32]byte) *entry {
	return &entry{kind: kind, id: e.id, began: e.began, size: size, digest: digest, principal: e.principal, model: e.model}
}

// reserved reports whether room is kept for erasing on a full disk.
func (s *Store) reserved() bool { return s.reserve.held() }
