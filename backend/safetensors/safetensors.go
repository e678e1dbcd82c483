// Package safetensors reads the headers of files of safetensors, and no weights.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"runner/hint"
)

// maxHeader is the limit of a header in the format, in bytes.
const maxHeader = 100_000_000

// Header is the header of a file.
type Header struct {
	// Text is its JSON as the file has it.
	Text []byte
	// Size is the size of the whole file, and Tensors has that of each tensor, in bytes.
	Size    int64
	Tensors map[string]int64
}

// Read reads the header of a file, and checks that all tensors are in the file. Its errors go on from the name of the
// file, but for those of the system. They wrap io.ErrUnexpectedEOF if the file has no end.
func Read(path string) (h Header, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return h, err
	}
	h.Size = info.Size()
	var n uint64
	if err := binary.Read(f, binary.LittleEndian, &n); err != nil {
		return h, truncated("ends in its first bytes")
	}
	if n > maxHeader {
		return h, errors.New("is not a safetensors file")
	}
	if h.Text, err = io.ReadAll(io.LimitReader(f, int64(n))); err != nil || uint64(len(h.Text)) < n {
		return h, truncated("ends in its header")
	}
	var tensors map[string]struct {
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(bytes.TrimRight(h.Text, " "), &tensors); err != nil {
		return h, fmt.Errorf("has a damaged header: %w", err)
	}
	h.Tensors = map[string]int64{}
	end := int64(0)
	for name, t := range tensors {
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] {
			return h, fmt.Errorf("has no possible place for %.80q", name)
		}
		h.Tensors[name], end = t.Offsets[1]-t.Offsets[0], max(end, t.Offsets[1])
	}
	if whole := 8 + n + uint64(end); uint64(h.Size) < whole { // as int64 it might be too large
		return h, truncated(fmt.Sprintf("ends after %d of %d bytes", h.Size, whole))
	}
	return h, nil
}

func truncated(text string) error { return &hint.Error{Text: text, Err: io.ErrUnexpectedEOF} }
