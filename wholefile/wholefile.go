// Package wholefile replaces files. Who reads such a file at the same time, or after a crash, finds what it held before
// or what it holds now, and never a part.
package wholefile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write is [Replace] that makes the folders that are missing. Who may read the file may search them.
func Write(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), mode|mode&0o444>>2); err != nil {
		return err
	}
	return Replace(path, data, mode)
}

// Replace replaces a file. mode is for a new one, before the umask.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, os.Rename)
}

// Create writes a new file. If there is one it stays unchanged, and the error is fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, os.Link) // a link, unlike a rename, never replaces a file
}

func write(path string, data []byte, mode fs.FileMode, put func(from, to string) error) error {
	temporary := path + "." + rand.Text() + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer os.Remove(temporary) // it is gone after the rename
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := put(temporary, path); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Sync writes what is known of a folder's entries to disk.
func Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	// Some systems and file systems cannot sync folders. They keep entries in their own way.
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) &&
		!errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
