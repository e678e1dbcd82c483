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
	// MaxRecipients is the maximum number of recipients of a trace.
	MaxRecipients = 32
	// MaxRecord is the maximum length of a record in bytes.
	MaxRecord = 16 << 20
	// maxChunk is the maximum payload of a chunk in bytes, and so the most that a crash can lose.
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

// classOf returns the smallest size class that holds n bytes. n is at most maxClass.
func classOf(n int) int {
	class := minClass
	for class < n {
		class *= 2
	}
	return class
}

// chunkKey returns the key of the chunks that follow a header.
func chunkKey(key *[keySize]byte, header []byte) *[keySize]byte {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte("runner/trace/v1 chunks\x00"))
	mac.Write(header)
	return (*[keySize]byte)(mac.Sum(nil))
}

// nonceOf returns the nonce of a chunk.
func nonceOf(number uint64, last byte) *[nonceSize]byte {
	var n [nonceSize]byte
	binary.BigEndian.PutUint64(n[15:], number)
	n[23] = last
	return &n
}

// appendChunk appends a sealed chunk to dst. plain holds four bytes for the payload's length, then the payload, and has
// room for the padding. appendChunk writes the length and the padding.
func appendChunk(dst, plain []byte, number uint64, last byte, key *[keySize]byte) []byte {
	binary.BigEndian.PutUint32(plain, uint32(len(plain)-lengthSize))
	used := len(plain)
	plain = plain[:classOf(used)]
	clear(plain[used:])
	dst = binary.BigEndian.AppendUint32(dst, uint32(secretbox.Overhead+len(plain)))
	dst = append(dst, last)
	return secretbox.Seal(dst, plain, nonceOf(number, last), key)
}
