package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"runner/reasoning/trace"
	"runner/wholefile"
)

// Kept is a conversation that is kept on disk, sealed.
type Kept struct {
	Conversation

	// Model is the model that the conversation was had with, and Saved the time of its last change.
	Model string
	Saved time.Time
}

// errExposed means that others may have read or changed a file.
var errExposed = errors.New("others can read or change it; make it private (chmod 600) if you trust it")

// The first record of a sealed conversation. The second one is its JSON.
type sealedHeader struct {
	Kind    string    `json:"kind"`
	Version int       `json:"version"`
	Saved   time.Time `json:"saved"`
}

const (
	sealedKind    = "conversation"
	sealedVersion = 1
	// sealedLimit is more than the size of any sealed conversation, in bytes.
	sealedLimit = 2 * MaxBytes
)

// Keep seals a conversation to some keys and replaces a file with it. Nothing of it is written in the clear. After a
// crash the file holds either what it held before or this. Only the user can read the file. Its folder is made if it
// is missing.
func (k *Kept) Keep(path string, to []trace.Recipient) error {
	blob, err := k.seal(to)
	if err != nil {
		return err
	}
	return wholefile.Write(path, blob, 0o600)
}

func (k *Kept) seal(to []trace.Recipient) ([]byte, error) {
	head, err := json.Marshal(sealedHeader{sealedKind, sealedVersion, k.Saved.UTC()})
	if err != nil {
		return nil, err
	}
	text, err := k.JSON(k.Model)
	if err != nil {
		return nil, err
	}
	if _, _, err := Parse(text); err != nil {
		return nil, err // nobody could open it again
	}
	var line, blob bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return nil, err
	}
	w, err := trace.NewWriter(&blob, trace.NewID(), to)
	if err != nil {
		return nil, err
	}
	err = errors.Join(w.Append(head), w.Append(line.Bytes()), w.Close())
	return blob.Bytes(), err
}

// Open reads a file that Keep wrote. A missing file is fs.ErrNotExist. The other errors are those of package trace, of
// the file's mode and of Parse.
//
// Anyone who can write the file can seal another conversation to the same keys. So a file that others can write is
// refused.
func Open(path string, with ...*trace.Identity) (*Kept, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of the open file, which cannot be exchanged
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a file")}
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, &fs.PathError{Op: "open", Path: path, Err: errExposed}
	}
	r, err := trace.NewReader(io.LimitReader(f, sealedLimit), with...)
	if err != nil {
		return nil, err
	}
	return read(r)
}

func read(r *trace.Reader) (*Kept, error) {
	foreign := errors.New("it is not a conversation of a version that is known")
	var records [][]byte
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if records = append(records, bytes.Clone(record)); len(records) > 2 {
			return nil, foreign
		}
	}
	var head sealedHeader
	if len(records) != 2 || json.Unmarshal(records[0], &head) != nil || head.Kind != sealedKind ||
		head.Version != sealedVersion {
		return nil, foreign
	}
	k := &Kept{Saved: head.Saved}
	var err error
	k.Conversation, k.Model, err = Parse(records[1])
	return k, err
}
