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

const (
	// maxFile is larger than a file with MaxKeys keys.
	maxFile = 64 << 10
	// fileVersion is the version of the file, not of the values.
	fileVersion = 1
)

// keyFile is the JSON of a keyring's file. It holds no ids, because they are computed from the keys.
type keyFile struct {
	Version int `json:"version"`
	// Keys are 32 bytes each in base64url without padding, the current one first.
	Keys []string `json:"keys"`
}

// Load reads a file that Save wrote. It refuses a file that is not regular, belongs to another user, or gives any
// permission to group or others. A missing file is fs.ErrNotExist. No error quotes the file.
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

// parse reads the keys of a file. Its errors do not quote the data.
func parse(data []byte) ([]key, error) {
	var file keyFile
	if !private.Parse(data, &file) {
		return nil, errors.New("it is not a file of keys")
	}
	if file.Version != fileVersion {
		return nil, fmt.Errorf("its version is %d; only %d is known", file.Version, fileVersion)
	}
	if len(file.Keys) == 0 || len(file.Keys) > MaxKeys {
		return nil, fmt.Errorf("it holds %d keys; 1 to %d are allowed", len(file.Keys), MaxKeys)
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

// Save writes the keys to a file with mode 0600 and replaces what was there, atomically and durably: after a crash the
// file holds either the old keys or these. The folder must exist. Only one program may rotate a file at a time.
func (r *Keyring) Save(path string) error { return r.write(path, private.Replace) }

// LoadOrCreate loads a file, and creates it with one new key if it is missing. If several programs do so at the same
// time, one creates the file and all of them get its key.
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

// write encodes the keys and calls put to write the file.
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
