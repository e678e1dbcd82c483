// Package gguf reads GGUF files, the container of llama.cpp's models: ordered metadata, a list of tensors, and the
// tensors' data.
//
// It serves code that looks into a model without an engine: the vocabulary and the merges, the chat template, sizes and
// types, and whether the file is complete. It reads only the header, never the weights, and trusts nothing it reads. It
// checks counts, lengths, sizes and offsets against the size of the file and fixed limits before it allocates memory.
// The tensors of a returned [*File] lie inside the file and do not overlap.
//
// The format is the specification in ggml's docs/gguf.md, versions 2 and 3, little-endian. A [*File] is immutable and
// safe for concurrent use. Package models/random/ggufwriter writes such files for tests.
package gguf

import (
	"encoding/binary"
	"math"
	"strings"
)

// File is a GGUF file's header.
type File struct {
	// Version is 2 or 3.
	Version uint32
	// Alignment is the alignment of each tensor's data in bytes, a power of two.
	Alignment int64
	// DataOffset is the file offset of the tensors' data. Size is the file's length in bytes.
	DataOffset, Size int64
	// Metadata holds the key-value pairs in file order.
	Metadata []KeyValue
	// Tensors holds the tensors in file order.
	Tensors []Tensor
	// Digest identifies the file without reading the weights: the hexadecimal SHA-256 of the header's bytes up to
	// the end of the last tensor's description, followed by Size as eight little-endian bytes.
	Digest string

	keys    map[string]int
	tensors map[string]int
}

// KeyValue is one entry of the metadata.
type KeyValue struct {
	Key   string
	Value Value
}

// Tensor describes one tensor.
type Tensor struct {
	Name string
	Type TensorType
	// Dims holds 1 to 4 sizes, the fastest-changing first. Dims[0] is the length of a row.
	Dims []int64
	// Offset is the start of the data relative to File.DataOffset, Size its length, both in bytes.
	Offset, Size int64
}

// Elements returns the number of values in the tensor.
func (t *Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Lookup returns the value of key.
func (f *File) Lookup(key string) (Value, bool) {
	i, ok := f.keys[key]
	if !ok {
		return Value{}, false
	}
	return f.Metadata[i].Value, true
}

// Tensor returns the tensor with this name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.tensors[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// String returns the string at key; false if there is none.
func (f *File) String(key string) (string, bool) {
	v, _ := f.Lookup(key)
	return v.String()
}

// Int returns the integer at key, of any width; false if there is none or it does not fit.
func (f *File) Int(key string) (int64, bool) {
	v, _ := f.Lookup(key)
	return v.Int()
}

// Float returns the number at key, integer or not; false if there is none.
func (f *File) Float(key string) (float64, bool) {
	v, _ := f.Lookup(key)
	return v.Float()
}

// Bool returns the boolean at key; false, false if there is none.
func (f *File) Bool(key string) (value, ok bool) {
	v, _ := f.Lookup(key)
	return v.Bool()
}

// Array returns the array at key; false if there is none.
func (f *File) Array(key string) (*Array, bool) {
	v, _ := f.Lookup(key)
	return v.Array()
}

// Architecture returns the value of general.architecture; empty if there is none.
func (f *File) Architecture() string {
	s, _ := f.String("general.architecture")
	return s
}

// Parameters returns the number of values in all tensors, or math.MaxInt64 if that overflows.
func (f *File) Parameters() int64 {
	n := int64(0)
	for i := range f.Tensors {
		e := f.Tensors[i].Elements()
		if n > math.MaxInt64-e {
			return math.MaxInt64
		}
		n += e
	}
	return n
}

// Type is the type of a metadata value.
type Type uint32

// The types of metadata values, numbered as in the file.
const (
	Uint8 Type = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	ArrayOf
	Uint64
	Int64
	Float64
	typeCount
)

var typeNames = [typeCount]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string",
	"array", "uint64", "int64", "float64"}

func (t Type) String() string {
	if t < typeCount {
		return typeNames[t]
	}
	return "unknown"
}

// width returns how many bytes a value takes; 0 for strings and arrays.
func (t Type) width() int {
	switch t {
	case Uint8, Int8, Bool:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32, Float32:
		return 4
	case Uint64, Int64, Float64:
		return 8
	}
	return 0
}

// Value is one metadata value. The zero Value is empty.
type Value struct {
	typ   Type
	set   bool
	bits  uint64 // scalars, as read, zero-extended
	str   string
	array *Array
}

// Type returns the value's type.
func (v Value) Type() Type { return v.typ }

// String returns the string; false for other types.
func (v Value) String() (string, bool) { return v.str, v.set && v.typ == String }

// Array returns the array; false for other types.
func (v Value) Array() (*Array, bool) { return v.array, v.set && v.typ == ArrayOf }

// Bool returns the boolean; false, false for other types.
func (v Value) Bool() (value, ok bool) {
	if !v.set || v.typ != Bool {
		return false, false
	}
	return v.bits != 0, true
}

// Int returns an integer of any width; false for other types and for values that int64 cannot hold.
func (v Value) Int() (int64, bool) {
	if !v.set {
		return 0, false
	}
	return intOf(v.typ, v.bits)
}

// Float returns an integer or floating-point number; false for other types.
func (v Value) Float() (float64, bool) {
	if !v.set {
		return 0, false
	}
	return floatOf(v.typ, v.bits)
}

func intOf(t Type, bits uint64) (int64, bool) {
	switch t {
	case Uint8, Uint16, Uint32:
		return int64(bits), true
	case Int8:
		return int64(int8(bits)), true
	case Int16:
		return int64(int16(bits)), true
	case Int32:
		return int64(int32(bits)), true
	case Int64:
		return int64(bits), true
	case Uint64:
		return int64(bits), bits <= math.MaxInt64
	}
	return 0, false
}

func floatOf(t Type, bits uint64) (float64, bool) {
	switch t {
	case Float32:
		return float64(math.Float32frombits(uint32(bits))), true
	case Float64:
		return math.Float64frombits(bits), true
	case Uint64:
		return float64(bits), true
	}
	n, ok := intOf(t, bits)
	return float64(n), ok
}

// Array is a metadata array. Strings are stored one after the other with a table of their ends, numbers as in the
// file.
type Array struct {
	typ    Type
	n      int
	data   []byte   // numbers and booleans, little-endian
	text   string   // all strings
	ends   []uint32 // end of string i in text
	nested []*Array
}

// Type returns the type of the elements.
func (a *Array) Type() Type { return a.typ }

// Len returns the number of elements.
func (a *Array) Len() int { return a.n }

// String returns element i of an array of strings; empty for other types. It does not allocate.
func (a *Array) String(i int) string {
	if a.typ != String {
		return ""
	}
	start := uint32(0)
	if i > 0 {
		start = a.ends[i-1]
	}
	return a.text[start:a.ends[i]]
}

// Strings copies an array of strings, so that the shared text can be freed; nil for other types.
func (a *Array) Strings() []string {
	if a.typ != String {
		return nil
	}
	s := make([]string, a.n)
	for i := range s {
		s[i] = strings.Clone(a.String(i))
	}
	return s
}

// Int returns element i of an array of integers; false for other types and for values that int64 cannot hold.
func (a *Array) Int(i int) (int64, bool) { return intOf(a.typ, a.bits(i)) }

// Float returns element i of an array of numbers; false for other types.
func (a *Array) Float(i int) (float64, bool) { return floatOf(a.typ, a.bits(i)) }

// Bool returns element i of an array of booleans; false, false for other types.
func (a *Array) Bool(i int) (value, ok bool) {
	if a.typ != Bool {
		return false, false
	}
	return a.bits(i) != 0, true
}

// Array returns element i of an array of arrays; nil for other types.
func (a *Array) Array(i int) *Array {
	if a.typ != ArrayOf {
		return nil
	}
	return a.nested[i]
}

func (a *Array) bits(i int) uint64 {
	switch a.typ.width() {
	case 1:
		return uint64(a.data[i])
	case 2:
		return uint64(binary.LittleEndian.Uint16(a.data[2*i:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(a.data[4*i:]))
	case 8:
		return binary.LittleEndian.Uint64(a.data[8*i:])
	}
	return 0
}
