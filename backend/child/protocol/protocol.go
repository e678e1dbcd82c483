// Package protocol encodes and decodes the frames between the runner and an engine in another process.
//
// docs/engine-protocol.md describes the frames and their order. This package knows how each frame is written, and
// checks its lengths. Packages child and serve know when each frame may come.
//
// Frames come from another program, so every length has a limit, and memory is taken only for bytes that have come.
package protocol

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Version is the version of the protocol. Both ends must have the same.
const Version = 1

// Kind is the kind of a frame.
type Kind uint32

// The frames of the runner.
const (
	KindHello Kind = 1 + iota
	KindLoad
	KindShare
	KindNew
	KindFork
	KindTruncate
	KindFree
	KindStep
	KindMasks
	KindCancel
	KindTokenize
	_ // 12 has no meaning
	KindShutdown
)

// The frames of the engine.
const (
	KindEngineHello Kind = 65 + iota
	KindLoaded
	KindProgress
	KindDone
	KindStepped
	KindTokens
	_ // 71 has no meaning
	KindError
)

// known reports whether a kind has a meaning.
func (k Kind) known() bool {
	return k >= KindHello && k <= KindTokenize || k == KindShutdown || k >= KindEngineHello && k <= KindTokens ||
		k == KindError
}

// The descriptors of an engine's process.
const (
	FileIn     = 3
	FileOut    = 4
	FileShared = 5
	FileModel  = 6 // only if Load.File names it
)

// Limits of a frame, in bytes.
const (
	MaxHead = 16 << 20
	MaxRaw  = 512 << 20
)

// limit returns an error for a frame that is too long.
func limit(k Kind, head, raw int) error {
	if head > MaxHead || raw > MaxRaw {
		return bad("kind %d has a head of %d and a raw part of %d bytes, more than %d and %d", k, head, raw, MaxHead, MaxRaw)
	}
	return nil
}

const prologue = 12

// ErrFrame is wrapped by every error about a frame that breaks the rules.
var ErrFrame = errors.New("frame is not valid")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFrame, fmt.Sprintf(format, args...))
}

// Frame is one frame. Its slices belong to the Reader that returned it.
type Frame struct {
	Kind      Kind
	Head, Raw []byte
}

// JSON decodes the head.
func (f *Frame) JSON(into any) error {
	if err := json.Unmarshal(f.Head, into); err != nil {
		return bad("the head of kind %d: %v", f.Kind, err)
	}
	return nil
}

// Reader reads frames. It must be used by one goroutine.
type Reader struct {
	in        *bufio.Reader
	first     [prologue]byte
	head, raw []byte
}

// NewReader returns a reader of the frames in r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next frame, which is valid until the next call. At the end between two frames the error is io.EOF.
func (r *Reader) Next() (Frame, error) {
	if _, err := io.ReadFull(r.in, r.first[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return Frame{}, bad("it ends in its prologue")
		}
		return Frame{}, err
	}
	kind := Kind(binary.LittleEndian.Uint32(r.first[0:]))
	head, raw := binary.LittleEndian.Uint32(r.first[4:]), binary.LittleEndian.Uint32(r.first[8:])
	if !kind.known() {
		return Frame{}, bad("unknown kind %d", kind)
	}
	err := limit(kind, int(head), int(raw))
	if err != nil {
		return Frame{}, err
	}
	if r.head, err = r.part(r.head, int(head)); err != nil {
		return Frame{}, err
	}
	if r.raw, err = r.part(r.raw, int(raw)); err != nil {
		return Frame{}, err
	}
	return Frame{Kind: kind, Head: r.head, Raw: r.raw}, nil
}

// growth is how much memory is taken at once for bytes that have not come yet.
const growth = 1 << 20

// part reads n bytes into the memory of b.
func (r *Reader) part(b []byte, n int) ([]byte, error) {
	b = b[:0]
	for len(b) < n {
		from, step := len(b), min(n-len(b), max(growth, len(b)))
		if from+step <= cap(b) {
			b = b[:from+step]
		} else {
			b = append(b, make([]byte, step)...)
		}
		if _, err := io.ReadFull(r.in, b[from:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return b, bad("it ends before its %d bytes", n)
			}
			return b, err
		}
	}
	return b, nil
}

// Writer writes frames. It may be used by several goroutines.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
	buf []byte
}

// NewWriter returns a writer of frames to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: w} }

// Write writes a frame with one call of the underlying writer.
func (w *Writer) Write(f Frame) error {
	if err := limit(f.Kind, len(f.Head), len(f.Raw)); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.buf[:0]
	b = binary.LittleEndian.AppendUint32(b, uint32(f.Kind))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Head)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Raw)))
	b = append(append(b, f.Head...), f.Raw...)
	if w.buf = b; cap(b) > 4*growth {
		w.buf = nil
	}
	_, err := w.out.Write(b)
	return err
}

// WriteJSON writes a frame whose head is the JSON of head; nil leaves it empty.
func (w *Writer) WriteJSON(kind Kind, head any, raw []byte) error {
	f := Frame{Kind: kind, Raw: raw}
	if head != nil {
		var err error
		if f.Head, err = json.Marshal(head); err != nil {
			return err
		}
	}
	return w.Write(f)
}
