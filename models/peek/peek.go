// Package peek says what a file that should be a model is instead, by its first bytes: an empty file, a page of a web
// site, a pointer of Git LFS and the like. These are what failed downloads leave behind.
package peek

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"runner/hint"
)

// Error says why a file is not a model.
type Error struct {
	Path string
	// Detail is one line without the path.
	Detail string
	hint.Advice
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Detail) }

// Check returns an error if a file that should be GGUF is something that is taken for it by mistake. It returns nil
// for a GGUF file, for content that it does not know, and for a file that cannot be read, which others report. It reads
// one kilobyte.
func Check(path string) *Error { return check(path, func([]byte, int64) bool { return false }) }

// CheckSafetensors is [Check] for a file that should be of safetensors.
func CheckSafetensors(path string) *Error { return check(path, isSafetensors) }

func check(path string, good func(start []byte, size int64) bool) *Error {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	start := make([]byte, 1024)
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	if good(start[:n], info.Size()) {
		return nil
	}
	if detail, advice := Kind(start[:n], info.Size()); detail != "" {
		return &Error{path, detail, advice}
	}
	return nil
}

// Kind says what a file of size bytes is that begins with start, and what to do. Both are empty for a GGUF file and
// for content that is not known.
func Kind(start []byte, size int64) (detail string, advice hint.Advice) {
	text := strings.ToLower(string(bytes.TrimLeft(bytes.TrimPrefix(start, []byte("\xef\xbb\xbf")), " \t\r\n")))
	switch {
	case size == 0:
		return "is empty", "download the file again; nothing of it was saved"
	case bytes.HasPrefix(start, []byte("GGUF")):
		return "", ""
	case len(bytes.Trim(start, "\x00")) == 0:
		return "begins with zeros, so the download did not finish", "download the file again"
	case strings.HasPrefix(text, "version https://git-lfs.github.com/spec/"):
		return "is a pointer of Git LFS, not the model itself",
			"run git lfs pull in the repository, or download the file from the hub"
	case strings.HasPrefix(text, "<!doctype html") || strings.HasPrefix(text, "<html") ||
		strings.HasPrefix(text, "<head"):
		return "is a page of a web site, not a model",
			"download the file itself: its address has /resolve/, not /blob/, and a gated model needs a token"
	case strings.HasPrefix(text, "<?xml"):
		return "is an error message of a server, not a model", "download the file again"
	case strings.HasPrefix(text, `{"error"`) || utf8.Valid(start) && size < 512 && isMessage(text):
		return "is an error message of a server, not a model",
			"check the name of the repository and whether it needs a token, then download the file again"
	case isSafetensors(start, size):
		return "is a file of safetensors, not GGUF", "name its folder, which must have config.json as well"
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return "is weights for PyTorch or a zip archive, not GGUF", "look for a repository whose name ends in -GGUF"
	case bytes.HasPrefix(start, []byte("ggml")) || bytes.HasPrefix(start, []byte("lmgg")) ||
		bytes.HasPrefix(start, []byte("tjgg")) || bytes.HasPrefix(start, []byte("fmgg")):
		return "is in the format before GGUF, which nothing reads any more", "download the model as GGUF"
	}
	return "", ""
}

// isMessage reports whether a short text is what the hub sends instead of a file.
func isMessage(text string) bool {
	for _, start := range []string{"entry not found", "repository not found", "invalid username or password",
		"access to model", "unauthorized", "not found", "forbidden", "invalid credentials"} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}

// isSafetensors reports whether the file begins as safetensors do: with the length of a JSON object and that object.
func isSafetensors(start []byte, size int64) bool {
	if len(start) < 10 {
		return false
	}
	n := binary.LittleEndian.Uint64(start)
	return n >= 2 && n < 1<<30 && int64(n) <= size-8 && start[8] == '{' && (start[9] == '"' || start[9] == '}')
}
