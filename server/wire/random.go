package wire

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"io"
)

// NewID returns an id that nobody can guess: prefix and 32 hexadecimal digits from random, which is crypto/rand
// where it is nil or fails.
func NewID(random io.Reader, prefix string) string {
	var b [16]byte
	draw(random, b[:])
	return prefix + hex.EncodeToString(b[:])
}

// MaxSeed is the largest whole number up to which JavaScript's numbers hold all exactly.
const MaxSeed = 1<<53 - 1

// NewSeed draws a seed that JavaScript's numbers hold exactly, so that a client can send back the one that it was
// told. It reads random as [NewID] does.
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
	_, _ = rand.Read(b) // never fails, by its contract
}
