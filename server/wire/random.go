package wire

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"io"
)

// NewID returns an id that cannot be guessed: prefix and 32 hexadecimal digits. They are read from random, or from
// crypto/rand if random is nil or fails.
func NewID(random io.Reader, prefix string) string {
	var b [16]byte
	draw(random, b[:])
	return prefix + hex.EncodeToString(b[:])
}

// MaxSeed is the largest n such that JavaScript's numbers represent all whole numbers up to n exactly.
const MaxSeed = 1<<53 - 1

// NewSeed draws a seed that JavaScript's numbers represent exactly, so that clients can send it back. It reads
// random as [NewID] does.
func NewSeed(random io.Reader) uint64 {
	var b [8]byte
	draw(random, b[:])
	return binary.LittleEndian.Uint64(b[:]) & MaxSeed
}

func draw(random io.Reader, b []byte) {
	if random != nil {
		if _, err := io.ReadFull(random, b); err == nil {
			return
		}
	}
	_, _ = rand.Read(b) // documented never to fail
}
