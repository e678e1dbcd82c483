package gguf

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"slices"
)

// Constants of the format.
const (
	// Magic is the start of every file.
	Magic = "GGUF"
	// AlignmentKey is the metadata key of the alignment. Without it the alignment is DefaultAlignment, in bytes.
	AlignmentKey     = "general.alignment"
	DefaultAlignment = 32
)

// Limits of a header. The largest models in use stay far below: about 2,000 tensors, 100 keys, 300,000 tokens and 20 MB
// of metadata.
const (
	maxTensors = 1 << 18
	maxKeys    = 1 << 16
	maxArray   = 1 << 26 // elements, all nesting levels of one value together
	maxArrays  = 1 << 16 // arrays inside arrays of one value
	maxNesting = 4
	maxHeader  = 1 << 29 // bytes

	// MaxString is the maximum length of a text, in bytes.
	MaxString = 1 << 26
	// MaxKeyLength is the maximum length of a key, in bytes, from the specification.
	MaxKeyLength = 1<<16 - 1
	// MaxTensorName is the maximum length of a tensor's name, in bytes.
	MaxTensorName = 1 << 10
	// MaxAlignment is the maximum alignment, in bytes.
	MaxAlignment = 1 << 24
)

// Open reads the header of the file at path and closes the file.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &FormatError{ErrNotGGUF, "not a regular file"}
	}
	return Read(f, st.Size())
}

// Read reads the header of a file of size bytes. For its errors see [ErrNotGGUF] and the following.
func Read(r io.ReaderAt, size int64) (*File, error) {
	if size < 0 {
		return nil, fmt.Errorf("gguf: negative size %d", size)
	}
	d := &decoder{
		r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), left: size, size: size, sum: sha256.New(),
	}
	f := &File{Size: size, Alignment: DefaultAlignment}
	if err := d.header(f); err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint64(d.buf[:], uint64(size))
	d.sum.Write(d.buf[:8])
	f.Digest = hex.EncodeToString(d.sum.Sum(nil))

	end := size - d.left
	f.DataOffset = end + Padding(end, f.Alignment)
	if err := checkTensors(f); err != nil {
		return nil, err
	}
	return f, nil
}

// decoder reads little-endian values and counts the bytes left in the file.
type decoder struct {
	r          *bufio.Reader
	size, left int64
	elements   int // elements of the current value read so far, and the arrays that held them
	arrays     int
	sum        hash.Hash
	buf        [8]byte
}

func (d *decoder) header(f *File) error {
	start, err := d.fixed(4)
	if err != nil || string(start) != Magic {
		if err != nil && d.size >= 4 {
			return err
		}
		return &FormatError{ErrNotGGUF, "the file does not start with the letters GGUF"}
	}
	if f.Version, err = d.uint32(); err != nil {
		return err
	}
	switch {
	case f.Version != 0 && f.Version&0xffff == 0:
		return &FormatError{ErrVersion, "the file is big-endian; only little-endian files are read"}
	case f.Version == 1:
		return &FormatError{ErrVersion, "version 1 is from before August 2023; versions 2 and 3 are read"}
	case f.Version < 2 || f.Version > 3:
		return &FormatError{ErrVersion, fmt.Sprintf("version %d; versions 2 and 3 are read", f.Version)}
	}
	tensors, err := d.count("tensors", maxTensors)
	if err != nil {
		return err
	}
	keys, err := d.count("metadata keys", maxKeys)
	if err != nil {
		return err
	}
	if err := d.metadata(f, keys); err != nil {
		return err
	}
	if v, ok := f.Lookup(AlignmentKey); ok {
		a, ok := v.Int()
		if !ok || a <= 0 || a > MaxAlignment || a&(a-1) != 0 {
			return corrupt("%s is not a power of two up to %d", AlignmentKey, MaxAlignment)
		}
		f.Alignment = a
	}
	return d.tensors(f, tensors)
}

func (d *decoder) metadata(f *File, n int) error {
	f.keys = make(map[string]int, min(n, 1024))
	for i := range n {
		key, err := d.string(MaxKeyLength)
		if err != nil {
			return err
		}
		if key == "" {
			return corrupt("metadata key %d is empty", i)
		}
		if _, dup := f.keys[key]; dup {
			return corrupt("metadata key %s occurs twice", quote(key))
		}
		t, err := d.uint32()
		if err != nil {
			return err
		}
		d.elements, d.arrays = 0, 0
		v, err := d.value(key, Type(t))
		if err != nil {
			return err
		}
		f.keys[key] = len(f.Metadata)
		f.Metadata = append(f.Metadata, KeyValue{key, v})
	}
	return nil
}

func (d *decoder) value(key string, t Type) (Value, error) {
	v := Value{typ: t, set: true}
	var err error
	switch {
	case t >= typeCount:
		err = corrupt("metadata key %s has unknown type %d", quote(key), uint32(t))
	case t == String:
		v.str, err = d.string(MaxString)
	case t == ArrayOf:
		v.array, err = d.arrayOf(key, 1)
	default:
		var b []byte
		if b, err = d.fixed(t.width()); err == nil {
			var full [8]byte
			copy(full[:], b)
			v.bits = binary.LittleEndian.Uint64(full[:])
		}
	}
	if err == nil && t == Bool && v.bits > 1 {
		err = corrupt("metadata key %s is a boolean with the value %d", quote(key), v.bits)
	}
	return v, err
}

func (d *decoder) arrayOf(key string, depth int) (*Array, error) {
	if d.arrays++; d.arrays > maxArrays {
		return nil, corrupt("metadata key %s holds more than %d arrays", quote(key), maxArrays)
	}
	if depth > maxNesting {
		return nil, corrupt("metadata key %s nests arrays more than %d deep", quote(key), maxNesting)
	}
	t, err := d.uint32()
	if err != nil {
		return nil, err
	}
	n, err := d.count("elements of "+quote(key), maxArray-d.elements)
	if err != nil {
		return nil, err
	}
	d.elements += n
	a := &Array{typ: Type(t), n: n}
	switch width := a.typ.width(); {
	case a.typ >= typeCount:
		return nil, corrupt("metadata key %s has elements of unknown type %d", quote(key), t)
	case a.typ == String:
		err = d.strings(a)
	case a.typ == ArrayOf:
		for i := 0; i < n && err == nil; i++ {
			var e *Array
			e, err = d.arrayOf(key, depth+1)
			a.nested = append(a.nested, e)
		}
	default:
		a.data, err = d.bytes(int64(n)*int64(width), maxHeader)
		if a.typ == Bool && err == nil {
			for _, b := range a.data {
				if b > 1 {
					return nil, corrupt("metadata key %s holds a boolean with the value %d", quote(key), b)
				}
			}
		}
	}
	return a, err
}

// strings reads the elements of an array of strings into one string.
func (d *decoder) strings(a *Array) error {
	if int64(a.n) > d.left/8 { // each string takes at least the bytes of its length
		return d.truncated()
	}
	a.ends = make([]uint32, 0, a.n)
	var text []byte
	for range a.n {
		n, err := d.length(MaxString)
		if err != nil {
			return err
		}
		start := len(text)
		if int64(start)+n > math.MaxUint32 {
			return corrupt("the strings of an array have more than %d bytes together", uint32(math.MaxUint32))
		}
		text = slices.Grow(text, int(n))[:start+int(n)]
		if err := d.full(text[start:]); err != nil {
			return err
		}
		a.ends = append(a.ends, uint32(len(text)))
	}
	a.text = string(text)
	return nil
}

func (d *decoder) tensors(f *File, n int) error {
	f.tensors = make(map[string]int, min(n, 4096))
	for i := range n {
		var t Tensor
		var err error
		if t.Name, err = d.string(MaxTensorName); err != nil {
			return err
		}
		if _, dup := f.tensors[t.Name]; dup {
			return corrupt("tensor %s occurs twice", quote(t.Name))
		}
		dims, err := d.uint32()
		if err != nil {
			return err
		}
		if dims > maxDims {
			return corrupt("tensor %s has %d dimensions, not 1 to %d", quote(t.Name), dims, maxDims)
		}
		t.Dims = make([]int64, dims)
		for j := range t.Dims {
			v, err := d.uint64()
			if err != nil {
				return err
			}
			t.Dims[j] = int64(v) // byteSize refuses values that become negative
		}
		format, err := d.uint32()
		if err != nil {
			return err
		}
		t.Type = TensorType(format)
		offset, err := d.uint64()
		if err != nil {
			return err
		}
		if offset > math.MaxInt64 {
			return corrupt("tensor %s has offset %d", quote(t.Name), offset)
		}
		t.Offset = int64(offset)
		if t.Size, err = ByteSize(t.Type, t.Dims); err != nil {
			return corrupt("tensor %s %v", quote(t.Name), err)
		}
		f.tensors[t.Name] = i
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

// checkTensors reports tensors that are misaligned, overlap, or lie outside the file.
func checkTensors(f *File) error {
	order := make([]*Tensor, len(f.Tensors))
	for i := range order {
		order[i] = &f.Tensors[i]
	}
	slices.SortStableFunc(order, func(a, b *Tensor) int {
		switch {
		case a.Offset < b.Offset:
			return -1
		case a.Offset > b.Offset:
			return 1
		}
		return 0
	})
	end := int64(0)
	for i, t := range order {
		if t.Offset%f.Alignment != 0 {
			return corrupt("tensor %s starts at %d, not a multiple of %d", quote(t.Name), t.Offset, f.Alignment)
		}
		if t.Offset < end {
			return corrupt("tensors %s and %s overlap", quote(order[i-1].Name), quote(t.Name))
		}
		if t.Size > math.MaxInt64-f.DataOffset-t.Offset {
			return corrupt("tensor %s ends beyond the largest possible offset", quote(t.Name))
		}
		end = t.Offset + t.Size
	}
	if len(order) > 0 && f.DataOffset+end > f.Size {
		return &FormatError{ErrTruncated, fmt.Sprintf("ends after %s of %s bytes", group(f.Size), group(f.DataOffset+end))}
	}
	return nil
}

// Padding returns how many bytes follow offset n so that the next multiple of align is reached.
func Padding(n, align int64) int64 { return (align - n%align) % align }

// truncated returns the error for a file that ends inside its header.
func (d *decoder) truncated() error {
	return &FormatError{ErrTruncated, fmt.Sprintf("ends after %s bytes, inside its header", group(d.size))}
}

// full fills p; the file must have that many bytes left.
func (d *decoder) full(p []byte) error {
	if int64(len(p)) > d.left {
		return d.truncated()
	}
	if d.size-d.left+int64(len(p)) > maxHeader {
		return corrupt("the header is larger than %s bytes", group(maxHeader))
	}
	if _, err := io.ReadFull(d.r, p); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF { // the file shrank while it was read
			return d.truncated()
		}
		return fmt.Errorf("gguf: %w", err)
	}
	d.left -= int64(len(p))
	d.sum.Write(p)
	return nil
}

func (d *decoder) fixed(n int) ([]byte, error) {
	b := d.buf[:n]
	return b, d.full(b)
}

func (d *decoder) uint32() (uint32, error) {
	b, err := d.fixed(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (d *decoder) uint64() (uint64, error) {
	b, err := d.fixed(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func (d *decoder) count(what string, most int) (int, error) {
	n, err := d.uint64()
	if err != nil {
		return 0, err
	}
	if n > uint64(most) {
		return 0, corrupt("%d %s; the limit is %d", n, what, most)
	}
	return int(n), nil
}

// length reads the length of a string.
func (d *decoder) length(most int64) (int64, error) {
	n, err := d.uint64()
	if err != nil {
		return 0, err
	}
	if n > uint64(most) {
		return 0, corrupt("a string at byte %s has %d bytes; the limit is %d", group(d.size-d.left), n, most)
	}
	if int64(n) > d.left {
		return 0, d.truncated()
	}
	return int64(n), nil
}

// bytes reads n bytes. It checks n against the file's size before it allocates.
func (d *decoder) bytes(n, most int64) ([]byte, error) {
	if n > most {
		return nil, corrupt("a value at byte %s has %d bytes; the limit is %d", group(d.size-d.left), n, most)
	}
	if n > d.left {
		return nil, d.truncated()
	}
	b := make([]byte, n)
	return b, d.full(b)
}

func (d *decoder) string(most int64) (string, error) {
	n, err := d.length(most)
	if err != nil {
		return "", err
	}
	b, err := d.bytes(n, most)
	return string(b), err
}
