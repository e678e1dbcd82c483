package trace

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

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
	errRecipient = errors.New("not a recipient's public key as runner keys export prints it")
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

// Identity is a recipient's private key. It is never printed.
type Identity struct {
	recipient Recipient
	secret    [keySize]byte
}

// NewIdentity returns a new random identity.
func NewIdentity() *Identity {
	var secret [keySize]byte
	_, _ = rand.Read(secret[:]) // never fails, by its contract
	i, err := IdentityOf(secret[:])
	if err != nil {
		panic("unreachable: 32 bytes are a private key")
	}
	return i
}

// IdentityOf returns the identity with an X25519 private key of 32 bytes.
func IdentityOf(secret []byte) (*Identity, error) {
	if len(secret) != keySize {
		return nil, errIdentity
	}
	public, err := curve25519.X25519(secret, curve25519.Basepoint)
	if err != nil {
		return nil, errIdentity
	}
	return &Identity{Recipient{[keySize]byte(public)}, [keySize]byte(secret)}, nil
}

// Recipient returns the public key.
func (i *Identity) Recipient() Recipient { return i.recipient }

// Secret returns a copy of the private key, for keyrings.
func (i *Identity) Secret() []byte { return bytes.Clone(i.secret[:]) }

// Format writes the recipient's id for every verb.
func (i *Identity) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "private key of "+i.recipient.ID())
}

// MarshalText hides the private key from encoders and logs.
func (i *Identity) MarshalText() ([]byte, error) { return fmt.Append(nil, i), nil }

// ID names a trace. It is public.
type ID [16]byte

// NewID returns a random id.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails, by its contract
	return id
}

// ParseID reads what String writes.
func ParseID(s string) (id ID, err error) {
	if raw, err := hex.DecodeString(s); err == nil && len(raw) == len(id) && strings.ToLower(s) == s {
		return ID(raw), nil
	}
	return ID{}, errors.New("a trace's id is 32 hexadecimal digits")
}

// String returns the id as 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText returns String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the id as ParseID does.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}
