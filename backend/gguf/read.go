package gguf

import (
	"bufio"
	"cmp"
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
func Read(r io.ReaderAt, size int64) (f *File, err error) {
	if size < 0 {
		return nil, fmt.Errorf("gguf: negative size %d", size)
	}
	defer func() {
		if p := recover(); p != nil {
			bad, ok := p.(failure)
			if !ok {
				panic(p)
			}
			f, err = nil, bad.err
		}
	}()
	d := &decoder{
		r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), left: size, size: size, sum: sha256.New(),
	}
	f = &File{Size: size, Alignment: DefaultAlignment}
	d.header(f)
	binary.LittleEndian.PutUint64(d.buf[:], uint64(size))
	d.sum.Write(d.buf[:8])
	f.Digest = hex.EncodeToString(d.sum.Sum(nil))

	end := size - d.left
	f.DataOffset = end + Padding(end, f.Alignment)
	checkTensors(f)
	return f, nil
}

// failure carries an error out of the decoder to Read. Nearly everything in a file can be wrong, and no caller has
// anything to add to the error.
type failure struct{ err error }

func fail(kind error, format string, args ...any) {
	panic(failure{&FormatError{kind, fmt.Sprintf(format, args...)}})
}

func corrupt(format string, args ...any) { fail(ErrCorrupt, format, args...) }

// decoder reads little-endian values and counts the bytes left in the file.
type decoder struct {
	r          *bufio.Reader
	size, left int64
	elements   int // elements of the current value read so far, and the arrays that held them
	arrays     int
	sum        hash.Hash
	buf        [8]byte
}

func (d *decoder) header(f *File) {
	if d.size < int64(len(Magic)) || string(d.fixed(len(Magic))) != Magic {
		fail(ErrNotGGUF, "the file does not start with the letters GGUF")
	}
	f.Version = d.uint32()
	switch {
	case f.Version != 0 && f.Version&0xffff == 0:
		fail(ErrVersion, "the file is big-endian; only little-endian files are read")
	case f.Version == 1:
		fail(ErrVersion, "version 1 is from before August 2023; versions 2 and 3 are read")
	case f.Version < 2 || f.Version > 3:
		fail(ErrVersion, "version %d; versions 2 and 3 are read", f.Version)
	}
	tensors := d.count("tensors", maxTensors)
	d.metadata(f, d.count("metadata keys", maxKeys))
	if v, ok := f.Lookup(AlignmentKey); ok {
		a, ok := v.Int()
		if !ok || a <= 0 || a > MaxAlignment || a&(a-1) != 0 {
			corrupt("%s is not a power of two up to %d", AlignmentKey, MaxAlignment)
		}
		f.Alignment = a
	}
	d.tensors(f, tensors)
}

func (d *decoder) metadata(f *File, n int) {
	f.keys = make(map[string]int, min(n, 1024))
	for i := range n {
		key := d.string(MaxKeyLength)
		if key == "" {
			corrupt("metadata key %d is empty", i)
		}
		if _, dup := f.keys[key]; dup {
			corrupt("metadata key %s occurs twice", quote(key))
		}
		d.elements, d.arrays = 0, 0
		f.keys[key] = len(f.Metadata)
		f.Metadata = append(f.Metadata, KeyValue{key, d.value(key, Type(d.uint32()))})
	}
}

func (d *decoder) value(key string, t Type) Value {
	v := Value{typ: t, set: true}
	switch {
	case t >= typeCount:
		corrupt("metadata key %s has unknown type %d", quote(key), uint32(t))
	case t == String:
		v.str = d.string(MaxString)
	case t == ArrayOf:
		v.array = d.arrayOf(key, 1)
	default:
		var full [8]byte
		copy(full[:], d.fixed(t.width()))
		v.bits = binary.LittleEndian.Uint64(full[:])
	}
	if t == Bool && v.bits > 1 {
		corrupt("metadata key %s is a boolean with the value %d", quote(key), v.bits)
	}
	return v
}

func (d *decoder) arrayOf(key string, depth int) *Array {
	if d.arrays++; d.arrays > maxArrays {
		corrupt("metadata key %s holds more than %d arrays", quote(key), maxArrays)
	}
	if depth > maxNesting {
		corrupt("metadata key %s nests arrays more than %d deep", quote(key), maxNesting)
	}
	t := d.uint32()
	n := d.count("elements of "+quote(key), maxArray-d.elements)
	d.elements += n
	a := &Array{typ: Type(t), n: n}
	switch width := a.typ.width(); {
	case a.typ >= typeCount:
		corrupt("metadata key %s has elements of unknown type %d", quote(key), t)
	case a.typ == String:
		d.strings(a)
	case a.typ == ArrayOf:
		for range n {
			a.nested = append(a.nested, d.arrayOf(key, depth+1))
		}
	default:
		a.data = d.bytes(int64(n)*int64(width), maxHeader)
		for _, b := range a.data {
			if a.typ == Bool && b > 1 {
				corrupt("metadata key %s holds a boolean with the value %d", quote(key), b)
			}
		}
	}
	return a
}

// strings reads the elements of an array of strings into one string.
func (d *decoder) strings(a *Array) {
	if int64(a.n) > d.left/8 { // each string takes at least the bytes of its length
		d.truncated()
	}
	a.ends = make([]uint32, 0, a.n)
	var text []byte
	for range a.n {
		n := d.length(MaxString)
		start := len(text)
		if int64(start)+n > math.MaxUint32 {
			corrupt("the strings of an array have more than %d bytes together", uint32(math.MaxUint32))
		}
		text = slices.Grow(text, int(n))[:start+int(n)]
		d.full(text[start:])
		a.ends = append(a.ends, uint32(len(text)))
	}
	a.text = string(text)
}

func (d *decoder) tensors(f *File, n int) {
	f.tensors = make(map[string]int, min(n, 4096))
	for i := range n {
		t := Tensor{Name: d.string(MaxTensorName)}
		if _, dup := f.tensors[t.Name]; dup {
			corrupt("tensor %s occurs twice", quote(t.Name))
		}
		dims := d.uint32()
		if dims > maxDims {
			corrupt("tensor %s has %d dimensions, not 1 to %d", quote(t.Name), dims, maxDims)
		}
		t.Dims = make([]int64, dims)
		for j := range t.Dims {
			t.Dims[j] = int64(d.uint64()) // byteSize refuses values that become negative
		}
		t.Type = TensorType(d.uint32())
		offset := d.uint64()
		if offset > math.MaxInt64 {
			corrupt("tensor %s has offset %d", quote(t.Name), offset)
		}
		t.Offset = int64(offset)
		var err error
		if t.Size, err = ByteSize(t.Type, t.Dims); err != nil {
			corrupt("tensor %s %v", quote(t.Name), err)
		}
		f.tensors[t.Name] = i
		f.Tensors = append(f.Tensors, t)
	}
}

// checkTensors reports tensors that are misaligned, overlap, or lie outside the file.
func checkTensors(f *File) {
	order := make([]*Tensor, len(f.Tensors))
	for i := range order {
		order[i] = &f.Tensors[i]
	}
	slices.SortStableFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	end := int64(0)
	for i, t := range order {
		if t.Offset%f.Alignment != 0 {
			corrupt("tensor %s starts at %d, not a multiple of %d", quote(t.Name), t.Offset, f.Alignment)
		}
		if t.Offset < end {
			corrupt("tensors %s and %s overlap", quote(order[i-1].Name), quote(t.Name))
		}
		if t.Size > math.MaxInt64-f.DataOffset-t.Offset {
			corrupt("tensor %s ends beyond the largest possible offset", quote(t.Name))
		}
		end = t.Offset + t.Size
	}
	if len(order) > 0 && f.DataOffset+end > f.Size {
		fail(ErrTruncated, "ends after %s of %s bytes", group(f.Size), group(f.DataOffset+end))
	}
}

// Padding returns how many bytes follow offset n so that the next multiple of align is reached.
func Padding(n, align int64) int64 { return (align - n%align) % align }

// truncated fails for a file that ends inside its header.
func (d *decoder) truncated() {
	fail(ErrTruncated, "ends after %s bytes, inside its header", group(d.size))
}

// full fills p; the file must have that many bytes left.
func (d *decoder) full(p []byte) {
	if int64(len(p)) > d.left {
		d.truncated()
	}
	if d.size-d.left+int64(len(p)) > maxHeader {
		corrupt("the header is larger than %s bytes", group(maxHeader))
	}
	if _, err := io.ReadFull(d.r, p); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF { // the file shrank while it was read
			d.truncated()
		}
		panic(failure{fmt.Errorf("gguf: %w", err)})
	}
	d.left -= int64(len(p))
	d.sum.Write(p)
}

func (d *decoder) fixed(n int) []byte {
	d.full(d.buf[:n])
	return d.buf[:n]
}

func (d *decoder) uint32() uint32 { return binary.LittleEndian.Uint32(d.fixed(4)) }

func (d *decoder) uint64() uint64 { return binary.LittleEndian.Uint64(d.fixed(8)) }

func (d *decoder) count(what string, most int) int {
	n := d.uint64()
	if n > uint64(most) {
		corrupt("%d %s; the limit is %d", n, what, most)
	}
	return int(n)
}

// length reads the length of a string.
func (d *decoder) length(most int64) int64 {
	n := d.uint64()
	if n > uint64(most) {
		corrupt("a string at byte %s has %d bytes; the limit is %d", group(d.size-d.left), n, most)
	}
	if int64(n) > d.left {
		d.truncated()
	}
	return int64(n)
}

// bytes reads n bytes. It checks n against the file's size before it allocates.
func (d *decoder) bytes(n, most int64) []byte {
	if n > most {
		corrupt("a value at byte %s has %d bytes; the limit is %d", group(d.size-d.left), n, most)
	}
	if n > d.left {
		d.truncated()
	}
	b := make([]byte, n)
	d.full(b)
	return b
}

func (d *decoder) string(most int64) string { return string(d.bytes(d.length(most), most)) }
