package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"runner/backend/gguf"
	"runner/hint"
	"runner/models/random/ggufwriter"
	"runner/models/random/widentest"
)

// golden is a complete file of version 3, byte by byte from the specification: two keys and one tensor of 32 values.
var golden = strings.Join([]string{
	"GGUF", "\x03\x00\x00\x00",
	"\x01\x00\x00\x00\x00\x00\x00\x00", // tensors
	"\x03\x00\x00\x00\x00\x00\x00\x00", // keys
	"\x14\x00\x00\x00\x00\x00\x00\x00general.architecture", "\x08\x00\x00\x00", "\x04\x00\x00\x00\x00\x00\x00\x00test",
	"\x01\x00\x00\x00\x00\x00\x00\x00n", "\x05\x00\x00\x00", "\xfe\xff\xff\xff",
	"\x01\x00\x00\x00\x00\x00\x00\x00s", "\x09\x00\x00\x00", "\x08\x00\x00\x00", "\x02\x00\x00\x00\x00\x00\x00\x00",
	"\x01\x00\x00\x00\x00\x00\x00\x00a", "\x00\x00\x00\x00\x00\x00\x00\x00",
	"\x01\x00\x00\x00\x00\x00\x00\x00w", "\x01\x00\x00\x00", "\x20\x00\x00\x00\x00\x00\x00\x00", "\x08\x00\x00\x00",
	"\x00\x00\x00\x00\x00\x00\x00\x00",
}, "")

// goldenData is the tensor: Q8_0 with the scale 1 and the values -1 and 0 to 30.
var goldenData = "\x00\x3c\xff\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14" +
	"\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e"

func goldenFile() []byte {
	b := []byte(golden)
	b = append(b, make([]byte, gguf.Padding(int64(len(b)), 32))...)
	return append(b, goldenData...)
}

func pair(key string, value any) ggufwriter.Pair { return ggufwriter.Pair{Key: key, Value: value} }

func parse(b []byte) (*gguf.File, error) { return gguf.Read(bytes.NewReader(b), int64(len(b))) }

func TestReadGolden(t *testing.T) {
	b := goldenFile()
	f, err := parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if f.Version != 3 || f.Alignment != 32 || f.Size != int64(len(b)) || f.DataOffset%32 != 0 || len(f.Digest) != 64 {
		t.Errorf("header: %+v", f)
	}
	if f.Architecture() != "test" {
		t.Errorf("architecture %q", f.Architecture())
	}
	if n, ok := f.Int("n"); !ok || n != -2 {
		t.Errorf("n = %d, %v", n, ok)
	}
	if n, ok := f.Float("n"); !ok || n != -2 {
		t.Errorf("n = %v, %v", n, ok)
	}
	if _, ok := f.String("n"); ok {
		t.Error("a number was returned as a string")
	}
	a, ok := f.Array("s")
	if !ok || a.Type() != gguf.String || !reflect.DeepEqual(a.Strings(), []string{"a", ""}) {
		t.Errorf("s = %v", a)
	}
	w, ok := f.Tensor("w")
	if !ok || w.Type != gguf.Q8_0 || w.Size != 34 || w.Offset != 0 || w.Elements() != 32 || f.Parameters() != 32 {
		t.Fatalf("w = %+v", w)
	}
	values, err := widentest.Values(nil, w.Type, b[f.DataOffset+w.Offset:][:w.Size])
	if err != nil || values[0] != -1 || values[31] != 30 {
		t.Errorf("values %v, %v", values, err)
	}
}

func TestWriteGolden(t *testing.T) {
	var out bytes.Buffer
	w, err := ggufwriter.New(&out, []ggufwriter.Pair{pair("general.architecture", "test"), pair("n", int32(-2)),
		pair("s", []string{"a", ""})},
		[]gguf.Tensor{{Name: "w", Type: gguf.Q8_0, Dims: []int64{32}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(goldenData)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := append(goldenFile(), make([]byte, gguf.Padding(34, 32))...)
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got  %q\nwant %q", out.Bytes(), want)
	}
}

func TestRoundTrip(t *testing.T) {
	metadata := []ggufwriter.Pair{
		pair("general.alignment", uint32(64)),
		pair("u8", uint8(200)), pair("i8", int8(-100)), pair("u16", uint16(60000)), pair("i16", int16(-30000)),
		pair("u32", uint32(4e9)), pair("i32", int32(-2e9)), pair("f32", float32(1.5)), pair("yes", true), pair("no", false),
		pair("text", "αβγ\x00\xff"), pair("u64", uint64(math.MaxUint64)), pair("i64", int64(math.MinInt64)),
		pair("f64", math.Pi),
		pair("u8s", []uint8{1, 255}), pair("i8s", []int8{-1, 1}), pair("u16s", []uint16{1, 65535}),
		pair("i16s", []int16{-1, 1}),
		pair("u32s", []uint32{1, math.MaxUint32}), pair("i32s", []int32{-1, 1}), pair("f32s", []float32{-0.5, 2}),
		pair("bools", []bool{true, false}), pair("texts", []string{"", "x", "yz"}), pair("u64s", []uint64{1, math.MaxUint64}),
		pair("i64s", []int64{-1, 1}), pair("f64s", []float64{-0.5, 2}), pair("none", []string{}),
	}
	tensors := []gguf.Tensor{
		{Name: "a", Type: gguf.F32, Dims: []int64{3, 2}}, {Name: "b", Type: gguf.MXFP4, Dims: []int64{64, 2, 3}},
		{Name: "c", Type: gguf.F16, Dims: []int64{1}},
	}
	var out bytes.Buffer
	w, err := ggufwriter.New(&out, metadata, tensors)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 24+12*17+2)
	for i := range data {
		data[i] = byte(i)
	}
	for i := 0; i < len(data); i += 7 { // chunks that cross tensors
		if _, err := w.Write(data[i:min(i+7, len(data))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Alignment != 64 || len(f.Metadata) != len(metadata) {
		t.Fatalf("%+v", f)
	}
	for i, kv := range f.Metadata {
		if kv.Key != metadata[i].Key {
			t.Errorf("key %d is %s, not %s", i, kv.Key, metadata[i].Key)
		}
		if got, want := fmt.Sprint(plain(kv.Value)), fmt.Sprint(metadata[i].Value); got != want {
			t.Errorf("%s = %s, want %s", kv.Key, got, want)
		}
	}
	var got []byte
	for i, ti := range f.Tensors {
		if ti.Name != tensors[i].Name || ti.Type != tensors[i].Type || !reflect.DeepEqual(ti.Dims, tensors[i].Dims) ||
			ti.Offset%64 != 0 {
			t.Errorf("tensor %+v, want %+v", ti, tensors[i])
		}
		got = append(got, out.Bytes()[f.DataOffset+ti.Offset:][:ti.Size]...)
	}
	if !bytes.Equal(got, data) {
		t.Error("the tensors' data changed")
	}
}

// plain turns a value back into what the Writer took, through the public accessors.
func plain(v gguf.Value) any {
	switch v.Type() {
	case gguf.String:
		s, _ := v.String()
		return s
	case gguf.Bool:
		b, _ := v.Bool()
		return b
	case gguf.Float32, gguf.Float64:
		x, _ := v.Float()
		return x
	case gguf.ArrayOf:
		a, _ := v.Array()
		s := []any{}
		for i := range a.Len() {
			switch a.Type() {
			case gguf.String:
				s = append(s, a.String(i))
			case gguf.Bool:
				b, _ := a.Bool(i)
				s = append(s, b)
			case gguf.Float32, gguf.Float64:
				x, _ := a.Float(i)
				s = append(s, x)
			default:
				s = append(s, integer(a.Int(i)))
			}
		}
		return s
	}
	return integer(v.Int())
}

func integer(n int64, ok bool) any {
	if !ok {
		return uint64(math.MaxUint64) // the one value in these tests that int64 cannot hold
	}
	return n
}

func TestNestedArrays(t *testing.T) {
	le := binary.LittleEndian
	build := func(depth int) []byte {
		b := []byte("GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")
		b = le.AppendUint32(append(le.AppendUint64(b, 1), 'k'), uint32(gguf.ArrayOf))
		for range depth - 1 {
			b = le.AppendUint64(le.AppendUint32(b, uint32(gguf.ArrayOf)), 1)
		}
		return append(le.AppendUint64(le.AppendUint32(b, uint32(gguf.Uint8)), 2), 7, 8)
	}
	f, err := parse(build(3))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := f.Array("k")
	inner := a.Array(0).Array(0)
	if n, ok := inner.Int(1); !ok || n != 8 {
		t.Errorf("inner element %d, %v", n, ok)
	}
	if _, err := parse(build(5)); !errors.Is(err, gguf.ErrCorrupt) {
		t.Errorf("five levels: %v", err)
	}
}

// TestHostile changes the golden file in one place at a time.
func TestHostile(t *testing.T) {
	le := binary.LittleEndian
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { le.PutUint32(b[at:], v); return b }
	}
	put64 := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { le.PutUint64(b[at:], v); return b }
	}
	tensor := strings.Index(golden, "w\x01\x00\x00\x00") // its name
	dims, dim, format, offset := tensor+1, tensor+5, tensor+13, tensor+17
	n := strings.Index(golden, "n\x05\x00") // the key n
	array := strings.Index(golden, "s\x09\x00")
	tests := []struct {
		name   string
		change func([]byte) []byte
		kind   error
		detail string
	}{
		{"empty", func(b []byte) []byte { return nil }, gguf.ErrNotGGUF, "letters"},
		{"three bytes", func(b []byte) []byte { return b[:3] }, gguf.ErrNotGGUF, "letters"},
		{"other magic", put32(0, 0x04034b50), gguf.ErrNotGGUF, "letters"},
		{"magic only", func(b []byte) []byte { return b[:4] }, gguf.ErrTruncated, "ends after 4 bytes"},
		{"big-endian", put32(4, 3<<24), gguf.ErrVersion, "big-endian"},
		{"version 1", put32(4, 1), gguf.ErrVersion, "version 1"},
		{"version 4", put32(4, 4), gguf.ErrVersion, "version 4"},
		{"version 0", put32(4, 0), gguf.ErrVersion, "version 0"},
		{"tensor count", put64(8, 1<<40), gguf.ErrCorrupt, "tensors"},
		{"key count", put64(16, 1<<63), gguf.ErrCorrupt, "metadata keys"},
		{"more keys than there are", put64(16, 4), gguf.ErrCorrupt, "a string"},
		{"key length", put64(24, 1<<20), gguf.ErrCorrupt, "string at byte"},
		{"empty key", put64(24, 0), gguf.ErrCorrupt, "empty"},
		{"value type", put32(n+1, 13), gguf.ErrCorrupt, "unknown type"},
		{"value type bool", put32(n+1, uint32(gguf.Bool)), gguf.ErrCorrupt, "boolean"},
		{"duplicate key", func(b []byte) []byte { b[array] = 'n'; return b }, gguf.ErrCorrupt, "twice"},
		{"array type", put32(array+5, 13), gguf.ErrCorrupt, "unknown type"},
		{"array length", put64(array+9, 1<<50), gguf.ErrCorrupt, "elements"},
		{"array longer than the file", put64(array+9, 1<<20), gguf.ErrTruncated, "inside its header"},
		{"string longer than the file", put64(array+17, 1<<20), gguf.ErrTruncated, "inside its header"},
		{"string longer than allowed", put64(array+17, math.MaxUint64), gguf.ErrCorrupt, "a string"},
		{"no dimensions", put32(dims, 0), gguf.ErrCorrupt, "unknown format"},
		{"five dimensions", put32(dims, 5), gguf.ErrCorrupt, "dimensions"},
		{"zero dimension", put64(dim, 0), gguf.ErrCorrupt, "a dimension of 0"},
		{"negative dimension", put64(dim, 1<<63), gguf.ErrCorrupt, "a dimension"},
		{"huge dimension", put64(dim, 1<<63-32), gguf.ErrCorrupt, "too large"},
		{"large dimension", put64(dim, 1<<62), gguf.ErrTruncated, "ends after"},
		{"ragged row", put64(dim, 33), gguf.ErrCorrupt, "multiple of the 32"},
		{"unknown format", put32(format, 43), gguf.ErrCorrupt, "unknown format 43"},
		{"removed format", put32(format, 31), gguf.ErrCorrupt, "unknown format 31"},
		{"misaligned", put64(offset, 16), gguf.ErrCorrupt, "multiple of 32"},
		{"offset outside", put64(offset, 1<<20), gguf.ErrTruncated, "of 1,"},
		{"offset overflow", put64(offset, 1<<63-32), gguf.ErrCorrupt, "largest possible"},
		{"negative offset", put64(offset, 1<<63), gguf.ErrCorrupt, "offset"},
		{"data cut short", func(b []byte) []byte { return b[:len(b)-1] }, gguf.ErrTruncated,
			fmt.Sprintf("ends after %d of %d bytes", len(goldenFile())-1, len(goldenFile()))},
		{"no data", func(b []byte) []byte { return b[:len(golden)] }, gguf.ErrTruncated, "ends after"},
	}
	for _, test := range tests {
		_, err := parse(test.change(goldenFile()))
		var fe *gguf.FormatError
		if !errors.As(err, &fe) || !errors.Is(err, test.kind) || !strings.Contains(fe.Detail, test.detail) ||
			hint.Of(err) == "" {
			t.Errorf("%s: got %v, want %v with %q", test.name, err, test.kind, test.detail)
		}
	}
	for cut := 5; cut < len(golden); cut++ {
		if _, err := parse(goldenFile()[:cut]); !errors.Is(err, gguf.ErrTruncated) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

func TestOverlapAndDuplicates(t *testing.T) {
	var out bytes.Buffer
	w, err := ggufwriter.New(&out, nil, []gguf.Tensor{{Name: "aa", Type: gguf.F32, Dims: []int64{16}},
		{Name: "bb", Type: gguf.F32, Dims: []int64{16}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 128)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	second := bytes.Index(b, []byte("bb"))
	offset := second + 2 + 4 + 8 + 4
	if got := binary.LittleEndian.Uint64(b[offset:]); got != 64 {
		t.Fatalf("offset %d", got)
	}
	binary.LittleEndian.PutUint64(b[offset:], 32)
	if _, err := parse(b); !errors.Is(err, gguf.ErrCorrupt) || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("overlap: %v", err)
	}
	binary.LittleEndian.PutUint64(b[offset:], 64)
	copy(b[second:], "aa")
	if _, err := parse(b); !errors.Is(err, gguf.ErrCorrupt) || !strings.Contains(err.Error(), "twice") {
		t.Errorf("duplicate: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := gguf.Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := gguf.Open(dir); !errors.Is(err, gguf.ErrNotGGUF) {
		t.Errorf("directory: %v", err)
	}
}

func TestWriterErrors(t *testing.T) {
	one := []gguf.Tensor{{Name: "a", Type: gguf.F32, Dims: []int64{2}}}
	for name, try := range map[string]func() error{
		"value type": func() error {
			_, err := ggufwriter.New(&bytes.Buffer{}, []ggufwriter.Pair{pair("k", 1)}, nil)
			return err
		},
		"same key": func() error {
			_, err := ggufwriter.New(&bytes.Buffer{}, []ggufwriter.Pair{pair("k", "a"), pair("k", "b")}, nil)
			return err
		},
		"alignment": func() error {
			_, err := ggufwriter.New(&bytes.Buffer{}, []ggufwriter.Pair{pair(gguf.AlignmentKey, uint32(3))}, nil)
			return err
		},
		"same tensor": func() error { _, err := ggufwriter.New(&bytes.Buffer{}, nil, append(one, one...)); return err },
		"shape": func() error {
			_, err := ggufwriter.New(&bytes.Buffer{}, nil, []gguf.Tensor{{Name: "a", Type: gguf.Q8_0, Dims: []int64{31}}})
			return err
		},
		"too much data": func() error {
			w, _ := ggufwriter.New(&bytes.Buffer{}, nil, one)
			_, err := w.Write(make([]byte, 9))
			return err
		},
		"too little data": func() error {
			w, _ := ggufwriter.New(&bytes.Buffer{}, nil, one)
			if _, err := w.Write(make([]byte, 7)); err != nil {
				t.Fatal(err)
			}
			return w.Close()
		},
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzRead checks that no input panics or allocates without bound, and that what is accepted keeps its promises.
func FuzzRead(f *testing.F) {
	f.Add(goldenFile())
	f.Add([]byte("GGUF\x02\x00\x00\x00"))
	var out bytes.Buffer
	w, _ := ggufwriter.New(&out, []ggufwriter.Pair{pair("a", []string{"x"}), pair("b", []float32{1}),
		pair("general.alignment", uint32(8))},
		[]gguf.Tensor{{Name: "t", Type: gguf.MXFP4, Dims: []int64{32, 2}}, {Name: "u", Type: gguf.F16, Dims: []int64{1}}})
	w.Write(make([]byte, 36))
	w.Close()
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := parse(b)
		if err != nil {
			var fe *gguf.FormatError
			if !errors.As(err, &fe) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, kv := range file.Metadata {
			plain(kv.Value)
		}
		for _, ti := range file.Tensors {
			if ti.Size <= 0 || ti.Offset < 0 || file.DataOffset+ti.Offset+ti.Size > file.Size || ti.Elements() <= 0 {
				t.Fatalf("tensor outside the file: %+v", ti)
			}
		}
	})
}

// BenchmarkRead reads the header of a file with as many tokens and merges as o200k.
func BenchmarkRead(b *testing.B) {
	tokens, merges := make([]string, 201088), make([]string, 199742)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("token%d", i)
	}
	for i := range merges {
		merges[i] = fmt.Sprintf("left%d right%d", i, i)
	}
	var out bytes.Buffer
	w, err := ggufwriter.New(&out, []ggufwriter.Pair{pair("tokenizer.ggml.tokens", tokens),
		pair("tokenizer.ggml.merges", merges),
		pair("tokenizer.ggml.token_type", make([]int32, len(tokens)))}, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(out.Len()))
	for b.Loop() {
		if _, err := parse(out.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
