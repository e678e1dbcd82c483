// Package ggufwriter writes GGUF files, for test models and tests. Package gguf reads the files.
package ggufwriter

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"

	"runner/backend/gguf"
)

// Pair is a metadata entry to write. Value is a uint8, int8, uint16, int16, uint32, int32, float32, bool, string,
// uint64, int64 or float64, or a slice of one of these.
type Pair struct {
	Key   string
	Value any
}

// Writer writes a GGUF file of version 3. It writes the header at once and the tensors' data as a stream. It is not
// safe for concurrent use.
type Writer struct {
	w       *bufio.Writer
	tensors []gguf.Tensor
	align   int64
	next    int   // tensor that is being written
	left    int64 // bytes it still lacks
	err     error
}

// A file is written in pieces of this size, from its beginning. Linux then keeps it in pages of 2 MiB, which a mapping
// of it uses, too. Reading weights from those is faster than from pages of 4 KiB.
const pieces = 4 << 20

// New writes the header. It computes the offsets and sizes of the tensors, in the given order, and ignores
// those in tensors. The metadata's general.alignment applies.
func New(w io.Writer, metadata []Pair, tensors []gguf.Tensor) (*Writer, error) {
	e := &Writer{w: bufio.NewWriterSize(w, pieces), align: gguf.DefaultAlignment}
	h := append(make([]byte, 0, 1<<12), gguf.Magic...)
	h = binary.LittleEndian.AppendUint32(h, 3)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(tensors)))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(metadata)))
	keys := map[string]bool{}
	for _, kv := range metadata {
		if kv.Key == "" || len(kv.Key) > gguf.MaxKeyLength || keys[kv.Key] {
			return nil, fmt.Errorf("ggufwriter: key %.80q is empty, too long or given twice", kv.Key)
		}
		keys[kv.Key] = true
		var err error
		if h, err = appendValue(appendString(h, kv.Key), kv.Value); err != nil {
			return nil, fmt.Errorf("ggufwriter: key %.80q: %w", kv.Key, err)
		}
		if kv.Key == gguf.AlignmentKey {
			a, ok := kv.Value.(uint32)
			if !ok || a == 0 || a&(a-1) != 0 || a > gguf.MaxAlignment {
				return nil, fmt.Errorf("ggufwriter: %s is not a uint32 power of two up to %d", gguf.AlignmentKey, gguf.MaxAlignment)
			}
			e.align = int64(a)
		}
	}
	offset := int64(0)
	names := map[string]bool{}
	for _, t := range tensors {
		size, err := gguf.ByteSize(t.Type, t.Dims)
		if err != nil {
			return nil, fmt.Errorf("ggufwriter: tensor %.80q %w", t.Name, err)
		}
		if t.Name == "" || len(t.Name) > gguf.MaxTensorName || names[t.Name] {
			return nil, fmt.Errorf("ggufwriter: tensor name %.80q is empty, too long or given twice", t.Name)
		}
		names[t.Name] = true
		h = appendString(h, t.Name)
		h = binary.LittleEndian.AppendUint32(h, uint32(len(t.Dims)))
		for _, d := range t.Dims {
			h = binary.LittleEndian.AppendUint64(h, uint64(d))
		}
		h = binary.LittleEndian.AppendUint32(h, uint32(t.Type))
		h = binary.LittleEndian.AppendUint64(h, uint64(offset))
		t.Offset, t.Size = offset, size
		e.tensors = append(e.tensors, t)
		if size > math.MaxInt64-offset-2*gguf.MaxAlignment {
			return nil, errors.New("ggufwriter: the tensors are too large")
		}
		offset += size + gguf.Padding(size, e.align)
	}
	if _, err := e.put(h); err != nil {
		return nil, err
	}
	if err := e.pad(gguf.Padding(int64(len(h)), e.align)); err != nil {
		return nil, err
	}
	if len(tensors) > 0 {
		e.left = e.tensors[0].Size
	}
	return e, nil
}

// Write appends to the tensors' data. The tensors follow one another in the order given to New. One call may span
// several tensors. The Writer adds the padding between them.
func (e *Writer) Write(p []byte) (int, error) {
	written := 0
	for e.err == nil && len(p) > 0 {
		if e.next == len(e.tensors) {
			e.err = errors.New("ggufwriter: more data than the tensors hold")
			break
		}
		n := int(min(int64(len(p)), e.left))
		var m int
		m, e.err = e.put(p[:n])
		written += m
		p = p[m:]
		e.left -= int64(m)
		for e.err == nil && e.left == 0 && e.next < len(e.tensors) {
			e.err = e.pad(gguf.Padding(e.tensors[e.next].Size, e.align))
			if e.next++; e.next < len(e.tensors) {
				e.left = e.tensors[e.next].Size
			}
		}
	}
	return written, e.err
}

// put buffers bytes. The buffer is never given more than it has, because it would pass that on as it is.
func (e *Writer) put(p []byte) (written int, err error) {
	for err == nil && written < len(p) {
		var n int
		n, err = e.w.Write(p[written:min(written+pieces/2, len(p))])
		written += n
	}
	return written, err
}

// Close finishes the file. It does not close the underlying writer. It fails if tensors lack data.
func (e *Writer) Close() error {
	if e.err != nil {
		return e.err
	}
	if e.next < len(e.tensors) {
		e.err = fmt.Errorf("ggufwriter: tensor %.80q lacks %d bytes", e.tensors[e.next].Name, e.left)
		return e.err
	}
	return e.w.Flush()
}

func (e *Writer) pad(n int64) error {
	for range n {
		if err := e.w.WriteByte(0); err != nil {
			return err
		}
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// types are those of the values that can be written, alone or in a slice.
var types = map[reflect.Kind]gguf.Type{
	reflect.Uint8: gguf.Uint8, reflect.Int8: gguf.Int8, reflect.Uint16: gguf.Uint16, reflect.Int16: gguf.Int16,
	reflect.Uint32: gguf.Uint32, reflect.Int32: gguf.Int32, reflect.Float32: gguf.Float32, reflect.Bool: gguf.Bool,
	reflect.String: gguf.String, reflect.Uint64: gguf.Uint64, reflect.Int64: gguf.Int64, reflect.Float64: gguf.Float64,
}

func appendValue(b []byte, v any) ([]byte, error) {
	x := reflect.ValueOf(v)
	kind, array := x.Kind(), x.Kind() == reflect.Slice
	if array {
		b, kind = binary.LittleEndian.AppendUint32(b, uint32(gguf.ArrayOf)), x.Type().Elem().Kind()
	}
	t, ok := types[kind]
	if !ok {
		return nil, fmt.Errorf("values of Go type %T cannot be written", v)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(t))
	if array {
		b = binary.LittleEndian.AppendUint64(b, uint64(x.Len()))
	}
	switch v := v.(type) {
	case string:
		return appendString(b, v), nil
	case []string:
		for _, s := range v {
			b = appendString(b, s)
		}
		return b, nil
	}
	return binary.Append(b, binary.LittleEndian, v)
}
