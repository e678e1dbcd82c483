package store

import (
	"context"
	"crypto/sha256"
	"hash"

	"runner/reasoning/trace"
)

// Info is what the store knows of a trace. It is stored in the clear and stays after the trace is erased.
type Info struct {
	// Principal is the owner of the run: the API key's id, or "local".
	Principal string
	// Model is the digest of what the model's files hold. It is empty if it is not known yet, see [Writer.SetModel].
	Model string
}

// Writer writes one trace. It is a [trace.Sink]. It is for one goroutine at a time and must be closed or abandoned.
type Writer struct {
	sealer *trace.Writer
	sink   *sink
	closed bool
}

// Create begins a trace. When it returns, the header and the entry that begins the trace are durable. The context is
// only for this call, so that a trace goes on after the client has gone. Errors: ErrFull, ErrNoRoom, ErrAltered,
// trace.ErrRecipients.
func (s *Store) Create(ctx context.Context, info Info) (*Writer, error) {
	if err := s.hold(); err != nil {
		return nil, err
	}
	s.settleAbandoned()
	// The room kept for erasing must be there before a trace begins.
	if !s.reserved() {
		if err := s.reserve.fill(); err != nil && !s.reserved() {
			return nil, named(err)
		}
	}
	var total int64
	err := s.db.QueryRowContext(ctx, `SELECT
		(SELECT coalesce(sum(size), 0) FROM chain c WHERE c.kind IN (1, 2)
			AND NOT EXISTS (SELECT 1 FROM chain e WHERE e.trace = c.trace AND e.kind = 3)) +
		(SELECT coalesce(sum(length(p.data)), 0) FROM chain c JOIN pieces p ON p.trace = c.trace `+unended+`)`).Scan(&total)
	if err != nil {
		return nil, named(err)
	}
	if total >= s.cfg.MaxTotal {
		return nil, ErrFull
	}
	k := &sink{
		ctx: context.WithoutCancel(ctx), store: s, running: sha256.New(),
		begun: entry{
			kind: kindBegun, id: trace.NewID(), began: s.cfg.Clock().UnixMilli(),
			principal: info.Principal, model: info.Model,
		},
	}
	sealer, err := trace.NewWriter(k, k.begun.id, s.cfg.Recipients)
	if err != nil {
		return nil, err
	}
	return &Writer{sealer: sealer, sink: k}, nil
}

// hold takes the lock that tells other processes that this process writes traces.
func (s *Store) hold() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared {
		return nil
	}
	if err := lock(s.lock); err != nil {
		return named(err)
	}
	s.shared = true
	return nil
}

// Append adds a record, as [trace.Writer.Append] does. A full chunk is committed before Append returns. After
// ErrTooLarge or an error of the database no more records are taken. The committed pieces stay, and Abandon records the
// trace as cut.
func (w *Writer) Append(record []byte) error { return w.sealer.Append(record) }

// Flush commits the appended records.
func (w *Writer) Flush() error { return w.sealer.Flush() }

// SetModel completes Info.Model, if that was empty, before Close.
func (w *Writer) SetModel(digest string) { w.sink.model = digest }

// Close seals the end, commits it together with the entry that ends the trace, and returns the trace's id. After an
// error the trace must be abandoned.
func (w *Writer) Close() (trace.ID, error) {
	if w.closed {
		return trace.ID{}, errClosed
	}
	w.sink.last = true
	if err := w.sealer.Close(); err != nil {
		return trace.ID{}, err
	}
	w.closed = true
	return w.sink.begun.id, nil
}

// Abandon records the trace as cut, with the pieces that were committed. After Close, or the second time, it does
// nothing. If the entry cannot be stored, the store tries again when it next writes.
func (w *Writer) Abandon() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.sealer.Abandon()
	err := w.sink.cut()
	if err != nil {
		s := w.sink.store
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unsettled = append(s.unsettled, w.sink)
	}
	return err
}

// settleAbandoned records the abandoned traces as cut for which that failed before.
func (s *Store) settleAbandoned() {
	s.mu.Lock()
	list := s.unsettled
	s.unsettled = nil
	s.mu.Unlock()
	for _, k := range list {
		if k.cut() != nil {
			s.mu.Lock()
			s.unsettled = append(s.unsettled, k)
			s.mu.Unlock()
		}
	}
}

// sink commits the pieces of a blob, the header first. Each signature covers the blob up to the end of its piece.
type sink struct {
	ctx     context.Context
	store   *Store
	begun   entry
	last    bool   // the next piece ends the trace
	model   string // of Info, if it came later
	running hash.Hash
	// The committed pieces: their number, their bytes and their digest.
	pieces int
	size   int64
	sum    [sha256.Size]byte
}

func (k *sink) Write(piece []byte) (int, error) {
	size := k.size + int64(len(piece))
	if size > k.store.cfg.MaxTrace {
		return 0, ErrTooLarge
	}
	k.running.Write(piece) // after an error there is no other piece
	sum := [sha256.Size]byte(k.running.Sum(nil))
	err := k.store.update(k.ctx, func(tx *change) error {
		if k.pieces == 0 {
			k.begun.size, k.begun.digest = size, sum
			if err := k.store.chain(k.ctx, tx, &k.begun); err != nil {
				return err
			}
		}
		signature := k.store.signer.sign(signedPiece(k.begun.id, k.pieces, size, sum))
		const insert = "INSERT INTO pieces (trace, number, padding, data, signature) VALUES (?, ?, zeroblob(?), ?, ?)"
		if _, err := tx.ExecContext(k.ctx, insert,
			k.begun.id[:], k.pieces, rowPadding, piece, signature); err != nil {
			return err
		}
		if !k.last {
			return nil
		}
		end := k.begun.end(StateComplete, size, sum)
		if end.model == "" {
			end.model = k.model
		}
		return k.store.chain(k.ctx, tx, end)
	})
	if err != nil {
		return 0, err
	}
	k.pieces, k.size, k.sum = k.pieces+1, size, sum
	return len(piece), nil
}

// cut ends the trace with the pieces that were committed.
func (k *sink) cut() error {
	return k.store.update(k.ctx, func(tx *change) error {
		// A commit that failed may have reached the disk all the same.
		all, err := histories(k.ctx, tx, "WHERE c.trace = ?", k.begun.id[:])
		if h := all[k.begun.id]; err != nil || h == nil || h.ended != nil {
			return err
		}
		const remove = "DELETE FROM pieces WHERE trace = ? AND number >= ?"
		if _, err := tx.ExecContext(k.ctx, remove, k.begun.id[:], k.pieces); err != nil {
			return err
		}
		return k.store.chain(k.ctx, tx, k.begun.end(StateCut, k.size, k.sum))
	})
}
