package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Pair is a metadata entry to write. Value is a uint8, int8, uint16, int16, uint32, int32, float32, bool, string,
// uint64, int64 or float64, or a slice of one of these.
type Pair struct {
	Key   string
	Value any
}

// Writer writes a GGUF file of version 3: the header at once, then the tensors' data as a stream. It is not safe for
// concurrent use.
type Writer struct {
	w       *bufio.Writer
	tensors []Tensor
	align   int64
	next    int   // tensor that is being written
	left    int64 // bytes it still lacks
	err     error
}

// NewWriter writes the header. The tensors' offsets and sizes are computed, in the order given; those in tensors are
// ignored. The metadata's general.alignment is honoured.
func NewWriter(w io.Writer, metadata []Pair, tensors []Tensor) (*Writer, error) {
	e := &Writer{w: bufio.NewWriterSize(w, 1<<16), align: defaultAlignment}
	h := append(make([]byte, 0, 1<<12), magic...)
	h = binary.LittleEndian.AppendUint32(h, 3)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(tensors)))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(metadata)))
	keys := map[string]bool{}
	for _, kv := range metadata {
		if kv.Key == "" || len(kv.Key) > maxKeyLength || keys[kv.Key] {
			return nil, fmt.Errorf("gguf: key %s is empty, too long or given twice", quote(kv.Key))
		}
		keys[kv.Key] = true
		var err error
		if h, err = appendValue(appendString(h, kv.Key), kv.Value); err != nil {
			return nil, fmt.Errorf("gguf: key %s: %w", quote(kv.Key), err)
		}
		if kv.Key == alignmentKey {
			a, ok := kv.Value.(uint32)
			if !ok || a == 0 || a&(a-1) != 0 || a > maxAlignment {
				return nil, fmt.Errorf("gguf: %s is not a uint32 power of two up to %d", alignmentKey, maxAlignment)
			}
			e.align = int64(a)
		}
	}
	offset := int64(0)
	names := map[string]bool{}
	for _, t := range tensors {
		size, err := byteSize(t.Type, t.Dims)
		if err != nil {
			return nil, fmt.Errorf("gguf: tensor %s %w", quote(t.Name), err)
		}
		if t.Name == "" || len(t.Name) > maxTensorKey || names[t.Name] {
			return nil, fmt.Errorf("gguf: tensor name %s is empty, too long or given twice", quote(t.Name))
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
		if size > math.MaxInt64-offset-2*maxAlignment {
			return nil, errors.New("gguf: the tensors are too large")
		}
		offset += size + padding(size, e.align)
	}
	if _, err := e.w.Write(h); err != nil {
		return nil, err
	}
	if err := e.pad(padding(int64(len(h)), e.align)); err != nil {
		return nil, err
	}
	if len(tensors) > 0 {
		e.left = e.tensors[0].Size
	}
	return e, nil
}

// Write appends to the tensors' data. The tensors follow one another in the order given to NewWriter; a call may
// cross from one into the next, and the padding between them is the Writer's business.
func (e *Writer) Write(p []byte) (int, error) {
	written := 0
	for e.err == nil && len(p) > 0 {
		if e.next == len(e.tensors) {
			e.err = errors.New("gguf: more data than the tensors hold")
			break
		}
		n := int(min(int64(len(p)), e.left))
		var m int
		m, e.err = e.w.Write(p[:n])
		written += m
		p = p[m:]
		e.left -= int64(m)
		for e.err == nil && e.left == 0 && e.next < len(e.tensors) {
			e.err = e.pad(padding(e.tensors[e.next].Size, e.align))
			if e.next++; e.next < len(e.tensors) {
				e.left = e.tensors[e.next].Size
			}
		}
	}
	return written, e.err
}

// Close finishes the file, without closing what it was written to, and reports tensors that lack data.
func (e *Writer) Close() error {
	if e.err != nil {
		return e.err
	}
	if e.next < len(e.tensors) {
		e.err = fmt.Errorf("gguf: tensor %s lacks %d bytes", quote(e.tensors[e.next].Name), e.left)
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

func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []uint8:
		return appendArray(b, Uint8, v), nil
	case []int8:
		return appendArray(b, Int8, v), nil
	case []uint16:
		return appendArray(b, Uint16, v), nil
	case []int16:
		return appendArray(b, Int16, v), nil
	case []uint32:
		return appendArray(b, Uint32, v), nil
	case []int32:
		return appendArray(b, Int32, v), nil
	case []float32:
		return appendArray(b, Float32, v), nil
	case []bool:
		return appendArray(b, Bool, v), nil
	case []string:
		return appendArray(b, String, v), nil
	case []uint64:
		return appendArray(b, Uint64, v), nil
	case []int64:
		return appendArray(b, Int64, v), nil
	case []float64:
		return appendArray(b, Float64, v), nil
	}
	t, ok := typeOf(v)
	if !ok {
		return nil, fmt.Errorf("values of Go type %T cannot be written", v)
	}
	return appendScalar(binary.LittleEndian.AppendUint32(b, uint32(t)), v), nil
}

func appendArray[E any](b []byte, t Type, v []E) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(ArrayOf))
	b = binary.LittleEndian.AppendUint32(b, uint32(t))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(v)))
	for _, x := range v {
		b = appendScalar(b, x)
	}
	return b
}

func typeOf(v any) (Type, bool) {
	switch v.(type) {
	case uint8:
		return Uint8, true
	case int8:
		return Int8, true
	case uint16:
		return Uint16, true
	case int16:
		return Int16, true
	case uint32:
		return Uint32, true
	case int32:
		return Int32, true
	case float32:
		return Float32, true
	case bool:
		return Bool, true
	case string:
		return String, true
	case uint64:
		return Uint64, true
	case int64:
		return Int64, true
	case float64:
		return Float64, true
	}
	return 0, false
}

func appendScalar(b []byte, v any) []byte {
	switch v := v.(type) {
	case uint8:
		return append(b, v)
	case int8:
		return append(b, uint8(v))
	case bool:
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case uint16:
		return binary.LittleEndian.AppendUint16(b, v)
	case int16:
		return binary.LittleEndian.AppendUint16(b, uint16(v))
	case uint32:
		return binary.LittleEndian.AppendUint32(b, v)
	case int32:
		return binary.LittleEndian.AppendUint32(b, uint32(v))
	case float32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	case uint64:
		return binary.LittleEndian.AppendUint64(b, v)
	case int64:
		return binary.LittleEndian.AppendUint64(b, uint64(v))
	case float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	case string:
		return appendString(b, v)
	}
	panic("gguf: scalar of an unchecked type")
}
