package trace

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/crypto/nacl/box"
	"golang.org/x/crypto/nacl/secretbox"
)

// The limits.
const (
	// MaxRecipients is the most recipients of a trace.
	MaxRecipients = 32
	// MaxRecord is the length of the longest record in bytes.
	MaxRecord = 16 << 20
	// maxChunk is the most payload of a chunk in bytes, and so the most that a crash loses.
	maxChunk = maxClass - lengthSize
)

const (
	magic         = "rtrace\r\n"
	version       = 1
	idOffset      = len(magic) + 2
	fixedHeader   = idOffset + len(ID{})
	sealedKeySize = keySize + box.AnonymousOverhead
	recipientSize = keySize + sealedKeySize

	chunkHeader = 5
	lengthSize  = 4
	minClass    = 1 << 10
	maxClass    = 16 << 10
	nonceSize   = 24
)

// classOf returns the smallest size class that holds n bytes, which are at most maxClass.
func classOf(n int) int {
	class := minClass
	for class < n {
		class *= 2
	}
	return class
}

// chunkKey is the key of the chunks after a header.
func chunkKey(key *[keySize]byte, header []byte) *[keySize]byte {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte("runner/trace/v1 chunks\x00"))
	mac.Write(header)
	return (*[keySize]byte)(mac.Sum(nil))
}

// nonceOf is the nonce of a chunk.
func nonceOf(number uint64, last byte) *[nonceSize]byte {
	var n [nonceSize]byte
	binary.BigEndian.PutUint64(n[15:], number)
	n[23] = last
	return &n
}

// appendChunk appends a sealed chunk to dst. plain holds the payload's length and the payload, and room for the
// zeros, which it gets.
func appendChunk(dst, plain []byte, number uint64, last byte, key *[keySize]byte) []byte {
	binary.BigEndian.PutUint32(plain, uint32(len(plain)-lengthSize))
	used := len(plain)
	plain = plain[:classOf(used)]
	clear(plain[used:])
	dst = binary.BigEndian.AppendUint32(dst, uint32(secretbox.Overhead+len(plain)))
	dst = append(dst, last)
	return secretbox.Seal(dst, plain, nonceOf(number, last), key)
}
