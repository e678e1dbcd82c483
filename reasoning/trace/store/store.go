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

// The limits that a zero Config has, in bytes.
const (
	DefaultMaxTrace = 64 << 20
	DefaultMaxTotal = 4 << 30
)

// Config says how a Store works.
type Config struct {
	// Recipients are whom new traces are sealed to. A store without any is for erasing; Open then does not make the
	// folder.
	Recipients []trace.Recipient
	// MaxTrace is the most bytes of one blob, and MaxTotal of all together. A trace that reaches MaxTrace is cut; where
	// MaxTotal is reached no new one begins. 0 is the default.
	MaxTrace, MaxTotal int64
	// MaxAge is how long after its end a trace is erased, by Open and Prune; 0 is never.
	MaxAge time.Duration
	// Clock is time.Now where nil.
	Clock func() time.Time
}

// Store is a folder of sealed traces that is written to. It signs what it adds to the chain.
type Store struct {
	*Reader
	cfg     Config
	dir     string
	signer  *signer
	lock    *os.File
	reserve reserve

	mu     sync.Mutex
	shared bool // the lock is held
	// known is the newest entry that this process has added or read. Later entries never stand before it.
	known entry
	// unsettled are traces that were given up and could not be noted as cut.
	unsettled []*sink
}

// Open opens the store in a folder for writing, and makes it with cfg.Recipients given; else a missing one is
// fs.ErrNotExist. Traces that a crash left open are noted as cut, where no other process writes traces, and those
// over cfg.MaxAge are erased. Only what the signing key vouches for is noted. Errors: ErrReadOnly, ErrNoRoom,
// ErrNoSigner, ErrPublic, ErrEmptied, ErrAltered, ErrDamaged, ErrBusy.
func Open(dir string, cfg Config) (s *Store, err error) {
	setDefault(&cfg.MaxTrace, DefaultMaxTrace)
	setDefault(&cfg.MaxTotal, DefaultMaxTotal)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s, err = openStore(dir, cfg)
	if scarce(err) && len(cfg.Recipients) == 0 && (&reserve{dir: dir}).release() {
		s, err = openStore(dir, cfg) // to erase is to make room
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
	// A crash may leave an empty file, but no signing key then: that is made after the tables.
	isNew := errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, ErrEmptied) && !exists(filepath.Join(dir, signerName)) && !exists(filepath.Join(dir, publicName))
	if err != nil && (!isNew || len(cfg.Recipients) == 0) {
		return s, err
	}
	if s.lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
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
	if s.db, s.version, err = openDatabase(path); err != nil {
		return s, err
	}
	if err := s.loadSigner(); err != nil {
		return s, err
	}
	if err := s.takeOver(context.Background()); err != nil {
		return s, err
	}
	if len(cfg.Recipients) > 0 {
		_ = s.reserve.fill() // Create says so where there is no room
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

// loadSigner reads the signing key and its public half, and makes them where the chain is empty.
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
			err = nil // somebody else has just made it, or there may be no room for it
		}
		return err
	case err == nil && p != s.signer.public:
		err = ErrPublic
	}
	return err
}

// Close closes the store. Traces under way are left as a crash would leave them.
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

// takeOver brings what a crash or an earlier version has left in order, where no other process writes traces.
func (s *Store) takeOver(ctx context.Context) error {
	alone, err := tryLockAlone(s.lock)
	if err != nil {
		return err
	}
	if !alone {
		if s.version != format {
			return ErrBusy // a program of an earlier version has traces under way
		}
		return nil
	}
	err = s.convert(ctx)
	if err == nil {
		err = s.recover(ctx)
	}
	if err == nil {
		err = s.checkpoint(ctx)
	}
	return errors.Join(err, unlock(s.lock))
}

// convert makes a store of version 1 one of version 2. Traces that it left open are noted as cut. Nothing proves that
// they are its own, and they have no entry that begins them, so every list shows them as unattested. A database that
// is older than its signing key was exchanged: what it calls open is not taken over.
func (s *Store) convert(ctx context.Context) error {
	if s.version != format {
		if s.signer.version != 1 {
			return ErrAltered
		}
		err := s.update(ctx, func(tx *change) error {
			if names, err := foreign(ctx, tx, s.version); err != nil || len(names) > 0 {
				return errors.Join(ErrAltered, err)
			}
			left, err := openTraces(ctx, tx, "")
			if err != nil {
				return err
			}
			for i := range left {
				c, err := inspect(ctx, tx, s.version, left[i].id, nil)
				if err != nil {
					return err
				}
				left[i].size, left[i].digest = c.size, c.sum
				if err := s.chain(ctx, tx, &left[i]); err != nil {
					return err
				}
			}
			return upgrade(ctx, tx.Tx)
		})
		if err != nil {
			return err
		}
		s.version = format
	}
	if s.signer.version != format {
		return s.signer.update(filepath.Join(s.dir, signerName))
	}
	return nil
}

// unended chooses the entries of traces that began and did not end.
const unended = "WHERE c.kind = 4 AND NOT EXISTS (SELECT 1 FROM chain e WHERE e.trace = c.trace AND e.kind IN (1, 2))"

// recover notes traces that a crash left open as cut, with those pieces that their writer signed, and ends erasures.
func (s *Store) recover(ctx context.Context) error {
	names, err := foreign(ctx, s.db, s.version)
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
			continue // Verify shows it
		}
		err := s.update(ctx, func(tx *change) error {
			c, err := inspect(ctx, tx, s.version, begun.id, s.public)
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

// end is the entry that ends the trace that e begins.
func (e *entry) end(kind State, size int64, digest [32]byte) *entry {
	return &entry{kind: kind, id: e.id, began: e.began, size: size, digest: digest, principal: e.principal, model: e.model}
}

// reserved reports whether there is room for erasing when the disk is full.
func (s *Store) reserved() bool { return s.reserve.held() }
