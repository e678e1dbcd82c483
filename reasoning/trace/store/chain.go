package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"runner/reasoning/trace"
)

// State is what became of a trace.
type State uint8

// The states. The last three are kinds of entries in the chain.
const (
	// StateOpen is a trace that is still being written, or that a crash left and nobody has noted yet.
	StateOpen State = iota
	// StateComplete is a trace with its last chunk.
	StateComplete
	// StateCut is a trace without: its writer died, gave up or reached a limit.
	StateCut
	// StateErased is a trace of which only the entries are left.
	StateErased
)

// String is open, complete, cut or erased.
func (s State) String() string {
	if names := [...]string{"open", "complete", "cut", "erased"}; int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// MarshalText is String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// entry is a row of the chain.
type entry struct {
	number             uint64
	kind               State
	id                 trace.ID
	at, began          int64
	size               int64
	digest             [sha256.Size]byte
	principal, model   string
	previous, hash     [sha256.Size]byte
	signature          []byte
	wellFormed, hashed bool // hash is what the fields hash to
}

func (e *entry) sum() [sha256.Size]byte {
	b := []byte("runner/trace/v1 entry\x00")
	b = binary.BigEndian.AppendUint64(b, e.number)
	b = append(b, byte(e.kind))
	b = append(b, e.id[:]...)
	for _, n := range []int64{e.at, e.began, e.size} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, e.digest[:]...)
	for _, s := range []string{e.principal, e.model} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return sha256.Sum256(append(b, e.previous[:]...))
}

// last returns the number and hash of the newest entry; zeros where there is none.
func last(ctx context.Context, tx *sql.Tx) (number uint64, hash [sha256.Size]byte, err error) {
	var b []byte
	err = tx.QueryRowContext(ctx, "SELECT number, hash FROM chain ORDER BY number DESC LIMIT 1").Scan(&number, &b)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, hash, nil
	}
	copy(hash[:], b)
	return number, hash, err
}

// chain adds an entry, of which kind, id, began, size, digest, principal and model are given.
func (s *Store) chain(ctx context.Context, tx *sql.Tx, e *entry) error {
	number, previous, err := last(ctx, tx)
	if err != nil {
		return err
	}
	e.number, e.previous, e.at = number+1, previous, s.cfg.Clock().UnixMilli()
	e.hash = e.sum()
	_, err = tx.ExecContext(ctx, `INSERT INTO chain (number, kind, trace, at, began, size, digest, principal, model, previous, hash, signature)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.number, e.kind, e.id[:], e.at, e.began, e.size, e.digest[:], e.principal, e.model,
		e.previous[:], e.hash[:], s.signer.sign(e.number, e.hash))
	return err
}

const entryColumns = "c.number, c.kind, c.trace, c.at, c.began, c.size, c.digest, c.principal, c.model, c.previous, c.hash, c.signature"

// scanEntry reads a row of entryColumns, which may be anything where the database was altered.
func scanEntry(rows *sql.Rows) (e entry, err error) {
	var id, digest, previous, hash []byte
	err = rows.Scan(&e.number, &e.kind, &id, &e.at, &e.began, &e.size, &digest, &e.principal, &e.model, &previous, &hash, &e.signature)
	copy(e.id[:], id)
	copy(e.digest[:], digest)
	copy(e.previous[:], previous)
	copy(e.hash[:], hash)
	e.wellFormed = len(id) == len(e.id) && len(digest) == sha256.Size && len(previous) == sha256.Size && len(hash) == sha256.Size &&
		len(e.signature) == signatureSize && e.kind >= StateComplete && e.kind <= StateErased
	e.hashed = e.sum() == e.hash
	return e, err
}

// Entry is what may be known of a trace without a key.
type Entry struct {
	ID    trace.ID `json:"id"`
	State State    `json:"state"`
	// Began is when the trace began and Ended when it ended; zero where it has not.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// ErasedAt is when it was erased.
	ErasedAt time.Time `json:"erased,omitzero"`
	// Size is the blob's in bytes; 0 while it is open.
	Size int64 `json:"size"`
	// SHA256 is the blob's digest in hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Principal and Model are as they were given to Create.
	Principal string `json:"principal,omitempty"`
	Model     string `json:"model,omitempty"`
}

const listQuery = `SELECT c.trace, c.kind, c.began, c.at, coalesce(e.at, 0), c.size, lower(hex(c.digest)), c.principal, c.model
	FROM chain c LEFT JOIN chain e ON e.trace = c.trace AND e.kind = 3 WHERE c.kind IN (1, 2)
	UNION ALL SELECT trace, 0, began, 0, 0, 0, '', principal, model FROM open`

// List returns all traces, tombstones among them, the oldest first.
func (s *Store) List(ctx context.Context) ([]Entry, error) {
	return s.entries(ctx, "SELECT * FROM ("+listQuery+") ORDER BY began, trace")
}

// Query says which traces Page returns.
type Query struct {
	// Principal is whose traces they are; All is everybody's.
	Principal string
	All       bool
	// After is the trace that came last on the page before; nil begins with the first.
	After *trace.ID
	// Limit is the most traces, at least 1.
	Limit int
	// OldestFirst turns the order around, which is the newest first.
	OldestFirst bool
}

// Page returns some of the traces, tombstones among them, and whether there are more. Error: ErrNotFound, where After is none of the traces.
func (s *Store) Page(ctx context.Context, q Query) (list []Entry, more bool, err error) {
	where, args := "(? OR principal = ?)", []any{q.All, q.Principal}
	order, beyond := "DESC", "<"
	if q.OldestFirst {
		order, beyond = "ASC", ">"
	}
	if q.After != nil {
		last, err := s.Get(ctx, *q.After)
		if err == nil && !q.All && last.Principal != q.Principal {
			err = ErrNotFound
		}
		if err != nil {
			return nil, false, err
		}
		where += " AND (began, trace) " + beyond + " (?, ?)"
		args = append(args, last.Began.UnixMilli(), q.After[:])
	}
	list, err = s.entries(ctx, fmt.Sprintf("SELECT * FROM (%s) WHERE %s ORDER BY began %s, trace %s LIMIT ?", listQuery, where, order, order), append(args, q.Limit+1)...)
	if more = len(list) > q.Limit; more {
		list = list[:q.Limit]
	}
	return list, more, err
}

// Get returns what is known of a trace. Error: ErrNotFound.
func (s *Store) Get(ctx context.Context, id trace.ID) (Entry, error) {
	list, err := s.entries(ctx, "SELECT * FROM ("+listQuery+") WHERE trace = ?", id[:])
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Entry{}, err
	}
	return list[0], nil
}

func (s *Store) entries(ctx context.Context, query string, args ...any) (list []Entry, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e Entry
		var id []byte
		var began, ended, erased int64
		if err := rows.Scan(&id, &e.State, &began, &ended, &erased, &e.Size, &e.SHA256, &e.Principal, &e.Model); err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
		copy(e.ID[:], id)
		e.Began = time.UnixMilli(began).UTC()
		if e.State != StateOpen {
			e.Ended = time.UnixMilli(ended).UTC()
		}
		if erased != 0 {
			e.State, e.ErasedAt = StateErased, time.UnixMilli(erased).UTC()
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return list, nil
}
