package trace

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"

	"golang.org/x/crypto/curve25519"
)

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
