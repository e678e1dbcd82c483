package store

import (
	"context"
	"errors"
	"time"

	"runner/reasoning/trace"
)

// smallBatch is how many pieces are erased at a time on a full disk. The log grows with what is overwritten, and must
// fit in the room that was kept.
const smallBatch = 8

// Erase erases the bytes of traces, and with them the only copies of their keys. The entries stay as tombstones. If one
// of the traces is missing or open, none is erased. After Erase returns without an error, no file of the store contains
// a byte of them. Erasing an erased trace is not an error.
//
// ErrInLog means that the traces are erased, but another process that reads the store still keeps their bytes in
// the log. Erase them again to retry. On a full disk Erase uses the room that was kept for it and takes several
// steps. After an error some traces may be erased; erasing them all again continues. Errors: ErrNotFound, ErrOpen,
// ErrInLog, ErrNoRoom, ErrAltered.
func (s *Store) Erase(ctx context.Context, ids ...trace.ID) error {
	s.settleAbandoned()
	for _, id := range ids {
		if _, err := s.erasable(ctx, s.db, id); err != nil {
			return named(err)
		}
	}
	return s.withRoom(func(slowly bool) error {
		if slowly {
			for _, id := range ids {
				err := s.update(ctx, func(tx *change) error { return s.entomb(ctx, tx, id) })
				if err == nil {
					err = s.removeSlowly(ctx, id)
				}
				if err != nil {
					return err
				}
			}
			return s.checkpoint(ctx)
		}
		err := s.update(ctx, func(tx *change) error {
			for _, id := range ids {
				if err := s.entomb(ctx, tx, id); err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "DELETE FROM pieces WHERE trace = ?", id[:]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return s.checkpoint(ctx)
	})
}

// withRoom runs f. If the disk is full it releases the kept room and runs f once more with slowly set, which tells f to
// erase a little at a time.
func (s *Store) withRoom(f func(slowly bool) error) error {
	err := f(false)
	if scarce(err) {
		s.reserve.release()
		err = f(true)
	}
	if err == nil && !s.reserved() {
		s.settleAbandoned()
		_ = s.reserve.fill() // Create reports an error if there is no room
	}
	return err
}

// erasable reports whether a trace is already erased. The error says why it cannot be erased.
func (s *Store) erasable(ctx context.Context, q querier, id trace.ID) (erased bool, err error) {
	all, err := histories(ctx, q, "WHERE c.trace = ?", id[:])
	h := all[id]
	switch {
	case err != nil:
		return false, err
	case h == nil || h.begun == nil && h.ended == nil:
		return false, ErrNotFound
	case h.ended == nil:
		return false, ErrOpen
	}
	return h.gone(s.public), nil
}

// entomb adds the entry of an erasure.
func (s *Store) entomb(ctx context.Context, tx *change, id trace.ID) error {
	erased, err := s.erasable(ctx, tx, id)
	if err != nil || erased {
		return err
	}
	return s.chain(ctx, tx, &entry{kind: StateErased, id: id})
}

// removeSlowly removes the pieces of an erased trace, a few at a time. The next Open removes what a crash leaves.
func (s *Store) removeSlowly(ctx context.Context, id trace.ID) error {
	for {
		var removed int64
		err := s.update(ctx, func(tx *change) error {
			const some = "DELETE FROM pieces WHERE piece IN (SELECT piece FROM pieces WHERE trace = ? LIMIT ?)"
			done, err := tx.ExecContext(ctx, some, id[:], smallBatch)
			if err == nil {
				removed, err = done.RowsAffected()
			}
			return err
		})
		if err == nil {
			err = s.checkpoint(ctx)
		}
		if err != nil || removed < smallBatch {
			return err
		}
	}
}

// finishErasures removes pieces of erased traces. A crash left them, or somebody put them back.
func (s *Store) finishErasures(ctx context.Context) error {
	list, err := scanEntries(s.db.QueryContext(ctx, "SELECT "+entryColumns+
		" FROM chain c WHERE c.kind = 3 AND EXISTS (SELECT 1 FROM pieces p WHERE p.trace = c.trace)"))
	if err != nil {
		return named(err)
	}
	for _, e := range list {
		if !e.authentic(s.public) {
			continue // Verify reports it
		}
		if err := s.withRoom(func(bool) error { return s.removeSlowly(ctx, e.id) }); err != nil {
			return err
		}
	}
	return nil
}

// EraseBefore erases the traces that ended before a time and returns their number. The errors are those of Erase. After
// ErrInLog, calling it again retries.
func (s *Store) EraseBefore(ctx context.Context, t time.Time) (int, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT c.trace FROM chain c WHERE c.kind IN (1, 2) AND c.at < ?
		AND NOT EXISTS (SELECT 1 FROM chain e WHERE e.trace = c.trace AND e.kind = 3) ORDER BY c.number`, t.UnixMilli())
	if err != nil {
		return 0, named(err)
	}
	defer rows.Close()
	var ids []trace.ID
	for rows.Next() {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return 0, named(err)
		}
		if len(raw) == len(trace.ID{}) {
			ids = append(ids, trace.ID(raw))
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, named(err)
	}
	if len(ids) == 0 {
		return 0, s.checkpoint(ctx)
	}
	return len(ids), s.Erase(ctx, ids...)
}

// Prune erases the traces older than Config.MaxAge and returns their number.
func (s *Store) Prune(ctx context.Context) (int, error) {
	if s.cfg.MaxAge == 0 {
		return 0, nil
	}
	return s.EraseBefore(ctx, s.cfg.Clock().Add(-s.cfg.MaxAge))
}

// checkpointPatience is how long a checkpoint waits for readers to finish.
const checkpointPatience = 10 * time.Second

// checkpoint writes the log into the database and truncates it.
func (s *Store) checkpoint(ctx context.Context) error {
	for end := time.Now().Add(checkpointPatience); ; {
		var busy, frames, moved int
		err := s.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
		switch {
		case err != nil && ctx.Err() != nil:
			return errors.Join(ErrInLog, ctx.Err())
		case err != nil:
			return named(err)
		case busy == 0:
			return nil
		case time.Now().After(end):
			return ErrInLog
		}
		select {
		case <-ctx.Done():
			return errors.Join(ErrInLog, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
