package store

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/crypto/nacl/sign"

	"runner/reasoning/internal/base64url"
	"runner/reasoning/internal/private"
	"runner/reasoning/trace"
)

const (
	seedSize      = 32
	publicSize    = 32
	signatureSize = sign.Overhead
	headPrefix    = "rthead1-"
	headSize      = 8 + sha256.Size + publicSize + signatureSize
	publicPrefix  = "rtsign1-"
	publicDomain  = "runner/trace/v1 signer"

	// The files of a store.
	databaseName = "traces.db"
	signerName   = "sign.key"
	publicName   = "sign.pub"
	lockName     = "lock"
)

// public is the public key that belongs to a signing key.
type public [publicSize]byte

// signer is a signing key. It signs heads and pieces. It must not be printed.
type signer struct {
	public public
	secret *[64]byte
}

// signFile is the file of the signing key, as JSON.
type signFile struct {
	Version int `json:"version"`
	// Seed is the 32 bytes from which the key pair is derived, in base64url without padding.
	Seed string `json:"seed"`
}

func loadSigner(path string) (*signer, error) {
	data, err := private.Read(path, 4<<10)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	var file signFile
	seed := []byte(nil)
	if json.Unmarshal(data, &file) == nil && file.Version == format {
		seed, _ = base64url.Decode(file.Seed)
	}
	if len(seed) != seedSize {
		return nil, fmt.Errorf("sign.key is not a signing key of version %d", format)
	}
	key, secret, err := sign.GenerateKey(bytes.NewReader(seed))
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return &signer{*key, secret}, nil
}

// createSigner creates the signing key, unless another process has just done so, and loads it.
func createSigner(path string) (*signer, error) {
	var seed [seedSize]byte
	_, _ = rand.Read(seed[:]) // never fails, by its contract
	data, err := json.Marshal(signFile{Version: format, Seed: base64url.Encoding.EncodeToString(seed[:])})
	if err != nil {
		return nil, err
	}
	if err := private.Create(path, append(data, '\n')); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return loadSigner(path)
}

// String returns the public key as text, in the form that the package doc describes.
func (p public) String() string {
	return base64url.KeyText(publicPrefix, publicDomain, p)
}

// loadPublic reads the public key of a signing key.
func loadPublic(path string) (p public, err error) {
	f, err := os.Open(path)
	if err != nil {
		return p, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return p, err
	}
	key, ok := base64url.ParseKey(publicPrefix, publicDomain, strings.TrimSpace(string(data)))
	if !ok {
		return p, fmt.Errorf("%w: sign.pub is not a public key", ErrPublic)
	}
	return key, nil
}

// sign signs what signed or signedPiece returns.
func (s *signer) sign(message []byte) []byte {
	return sign.Sign(nil, message, s.secret)[:signatureSize]
}

// signed reports whether signature is this key's signature of message.
func (p *public) signed(message, signature []byte) bool {
	if len(signature) != signatureSize {
		return false
	}
	_, ok := sign.Open(nil, append(bytes.Clone(signature), message...), (*[publicSize]byte)(p))
	return ok
}

// signedPiece returns the bytes that the signature of a piece covers: its place, and the blob up to its end.
func signedPiece(id trace.ID, number int, size int64, sum [sha256.Size]byte) []byte {
	b := append([]byte("runner/trace/v2 piece\x00"), id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(number))
	b = binary.BigEndian.AppendUint64(b, uint64(size))
	return append(b, sum[:]...)
}

// signed returns the bytes that the signature of a head covers.
func signed(number uint64, hash [sha256.Size]byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte("runner/trace/v1 head\x00"), number)
	return append(b, hash[:]...)
}
