package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"runner/reasoning/trace"
)

// List returns all traces including tombstones, the oldest first.
func (r *Reader) List(ctx context.Context) ([]Entry, error) { return r.entries(ctx, "") }

// Query selects the traces that Page returns.
type Query struct {
	// Principal selects the traces of one owner. All selects those of every owner.
	Principal string
	All       bool
	// After is the last trace of the previous page; nil starts with the first trace.
	After *trace.ID
	// Limit is the maximum number of traces, at least 1.
	Limit int
	// OldestFirst reverses the order, which is newest first.
	OldestFirst bool
}

// pageQuery has one row for each trace.
const pageQuery = `SELECT c.trace, c.began, c.principal FROM chain c WHERE c.kind IN (1, 2)
	UNION ALL SELECT b.trace, b.began, b.principal FROM chain b WHERE b.kind = 4
		AND NOT EXISTS (SELECT 1 FROM chain e WHERE e.trace = b.trace AND e.kind IN (1, 2))`

// Page returns one page of the selected traces, including tombstones, and whether there are more. Error: ErrNotFound if
// After is not one of the selected traces.
func (r *Reader) Page(ctx context.Context, q Query) (list []Entry, more bool, err error) {
	where, args := "(? OR principal = ?)", []any{q.All, q.Principal}
	order, beyond := "DESC", "<"
	if q.OldestFirst {
		order, beyond = "ASC", ">"
	}
	if q.After != nil {
		last, err := r.Get(ctx, *q.After)
		if err == nil && !q.All && last.Principal != q.Principal {
			err = ErrNotFound
		}
		if err != nil {
			return nil, false, err
		}
		where += " AND (began, trace) " + beyond + " (?, ?)"
		args = append(args, last.Began.UnixMilli(), q.After[:])
	}
	query := fmt.Sprintf("SELECT trace FROM (%s) WHERE %s ORDER BY began %s, trace %s LIMIT ?", pageQuery, where, order,
		order)
	list, err = r.entries(ctx, query, append(args, q.Limit+1)...)
	if !q.OldestFirst {
		slices.Reverse(list)
	}
	if more = len(list) > q.Limit; more {
		list = list[:q.Limit]
	}
	return list, more, err
}

// Get returns the entry of a trace. Error: ErrNotFound.
func (r *Reader) Get(ctx context.Context, id trace.ID) (Entry, error) {
	list, err := r.entries(ctx, "SELECT ?", id[:])
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Entry{}, err
	}
	return list[0], nil
}

// entries returns the traces whose ids a query returns, the oldest first. An empty query selects all traces.
func (r *Reader) entries(ctx context.Context, query string, args ...any) (list []Entry, err error) {
	tx, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = readError(errors.Join(err, r.end(tx))) }()
	where := ""
	if query != "" {
		where = "WHERE c.trace IN (" + query + ")"
	}
	all, err := histories(ctx, tx, where, args...)
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		if e, ok := h.entry(r.public); ok {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(a.Began.Compare(b.Began), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list, nil
}
