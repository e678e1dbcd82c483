package safetensors

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file returns the bytes of a file with a header and so many bytes of weights.
func file(header string, weights int) []byte {
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(data, header...), make([]byte, weights)...)
}

func write(t testing.TB, data []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	const one = `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"data_offsets":[8,10]}}`
	for name, c := range map[string]struct {
		data []byte
		want string // part of the error; empty for none
		cut  bool
	}{
		"whole":           {file(one+"  ", 10), "", false},
		"no weights":      {file(one, 9), "ends after ", true},
		"huge offset":     {file(`{"a":{"data_offsets":[0,9223372036854775807]}}`, 8), "ends after ", true},
		"offsets crossed": {file(`{"a":{"data_offsets":[8,0]}}`, 8), "no possible place", false},
		"negative offset": {file(`{"a":{"data_offsets":[-8,0]}}`, 8), "no possible place", false},
		"no JSON":         {file("{", 8), "damaged header", false},
		"empty":           {nil, "first bytes", true},
		"cut header":      {file(one, 0)[:20], "ends in its header", true},
		"huge header":     {binary.LittleEndian.AppendUint64(nil, 1<<40), "is not a safetensors file", false},
	} {
		h, err := Read(write(t, c.data))
		switch {
		case c.want == "":
			if err != nil || len(h.Tensors) != 2 || h.Tensors["a"] != 8 || h.Tensors["b"] != 2 {
				t.Errorf("%s: %v, %v", name, h.Tensors, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, io.ErrUnexpectedEOF) != c.cut:
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRead checks that every tensor of a header that is taken is within the file.
func FuzzRead(f *testing.F) {
	f.Add(file(`{"a":{"data_offsets":[0,8]}}`, 8))
	f.Add(file(`{"a":{"data_offsets":[0,9223372036854775807]}}`, 8))
	f.Add(file(`{"__metadata__":{"format":"pt"}}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Read(write(t, data))
		if err != nil {
			return
		}
		for name, size := range h.Tensors {
			if size < 0 || size > h.Size {
				t.Errorf("tensor %q of %d bytes in a file of %d", name, size, h.Size)
			}
		}
	})
}
