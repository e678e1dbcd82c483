package store

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/crypto/nacl/sign"

	"runner/reasoning/internal/private"
)

const (
	seedSize      = 32
	publicSize    = 32
	signatureSize = sign.Overhead
	headPrefix    = "rthead1-"
	headSize      = 8 + sha256.Size + publicSize + signatureSize
)

var encoding = base64.RawURLEncoding.Strict()

// signer signs heads. It must not be printed.
type signer struct {
	public [publicSize]byte
	secret *[64]byte
}

// signFile is the file of the signing key, as JSON.
type signFile struct {
	Version int `json:"version"`
	// Seed is the 32 bytes that the key pair follows from, in base64url without padding.
	Seed string `json:"seed"`
}

func loadSigner(path string) (*signer, error) {
	data, err := private.Read(path, 4<<10)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	var file signFile
	seed := []byte(nil)
	if json.Unmarshal(data, &file) == nil && file.Version == 1 {
		seed, _ = encoding.DecodeString(file.Seed)
	}
	if len(seed) != seedSize {
		return nil, errors.New("signing key: it is not a signing key")
	}
	public, secret, err := sign.GenerateKey(bytes.NewReader(seed))
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return &signer{*public, secret}, nil
}

// createSigner makes a signing key, unless another process has just done so.
func createSigner(path string) (*signer, error) {
	var seed [seedSize]byte
	_, _ = rand.Read(seed[:]) // never fails, by its contract
	data, err := json.Marshal(signFile{Version: 1, Seed: encoding.EncodeToString(seed[:])})
	if err != nil {
		return nil, err
	}
	if err := private.Create(path, append(data, '\n')); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return loadSigner(path)
}

func (s *signer) sign(number uint64, hash [sha256.Size]byte) []byte {
	return sign.Sign(nil, signed(number, hash), s.secret)[:signatureSize]
}

func signed(number uint64, hash [sha256.Size]byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte("runner/trace/v1 head\x00"), number)
	return append(b, hash[:]...)
}

// Head is the signed hash of an entry, and so of the chain up to it. Kept elsewhere, it shows when the chain was cut or made anew.
type Head struct {
	// Number is the entry's; 0 is the head of an empty chain, which proves nothing.
	Number    uint64
	Hash      [sha256.Size]byte
	Public    [publicSize]byte
	signature [signatureSize]byte
}

func (h *Head) genuine() bool {
	_, ok := sign.Open(nil, append(bytes.Clone(h.signature[:]), signed(h.Number, h.Hash)...), &h.Public)
	return ok
}

// String is the head as text.
func (h Head) String() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, headSize), h.Number)
	b = append(append(append(b, h.Hash[:]...), h.Public[:]...), h.signature[:]...)
	return headPrefix + encoding.EncodeToString(b)
}

// ParseHead reads what String writes, of a head that was signed; else it is ErrNotHead.
func ParseHead(s string) (h Head, err error) {
	text, ok := strings.CutPrefix(s, headPrefix)
	b, err := encoding.DecodeString(text)
	if !ok || err != nil || len(b) != headSize || strings.ContainsAny(text, "\r\n") {
		return Head{}, ErrNotHead
	}
	h.Number = binary.BigEndian.Uint64(b)
	copy(h.Hash[:], b[8:])
	copy(h.Public[:], b[40:])
	copy(h.signature[:], b[72:])
	if h.Number == 0 || !h.genuine() {
		return Head{}, ErrNotHead
	}
	return h, nil
}
