package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/nacl/box"
	"golang.org/x/crypto/nacl/secretbox"
)

// Header is the part of a blob that is in the clear. It is not authenticated until the first chunk has been opened.
type Header struct {
	ID         ID
	Recipients []Recipient
	raw        []byte
}

// ReadHeader reads the header of a blob and no byte after it. Errors: ErrTampered, ErrTruncated, ErrVersion, and those
// of r.
func ReadHeader(r io.Reader) (*Header, error) {
	raw := make([]byte, fixedHeader)
	if err := readFull(r, raw); err != nil {
		return nil, err
	}
	count := int(raw[len(magic)+1])
	switch {
	case string(raw[:len(magic)]) != magic:
		return nil, ErrTampered
	case raw[len(magic)] != version:
		return nil, ErrVersion
	case count == 0 || count > MaxRecipients:
		return nil, ErrTampered
	}
	raw = append(raw, make([]byte, count*recipientSize)...)
	if err := readFull(r, raw[fixedHeader:]); err != nil {
		return nil, err
	}
	h := &Header{ID: ID(raw[idOffset:]), raw: raw}
	for at := fixedHeader; at < len(raw); at += recipientSize {
		h.Recipients = append(h.Recipients, Recipient{[keySize]byte(raw[at:])})
	}
	return h, nil
}

// Reader opens and checks a trace. It is for one goroutine at a time.
type Reader struct {
	r       io.Reader
	header  *Header
	key     *[keySize]byte
	number  uint64
	box     []byte
	payload []byte // the opened bytes that were not returned yet, a part of plain
	plain   []byte
	record  []byte
	last    bool
	err     error
}

// NewReader reads the header of a blob and opens its key with the first identity that is one of its recipients. The id
// is authentic once Next has returned a record or io.EOF. Errors: those of ReadHeader, and ErrNotRecipient.
func NewReader(r io.Reader, with ...*Identity) (*Reader, error) {
	h, err := ReadHeader(r)
	if err != nil {
		return nil, err
	}
	for at := fixedHeader; at < len(h.raw); at += recipientSize {
		entry := h.raw[at : at+recipientSize]
		for _, i := range with {
			if !bytes.Equal(entry[:keySize], i.recipient.public[:]) {
				continue
			}
			key, ok := box.OpenAnonymous(nil, entry[keySize:], &i.recipient.public, &i.secret)
			if !ok {
				return nil, ErrTampered
			}
			return &Reader{r: r, header: h, key: chunkKey((*[keySize]byte)(key), h.raw)}, nil
		}
	}
	return nil, ErrNotRecipient
}

// Header returns the header.
func (r *Reader) Header() *Header { return r.header }

// Next returns the next record, which is valid until the next call. It returns io.EOF only after the last record of a
// complete trace. Other errors are ErrTampered, ErrTruncated and those of the underlying reader. Later calls return the
// same error. Records before an error are authentic.
func (r *Reader) Next() ([]byte, error) {
	r.record = r.record[:0]
	for r.err == nil {
		i := bytes.IndexByte(r.payload, '\n')
		if i >= 0 && len(r.record)+i <= MaxRecord && len(r.record)+i > 0 {
			r.record = append(r.record, r.payload[:i]...)
			r.payload = r.payload[i+1:]
			return r.record, nil
		}
		if i >= 0 || len(r.record)+len(r.payload) > MaxRecord {
			r.err = ErrTampered
			break
		}
		r.record = append(r.record, r.payload...)
		r.payload = nil
		if r.last {
			r.err = io.EOF
			if len(r.record) > 0 {
				r.err = ErrTampered
			}
			break
		}
		r.err = r.open()
	}
	return nil, r.err
}

// open reads and opens a chunk. After the last chunk it also checks that nothing follows.
func (r *Reader) open() error {
	var head [chunkHeader]byte
	if err := readFull(r.r, head[:]); err != nil {
		return err
	}
	size, last := int64(binary.BigEndian.Uint32(head[:]))-secretbox.Overhead, head[4]
	if size < minClass || size > maxClass || size != int64(classOf(int(size))) || last > 1 {
		return ErrTampered
	}
	if r.box == nil {
		r.box = make([]byte, secretbox.Overhead+maxClass)
		r.plain = make([]byte, 0, maxClass)
	}
	sealed := r.box[:secretbox.Overhead+size]
	if err := readFull(r.r, sealed); err != nil {
		return err
	}
	plain, ok := secretbox.Open(r.plain[:0], sealed, nonceOf(r.number, last), r.key)
	if !ok {
		return ErrTampered
	}
	r.number++
	n := int64(binary.BigEndian.Uint32(plain))
	if n > size-lengthSize || int64(classOf(int(n)+lengthSize)) != size || n == 0 && last == 0 {
		return ErrTampered
	}
	var padding byte
	for _, c := range plain[lengthSize+n:] {
		padding |= c
	}
	if padding != 0 {
		return ErrTampered
	}
	r.payload = plain[lengthSize : lengthSize+n]
	if last == 1 {
		r.last = true
		switch n, err := io.ReadFull(r.r, head[:1]); {
		case n > 0:
			return ErrTampered
		case !errors.Is(err, io.EOF):
			return fmt.Errorf("sealed trace: %w", err)
		}
	}
	return nil
}

// readFull fills b. It returns ErrTruncated if the bytes end earlier.
func readFull(r io.Reader, b []byte) error {
	switch _, err := io.ReadFull(r, b); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrTruncated
	case err != nil:
		return fmt.Errorf("sealed trace: %w", err)
	}
	return nil
}
