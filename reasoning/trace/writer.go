package trace

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"golang.org/x/crypto/nacl/box"
)

// Writer seals records as they arrive. Records are sealed when a chunk is full, and by Flush and Close; until then they
// are only in memory. A Writer is for one goroutine at a time. After an error of the underlying writer, every call
// returns that error.
type Writer struct {
	w      io.Writer
	key    *[keySize]byte
	number uint64
	// plain is the current chunk, after room for its length. sealed is the buffer for its box.
	plain, sealed []byte
	err           error
}

// NewWriter writes the header of a trace to w and returns a Writer for its records. Errors: ErrRecipients, and those
// of w.
func NewWriter(w io.Writer, id ID, to []Recipient) (*Writer, error) {
	return newWriter(w, id, to, rand.Reader)
}

// newWriter reads from random the trace's key, then the key of each recipient's box.
func newWriter(w io.Writer, id ID, to []Recipient, random io.Reader) (*Writer, error) {
	if len(to) == 0 || len(to) > MaxRecipients {
		return nil, ErrRecipients
	}
	var key [keySize]byte
	defer clear(key[:])
	if _, err := io.ReadFull(random, key[:]); err != nil {
		return nil, err
	}
	header := append([]byte(magic), version, byte(len(to)))
	header = append(header, id[:]...)
	seen := map[Recipient]bool{{}: true}
	for _, r := range to {
		if seen[r] {
			return nil, ErrRecipients
		}
		seen[r] = true
		header = append(header, r.public[:]...)
		var err error
		if header, err = box.SealAnonymous(header, key[:], &r.public, random); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(header); err != nil {
		return nil, fmt.Errorf("sealed trace: %w", err)
	}
	return &Writer{w: w, key: chunkKey(&key, header), plain: make([]byte, lengthSize, maxClass)}, nil
}

// Append adds a copy of a record. Errors: ErrRecord, after which the Writer can still be used; [os.ErrClosed]; and
// those of the underlying writer.
func (w *Writer) Append(record []byte) error {
	if w.err != nil {
		return w.err
	}
	if len(record) == 0 || len(record) > MaxRecord || bytes.IndexByte(record, '\n') >= 0 {
		return ErrRecord
	}
	if err := w.add(record); err != nil {
		return err
	}
	return w.add([]byte{'\n'})
}

func (w *Writer) add(b []byte) error {
	for len(b) > 0 {
		if len(w.plain) == maxClass {
			if err := w.seal(0); err != nil {
				return err
			}
		}
		n := min(len(b), maxClass-len(w.plain))
		w.plain = append(w.plain, b[:n]...)
		b = b[n:]
	}
	return nil
}

// Flush seals the appended records in a chunk of their own, whose size class is visible. Without records it does
// nothing.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.plain) == lengthSize {
		return w.err
	}
	return w.seal(0)
}

// Close seals the last chunk and forgets the key. Only a closed trace is complete.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	err := w.seal(1)
	w.Abandon()
	return err
}

// Abandon forgets the key and the records that were not sealed. The trace stays without an end. After Close it does
// nothing.
func (w *Writer) Abandon() {
	clear(w.key[:])
	clear(w.plain[:cap(w.plain)])
	if w.err == nil {
		w.err = fmt.Errorf("sealed trace: %w", os.ErrClosed)
	}
}

func (w *Writer) seal(last byte) error {
	w.sealed = appendChunk(w.sealed[:0], w.plain, w.number, last, w.key)
	w.number++
	clear(w.plain)
	w.plain = w.plain[:lengthSize]
	if _, err := w.w.Write(w.sealed); err != nil {
		w.err = fmt.Errorf("sealed trace: %w", err)
	}
	return w.err
}
