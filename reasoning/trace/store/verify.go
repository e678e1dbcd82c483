package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"runner/reasoning/trace"
)

// Problem is a difference between the chain and what is stored, or an error in the chain.
type Problem struct {
	// Entry is the number of the entry concerned; 0 if there is none.
	Entry uint64 `json:"entry,omitempty"`
	// Trace is the id of the trace concerned; empty if there is none.
	Trace string `json:"trace,omitempty"`
	What  string `json:"what"`
}

// String returns the problem in one line.
func (p Problem) String() string {
	line := p.What
	if p.Trace != "" {
		line = "trace " + p.Trace + ": " + line
	}
	if p.Entry != 0 {
		line = fmt.Sprintf("entry %d: %s", p.Entry, line)
	}
	return line
}

// Report is the result of Verify.
type Report struct {
	// Entries is the number of entries in the chain. Traces, Erased and Open are the numbers of stored, erased and
	// unfinished traces.
	Entries, Traces, Erased, Open int
	// Unattested is the number of traces that nothing proves to be this store's.
	Unattested int
	// Bytes is the total size of the blobs.
	Bytes int64
	// Head is the newest head of the chain, to be kept elsewhere. Its Number is 0 if the chain is empty.
	Head     Head
	Problems []Problem
}

// maxProblems is the maximum number of problems in a report.
const maxProblems = 100

// Verify checks the whole chain and every blob, as of one moment. Writers can go on meanwhile. If kept is not nil, the
// chain must contain that head. Verify needs no private key and opens no blob. It checks signatures with the store's
// public key, or with the one in kept if the store has none. What it finds is in Report.Problems. An error means that
// it could not check. Errors: ErrNoPublic, ErrDamaged, ErrBusy.
func (r *Reader) Verify(ctx context.Context, kept *Head) (_ *Report, err error) {
	v := &verifier{kept: kept, of: map[trace.ID]*history{}}
	switch {
	case r.public != nil:
		v.public = *r.public
	case kept != nil:
		v.public = kept.Public
	default:
		return nil, ErrNoPublic
	}
	if v.tx, err = r.begin(ctx); err != nil {
		return nil, err
	}
	err = v.run(ctx)
	if err = readError(errors.Join(err, r.end(v.tx))); err != nil {
		return nil, err
	}
	return &v.report, nil
}

type verifier struct {
	tx     *sql.Tx
	public public
	kept   *Head
	report Report
	of     map[trace.ID]*history
	order  []*history // the values of of
	found  bool       // the chain contains the kept head
}

func (v *verifier) run(ctx context.Context) error {
	names, err := foreign(ctx, v.tx)
	if err != nil {
		return err
	}
	for _, name := range names {
		v.problem(nil, "the definitions of the database were changed: %s", name)
	}
	if err := v.indexes(ctx); err != nil {
		return err
	}
	if err := v.chain(ctx); err != nil {
		return err
	}
	if k := v.kept; k != nil && !v.found {
		switch {
		case k.Public != v.public:
			v.problem(nil, "the kept head was signed with another key: this is another chain")
		case k.Number > v.report.Head.Number:
			v.problem(nil, "the chain ends at entry %d and was once %d long: its tail was cut off",
				v.report.Head.Number, k.Number)
		default:
			v.problem(nil, "entry %d is not the one of the kept head: this is another chain", k.Number)
		}
	}
	return v.blobs(ctx)
}

func (v *verifier) problem(e *entry, what string, args ...any) {
	if len(v.report.Problems) == maxProblems {
		return
	}
	p := Problem{What: fmt.Sprintf(what, args...)}
	if e != nil {
		p.Entry, p.Trace = e.number, e.id.String()
	}
	v.report.Problems = append(v.report.Problems, p)
}

// indexes lets SQLite check its indexes and pages, because lookups by id rely on them.
func (v *verifier) indexes(ctx context.Context) error {
	rows, err := v.tx.QueryContext(ctx, "PRAGMA integrity_check(10)")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if line != "ok" {
			v.problem(nil, "the database is damaged: %s", strings.Join(strings.Fields(line), " "))
		}
	}
	return rows.Err()
}

// chain checks all entries in order.
func (v *verifier) chain(ctx context.Context) error {
	rows, err := v.tx.QueryContext(ctx, "SELECT "+entryColumns+" FROM chain c ORDER BY c.number")
	if err != nil {
		return err
	}
	defer rows.Close()
	var before entry
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return err
		}
		v.report.Entries++
		v.entry(&before, &e)
		before = e
	}
	return rows.Err()
}

func (v *verifier) entry(before, e *entry) {
	head := Head{Number: e.number, Hash: e.hash, Public: v.public}
	copy(head.signature[:], e.signature)
	switch {
	case e.number <= before.number || e.number > math.MaxInt64: // numbers below zero read as large ones
		v.problem(e, "its number is not after that of the entry before it")
	case e.number != before.number+1:
		v.problem(e, "entries %d to %d are missing", before.number+1, e.number-1)
	case e.previous != before.hash:
		v.problem(e, "it does not follow the entry before it")
	}
	switch {
	case !e.wellFormed:
		v.problem(e, "it is not an entry")
	case !e.hashed:
		v.problem(e, "it was changed")
	case !head.genuine():
		v.problem(e, "its signature is not this store's")
	}
	v.report.Head = head
	if k := v.kept; k != nil && k.Number == e.number && k.Hash == e.hash && k.Public == v.public {
		v.found = true
	}
	h := v.of[e.id]
	if h == nil {
		h = &history{}
		v.of[e.id] = h
		v.order = append(v.order, h)
	}
	switch {
	case e.kind == StateErased && h.ended == nil:
		v.problem(e, "it erases a trace that was not there")
	case e.kind == StateErased && h.erased != nil, e.kind == kindBegun && h.begun != nil,
		e.kind != StateErased && h.ended != nil:
		v.problem(e, "it is there twice")
	case e.kind == kindBegun, e.kind == StateErased:
	case h.begun == nil:
		v.problem(e, "it ends a trace that never began")
	case !e.continues(h.begun):
		v.problem(e, "it is not what began as this trace")
	}
	h.add(e)
}

// blobs compares the stored pieces with the entries.
func (v *verifier) blobs(ctx context.Context) error {
	for _, h := range v.order {
		if h.begun != nil || h.ended != nil {
			if err := v.blob(ctx, h); err != nil {
				return err
			}
		}
	}
	rows, err := v.tx.QueryContext(ctx, "SELECT DISTINCT trace FROM pieces")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var value any
		if err := rows.Scan(&value); err != nil {
			return err
		}
		raw, _ := value.([]byte)
		var id trace.ID
		copy(id[:], raw)
		if h := v.of[id]; len(raw) != len(id) || h == nil || h.begun == nil && h.ended == nil {
			v.problem(nil, "there are bytes that no entry knows, of %x", raw)
		}
	}
	return rows.Err()
}

// blob compares the pieces of one trace with its entries.
func (v *verifier) blob(ctx context.Context, h *history) error {
	e := h.ended
	if e == nil {
		e = h.begun
	}
	c, err := inspect(ctx, v.tx, e.id, &v.public)
	if err != nil {
		return err
	}
	if h.erased != nil {
		v.report.Erased++
		if c.pieces > 0 {
			v.problem(e, "it was erased, and bytes of it are there")
		}
		return nil
	}
	switch {
	case c.pieces == 0:
		v.problem(e, "its bytes were removed")
	case h.ended != nil && (c.size != e.size || c.sum != e.digest):
		v.problem(e, "its bytes were changed")
	case c.good < c.pieces:
		v.problem(e, "piece %d is not one that this store wrote", c.good)
	case !c.padded:
		v.problem(e, "the padding of its pieces was changed")
	}
	if !h.attested(&v.public) {
		v.report.Unattested++
	}
	if h.ended == nil {
		v.report.Open++
		return nil
	}
	v.report.Traces++
	v.report.Bytes += c.size
	return nil
}
