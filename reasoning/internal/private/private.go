// Package private reads and writes small key files that belong to the user and have mode 0600. Writes are atomic and
// durable.
//
// It does not know what the files mean. Its errors never quote them.
package private

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"runner/wholefile"
)

// ErrExposed means that other users can read a file, or that this cannot be ruled out.
var ErrExposed = errors.New("the file could be read by others; make it your own (chown) and private (chmod 600), " +
	"and replace its keys if anyone may have read it")

// ErrTooLarge means that a file is larger than the limit given to Read.
var ErrTooLarge = errors.New("the file is too large for a key file")

// Read reads a file of at most limit bytes. It returns ErrExposed if the file is not regular, belongs to another user,
// or gives any permission to group or others. A missing file is fs.ErrNotExist. Errors name the file.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of the open file, which cannot be exchanged
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ours(info) {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrExposed}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	return data, err
}

// Parse reads JSON into v and reports whether it could: one value, no unknown fields, nothing after it. It has no
// error, because those of package json quote the data.
func Parse(data []byte, v any) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v) == nil && errors.Is(dec.Decode(&struct{}{}), io.EOF)
}

// Replace writes a file and replaces what was there. After a crash the file holds either the old data or the new. The
// folder must exist.
func Replace(path string, data []byte) error { return wholefile.Replace(path, data, mode) }

// Create writes a new file. If the file exists it stays unchanged, and the error is fs.ErrExist.
func Create(path string, data []byte) error { return wholefile.Create(path, data, mode) }

// mode gives only the user permissions.
const mode = 0o600
