// Package demo holds the bundled model: a small model in the shape of gpt-oss that calculates with small whole numbers,
// solves short word problems, calls tools and shows its reasoning. README.md in this folder is its model card.
// scripts/demo_model trains it.
//
// The model is embedded in the program. It is unpacked to the user's cache on first use, because the engine maps files.
// The name of the file has the digest of its contents, so programs with different models do not overwrite each other's.
// A file with changed contents is written again. Nothing else on the disk is touched.
package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"runner/models"
	"runner/wholefile"
)

// Name is the name of the bundled model on the command line.
const Name = models.DemoName

//go:embed demo.gguf
var file []byte

var digest = sync.OnceValue(func() string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
})

// Digest is the hexadecimal SHA-256 of the model's file.
func Digest() string { return digest() }

// Path returns the path of the bundled model on the disk. It unpacks the model if needed, to runner/models in the
// user's cache directory (os.UserCacheDir, which is XDG_CACHE_HOME if that is set). Each call checks the contents of
// the file against the digest. Several processes and goroutines may call it at the same time. Errors are a
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
	if err := wholefile.Write(path, file, 0o644); err != nil {
		return "", unusable("it cannot be unpacked to the cache", err)
	}
	return path, nil
}

// intact reports whether the file at path exists and has the right contents.
func intact(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(file)) {
		return false, err
	}
	text, err := os.ReadFile(path)
	return bytes.Equal(text, file), err
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
