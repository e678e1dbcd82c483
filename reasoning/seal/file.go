package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrExposed says that a file of keys can be read by others, or that this cannot be ruled out.
var ErrExposed = errors.New("the file could be read by others; make it your own (chown) and private (chmod 600), and rotate its keys if anyone may have read it")

// maxFile is more than a file of MaxKeys keys takes.
const maxFile = 64 << 10

// keyFile is the file of a keyring, as JSON. Ids are not in it; they follow from the keys.
type keyFile struct {
	Version int `json:"version"`
	// Keys are 32 bytes each in base64url without padding, the current one first.
	Keys []string `json:"keys"`
}

// Load reads a file that Save wrote. It refuses files that are not regular, belong to another user or give any permission to group or
// others, with ErrExposed; a missing file is fs.ErrNotExist. No error quotes the file.
func Load(path string) (*Keyring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("sealing keys: %w", err)
	}
	defer f.Close()
	info, err := f.Stat() // of the open file, which no one can exchange any more
	if err != nil {
		return nil, fmt.Errorf("sealing keys: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ours(info) {
		return nil, fmt.Errorf("sealing keys: %s: %w", path, ErrExposed)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
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
	if len(data) > maxFile {
		return nil, errors.New("it is too large for a file of keys")
	}
	var file keyFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if dec.Decode(&file) != nil || !errors.Is(dec.Decode(&struct{}{}), io.EOF) {
		return nil, errors.New("it is not a file of keys")
	}
	if file.Version != version {
		return nil, fmt.Errorf("its version is %d, and %d is known", file.Version, version)
	}
	if len(file.Keys) == 0 || len(file.Keys) > MaxKeys {
		return nil, fmt.Errorf("it holds %d keys, and 1 to %d are possible", len(file.Keys), MaxKeys)
	}
	keys := make([]key, 0, len(file.Keys))
	for i, s := range file.Keys {
		secret, err := encoding.DecodeString(s)
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

// Save writes the keys to a file with mode 0600, in place of what was there, at once and durably: whatever happens, the file holds
// either the old keys or these. The folder must exist. Programs that rotate one file must not do so at the same time.
func (r *Keyring) Save(path string) error {
	return r.write(path, os.Rename)
}

// LoadOrCreate is Load, after making the file with one new key if there is none. Of programs that do so at the same time
// one makes the file and all get its key.
func LoadOrCreate(path string) (*Keyring, error) {
	r, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	// Unlike renaming, linking does not replace.
	if err := NewKeyring().write(path, os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Load(path)
}

// write writes the keys to a new file and has put bring it to its path.
func (r *Keyring) write(path string, put func(from, to string) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sealing keys: %w", err)
		}
	}()
	keys := r.held()
	if len(keys) == 0 {
		return ErrNoKey
	}
	file := keyFile{Version: version}
	for i := range keys {
		file.Keys = append(file.Keys, encoding.EncodeToString(keys[i].secret[:]))
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after a rename, as it should
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := put(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(folder)
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
