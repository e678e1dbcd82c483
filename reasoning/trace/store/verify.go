package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"runner/reasoning/trace"
)

// Problem is something that is not as the chain says.
type Problem struct {
	// Entry is the number of the entry that it concerns, 0 where it is none.
	Entry uint64 `json:"entry,omitempty"`
	// Trace is the id of the trace that it concerns, or empty.
	Trace string `json:"trace,omitempty"`
	What  string `json:"what"`
}

// String is the problem as one line.
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

// Report is what Verify found.
type Report struct {
	// Entries counts the chain's; Traces those that are there, Erased those that were erased, Open those that are being written.
	Entries, Traces, Erased, Open int
	// Bytes is the size of the blobs.
	Bytes int64
	// Head is the chain's newest, to be kept elsewhere; its Number is 0 where the chain is empty.
	Head     Head
	Problems []Problem
}

// maxProblems is how many problems are reported.
const maxProblems = 100

// Verify checks the whole chain and every blob, at one moment; writers are not held up. Where kept is not nil the chain has to hold that head.
// It needs no private key and opens nothing. Whatever it finds is in Report.Problems; an error says that it could not look.
func (s *Store) Verify(ctx context.Context, kept *Head) (*Report, error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	v := &verifier{tx: tx, public: s.signer.public, kept: kept, ended: map[trace.ID]*entry{}, gone: map[trace.ID]bool{}}
	err = v.run(ctx)
	if err = errors.Join(err, ignoreDone(tx.Rollback())); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return &v.report, nil
}

type verifier struct {
	tx     *sql.Tx
	public [publicSize]byte
	kept   *Head
	report Report
	ended  map[trace.ID]*entry
	order  []*entry // the values of ended
	gone   map[trace.ID]bool
	found  bool // the kept head
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.chain(ctx); err != nil {
		return err
	}
	if k := v.kept; k != nil && !v.found {
		switch {
		case k.Public != v.public:
			v.problem(nil, "the kept head was signed with another key: this is another chain")
		case k.Number > v.report.Head.Number:
			v.problem(nil, "the chain ends at entry %d and was once %d long: its tail was cut off", v.report.Head.Number, k.Number)
		default:
			v.problem(nil, "entry %d is not the one of the kept head: this is another chain", k.Number)
		}
	}
	open, err := openTraces(ctx, v.tx)
	if err != nil {
		return err
	}
	v.report.Open = len(open)
	live := map[trace.ID]bool{}
	for _, e := range open {
		live[e.id] = true
	}
	return v.blobs(ctx, live)
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

// chain follows the entries.
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
	ended := v.ended[e.id]
	switch {
	case e.kind == StateErased && ended == nil:
		v.problem(e, "it erases a trace that was not there")
	case e.kind == StateErased && v.gone[e.id], e.kind != StateErased && ended != nil:
		v.problem(e, "it is there twice")
	case e.kind == StateErased:
		v.gone[e.id] = true
	default:
		v.ended[e.id] = e
		v.order = append(v.order, e)
	}
}

// blobs compares what is stored with the entries.
func (v *verifier) blobs(ctx context.Context, live map[trace.ID]bool) error {
	for _, e := range v.order {
		size, sum, err := digest(ctx, v.tx, e.id)
		switch {
		case err != nil:
			return err
		case v.gone[e.id]:
			v.report.Erased++
			if size > 0 {
				v.problem(e, "it was erased, and bytes of it are there")
			}
			continue
		case size == 0:
			v.problem(e, "its bytes were removed")
		case size != e.size || sum != e.digest:
			v.problem(e, "its bytes were changed")
		}
		v.report.Traces++
		v.report.Bytes += size
	}
	rows, err := v.tx.QueryContext(ctx, "SELECT DISTINCT trace FROM pieces")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return err
		}
		var id trace.ID
		copy(id[:], raw)
		if len(raw) != len(id) || v.ended[id] == nil && !live[id] {
			v.problem(nil, "there are bytes that no entry knows, of %x", raw)
		}
	}
	return rows.Err()
}
