// Package base64url is the text form of keys and sealed values: base64url (RFC 4648, section 5) without padding.
//
// Each value has one accepted text. Padding, line breaks and unused bits that are not zero are refused. The package
// encrypts nothing and knows no format.
package base64url

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
)

// Encoding encodes. [Decode] decodes: the decoder of Encoding itself skips line breaks.
var Encoding = base64.RawURLEncoding.Strict()

var errSpelling = errors.New("not base64url without padding")

// Decode returns the bytes of a text. The error does not quote the text.
func Decode(text string) ([]byte, error) {
	raw, err := Encoding.DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, errSpelling
	}
	return raw, nil
}

const (
	keySize      = 32
	checksumSize = 4
)

// Checksum is the SHA-256 of domain, a zero byte and a public key. Each kind of key has its own domain.
func Checksum(domain string, key [keySize]byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(domain+"\x00"), key[:]...))
}

// KeyText returns a public key as text: prefix, then the key and the first 4 bytes of its checksum.
func KeyText(prefix, domain string, key [keySize]byte) string {
	sum := Checksum(domain, key)
	return prefix + Encoding.EncodeToString(append(key[:], sum[:checksumSize]...))
}

// ParseKey reads what KeyText writes, and nothing else.
func ParseKey(prefix, domain, text string) (key [keySize]byte, ok bool) {
	encoded, _ := strings.CutPrefix(text, prefix)
	raw, err := Decode(encoded)
	if err != nil || len(raw) != keySize+checksumSize {
		return key, false
	}
	key = [keySize]byte(raw)
	return key, KeyText(prefix, domain, key) == text
}
