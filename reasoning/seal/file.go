package seal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"runner/reasoning/internal/base64url"
	"runner/reasoning/internal/private"
)

// ErrExposed says that a file of keys can be read by others, or that this cannot be ruled out.
var ErrExposed = private.ErrExposed

const (
	// maxFile is more than a file of MaxKeys keys takes.
	maxFile = 64 << 10
	// fileVersion is that of the file, not of the values.
	fileVersion = 1
)

// keyFile is the file of a keyring, as JSON. Ids are not in it; they follow from the keys.
type keyFile struct {
	Version int `json:"version"`
	// Keys are 32 bytes each in base64url without padding, the current one first.
	Keys []string `json:"keys"`
}

// Load reads a file that Save wrote. It refuses files that are not regular, belong to another user or give any
// permission to group or others, with ErrExposed; a missing file is fs.ErrNotExist. No error quotes the file.
func Load(path string) (*Keyring, error) {
	data, err := private.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("sealing keys: %w", err)
	}
	keys, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("sealing keys: %s: %w", path, err)
	}
	r := &Keyring{}
	r.keys.Store(&keys)
	return r, nil
}

// parse reads a file's keys. Its errors hold nothing of the data, unlike those of package json.
func parse(data []byte) ([]key, error) {
	var file keyFile
	if !private.Parse(data, &file) {
		return nil, errors.New("it is not a file of keys")
	}
	if file.Version != fileVersion {
		return nil, fmt.Errorf("its version is %d, and %d is known", file.Version, fileVersion)
	}
	if len(file.Keys) == 0 || len(file.Keys) > MaxKeys {
		return nil, fmt.Errorf("it holds %d keys, and 1 to %d are possible", len(file.Keys), MaxKeys)
	}
	keys := make([]key, 0, len(file.Keys))
	for i, s := range file.Keys {
		secret, err := base64url.Decode(s)
		if err != nil || len(secret) != keySize {
			return nil, fmt.Errorf("key %d is not %d bytes of base64url", i+1, keySize)
		}
		k := newKey([keySize]byte(secret))
		if k.secret == [keySize]byte{} {
			return nil, fmt.Errorf("key %d is all zeros", i+1)
		}
		if slices.Contains(keys, k) {
			return nil, fmt.Errorf("key %d is there twice", i+1)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// Save writes the keys to a file with mode 0600, in place of what was there, at once and durably: whatever happens,
// the file holds either the old keys or these. The folder must exist. Programs that rotate one file must not do so
// at the same time.
func (r *Keyring) Save(path string) error { return r.write(path, private.Replace) }

// LoadOrCreate is Load, after making the file with one new key if there is none. Of programs that do so at the same
// time one makes the file and all get its key.
func LoadOrCreate(path string) (*Keyring, error) {
	r, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if err := NewKeyring().write(path, private.Create); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Load(path)
}

// write hands the file of the keys to put, which brings it to path.
func (r *Keyring) write(path string, put func(path string, data []byte) error) error {
	keys := r.held()
	if len(keys) == 0 {
		return fmt.Errorf("sealing keys: %w", ErrNoKey)
	}
	file := keyFile{Version: fileVersion}
	for i := range keys {
		file.Keys = append(file.Keys, base64url.Encoding.EncodeToString(keys[i].secret[:]))
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = put(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("sealing keys: %w", err)
	}
	return nil
}
