package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"runner/reasoning/trace"
)

// Erase erases traces, all or, on an error, none: their bytes and with them the only copies of their keys. Entries stay as tombstones. When it
// returns without an error no byte of them is in any file of the store. ErrInLog says that they are erased but that another process, which
// reads the store, keeps their bytes in its log; to erase them again tries once more. Errors: ErrNotFound, ErrOpen, ErrInLog. To erase what was
// erased is no error.
func (s *Store) Erase(ctx context.Context, ids ...trace.ID) error {
	err := s.update(ctx, func(tx *sql.Tx) error {
		for _, id := range ids {
			if err := s.erase(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.checkpoint(ctx)
}

func (s *Store) erase(ctx context.Context, tx *sql.Tx, id trace.ID) error {
	var ended, erased, open bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM chain WHERE trace = ?1 AND kind IN (1, 2)), EXISTS (SELECT 1 FROM chain WHERE trace = ?1 AND kind = 3),
		EXISTS (SELECT 1 FROM open WHERE trace = ?1)`, id[:]).Scan(&ended, &erased, &open)
	switch {
	case err != nil:
		return fmt.Errorf("traces: %w", err)
	case open:
		return ErrOpen
	case !ended:
		return ErrNotFound
	case erased:
		return nil
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM pieces WHERE trace = ?", id[:]); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	return s.chain(ctx, tx, &entry{kind: StateErased, id: id})
}

// EraseBefore erases the traces that ended before a time and returns how many there were. Errors as Erase has; after ErrInLog it tries once more
// for those that were erased then.
func (s *Store) EraseBefore(ctx context.Context, t time.Time) (int, error) {
	list, err := s.List(ctx)
	if err != nil {
		return 0, err
	}
	var ids []trace.ID
	for _, e := range list {
		if (e.State == StateComplete || e.State == StateCut) && e.Ended.Before(t) {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return 0, s.checkpoint(ctx)
	}
	return len(ids), s.Erase(ctx, ids...)
}

// Prune erases the traces over Config.MaxAge and returns how many there were.
func (s *Store) Prune(ctx context.Context) (int, error) {
	if s.cfg.MaxAge == 0 {
		return 0, nil
	}
	return s.EraseBefore(ctx, s.cfg.Clock().Add(-s.cfg.MaxAge))
}

// checkpointPatience is how long a checkpoint waits for readers in the way.
const checkpointPatience = 10 * time.Second

// checkpoint brings the log into the database and cuts it to nothing.
func (s *Store) checkpoint(ctx context.Context) error {
	for end := time.Now().Add(checkpointPatience); ; {
		var busy, frames, moved int
		err := s.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
		switch {
		case err != nil && ctx.Err() != nil:
			return errors.Join(ErrInLog, ctx.Err())
		case err != nil:
			return fmt.Errorf("traces: %w", err)
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
