package trace

import (
	"encoding/hex"
	"errors"

	"golang.org/x/crypto/curve25519"

	"runner/reasoning/internal/base64url"
)

const (
	keySize = 32
	// recipientPrefix begins the text of a recipient, so that it cannot be mistaken for a private key.
	recipientPrefix = "rtrace1-"
	recipientDomain = "runner/trace/v1 recipient"
)

var (
	errRecipient = errors.New("not a recipient's public key as runner trace keys export prints it")
	errIdentity  = errors.New("not a private key")
)

// Recipient is a public key that traces are sealed to. Recipients can be compared with ==. The zero Recipient is not
// valid.
type Recipient struct{ public [keySize]byte }

// newRecipient returns the recipient with an X25519 public key of 32 bytes. It refuses low-order keys, which give the
// same shared secret with every private key.
func newRecipient(public []byte) (Recipient, error) {
	if len(public) != keySize {
		return Recipient{}, errRecipient
	}
	var probe [keySize]byte
	probe[0] = 8
	if _, err := curve25519.X25519(probe[:], public); err != nil {
		return Recipient{}, errRecipient
	}
	return Recipient{[keySize]byte(public)}, nil
}

// ParseRecipient reads what String writes.
func ParseRecipient(s string) (Recipient, error) {
	public, ok := base64url.ParseKey(recipientPrefix, recipientDomain, s)
	if !ok {
		return Recipient{}, errRecipient
	}
	return newRecipient(public[:])
}

// String returns the public key as text: "rtrace1-" and base64url of the 32 bytes and the first 4 bytes of their
// checksum, which is SHA-256 of "runner/trace/v1 recipient", a zero byte and the key.
func (r Recipient) String() string {
	return base64url.KeyText(recipientPrefix, recipientDomain, r.public)
}

// ID returns a short name for lists: the first 16 hexadecimal digits of the checksum.
func (r Recipient) ID() string {
	sum := base64url.Checksum(recipientDomain, r.public)
	return hex.EncodeToString(sum[:8])
}

// Bytes returns the public key.
func (r Recipient) Bytes() []byte { return r.public[:] }
