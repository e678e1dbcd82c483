package cache

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"regexp"
)

// Hash computes the name of a blob from its bytes: the SHA-256 of a large file, or what git calls a blob, which is
// the SHA-1 of a line with the size and of the bytes.
type Hash struct {
	hash.Hash
	want string
}

var (
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
	gitForm    = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// NewHash returns the hash for a blob of size bytes that is called etag. The only error is [ErrName].
func NewHash(etag string, size int64) (*Hash, error) {
	switch {
	case sha256Form.MatchString(etag):
		return &Hash{sha256.New(), etag}, nil
	case gitForm.MatchString(etag):
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return &Hash{h, etag}, nil
	}
	return nil, fmt.Errorf("hash %q: %w", etag, ErrName)
}

// Name returns what a blob with the bytes written so far is called.
func (h *Hash) Name() string { return hex.EncodeToString(h.Sum(nil)) }

// Matches reports whether the bytes written so far are those of the blob.
func (h *Hash) Matches() bool { return h.Name() == h.want }
