package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"runner/reasoning/trace"
)

// State is the state of a trace.
type State uint8

// The states. The last three are kinds of entries in the chain.
const (
	// StateOpen is a trace that is still being written, or that a crash left open and no Store has recorded as cut yet.
	StateOpen State = iota
	// StateComplete is a trace that has its last chunk.
	StateComplete
	// StateCut is a trace without its last chunk, because its writer crashed, gave up or reached a limit.
	StateCut
	// StateErased is an erased trace; only its entries are left.
	StateErased

	// kindBegun is the kind of the entry that begins a trace. It is not a state: the trace is open until another entry
	// ends it.
	kindBegun State = 4
)

// String returns open, complete, cut or erased.
func (s State) String() string {
	if names := [...]string{"open", "complete", "cut", "erased"}; int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// MarshalText returns String.
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

// authentic reports whether the holder of the signing key made an entry. Without a key it only checks the hash.
func (e *entry) authentic(key *public) bool {
	return e.wellFormed && e.hashed && (key == nil || key.signed(signed(e.number, e.hash), e.signature))
}

// change is a transaction that may add entries.
type change struct {
	*sql.Tx
	newest *entry // the last added entry; nil if none was added
}

// tail returns the newest entry, or one with number 0 if there is none. It returns ErrAltered if that entry is not this
// store's, or if the chain has lost an entry that this process knows.
func (s *Store) tail(ctx context.Context, tx querier) (e entry, err error) {
	list, err := scanEntries(tx.QueryContext(ctx, "SELECT "+entryColumns+" FROM chain c ORDER BY c.number DESC LIMIT 1"))
	if err != nil {
		return e, err
	}
	if len(list) > 0 {
		if e = list[0]; !e.authentic(&s.signer.public) {
			return e, ErrAltered
		}
	}
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if known.number == 0 {
		return e, nil
	}
	list, err = scanEntries(tx.QueryContext(ctx, "SELECT "+entryColumns+" FROM chain c WHERE c.number = ?", known.number))
	if err == nil && (len(list) != 1 || list[0].hash != known.hash) {
		err = ErrAltered
	}
	return e, err
}

// chain adds an entry. The caller sets kind, id, began, size, digest, principal and model.
func (s *Store) chain(ctx context.Context, tx *change, e *entry) error {
	before := tx.newest
	if before == nil {
		last, err := s.tail(ctx, tx)
		if err != nil {
			return err
		}
		before = &last
	}
	e.number, e.previous, e.at = before.number+1, before.hash, s.cfg.Clock().UnixMilli()
	e.hash = e.sum()
	_, err := tx.ExecContext(ctx, `INSERT INTO chain
		(number, kind, trace, at, began, size, digest, principal, model, previous, hash, signature)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.number, e.kind, e.id[:], e.at, e.began, e.size, e.digest[:], e.principal, e.model,
		e.previous[:], e.hash[:], s.signer.sign(signed(e.number, e.hash)))
	added := *e
	tx.newest = &added
	return err
}

const entryColumns = "c.number, c.kind, c.trace, c.at, c.began, c.size, c.digest, c.principal, c.model, " +
	"c.previous, c.hash, c.signature"

// scanEntry reads a row of entryColumns. In an altered database the values can have any type.
func scanEntry(rows *sql.Rows) (e entry, err error) {
	var raw [12]any
	to := make([]any, len(raw))
	for i := range raw {
		to[i] = &raw[i]
	}
	if err := rows.Scan(to...); err != nil {
		return e, err
	}
	e.wellFormed = true
	number := func(v any) int64 {
		n, ok := v.(int64)
		e.wellFormed = e.wellFormed && ok
		return n
	}
	text := func(v any) string {
		s, ok := v.(string)
		e.wellFormed = e.wellFormed && ok
		return s
	}
	data := func(v any, to []byte) {
		b, ok := v.([]byte)
		e.wellFormed = e.wellFormed && ok && len(b) == len(to)
		copy(to, b)
	}
	kind := number(raw[1])
	e.wellFormed = e.wellFormed && kind >= int64(StateComplete) && kind <= int64(kindBegun)
	e.number, e.kind = uint64(number(raw[0])), State(kind)
	e.at, e.began, e.size = number(raw[3]), number(raw[4]), number(raw[5])
	data(raw[2], e.id[:])
	data(raw[6], e.digest[:])
	e.principal, e.model = text(raw[7]), text(raw[8])
	data(raw[9], e.previous[:])
	data(raw[10], e.hash[:])
	e.signature = make([]byte, signatureSize)
	data(raw[11], e.signature)
	e.hashed = e.sum() == e.hash
	return e, nil
}

// scanEntries reads the rows of a query for entryColumns.
func scanEntries(rows *sql.Rows, err error) (list []entry, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// Entry is what is known of a trace without a key.
type Entry struct {
	ID    trace.ID `json:"id"`
	State State    `json:"state"`
	// Began is when the trace began, and Ended when it ended; zero if it has not.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// ErasedAt is when it was erased; zero if it was not.
	ErasedAt time.Time `json:"erased,omitzero"`
	// Size is the size of the blob in bytes; 0 while the trace is open.
	Size int64 `json:"size"`
	// SHA256 is the blob's digest in hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Principal and Model are those given to Create.
	Principal string `json:"principal,omitempty"`
	Model     string `json:"model,omitempty"`
	// Unattested says that nothing proves that this store wrote the trace: its entries were altered, or there is no
	// public key to check signatures with.
	Unattested bool `json:"unattested,omitempty"`
}

// history is the entries of one trace. An entry that the chain does not have is nil.
type history struct {
	begun, ended, erased *entry
	// doubled says that the chain has two entries of the same kind.
	doubled bool
}

func (h *history) add(e *entry) {
	slot := &h.ended
	switch e.kind {
	case kindBegun:
		slot = &h.begun
	case StateErased:
		slot = &h.erased
	}
	if *slot != nil {
		h.doubled = true
		return
	}
	*slot = e
}

// gone reports whether the trace was erased.
func (h *history) gone(key *public) bool { return h.erased != nil && h.erased.authentic(key) }

// attested reports whether the chain proves when the trace began, who owns it and what it holds.
func (h *history) attested(key *public) bool {
	switch {
	case key == nil, h.doubled, h.erased != nil && !h.gone(key), h.begun == nil:
		return false
	case h.ended == nil:
		return h.begun.authentic(key)
	}
	return h.begun.authentic(key) && h.ended.authentic(key) && h.ended.continues(h.begun)
}

// continues reports whether an entry ends the trace that another began. The model's digest may have come meanwhile.
func (e *entry) continues(begun *entry) bool {
	return e.number > begun.number && e.began == begun.began && e.principal == begun.principal &&
		(e.model == begun.model || begun.model == "")
}

// listed returns an open trace as lists show it.
func (e *entry) listed(unattested bool) Entry {
	began := time.UnixMilli(e.began).UTC()
	return Entry{ID: e.id, Began: began, Principal: e.principal, Model: e.model, Unattested: unattested}
}

// entry returns what lists show of the trace; ok is false if they do not show it.
func (h *history) entry(key *public) (e Entry, ok bool) {
	from := h.ended
	if from == nil {
		from = h.begun
	}
	if from == nil {
		return e, false
	}
	e = from.listed(!h.attested(key))
	if h.ended != nil {
		e.State, e.Ended = from.kind, time.UnixMilli(from.at).UTC()
		e.Size, e.SHA256 = from.size, hex.EncodeToString(from.digest[:])
	}
	if h.gone(key) {
		e.State, e.ErasedAt = StateErased, time.UnixMilli(h.erased.at).UTC()
	}
	return e, true
}

// histories returns the histories, by id, of the chain rows that match a condition.
func histories(ctx context.Context, q querier, where string, args ...any) (map[trace.ID]*history, error) {
	query := "SELECT " + entryColumns + " FROM chain c " + where + " ORDER BY c.number"
	list, err := scanEntries(q.QueryContext(ctx, query, args...))
	if err != nil {
		return nil, err
	}
	all := map[trace.ID]*history{}
	for i := range list {
		e := &list[i]
		if all[e.id] == nil {
			all[e.id] = &history{}
		}
		all[e.id].add(e)
	}
	return all, nil
}
