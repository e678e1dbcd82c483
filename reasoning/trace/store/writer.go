package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"hash"

	"runner/reasoning/trace"
)

// Info is what the store may know of a trace. It is stored in the clear and stays after the trace was erased.
type Info struct {
	// Principal is whose run it is: the API key's id, or "local".
	Principal string
	// Model is the digest of the model's files.
	Model string
}

// Writer writes one trace; it is a [trace.Sink]. It is for one goroutine at a time, and has to be closed or abandoned.
type Writer struct {
	sealer *trace.Writer
	sink   *sink
	closed bool
}

// Create begins a trace: when it returns, the header is durable. The context is for this call alone, so that a trace goes on when who asked for
// it has gone. Errors: ErrFull, trace.ErrRecipients.
func (s *Store) Create(ctx context.Context, info Info) (*Writer, error) {
	if err := s.hold(); err != nil {
		return nil, err
	}
	var total int64
	err := s.db.QueryRowContext(ctx, `SELECT (SELECT coalesce(sum(size), 0) FROM chain c WHERE NOT EXISTS (SELECT 1 FROM chain e WHERE e.trace = c.trace AND e.kind = 3))
		+ (SELECT coalesce(sum(length(p.data)), 0) FROM open o JOIN pieces p ON p.trace = o.trace)`).Scan(&total)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	if total >= s.cfg.MaxTotal {
		return nil, ErrFull
	}
	k := &sink{
		ctx: context.WithoutCancel(ctx), store: s, digest: sha256.New(),
		entry: entry{kind: StateCut, id: trace.NewID(), began: s.cfg.Clock().UnixMilli(), principal: info.Principal, model: info.Model},
	}
	sealer, err := trace.NewWriter(k, k.entry.id, s.cfg.Recipients)
	if err != nil {
		return nil, err
	}
	return &Writer{sealer: sealer, sink: k}, nil
}

// hold takes the lock that tells other processes that traces are under way here.
func (s *Store) hold() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared {
		return nil
	}
	if err := lock(s.lock); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	s.shared = true
	return nil
}

// Append adds a record, as [trace.Writer.Append] does. A full chunk is committed before it returns. After ErrTooLarge or an error of the
// database nothing more is taken; what was committed stays, and Abandon notes the trace as cut.
func (w *Writer) Append(record []byte) error { return w.sealer.Append(record) }

// Flush commits what was appended.
func (w *Writer) Flush() error { return w.sealer.Flush() }

// Close seals the end and commits it with the trace's entry in the chain. Only then is there an id to tell. After an error the trace has to be
// abandoned.
func (w *Writer) Close() (trace.ID, error) {
	if w.closed {
		return trace.ID{}, errClosed
	}
	w.sink.entry.kind = StateComplete
	if err := w.sealer.Close(); err != nil {
		w.sink.entry.kind = StateCut
		return trace.ID{}, err
	}
	w.closed = true
	return w.sink.entry.id, nil
}

// Abandon ends a trace as cut, with what was committed. After Close, or a second time, it does nothing.
func (w *Writer) Abandon() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.sealer.Abandon()
	k := w.sink
	return k.store.update(k.ctx, func(tx *sql.Tx) (err error) {
		if k.entry.size, k.entry.digest, err = digest(k.ctx, tx, k.entry.id); err != nil {
			return err
		}
		return k.store.settle(k.ctx, tx, &k.entry)
	})
}

// sink commits the pieces of a blob, the header first.
type sink struct {
	ctx    context.Context
	store  *Store
	entry  entry
	pieces int
	digest hash.Hash
}

func (k *sink) Write(piece []byte) (int, error) {
	if k.entry.size+int64(len(piece)) > k.store.cfg.MaxTrace {
		return 0, ErrTooLarge
	}
	err := k.store.update(k.ctx, func(tx *sql.Tx) error {
		if k.pieces == 0 {
			if _, err := tx.ExecContext(k.ctx, "INSERT INTO open (trace, began, principal, model) VALUES (?, ?, ?, ?)",
				k.entry.id[:], k.entry.began, k.entry.principal, k.entry.model); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(k.ctx, "INSERT INTO pieces (trace, number, padding, data) VALUES (?, ?, zeroblob(?), ?)",
			k.entry.id[:], k.pieces, rowPadding, piece); err != nil {
			return err
		}
		if k.entry.kind != StateComplete {
			return nil
		}
		k.digest.Write(piece)
		k.digest.Sum(k.entry.digest[:0])
		k.entry.size += int64(len(piece))
		return k.store.settle(k.ctx, tx, &k.entry)
	})
	if err != nil {
		return 0, err
	}
	if k.entry.kind != StateComplete {
		k.digest.Write(piece)
		k.entry.size += int64(len(piece))
	}
	k.pieces++
	return len(piece), nil
}
