package random

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"runner/backend/gguf"
)

// checked is how many bytes after the header Check compares.
const checked = 1 << 20

var (
	errOther  = errors.New("it has other content")
	errEnough = errors.New("enough was compared")
)

// Check says why the file at path is not the one that Write makes of a Config. It compares the header, the first
// weights and the size. Reading gigabytes of other random weights would take too long.
func Check(path string, c Config) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := gguf.Read(f, info.Size())
	if err != nil {
		return err
	}
	same := &comparison{file: f, left: found.DataOffset + checked}
	if err := Write(same, c); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	want := found.DataOffset // it has the tensors of this Config
	for _, t := range found.Tensors {
		want = found.DataOffset + t.Offset + t.Size + gguf.Padding(t.Size, found.Alignment)
	}
	if info.Size() != want {
		return fmt.Errorf("it has %d bytes and not %d", info.Size(), want)
	}
	return nil
}

// comparison compares what is written to it with the beginning of a file.
type comparison struct {
	file io.Reader
	left int64
}

// Write implements io.Writer. It fails at the first difference, and after enough bytes.
func (c *comparison) Write(b []byte) (int, error) {
	n := min(int64(len(b)), c.left)
	have, err := io.ReadAll(io.LimitReader(c.file, n))
	switch {
	case err != nil:
		return 0, err
	case !bytes.Equal(have, b[:n]):
		return 0, errOther
	}
	if c.left -= n; c.left == 0 {
		return int(n), errEnough
	}
	return int(n), nil
}
