package trace

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
)

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
