// Package demo is the bundled model: a small gpt-oss-shaped model that calculates with small whole numbers, solves
// short word problems, calls tools, and shows how it comes to its answers. README.md beside this file is its model
// card; scripts/demo_model trains it.
//
// The model is embedded in the program and unpacked to the user's cache on first use, because the engine maps files.
// Its file's name carries the digest of its contents, so that programs with different models do not overwrite each
// other's. A file that is there but was changed is written again. Nothing else on the disk is touched.
package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"runner/models"
)

// Name is what the bundled model is called on the command line.
const Name = "demo"

//go:embed demo.gguf
var file []byte

var digest = sync.OnceValue(func() string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
})

// Digest is the hexadecimal SHA-256 of the model's file.
func Digest() string { return digest() }

// Size is the length of the model's file in bytes.
func Size() int { return len(file) }

// Path returns where the bundled model is on the disk, unpacking it where that is needed: in runner/models under the
// user's cache directory (os.UserCacheDir, so XDG_CACHE_HOME where that is set). The file's contents are checked
// against the digest on every call. Several processes and goroutines may call it at the same time. Errors are a
// [*models.Error].
func Path(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", unusable("the user's cache directory is unknown", err)
	}
	return unpack(ctx, filepath.Join(cache, "runner", "models"))
}

func unpack(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "demo-"+Digest()[:16]+".gguf")
	same, err := intact(path)
	if err != nil {
		return "", unusable("its unpacked copy cannot be read", err)
	}
	if same {
		return path, nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := replace(dir, path); err != nil {
		return "", unusable("it cannot be unpacked to the cache", err)
	}
	return path, nil
}

// intact reports whether the file at path is there with the right contents.
func intact(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(file)) {
		return false, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false, err
	}
	return hex.EncodeToString(h.Sum(nil)) == Digest(), nil
}

// replace puts the model at path in one rename, so that nobody ever sees a part of it.
func replace(dir, path string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".demo-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err := io.Copy(f, bytes.NewReader(file)); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func unusable(detail string, err error) error {
	reason := err
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		reason = fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return &models.Error{
		Name: Name, Detail: fmt.Sprintf("%s: %v", detail, reason), Err: err,
		Advice: "set XDG_CACHE_HOME to a directory that can be written to, with a few megabytes free",
	}
}
