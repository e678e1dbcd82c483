package store

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"runner/reasoning/internal/base64url"
)

// Head is the signed hash of an entry, and so of the chain up to it. A head that is kept elsewhere shows if the chain
// was cut or replaced.
type Head struct {
	// Number is the number of the entry. 0 is the head of an empty chain, which proves nothing.
	Number    uint64
	Hash      [sha256.Size]byte
	Public    public
	signature [signatureSize]byte
}

func (h *Head) genuine() bool { return h.Public.signed(signed(h.Number, h.Hash), h.signature[:]) }

// String returns the head as text.
func (h Head) String() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, headSize), h.Number)
	b = append(append(append(b, h.Hash[:]...), h.Public[:]...), h.signature[:]...)
	return headPrefix + base64url.Encoding.EncodeToString(b)
}

// ParseHead reads what String writes. It returns ErrNotHead for anything else and for a wrong signature.
func ParseHead(s string) (h Head, err error) {
	text, ok := strings.CutPrefix(s, headPrefix)
	b, err := base64url.Decode(text)
	if !ok || err != nil || len(b) != headSize {
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
